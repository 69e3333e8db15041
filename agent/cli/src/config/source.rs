use std::path::{Path, PathBuf};
use std::sync::Arc;

use toml::Value;

use super::document::Document;
use super::problem::{Place, Problem};

/// A text file that positions point into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SourceText {
    /// As the user would write it.
    pub(crate) path: PathBuf,
    /// What paths in it are relative to.
    pub(crate) folder: PathBuf,
    pub(crate) text: String,
    pub(crate) kind: SourceKind,
    /// What VS Code would ask a person for.
    pub(crate) inputs: Vec<Input>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SourceKind {
    /// A config of this program.
    Config,
    /// Server entries of another host.
    Foreign,
    /// A `.env`: every line may be a secret.
    Variables,
}

/// An element of `inputs` in a file of VS Code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Input {
    pub(crate) id: String,
    pub(crate) description: Option<String>,
    pub(crate) default: Option<String>,
    /// Not shown while it is typed, so a secret.
    pub(crate) hidden: bool,
}

impl SourceText {
    pub(crate) fn new(path: &Path, working_dir: &Path, text: String, kind: SourceKind) -> Self {
        let text = match text.strip_prefix('\u{feff}') {
            Some(rest) => rest.to_owned(),
            None => text,
        };
        let folder = path.parent().unwrap_or(working_dir);
        Self {
            path: path.strip_prefix(working_dir).unwrap_or(path).to_owned(),
            folder: working_dir.join(folder),
            text,
            kind,
            inputs: Vec::new(),
        }
    }

    /// The problem says where it stops being text.
    pub(super) fn decode(
        path: &Path,
        working_dir: &Path,
        bytes: Vec<u8>,
        kind: SourceKind,
    ) -> Result<Arc<Self>, Problem> {
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Arc::new(Self::new(path, working_dir, text, kind))),
            Err(error) => {
                let valid = error.utf8_error().valid_up_to();
                let text = String::from_utf8_lossy(&error.as_bytes()[..valid]).into_owned();
                let source = Arc::new(Self::new(path, working_dir, text, kind));
                let place = Place::File { source, span: valid..valid };
                Err(Problem::new(Some(place), "not UTF-8 from here on"))
            }
        }
    }

    /// The folder of the project that the file belongs to: hosts keep theirs in a folder of their own.
    pub(crate) fn workspace(&self) -> &Path {
        const FOLDERS_OF_HOSTS: [&str; 6] = [".vscode", ".cursor", ".claude", ".codex", ".gemini", ".roo"];
        match self.folder.file_name().and_then(|name| name.to_str()) {
            Some(name) if FOLDERS_OF_HOSTS.contains(&name) => self.folder.parent().unwrap_or(&self.folder),
            _ => &self.folder,
        }
    }

    pub(crate) fn is_foreign(&self) -> bool {
        self.kind == SourceKind::Foreign
    }

    pub(crate) fn input(&self, id: &str) -> Option<&Input> {
        self.inputs.iter().find(|input| input.id == id)
    }
}

/// The document with its inputs noted in its source.
pub(super) fn with_inputs(mut document: Document) -> Document {
    let inputs = |value: &Value| Some(value.get("inputs")?.as_array()?.iter().filter_map(input).collect());
    let found: Option<Vec<Input>> =
        inputs(&document.root).or_else(|| document.root.get("mcp").and_then(inputs));
    if let Some(found) = found {
        let mut source = SourceText::clone(&document.source);
        source.inputs = found;
        document.source = Arc::new(source);
    }
    document
}

fn input(value: &Value) -> Option<Input> {
    let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    Some(Input {
        id: text("id")?,
        description: text("description"),
        default: text("default"),
        hidden: value.get("password").and_then(Value::as_bool).unwrap_or(false),
    })
}
