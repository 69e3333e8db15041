//! What a body is: by its first bytes where they tell, by its declared type and its name where they do not.

use std::io::Cursor;

use url::Url;

/// How a body is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    Html,
    Text,
    Document(DocumentKind),
    Image(&'static str),
    Audio,
    Video,
    Binary,
}

/// What is read in a process of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentKind {
    Pdf,
    Docx,
    Pptx,
    /// Also ods, xls and xlsb.
    Workbook,
    Zip,
}

impl DocumentKind {
    pub const ALL: [Self; 5] = [Self::Pdf, Self::Docx, Self::Pptx, Self::Workbook, Self::Zip];

    pub fn name(self) -> &'static str {
        match self {
            Self::Pdf => "pdf",
            Self::Docx => "docx",
            Self::Pptx => "pptx",
            Self::Workbook => "workbook",
            Self::Zip => "zip",
        }
    }
}

/// Bytes that tell text from other things.
const SNIFFED_BYTES: usize = 4_096;

pub fn kind(body: &[u8], content_type: Option<&str>, url: &Url) -> Kind {
    let declared =
        content_type.unwrap_or_default().split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let extension = extension(url);
    if let Some(kind) = by_signature(body, &declared, &extension) {
        return kind;
    }
    // The reference server's rule.
    let start = String::from_utf8_lossy(&body[..body.len().min(400)]);
    let start: String = start.chars().take(100).collect();
    if declared == "text/html" || declared == "application/xhtml+xml" || start.contains("<html") {
        return Kind::Html;
    }
    if is_text(body) {
        return if declared.is_empty() { Kind::Html } else { Kind::Text };
    }
    match declared.split('/').next() {
        Some("audio") => Kind::Audio,
        Some("video") => Kind::Video,
        Some("text") => Kind::Text,
        _ if declared.ends_with("json") || declared.ends_with("xml") => Kind::Text,
        _ => match extension.as_str() {
            "mp3" | "wav" | "m4a" | "ogg" | "flac" | "aac" | "opus" => Kind::Audio,
            "mp4" | "webm" | "mov" | "avi" | "mkv" => Kind::Video,
            _ => Kind::Binary,
        },
    }
}

fn by_signature(body: &[u8], declared: &str, extension: &str) -> Option<Kind> {
    let starts = |signature: &[u8]| body.starts_with(signature);
    // A PDF may have up to a kilobyte before its header.
    if body[..body.len().min(1024)].windows(5).any(|window| window == b"%PDF-") {
        return Some(Kind::Document(DocumentKind::Pdf));
    }
    if starts(b"PK\x03\x04") || starts(b"PK\x05\x06") {
        return Some(Kind::Document(package(body)));
    }
    // The container of old Office files; of these, workbooks can be read.
    if starts(&[0xd0, 0xcf, 0x11, 0xe0]) {
        let is_workbook = extension.starts_with("xls") || declared.contains("excel");
        return Some(if is_workbook { Kind::Document(DocumentKind::Workbook) } else { Kind::Binary });
    }
    if let Some(image) = image_type(body) {
        return Some(Kind::Image(image));
    }
    if starts(b"ID3")
        || starts(b"OggS")
        || starts(b"fLaC")
        || (starts(b"RIFF") && body.get(8..12) == Some(b"WAVE"))
    {
        return Some(Kind::Audio);
    }
    if body.get(4..8) == Some(b"ftyp") {
        return Some(if body.get(8..11) == Some(b"M4A") { Kind::Audio } else { Kind::Video });
    }
    starts(&[0x1a, 0x45, 0xdf, 0xa3]).then_some(Kind::Video)
}

