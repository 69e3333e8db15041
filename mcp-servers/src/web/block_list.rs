//! Places that hold the benchmark's answers, read from a file that people can read, extend and switch off.

use std::path::{Path, PathBuf};

use percent_encoding::percent_decode_str;
use serde::Deserialize;
use url::Url;

/// The list that is built in.
const BUILT_IN: &str = include_str!("../../../configs/block-list.toml");

/// A URL inside a URL inside a URL: an archived translation. Deeper nests are nobody's link.
const MAX_NESTED: usize = 4;

/// The rules in force.
#[derive(Debug, Clone, Default)]
pub struct BlockList {
    entries: Vec<Entry>,
    /// What is in force, in words.
    sources: Vec<String>,
}

#[derive(Debug, Clone)]
struct Entry {
    text: String,
    host: String,
    /// Ends with a `*`.
    path: Option<String>,
}

#[derive(Debug, Clone, thiserror::Error)]
pub enum BlockListError {
    #[error("failed to read the block-list: {0}")]
    Unreadable(String),
    #[error("failed to read the block-list {path}: {problem}")]
    Malformed { path: String, problem: String },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: String,
    block: Vec<Block>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Block {
    /// For people; a block that nobody can explain should not be there.
    #[serde(rename = "why")]
    _why: String,
    places: Vec<String>,
}

/// Whether the built-in list is in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuiltIn {
    On,
    Off,
}

impl BlockList {
    pub fn load(built_in: BuiltIn, files: &[PathBuf]) -> Result<Self, BlockListError> {
        let mut list = Self::default();
        if built_in == BuiltIn::On {
            list.add("built-in block-list", BUILT_IN)?;
        }
        for file in files {
            let text = fs_err::read_to_string(file)
                .map_err(|error| BlockListError::Unreadable(error.to_string()))?;
            list.add(&display(file), &text)?;
        }
        Ok(list)
    }

    fn add(&mut self, path: &str, text: &str) -> Result<(), BlockListError> {
        let malformed = |problem: String| BlockListError::Malformed { path: path.to_owned(), problem };
        let file: File = toml::from_str(text).map_err(|error| malformed(error.to_string()))?;
        let before = self.entries.len();
        for place in file.block.into_iter().flat_map(|block| block.places) {
            let entry = Entry::parse(&place)
                .ok_or_else(|| malformed(format!("`{place}` is not a host with or without a path")))?;
            self.entries.push(entry);
        }
        let count = self.entries.len() - before;
        self.sources.push(format!("{path} version {} ({count} entries)", file.version));
        Ok(())
    }

    /// Which lists are in force, for people and for the record of a run.
    pub fn description(&self) -> String {
        if self.sources.is_empty() { "off".to_owned() } else { self.sources.join(", ") }
    }

    /// The entry that forbids an address, or an address inside of it.
    pub fn blocks(&self, url: &Url) -> Option<&str> {
        if self.entries.is_empty() {
            return None;
        }
        let mut waiting = vec![url.clone()];
        let mut seen = 0;
        while let Some(url) = waiting.pop() {
            if let Some(entry) = self.entries.iter().find(|entry| entry.matches(&url)) {
                return Some(&entry.text);
            }
            seen += 1;
            if seen + waiting.len() <= MAX_NESTED {
                waiting.extend(nested(&url));
            }
        }
        None
    }
}

