//! Pictures as models take them, and other files as something that can be worked with.

use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use image::codecs::jpeg::JpegEncoder;
use image::{ImageFormat, ImageReader, Limits};
use url::Url;

/// Hosts refuse larger pictures, and models see no more.
const MAX_PICTURE_BYTES: usize = 3 * 1024 * 1024;
const MAX_SIDE_PIXELS: u32 = 1_568;
/// What a picture may take while it is decoded: a photo of 50 megapixels.
const MAX_DECODED_BYTES: u64 = 256 * 1024 * 1024;
const JPEG_QUALITY: u8 = 85;
/// As other tools see the folder of a sample's files.
const SHARED_FOLDER: &str = "/shared_files";
/// Of the folder that downloads go to in there.
const FOLDER: &str = "fetched";

/// A picture as it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) media_type: &'static str,
    pub(super) base64: String,
    /// Of the picture as it was found.
    pub(super) width: u32,
    pub(super) height: u32,
}

/// Makes a picture one that every model takes: PNG, JPEG, GIF or WebP, not too large. Costs a processor for a while.
pub(super) fn picture(body: &[u8], found: &'static str) -> Result<Sent, String> {
    let broken = |error: image::ImageError| format!("the picture cannot be decoded: {error}");
    let reader = || -> Result<ImageReader<Cursor<&[u8]>>, String> {
        let mut reader = ImageReader::new(Cursor::new(body))
            .with_guessed_format()
            .map_err(|error| format!("the picture cannot be read: {error}"))?;
        let mut limits = Limits::default();
        limits.max_alloc = Some(MAX_DECODED_BYTES);
        reader.limits(limits);
        Ok(reader)
    };
    let (width, height) = reader()?.into_dimensions().map_err(broken)?;
    let is_taken = matches!(found, "image/png" | "image/jpeg" | "image/gif" | "image/webp");
    if is_taken && body.len() <= MAX_PICTURE_BYTES && width.max(height) <= MAX_SIDE_PIXELS {
        return Ok(Sent { media_type: found, base64: STANDARD.encode(body), width, height });
    }
    let decoded = reader()?.decode().map_err(broken)?;
    let decoded = if width.max(height) > MAX_SIDE_PIXELS {
        decoded.thumbnail(MAX_SIDE_PIXELS, MAX_SIDE_PIXELS)
    } else {
        decoded
    };
    let mut bytes = Cursor::new(Vec::new());
    decoded.write_to(&mut bytes, ImageFormat::Png).map_err(broken)?;
    if bytes.get_ref().len() <= MAX_PICTURE_BYTES {
        return Ok(Sent { media_type: "image/png", base64: STANDARD.encode(bytes.get_ref()), width, height });
    }
    let mut bytes = Cursor::new(Vec::new());
    let encoder = JpegEncoder::new_with_quality(&mut bytes, JPEG_QUALITY);
    decoded.to_rgb8().write_with_encoder(encoder).map_err(broken)?;
    Ok(Sent { media_type: "image/jpeg", base64: STANDARD.encode(bytes.get_ref()), width, height })
}

/// Where files go that are neither text nor picture.
#[derive(Debug, Clone)]
pub(super) struct Downloads {
    folder: Option<PathBuf>,
    /// How others name that folder.
    shown: PathBuf,
}

impl Downloads {
    /// In a folder of their own, else in the folder of the sample's files, else nowhere.
    pub(super) fn new(save: Option<PathBuf>, files: Option<PathBuf>) -> Self {
        match (save, files) {
            (Some(folder), _) => Self { shown: folder.clone(), folder: Some(folder) },
            (None, Some(files)) => {
                Self { folder: Some(files.join(FOLDER)), shown: Path::new(SHARED_FOLDER).join(FOLDER) }
            }
            (None, None) => Self { folder: None, shown: PathBuf::new() },
        }
    }

    /// Keeps a file, and says under which name others find it. `None` when nothing is kept.
    pub(super) fn save(&self, url: &Url, body: &[u8]) -> std::io::Result<Option<PathBuf>> {
        let Some(folder) = &self.folder else { return Ok(None) };
        fs_err::create_dir_all(folder)?;
        readable(folder)?;
        let name = file_name(url, body);
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(body)?;
        let path = folder.join(&name);
        file.persist(&path)?;
        readable(&path)?;
        Ok(Some(self.shown.join(name)))
    }
}