fn image_type(body: &[u8]) -> Option<&'static str> {
    let types: [(&[u8], &str); 6] = [
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\xff\xd8\xff", "image/jpeg"),
        (b"GIF8", "image/gif"),
        (b"BM", "image/bmp"),
        (b"II*\0", "image/tiff"),
        (b"MM\0*", "image/tiff"),
    ];
    if body.starts_with(b"RIFF") && body.get(8..12) == Some(b"WEBP") {
        return Some("image/webp");
    }
    let (_, name) = types.into_iter().find(|(signature, _)| body.starts_with(signature))?;
    // Two letters are no signature: text begins with them, too.
    (name != "image/bmp" || !is_text(body)).then_some(name)
}

/// What a zip file is the package of.
fn package(body: &[u8]) -> DocumentKind {
    let Ok(archive) = zip::ZipArchive::new(Cursor::new(body)) else { return DocumentKind::Zip };
    for name in archive.file_names().flatten() {
        match &*name {
            "word/document.xml" => return DocumentKind::Docx,
            "ppt/presentation.xml" => return DocumentKind::Pptx,
            "xl/workbook.xml" | "xl/workbook.bin" => return DocumentKind::Workbook,
            _ => {}
        }
    }
    let has = |wanted: &str| archive.file_names().flatten().any(|name| name == wanted);
    if has("mimetype") && has("content.xml") && has("META-INF/manifest.xml") && is_spreadsheet(body) {
        return DocumentKind::Workbook;
    }
    DocumentKind::Zip
}

/// The first member of an OpenDocument file is its type, stored as it is.
fn is_spreadsheet(body: &[u8]) -> bool {
    let start = &body[..body.len().min(200)];
    start.windows(11).any(|window| window == b"spreadsheet")
}

/// Whether most of it can be read as letters in some encoding.
fn is_text(body: &[u8]) -> bool {
    let start = &body[..body.len().min(SNIFFED_BYTES)];
    if encoding_rs::Encoding::for_bom(start).is_some() {
        return true;
    }
    let is_control = |byte: &&u8| {
        (**byte < 0x20 && !matches!(**byte, b'\t' | b'\n' | b'\r' | 0x0c | 0x1b)) || **byte == 0x7f
    };
    let controls = start.iter().filter(is_control).count();
    !start.contains(&0) && controls * 100 <= start.len()
}

fn extension(url: &Url) -> String {
    let name = url.path_segments().and_then(|mut segments| segments.next_back()).unwrap_or_default();
    name.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bytes_go_before_what_is_declared() {
        let kind = |body: &[u8], declared: &str, path: &str| {
            super::kind(body, Some(declared), &Url::parse("http://a.example").unwrap().join(path).unwrap())
        };
        for (body, declared, path, expected) in [
            (&b"\n%PDF-1.7 x"[..], "application/octet-stream", "/x", Kind::Document(DocumentKind::Pdf)),
            (b"\x89PNG\r\n\x1a\n....", "text/html", "/x", Kind::Image("image/png")),
            (b"BMW builds cars", "text/plain", "/x", Kind::Text),
            (b"{\"a\":1}", "application/json", "/x", Kind::Text),
            (b"<!doctype html><HTML><p>", "text/html; charset=x", "/x", Kind::Html),
            (b"<html><p>", "text/plain", "/x", Kind::Html),
            (b"just words", "", "/x", Kind::Html),
            (b"a,b\n1,2", "application/octet-stream", "/x.csv", Kind::Text),
            (b"caf\xe9 is text", "application/x-unknown", "/x", Kind::Text),
            (b"\0\x01\x02\x03", "application/octet-stream", "/x.mp4", Kind::Video),
            (b"\0\x01\x02\x03", "audio/aac", "/x", Kind::Audio),
            (b"\0\x01\x02\x03", "application/octet-stream", "/x", Kind::Binary),
            (
                b"\xd0\xcf\x11\xe0rest",
                "application/vnd.ms-excel",
                "/x",
                Kind::Document(DocumentKind::Workbook),
            ),
            (b"RIFF....WAVEfmt ", "", "/x", Kind::Audio),
            (b"", "text/plain", "/x", Kind::Text),
        ] {
            assert_eq!(kind(body, declared, path), expected, "{declared} {path}");
        }
    }
}
