//! Pictures, sound and documents as a model takes them in a message, and a line about them for one that does not.

mod limits;
mod picture;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::message::{Document, Image, Part, Sound};
use crate::settings::AgentSettings;
pub use limits::ImageLimits;

/// Bytes of a sound or a document in a message: with its base64 it is half of what the strictest provider takes in a
/// whole request (20 MB).
const LARGEST_FILE_BYTES: usize = 7 << 20;

/// What a file is, by what it begins with: names and labels are not to be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Picture,
    Wav,
    Mp3,
    Pdf,
}

impl Kind {
    fn of(bytes: &[u8]) -> Option<Self> {
        let mp3 = bytes.starts_with(b"ID3") || matches!(bytes, [0xff, second, ..] if second & 0xe6 == 0xe2);
        if bytes.starts_with(b"%PDF") {
            Some(Self::Pdf)
        } else if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WAVE") {
            Some(Self::Wav)
        } else if picture::is_known(bytes) {
            Some(Self::Picture)
        } else if mp3 {
            Some(Self::Mp3)
        } else {
            None
        }
    }
}

/// A file for the message itself: `Ok(None)` when the model takes nothing of its kind, an error in words when this
/// one cannot be shown.
pub(crate) fn attach(name: &str, bytes: &[u8], settings: &AgentSettings) -> Result<Option<Part>, String> {
    let Some(kind) = Kind::of(bytes) else { return Ok(None) };
    let media_type = match kind {
        // Any that can be made into one of these.
        Kind::Picture => "image/png",
        Kind::Wav => "audio/wav",
        Kind::Mp3 => "audio/mpeg",
        Kind::Pdf => "application/pdf",
    };
    if !settings.takes(media_type) {
        return Ok(None);
    }
    if kind == Kind::Picture {
        return picture::prepare(bytes, &settings.image_limits).map(|image| Some(Part::Image(image)));
    }
    if bytes.len() > LARGEST_FILE_BYTES {
        return Err(format!("is larger than {} MiB", LARGEST_FILE_BYTES >> 20));
    }
    let (media_type, data) = (media_type.to_owned(), STANDARD.encode(bytes));
    Ok(Some(match kind {
        Kind::Pdf => Part::Document(Document { name: name.to_owned(), media_type, data }),
        _ => Part::Sound(Sound { media_type, data }),
    }))
}

/// Parts of a tool's result as this model takes them. What it does not take, or what cannot be shown, becomes a line
/// that says what there is.
pub(crate) async fn fitted(content: Vec<Part>, settings: &AgentSettings) -> Vec<Part> {
    let mut fitted = Vec::with_capacity(content.len());
    for part in content {
        fitted.push(match part {
            Part::Image(image) if settings.takes("image/png") || settings.takes(&image.media_type) => {
                fit_image(image, settings.image_limits).await
            }
            part => match part.media() {
                Some((media_type, data))
                    if !settings.takes(media_type) || data.len() / 4 * 3 > LARGEST_FILE_BYTES =>
                {
                    Part::Text { text: not_shown(&part, "which this model does not take") }
                }
                _ => part,
            },
        });
    }
    fitted
}

async fn fit_image(image: Image, limits: ImageLimits) -> Part {
    // Decoding takes up to a second: not on a thread that others wait for.
    let work = move || match STANDARD.decode(&image.data) {
        Ok(bytes) => picture::prepare(&bytes, &limits).map_err(|why| (image, why)),
        Err(_) => Err((image, "is no base64".to_owned())),
    };
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(image)) => Part::Image(image),
        Ok(Err((image, why))) => {
            Part::Text { text: not_shown(&Part::Image(image), &format!("which cannot be shown: it {why}")) }
        }
        Err(_) => Part::Text { text: "[an image, which cannot be shown]".to_owned() },
    }
}

/// `[an image, image/png, about 12 KiB, which this model does not take; use a tool that reads it]`
fn not_shown(part: &Part, why: &str) -> String {
    let what = match part {
        Part::Image(_) => "an image",
        Part::Sound(_) => "a sound",
        Part::Document(_) => "a document",
        Part::Text { .. } => "a text",
    };
    let (media_type, data) = part.media().unwrap_or_default();
    format!("[{what}, {media_type}, about {} bytes, {why}; use a tool that reads it]", data.len() / 4 * 3)
}

/// A line about an attachment that is not in the message, and where it is.
pub(crate) fn attachment_note(bytes: &[u8], why: Option<&str>) -> Option<String> {
    let what = match Kind::of(bytes)? {
        Kind::Picture => "an image",
        Kind::Wav | Kind::Mp3 => "a sound",
        Kind::Pdf => "a PDF",
    };
    let why = match why {
        Some(why) => format!("cannot be shown here (it {why})"),
        None => "is not part of this message".to_owned(),
    };
    Some(format!("It is {what} of {} bytes and {why}: read it with a tool that takes its path.", bytes.len()))
}

#[cfg(test)]
#[path = "media_tests.rs"]
mod tests;
