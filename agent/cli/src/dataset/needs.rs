use std::path::Path;

use serde::{Deserialize, Serialize};

use super::Sample;

/// What people needed for a question, made of what the annotators noted: enough to tell groups of questions apart, and
/// nothing of how it is answered.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Needs {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolNeed>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u32>,
    /// Extension of the attachment in lower case, `-` of a file without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attachment: Option<String>,
}

/// The classes of the GAIA paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolNeed {
    Web,
    Coding,
    Multimodal,
    Files,
}

/// The annotators wrote what came to their minds, so words decide. The order is that of the variants.
const WORDS: [(ToolNeed, &[&str]); 4] = [
    (
        ToolNeed::Web,
        &["web", "browser", "search", "google", "internet", "wikipedia", "wayback", "maps", "street view"],
    ),
    (
        ToolNeed::Coding,
        &[
            "python",
            "code",
            "coding",
            "compiler",
            "ide",
            "calculator",
            "algebra",
            "computation",
            "c++",
            "script",
        ],
    ),
    (
        ToolNeed::Multimodal,
        &[
            "image", "vision", "picture", "photo", "ocr", "video", "audio", "speech", "sound", "youtube",
            "color", "colour", "gif",
        ],
    ),
    (
        ToolNeed::Files,
        &[
            "file",
            "excel",
            "xlsx",
            "spreadsheet",
            "pdf",
            "word",
            "docx",
            "powerpoint",
            "pptx",
            "presentation",
            "csv",
            "json",
            "xml",
            "zip",
            "archive",
            "text editor",
            "document",
            "reader",
        ],
    ),
];

impl ToolNeed {
    pub fn label(self) -> &'static str {
        match self {
            Self::Web => "web",
            Self::Coding => "coding",
            Self::Multimodal => "pictures, sound or video",
            Self::Files => "files of various kinds",
        }
    }
}

impl Needs {
    pub fn of(sample: &Sample) -> Self {
        let noted = sample.annotator.tools.as_deref().unwrap_or_default().to_lowercase();
        let names = |words: &[&str]| words.iter().any(|word| has_word(&noted, word));
        let extension = |name: &String| {
            let extension = Path::new(name).extension()?;
            Some(extension.to_string_lossy().to_lowercase())
        };
        Self {
            tools: WORDS.iter().filter(|(_, words)| names(words)).map(|(need, _)| *need).collect(),
            steps: sample.annotator.number_of_steps.as_deref().and_then(|steps| steps.trim().parse().ok()),
            attachment: sample
                .file_name
                .as_ref()
                .map(|name| extension(name).unwrap_or_else(|| "-".to_owned())),
        }
    }
}

/// As a word of its own, or the beginning of one: `search` in `searching`, but no `ide` in `video`.
fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let is_start = before.is_none_or(|before| !before.is_alphanumeric());
        // Short words are whole ones.
        let after = text[at + word.len()..].chars().next();
        is_start && (word.len() > 3 || after.is_none_or(|after| !after.is_alphanumeric()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::Annotator;

    fn needs(tools: &str, steps: &str, file_name: Option<&str>) -> Needs {
        Needs::of(&Sample {
            task_id: "t".to_owned(),
            question: "q".to_owned(),
            level: 1,
            truth: None,
            file: None,
            file_name: file_name.map(str::to_owned),
            annotator: Annotator {
                tools: Some(tools.to_owned()),
                number_of_steps: Some(steps.to_owned()),
                ..Annotator::default()
            },
        })
    }

    #[test]
    fn words_of_the_annotators_are_classes_of_the_paper() {
        use ToolNeed::{Coding, Files, Multimodal, Web};
        for (noted, expected) in [
            ("1. Web browser\n2. Search engine", &[Web][..]),
            ("1. A search engine.\n2. A calculator.", &[Web, Coding]),
            ("1. Python IDE", &[Coding]),
            ("Video recognition tools", &[Multimodal]),
            ("1. Image recognition tools\n2. Excel", &[Multimodal, Files]),
            ("1. Microsoft Word", &[Files]),
            ("None", &[]),
            ("", &[]),
        ] {
            assert_eq!(needs(noted, "", None).tools, expected, "{noted}");
        }
    }

    #[test]
    fn steps_and_attachments_are_read_where_they_are() {
        assert_eq!(needs("", " 7 ", Some("a/b.XLSX")).steps, Some(7));
        assert_eq!(needs("", "some", Some("a.XLSX")).attachment.as_deref(), Some("xlsx"));
        assert_eq!(needs("", "", Some("README")).attachment.as_deref(), Some("-"));
        assert_eq!(needs("", "", None), Needs::default());
    }
}