/// The tools that read it may run as another user.
fn readable(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let mode = if path.is_dir() { 0o755 } else { 0o644 };
    fs_err::set_permissions(path, std::fs::Permissions::from_mode(mode))
}

/// The name in the address, made plain, with a part of the content's hash so that no file takes the place of another.
fn file_name(url: &Url, body: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    let name = url.path_segments().and_then(|mut segments| segments.next_back()).unwrap_or_default();
    let is_plain = |character: char| character.is_ascii_alphanumeric() || ".-_".contains(character);
    let plain: String = name.chars().filter(|character| is_plain(*character)).collect();
    let plain = plain.trim_start_matches('.');
    let (stem, extension) = plain.rsplit_once('.').unwrap_or((plain, ""));
    let stem: String = stem.chars().take(60).collect();
    let extension: String = extension.chars().take(8).collect();
    let hash: String = Sha256::digest(body).iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    let stem = if stem.is_empty() { "file" } else { &stem };
    if extension.is_empty() { format!("{stem}-{hash}") } else { format!("{stem}-{hash}.{extension}") }
}

/// What is known of a recording without playing it.
pub(super) fn describe_sound(body: &[u8]) -> Option<String> {
    // Of WAV the header tells all.
    if !body.starts_with(b"RIFF") || body.get(8..12) != Some(b"WAVE") {
        return None;
    }
    let number = |at: usize, size: usize| -> Option<u32> {
        let bytes = body.get(at..at + size)?;
        Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte)))
    };
    let (channels, rate, bytes_a_second) = (number(22, 2)?, number(24, 4)?, number(28, 4)?);
    let seconds = body.len() as f64 / f64::from(bytes_a_second.max(1));
    Some(format!("{seconds:.1} s, {channels} channels, {rate} Hz"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_saved_file_keeps_its_ending_and_leaves_nobodys_folder() {
        let folder = tempfile::tempdir().unwrap();
        let downloads = Downloads::new(None, Some(folder.path().to_owned()));
        for (path, start, end) in [
            ("/a/talk.mp3", "talk-", ".mp3"),
            ("/..%2f..%2fetc%2fpasswd", "2f.-", ".2fetc2fp"),
            ("/", "file-", ""),
            ("/.hidden", "hidden-", ""),
            ("/x%20y.tar.gz?z=1", "x20y.tar-", ".gz"),
        ] {
            let url = Url::parse("http://a.example").unwrap().join(path).unwrap();
            let shown = downloads.save(&url, b"body").unwrap().unwrap();
            let name = shown.file_name().unwrap().to_string_lossy().into_owned();
            assert_eq!(shown.parent(), Some(Path::new("/shared_files/fetched")));
            assert!(name.starts_with(start) && name.ends_with(end), "{path}: {name}");
            assert_eq!(fs_err::read(folder.path().join("fetched").join(&name)).unwrap(), b"body");
        }
        assert_eq!(
            Downloads::new(None, None).save(&Url::parse("http://a.example/x").unwrap(), b"").unwrap(),
            None
        );
    }

    #[test]
    fn pictures_become_what_models_take() {
        let mut bytes = Cursor::new(Vec::new());
        image::RgbImage::new(3_000, 20).write_to(&mut bytes, ImageFormat::Tiff).unwrap();
        let sent = picture(bytes.get_ref(), "image/tiff").unwrap();
        assert_eq!((sent.media_type, sent.width, sent.height), ("image/png", 3_000, 20));
        let mut small = Cursor::new(Vec::new());
        image::RgbImage::new(2, 2).write_to(&mut small, ImageFormat::Png).unwrap();
        assert_eq!(picture(small.get_ref(), "image/png").unwrap().base64, STANDARD.encode(small.get_ref()));
        assert!(picture(b"\x89PNG\r\n\x1a\nnonsense", "image/png").unwrap_err().contains("cannot be"));
    }
}
