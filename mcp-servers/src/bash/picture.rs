//! Any picture file as one that every model takes: upright, PNG or JPEG, of bounded sides and bytes.

use std::fmt;
use std::io::Cursor;

use image::codecs::jpeg::JpegEncoder;
use image::imageops::FilterType;
use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder, ImageError, ImageFormat, ImageReader, Limits, Rgb, RgbImage};

/// Providers scale a larger picture down to this themselves (Anthropic's documented longer side).
pub(super) const DEFAULT_MAX_SIDE: u32 = 1568;
/// Above it no provider looks closer, and the picture would not fit [`MAX_SHOWN_BYTES`].
pub(super) const LARGEST_SIDE: u32 = 2048;
/// Below it there is nothing to see.
pub(super) const SMALLEST_SIDE: u32 = 64;

/// Half as much again as the largest scans and camera pictures; a decoder needs up to 12 bytes for each.
const MAX_PIXELS: u64 = 64_000_000;
/// Decoded picture: four bytes for each of these pixels.
const MAX_DECODED_BYTES: u64 = 256 << 20;
/// Everything a decoder may hold at a time, the decoded picture included.
const MAX_DECODER_BYTES: u64 = 640 << 20;
/// The largest side that JPEG and GIF can name; the other formats go on to billions.
const MAX_SIDE: u32 = 65_535;
/// Providers refuse a picture of more than 5 MB in base64.
const MAX_SHOWN_BYTES: usize = 3_750_000;
/// A PNG beyond this is a photo, which JPEG holds in a fraction.
const MAX_PNG_BYTES: usize = 1 << 20;
/// Tried in turn until the picture is small enough. Noise of the largest side fits at the last.
const JPEG_QUALITIES: [u8; 3] = [85, 60, 35];

const FORMATS: [(ImageFormat, &str); 6] = [
    (ImageFormat::Png, "PNG"),
    (ImageFormat::Jpeg, "JPEG"),
    (ImageFormat::Gif, "GIF"),
    (ImageFormat::WebP, "WebP"),
    (ImageFormat::Bmp, "BMP"),
    (ImageFormat::Tiff, "TIFF"),
];

/// A picture ready to be sent.
pub(super) struct Picture {
    pub(super) bytes: Vec<u8>,
    pub(super) media_type: &'static str,
    /// Name of the file's format.
    pub(super) format: &'static str,
    /// Width and height in pixels, upright.
    pub(super) original: Size,
    pub(super) shown: Size,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) width: u32,
    pub(super) height: u32,
}

/// Why there is no picture; the text goes on from the file's name.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum PictureError {
    #[error("is empty")]
    Empty,
    #[error("is a PDF; make pictures of its pages in bash, such as with `pdftoppm -r 100 -png`")]
    Pdf,
    #[error("is no PNG, JPEG, GIF, WebP, BMP or TIFF picture; convert it to PNG in bash first")]
    Unknown,
    #[error("is too large a picture ({0}; at most 64 million pixels); scale it down in bash first")]
    TooLarge(String),
    #[error("is a {format} of a kind that cannot be shown ({reason}); convert it to PNG in bash first")]
    Unsupported { format: &'static str, reason: String },
    #[error("is a broken {format}: {reason}")]
    Broken { format: &'static str, reason: String },
    #[error("could not be encoded: {0}")]
    Encoding(String),
}

impl fmt::Display for Size {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} × {}", self.width, self.height)
    }
}

/// Decodes a file that nobody vouches for and encodes it anew, its longer side at most `max_side`. Takes seconds at
/// worst, and memory within the limits above; not for an async thread.
pub(super) fn prepare(file: &[u8], max_side: u32) -> Result<Picture, PictureError> {
    let (image, format, orientation) = decode(file)?;
    let mut original = Size { width: image.width(), height: image.height() };
    let mut shown = to_eight_bits(fit(image, max_side));
    shown.apply_orientation(orientation);
    if matches!(
        orientation,
        Orientation::Rotate90
            | Orientation::Rotate270
            | Orientation::Rotate90FlipH
            | Orientation::Rotate270FlipH
    ) {
        original = Size { width: original.height, height: original.width };
    }
    let size = Size { width: shown.width(), height: shown.height() };
    let (bytes, media_type) = encode(shown, format)?;
    Ok(Picture { bytes, media_type, format: name(format), original, shown: size })
}

