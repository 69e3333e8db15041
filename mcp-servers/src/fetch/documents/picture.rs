//! Decoded pixels as a picture that models take.

use std::io::Cursor;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hayro_interpret::ImageData;
use image::codecs::jpeg::JpegEncoder;
use image::{DynamicImage, GrayImage, RgbImage};

use super::Picture;

/// Models see no more detail than this.
pub(super) const TARGET_PIXELS: (u32, u32) = (1_600, 1_600);
/// Letters stay readable, and a page is a few hundred kilobytes.
const JPEG_QUALITY: u8 = 80;

pub(super) fn encode(pixels: ImageData) -> Option<Picture> {
    let image = match pixels {
        ImageData::Rgb(rgb) => DynamicImage::ImageRgb8(RgbImage::from_raw(rgb.width, rgb.height, rgb.data)?),
        ImageData::Luma(luma) => {
            DynamicImage::ImageLuma8(GrayImage::from_raw(luma.width, luma.height, luma.data)?)
        }
    };
    let (width, height) = TARGET_PIXELS;
    let image =
        if image.width() > width || image.height() > height { image.thumbnail(width, height) } else { image };
    let mut bytes = Cursor::new(Vec::new());
    JpegEncoder::new_with_quality(&mut bytes, JPEG_QUALITY).encode_image(&image).ok()?;
    Some(Picture { media_type: "image/jpeg".to_owned(), base64: STANDARD.encode(bytes.into_inner()) })
}