fn display(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

impl Entry {
    fn parse(text: &str) -> Option<Self> {
        let lower = text.trim().to_lowercase();
        let (host, path) = match lower.split_once('/') {
            Some((host, path)) => (host.to_owned(), Some(format!("/{}*", path.trim_end_matches('*')))),
            None => (lower, None),
        };
        let is_host = host == "*"
            || (host.contains('.')
                && host.chars().all(|character| character.is_alphanumeric() || ".-".contains(character)));
        let is_whole_web = host == "*" && path.as_deref().is_none_or(|path| path.len() < 4);
        (is_host && !is_whole_web).then(|| Self { text: text.trim().to_owned(), host, path })
    }

    fn matches(&self, url: &Url) -> bool {
        let Some(host) = url.host_str() else { return false };
        let host = host.trim_end_matches('.').to_lowercase();
        let host = untranslated(&host).unwrap_or(host);
        let is_host = self.host == "*"
            || host == self.host
            || host.strip_suffix(&self.host).is_some_and(|subdomain| subdomain.ends_with('.'));
        is_host
            && self.path.as_ref().is_none_or(|pattern| {
                let mut path = url.path().to_owned();
                if let Some(query) = url.query() {
                    path.push('?');
                    path.push_str(query);
                }
                let plain = percent_decode_str(&path).decode_utf8_lossy().to_lowercase();
                matches_glob(pattern.as_bytes(), plain.as_bytes())
            })
    }
}

/// `huggingface-co.translate.goog` is a translator's name for `huggingface.co`.
fn untranslated(host: &str) -> Option<String> {
    let name = host.strip_suffix(".translate.goog")?;
    Some(name.replace("--", "\u{0}").replace('-', ".").replace('\u{0}', "-"))
}

/// Addresses inside the path, the query or the fragment of another, plain or encoded.
fn nested(url: &Url) -> Vec<Url> {
    let whole = url.as_str();
    let rest = &whole[whole.find("://").map_or(0, |at| at + 3)..];
    let mut found = Vec::new();
    let mut text = rest.to_owned();
    // As it stands, decoded, and decoded again: an encoded address may hold an encoded address.
    for _ in 0..3 {
        for (at, _) in text.match_indices("://") {
            let scheme = if text[..at].ends_with("https") { "https" } else { "http" };
            // Bare, and as a parameter that ends before the next.
            for end in [text.len(), text[at..].find('&').map_or(text.len(), |end| at + end)] {
                if let Ok(inner) = Url::parse(&format!("{scheme}{}", &text[at..end]))
                    && !found.contains(&inner)
                {
                    found.push(inner);
                }
            }
        }
        let decoded = percent_decode_str(&text).decode_utf8_lossy().into_owned();
        if decoded == text {
            break;
        }
        text = decoded;
    }
    // Archives and readers also take an address without a scheme, as part of the path or a parameter.
    for part in url.path().split('/').chain(url.query().unwrap_or_default().split(['&', '='])) {
        let part = percent_decode_str(part).decode_utf8_lossy();
        let host = part.split('/').next().unwrap_or_default();
        if host.contains('.') && !host.contains(':') && Some(host) != url.host_str() {
            let from_here = rest.find(part.as_ref()).map_or(part.as_ref(), |at| &rest[at..]);
            found.extend(Url::parse(&format!("http://{from_here}")).ok());
        }
    }
    found.truncate(MAX_NESTED);
    found
}

/// `*` stands for any number of any characters.
fn matches_glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut in_text) = (0, 0);
    // Where to go on when what follows the last star does not fit.
    let mut again: Option<(usize, usize)> = None;
    while in_text < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                at += 1;
                again = Some((at, in_text));
            }
            Some(byte) if *byte == text[in_text] => {
                at += 1;
                in_text += 1;
            }
            _ => match again {
                Some((star, from)) => {
                    at = star;
                    in_text = from + 1;
                    again = Some((star, from + 1));
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built_in() -> BlockList {
        BlockList::load(BuiltIn::On, &[]).unwrap()
    }

    fn blocked(url: &str) -> bool {
        built_in().blocks(&Url::parse(url).unwrap()).is_some()
    }

    #[test]
    fn places_with_answers_are_blocked_in_every_dress() {
        for url in [
            "https://huggingface.co/datasets/gaia-benchmark/GAIA",
            "https://HuggingFace.co/datasets/x",
            "https://huggingface.co./datasets/x",
            "https://datasets-server.huggingface.co/rows?dataset=gaia-benchmark%2FGAIA",
            "https://hf.co/gaia-benchmark",
            "https://hf-mirror.com/datasets/x",
            "https://www.modelscope.cn/datasets/AI-ModelScope/GAIA",
            "https://github.com/camel-ai/owl/blob/main/x.json",
            "https://github.com/CAMEL-AI/OWL",
            "https://raw.githubusercontent.com/someone/Gaia-agent/main/metadata.jsonl",
            "https://example.org/mirror/gaia-benchmark/2023.jsonl",
            "https://example.org/mirror/gaia%2Dbenchmark/2023.jsonl",
            "https://example.org/data/2023/2023_level1/validation.parquet",
            "https://web.archive.org/web/2024/https://huggingface.co/datasets/gaia-benchmark/GAIA",
            "https://web.archive.org/web/2024id_/huggingface.co/datasets/x",
            "https://r.jina.ai/https://huggingface.co/datasets/x",
            "https://translate.google.com/translate?sl=en&tl=de&u=https%3A%2F%2Fhuggingface.co%2Fdatasets%2Fx",
            "https://example.org/proxy?u=https%253A%252F%252Fhuggingface.co%252Fx",
            "https://huggingface-co.translate.goog/datasets/x?_x_tr_sl=en",
            "https://webcache.example.org/search?q=cache:https://huggingface.co/x",
            "https://www.kaggle.com/code/someone/gaia-solutions",
        ] {
            assert!(blocked(url), "{url}");
        }
    }

    #[test]
    fn the_rest_of_the_web_is_not() {
        for url in [
            "https://www.esa.int/Science_Exploration/Space_Science/Gaia",
            "https://en.wikipedia.org/wiki/Gaia",
            "https://github.com/astronexus/HYG-Database",
            "https://github.com/numpy/numpy/issues/10843",
            "https://web.archive.org/web/2021/https://www.gaia.com/",
            "https://nothuggingface.co/",
            "https://example.org/?q=huggingface",
            "https://arxiv.org/abs/2311.12983",
            "https://example.org/level1",
        ] {
            assert!(!blocked(url), "{url}: {:?}", built_in().blocks(&Url::parse(url).unwrap()));
        }
    }

    #[test]
    fn a_list_is_extended_and_switched_off() {
        let folder = tempfile::tempdir().unwrap();
        let mine = folder.path().join("mine.toml");
        fs_err::write(&mine, "version = \"7\"\n[[block]]\nwhy = \"mine\"\nplaces = [\"a.example/secret\"]\n")
            .unwrap();
        let secret = Url::parse("https://x.a.example/secrets/1").unwrap();
        let hub = Url::parse("https://huggingface.co/").unwrap();
        let both = BlockList::load(BuiltIn::On, std::slice::from_ref(&mine)).unwrap();
        assert_eq!(both.blocks(&secret), Some("a.example/secret"));
        assert!(both.blocks(&hub).is_some());
        assert!(both.description().contains("mine.toml version 7 (1 entries)"), "{}", both.description());
        assert!(both.description().contains("built-in block-list version 20"), "{}", both.description());
        let only_mine = BlockList::load(BuiltIn::Off, &[mine]).unwrap();
        assert!(only_mine.blocks(&secret).is_some() && only_mine.blocks(&hub).is_none());
        let off = BlockList::load(BuiltIn::Off, &[]).unwrap();
        assert_eq!((off.blocks(&hub), off.description().as_str()), (None, "off"));
    }

    #[test]
    fn a_bad_list_says_where() {
        let folder = tempfile::tempdir().unwrap();
        let mine = folder.path().join("mine.toml");
        for (text, problem) in [
            ("version = \"7\"\n[[block]]\nwhy = \"w\"\nplaces = [\"nodots\"]\n", "`nodots` is not a host"),
            ("version = \"7\"\n[[block]]\nwhy = \"w\"\nplaces = [\"*\"]\n", "`*` is not a host"),
            ("version = \"7\"\n[[block]]\nplaces = []\n", "missing field `why`"),
            ("version = 7\n", "expected a string"),
        ] {
            fs_err::write(&mine, text).unwrap();
            let error = BlockList::load(BuiltIn::On, std::slice::from_ref(&mine)).unwrap_err().to_string();
            assert!(error.contains("mine.toml") && error.contains(problem), "{error}");
        }
        let absent = BlockList::load(BuiltIn::On, &[folder.path().join("none.toml")]).unwrap_err();
        assert!(absent.to_string().contains("none.toml"), "{absent}");
    }
}