fn decode(file: &[u8]) -> Result<(DynamicImage, ImageFormat, Orientation), PictureError> {
    if file.is_empty() {
        return Err(PictureError::Empty);
    }
    if file.starts_with(b"%PDF") {
        return Err(PictureError::Pdf);
    }
    // By content alone: a name says nothing.
    let Some(format) = image::guess_format(file).ok().filter(|format| !name(*format).is_empty()) else {
        return Err(PictureError::Unknown);
    };
    let problem = |error: ImageError| problem(name(format), error);
    let mut reader = ImageReader::with_format(Cursor::new(file), format);
    let mut limits = Limits::default();
    limits.max_image_width = Some(MAX_SIDE);
    limits.max_image_height = Some(MAX_SIDE);
    limits.max_alloc = Some(MAX_DECODER_BYTES);
    reader.limits(limits);
    let mut decoder = reader.into_decoder().map_err(problem)?;
    let (width, height) = decoder.dimensions();
    if u64::from(width) * u64::from(height) > MAX_PIXELS || decoder.total_bytes() > MAX_DECODED_BYTES {
        return Err(PictureError::TooLarge(Size { width, height }.to_string()));
    }
    // A picture with bad metadata is still a picture.
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let image = DynamicImage::from_decoder(decoder).map_err(problem)?;
    Ok((image, format, orientation))
}

fn problem(format: &'static str, error: ImageError) -> PictureError {
    match error {
        ImageError::Limits(error) => PictureError::TooLarge(error.to_string()),
        ImageError::Unsupported(error) => PictureError::Unsupported { format, reason: error.to_string() },
        error => PictureError::Broken { format, reason: error.to_string() },
    }
}

/// Empty for a format that is not shown.
fn name(format: ImageFormat) -> &'static str {
    FORMATS.iter().find(|(known, _)| *known == format).map_or("", |(_, name)| name)
}

fn fit(image: DynamicImage, max_side: u32) -> DynamicImage {
    let longer = image.width().max(image.height());
    if longer <= max_side {
        return image;
    }
    // The good filter works in floating point on whole rows: a plain average first bounds what it is given.
    let halfway = max_side * 2;
    let image = if longer > halfway { image.thumbnail(halfway, halfway) } else { image };
    image.resize(max_side, max_side, FilterType::CatmullRom)
}

/// Eight bits a channel, and no alpha channel that says nothing.
fn to_eight_bits(image: DynamicImage) -> DynamicImage {
    let color = image.color();
    if color.has_alpha() {
        let image = image.into_rgba8();
        if image.pixels().any(|pixel| pixel[3] != u8::MAX) {
            return image.into();
        }
        return DynamicImage::from(image).into_rgb8().into();
    }
    if color.has_color() { image.into_rgb8().into() } else { image.into_luma8().into() }
}

fn encode(image: DynamicImage, format: ImageFormat) -> Result<(Vec<u8>, &'static str), PictureError> {
    let failed = |error: ImageError| PictureError::Encoding(error.to_string());
    let has_alpha = image.color().has_alpha();
    let mut png = Vec::new();
    if format != ImageFormat::Jpeg {
        image.write_to(&mut Cursor::new(&mut png), ImageFormat::Png).map_err(failed)?;
        let limit = if has_alpha { MAX_SHOWN_BYTES } else { MAX_PNG_BYTES };
        if png.len() <= limit {
            return Ok((png, "image/png"));
        }
    }
    let image = if has_alpha { on_white(&image) } else { image };
    let mut jpeg = Vec::new();
    for quality in JPEG_QUALITIES {
        jpeg.clear();
        image.write_with_encoder(JpegEncoder::new_with_quality(&mut jpeg, quality)).map_err(failed)?;
        if jpeg.len() <= MAX_SHOWN_BYTES {
            break;
        }
    }
    let png_is_as_good = !png.is_empty() && png.len() <= MAX_SHOWN_BYTES && png.len() <= jpeg.len();
    Ok(if png_is_as_good { (png, "image/png") } else { (jpeg, "image/jpeg") })
}

/// JPEG has no transparency.
fn on_white(image: &DynamicImage) -> DynamicImage {
    let image = image.to_rgba8();
    let mut opaque = RgbImage::new(image.width(), image.height());
    for (to, from) in opaque.pixels_mut().zip(image.pixels()) {
        let alpha = u16::from(from[3]);
        let blend = |channel: u8| ((u16::from(channel) * alpha + 255 * (255 - alpha)) / 255) as u8;
        *to = Rgb([blend(from[0]), blend(from[1]), blend(from[2])]);
    }
    opaque.into()
}

#[cfg(test)]
#[path = "picture_tests.rs"]
mod tests;
