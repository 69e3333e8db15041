//! One picture within the limits of a provider.

use std::io::Cursor;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use image::codecs::jpeg::JpegEncoder;
use image::imageops::FilterType;
use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder, ImageFormat, ImageReader, Limits, Rgb, RgbImage};

use super::ImageLimits;
use crate::message::Image;

/// A file of a few kilobytes can name billions of pixels. Cameras and scanners stay below this.
const MAX_PIXELS: u64 = 64_000_000;

/// The decoded picture, at four bytes a pixel.
const MAX_DECODED_BYTES: u64 = 256 << 20;

/// All that a decoder may hold at a time: some keep their input in another form beside the picture.
const MAX_DECODER_BYTES: u64 = 512 << 20;

/// Tried in turn until the file is small enough.
const JPEG_QUALITIES: [u8; 3] = [85, 60, 35];

/// Halvings of the sides, when even the poorest quality is too large. Noise of 64 megapixels needs three.
const HALVINGS: u32 = 4;

pub(super) fn is_known(bytes: &[u8]) -> bool {
    format_of(bytes).is_some()
}

fn format_of(bytes: &[u8]) -> Option<ImageFormat> {
    use ImageFormat::{Bmp, Gif, Jpeg, Png, Tiff, WebP};
    image::guess_format(bytes).ok().filter(|format| matches!(format, Png | Jpeg | Gif | WebP | Bmp | Tiff))
}

/// The picture as it is when it fits, else scaled and encoded anew. The error goes on from `it`.
pub(super) fn prepare(bytes: &[u8], limits: &ImageLimits) -> Result<Image, String> {
    let format = format_of(bytes).ok_or("is in a format that nobody knows")?;
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    let mut bounds = Limits::default();
    bounds.max_alloc = Some(MAX_DECODER_BYTES);
    reader.limits(bounds);
    let broken = |error: image::ImageError| format!("is broken: {error}");
    let mut decoder = reader.into_decoder().map_err(broken)?;
    let (width, height) = decoder.dimensions();
    if u64::from(width) * u64::from(height) > MAX_PIXELS || decoder.total_bytes() > MAX_DECODED_BYTES {
        return Err(format!("has {width} × {height} pixels, more than {MAX_PIXELS}"));
    }
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let is_small = width.max(height) <= limits.longest_side_px && bytes.len() <= limits.file_bytes;
    let is_taken = limits.formats.contains(&format);
    // A broken file would be refused with the whole conversation: each is decoded, also those that go out as they are.
    let image = DynamicImage::from_decoder(decoder).map_err(broken)?;
    if is_small && is_taken && orientation == Orientation::NoTransforms {
        return Ok(encoded(format.to_mime_type(), bytes));
    }
    let mut image = scaled(image, limits.longest_side_px);
    image.apply_orientation(orientation);
    encode(image, format, limits.file_bytes)
}

fn scaled(image: DynamicImage, longest_side_px: u32) -> DynamicImage {
    if image.width().max(image.height()) <= longest_side_px {
        return image;
    }
    // The good filter works in floating point on whole rows: a plain average first bounds what it is given.
    let halfway = longest_side_px.saturating_mul(2);
    let image =
        if image.width().max(image.height()) > halfway { image.thumbnail(halfway, halfway) } else { image };
    image.resize(longest_side_px, longest_side_px, FilterType::CatmullRom)
}

fn encode(mut image: DynamicImage, from: ImageFormat, file_bytes: usize) -> Result<Image, String> {
    let failed = |error: image::ImageError| format!("could not be encoded: {error}");
    // A photo stays a photo; drawings and screenshots keep their edges.
    if from != ImageFormat::Jpeg {
        let mut png = Vec::new();
        eight_bits(&image).write_to(&mut Cursor::new(&mut png), ImageFormat::Png).map_err(failed)?;
        if png.len() <= file_bytes {
            return Ok(encoded("image/png", &png));
        }
    }
    for _ in 0..=HALVINGS {
        let opaque = on_white(&image);
        for quality in JPEG_QUALITIES {
            let mut jpeg = Vec::new();
            opaque.write_with_encoder(JpegEncoder::new_with_quality(&mut jpeg, quality)).map_err(failed)?;
            if jpeg.len() <= file_bytes {
                return Ok(encoded("image/jpeg", &jpeg));
            }
        }
        image = scaled(image, (opaque.width().max(opaque.height()) / 2).max(1));
    }
    Err(format!("could not be made smaller than {file_bytes} bytes"))
}

fn eight_bits(image: &DynamicImage) -> DynamicImage {
    match image.color() {
        color if color.has_alpha() => image.to_rgba8().into(),
        color if color.has_color() => image.to_rgb8().into(),
        _ => image.to_luma8().into(),
    }
}

/// JPEG has no transparency.
fn on_white(image: &DynamicImage) -> DynamicImage {
    if !image.color().has_alpha() {
        return image.to_rgb8().into();
    }
    let image = image.to_rgba8();
    let mut opaque = RgbImage::new(image.width(), image.height());
    for (to, from) in opaque.pixels_mut().zip(image.pixels()) {
        let alpha = u16::from(from[3]);
        let blend = |channel: u8| ((u16::from(channel) * alpha + 255 * (255 - alpha)) / 255) as u8;
        *to = Rgb([blend(from[0]), blend(from[1]), blend(from[2])]);
    }
    opaque.into()
}

fn encoded(media_type: &str, bytes: &[u8]) -> Image {
    Image { media_type: media_type.to_owned(), data: STANDARD.encode(bytes) }
}
