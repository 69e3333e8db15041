//! Documents as text, with the numbers of pages, sheets and slides. Everything here runs in a process of its own: see
//! [`worker`](super::worker).

mod archive;
mod color;
mod package;
mod pdf;
mod pdf_layout;
mod picture;
mod slides;
mod text_document;
mod workbook;

use serde::{Deserialize, Serialize};

use super::kind::DocumentKind;

/// What is wanted of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Wanted {
    pub cells: Cells,
}

/// What is shown of the cells of a workbook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cells {
    #[default]
    Values,
    Formulas,
    Colors,
    All,
}

impl Cells {
    pub const NAMES: [&str; 4] = ["values", "formulas", "colors", "all"];

    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "values" => Some(Self::Values),
            "formulas" => Some(Self::Formulas),
            "colors" => Some(Self::Colors),
            "all" => Some(Self::All),
            _ => None,
        }
    }
}

/// A document that was read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Document {
    pub text: String,
    pub title: Option<String>,
    pub date: Option<String>,
    /// Pages without text, as pictures.
    pub pictures: Vec<Picture>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Picture {
    pub media_type: String,
    pub base64: String,
}

/// More text than this is cut, and says so: a book has a megabyte.
pub const MAX_TEXT_BYTES: usize = 16 * 1024 * 1024;

/// Reads a document. An error is a text for the model.
pub fn read(kind: DocumentKind, body: Vec<u8>, wanted: Wanted) -> Result<Document, String> {
    let mut document = match kind {
        DocumentKind::Pdf => pdf::read(body),
        DocumentKind::Docx => text_document::read(body),
        DocumentKind::Pptx => slides::read(body),
        DocumentKind::Workbook => workbook::read(body, wanted.cells),
        DocumentKind::Zip => archive::read(body, wanted),
    }?;
    if document.text.len() > MAX_TEXT_BYTES {
        let end = document.text.floor_char_boundary(MAX_TEXT_BYTES);
        document.text.truncate(end);
        document.text.push_str("\n\n[the rest of the document was left out: it is too long]");
    }
    Ok(document)
}
