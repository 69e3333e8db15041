use image::{Luma, RgbaImage};

use super::*;

fn noise(width: u32, height: u32) -> RgbImage {
    let mut state = 1_u32;
    RgbImage::from_fn(width, height, |_, _| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let [_, a, b, c] = state.to_be_bytes();
        Rgb([a, b ^ c, c])
    })
}

fn file(image: &DynamicImage, format: ImageFormat) -> Vec<u8> {
    let mut bytes = Vec::new();
    image.write_to(&mut Cursor::new(&mut bytes), format).unwrap();
    bytes
}

fn decoded(picture: &Picture) -> DynamicImage {
    let image = image::load_from_memory(&picture.bytes).unwrap();
    assert_eq!((image.width(), image.height()), (picture.shown.width, picture.shown.height));
    image
}

fn error(file: &[u8]) -> String {
    prepare(file, DEFAULT_MAX_SIDE).err().expect("no picture").to_string()
}

#[test]
fn every_format_is_shown() {
    let image = DynamicImage::from(noise(40, 30));
    for (format, name) in FORMATS {
        let picture =
            prepare(&file(&image, format), DEFAULT_MAX_SIDE).unwrap_or_else(|e| panic!("{name} {e}"));
        assert_eq!(picture.format, name);
        assert_eq!(picture.original, Size { width: 40, height: 30 }, "{name}");
        let expected = if format == ImageFormat::Jpeg { "image/jpeg" } else { "image/png" };
        assert_eq!(picture.media_type, expected, "{name}");
        if !matches!(format, ImageFormat::Jpeg | ImageFormat::Gif) {
            assert_eq!(decoded(&picture).into_rgb8(), noise(40, 30), "{name} keeps every pixel");
        }
    }
}

#[test]
fn the_longer_side_is_bounded_and_the_shape_kept() {
    for (size, max_side, shown) in [
        ((1568, 784), 1568, (1568, 784)),
        ((1570, 785), 1568, (1568, 784)),
        ((200, 800), 100, (25, 100)),
        ((3000, 2), 100, (100, 1)),
    ] {
        let image = DynamicImage::from(noise(size.0, size.1));
        let picture = prepare(&file(&image, ImageFormat::Png), max_side).unwrap();
        assert_eq!((picture.shown.width, picture.shown.height), shown, "{size:?}");
        assert_eq!((picture.original.width, picture.original.height), size);
        decoded(&picture);
    }
}

#[test]
fn a_camera_picture_is_turned_upright() {
    // Exif: one entry, orientation 6, "turn clockwise".
    let exif = b"Exif\0\0MM\0\x2a\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0";
    let mut image = RgbImage::from_pixel(64, 32, Rgb([255, 255, 255]));
    for pixel in image.enumerate_pixels_mut().filter(|(x, _, _)| *x < 32) {
        *pixel.2 = Rgb([0, 0, 0]);
    }
    let plain = file(&image.into(), ImageFormat::Jpeg);
    let mut turned = plain[..2].to_vec();
    turned.extend([0xFF, 0xE1]);
    turned.extend(u16::try_from(exif.len() + 2).unwrap().to_be_bytes());
    turned.extend(exif);
    turned.extend(&plain[2..]);
    let picture = prepare(&turned, DEFAULT_MAX_SIDE).unwrap();
    assert_eq!(picture.original, Size { width: 32, height: 64 });
    assert_eq!(picture.shown, picture.original);
    let luma = decoded(&picture).into_luma8();
    assert!(luma.get_pixel(16, 5)[0] < 50 && luma.get_pixel(16, 60)[0] > 200);
}

#[test]
fn transparency_and_grey_and_sixteen_bits_survive() {
    let mut clear = RgbaImage::from_pixel(20, 20, image::Rgba([10, 20, 30, 255]));
    let opaque = prepare(&file(&clear.clone().into(), ImageFormat::Png), 1568).unwrap();
    assert!(!decoded(&opaque).color().has_alpha());
    clear.put_pixel(3, 3, image::Rgba([0, 0, 0, 0]));
    let picture = prepare(&file(&clear.into(), ImageFormat::Png), 1568).unwrap();
    assert_eq!(decoded(&picture).into_rgba8().get_pixel(3, 3)[3], 0);

    let deep: DynamicImage =
        image::ImageBuffer::<Luma<u16>, Vec<u16>>::from_fn(20, 20, |x, _| Luma([x as u16 * 3000])).into();
    let picture = prepare(&file(&deep, ImageFormat::Png), 1568).unwrap();
    assert_eq!(decoded(&picture).color(), image::ColorType::L8);
}

#[test]
fn what_is_sent_stays_small() {
    // The worst there is: PNG cannot compress it.
    let image = DynamicImage::from(noise(LARGEST_SIDE, LARGEST_SIDE));
    let picture = prepare(&file(&image, ImageFormat::Bmp), LARGEST_SIDE).unwrap();
    assert_eq!(picture.media_type, "image/jpeg");
    assert!(picture.bytes.len() <= MAX_SHOWN_BYTES, "{}", picture.bytes.len());
    // Half clear: PNG is too large, JPEG has no alpha, so it is laid on white.
    let mut clear = image.into_rgba8();
    clear.pixels_mut().step_by(2).for_each(|pixel| pixel[3] = 0);
    let picture = prepare(&file(&clear.into(), ImageFormat::Png), LARGEST_SIDE).unwrap();
    assert_eq!(picture.media_type, "image/jpeg");
    assert!(picture.bytes.len() <= MAX_SHOWN_BYTES, "{}", picture.bytes.len());
}

#[test]
fn what_is_no_picture_is_said_in_words() {
    assert_eq!(error(b""), "is empty");
    assert!(error(b"%PDF-1.7\n").contains("pdftoppm"));
    assert!(error(b"just text").starts_with("is no PNG, JPEG, GIF, WebP, BMP or TIFF picture"));
    assert!(error(b"<svg xmlns='http://www.w3.org/2000/svg'/>").starts_with("is no PNG"));
    // A format that has a name and is not shown.
    assert!(error(b"\0\0\x01\0\x01\0\x10\x10\0\0\x01\0\x04\0").starts_with("is no PNG"));
    for (format, name) in FORMATS {
        let whole = file(&noise(40, 30).into(), format);
        let cut = &whole[..whole.len() / 2];
        // Some decoders show what there is of a cut file.
        if let Err(error) = prepare(cut, DEFAULT_MAX_SIDE) {
            assert!(error.to_string().starts_with(&format!("is a broken {name}: ")), "{error}");
        }
        let mut spoilt = whole.clone();
        spoilt[20..].iter_mut().step_by(3).for_each(|byte| *byte ^= 0x5A);
        let _any_answer_but_a_panic = prepare(&spoilt, DEFAULT_MAX_SIDE).map(|picture| picture.shown);
    }
}

/// Peak memory of this process in bytes.
fn peak() -> u64 {
    let status = fs_err::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

fn chunk(name: &[u8; 4], data: &[u8]) -> Vec<u8> {
    let mut crc = u32::MAX;
    for byte in name.iter().chain(data) {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xEDB8_8320 } else { crc >> 1 };
        }
    }
    let length = u32::try_from(data.len()).unwrap();
    [&length.to_be_bytes()[..], name, data, &(!crc).to_be_bytes()].concat()
}

/// A PNG that claims a size and has no pixels.
fn claiming_png(width: u32, height: u32) -> Vec<u8> {
    let header = [&width.to_be_bytes()[..], &height.to_be_bytes(), &[16, 6, 0, 0, 0]].concat();
    let nothing = [0x78, 0x9C, 0x03, 0, 0, 0, 0, 1];
    [b"\x89PNG\r\n\x1a\n".to_vec(), chunk(b"IHDR", &header), chunk(b"IDAT", &nothing), chunk(b"IEND", b"")]
        .concat()
}

/// A grey TIFF that claims both sides and has no pixels.
fn claiming_tiff(side: u32) -> Vec<u8> {
    // Width, height, bits, compression, meaning, strip offset, rows, strip bytes: each one 32-bit number.
    let entries: [(u16, u32); 8] =
        [(256, side), (257, side), (258, 8), (259, 1), (262, 1), (273, 8), (278, side), (279, side)];
    let mut bytes = b"II*\0\x08\0\0\0\x08\0".to_vec();
    for (tag, value) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend([4, 0, 1, 0, 0, 0]);
        bytes.extend(value.to_le_bytes());
    }
    bytes.extend([0; 4]);
    bytes
}

fn with_u32_le(mut bytes: Vec<u8>, at: usize, values: &[u32]) -> Vec<u8> {
    for (index, value) in values.iter().enumerate() {
        bytes[at + index * 4..at + index * 4 + 4].copy_from_slice(&value.to_le_bytes());
    }
    bytes
}

#[test]
fn a_picture_that_claims_to_be_huge_costs_nothing() {
    let small = DynamicImage::from(noise(4, 4));
    let mut gif = file(&small, ImageFormat::Gif);
    gif[6..10].copy_from_slice(&[0xFF; 4]);
    let mut jpeg = file(&small, ImageFormat::Jpeg);
    let frame = jpeg.windows(2).position(|pair| pair == [0xFF, 0xC0]).unwrap();
    jpeg[frame + 5..frame + 9].copy_from_slice(&[0xFF; 4]);
    let bmp = with_u32_le(file(&small, ImageFormat::Bmp), 18, &[60_000, 60_000]);
    let bombs = [
        ("PNG", claiming_png(60_000, 60_000)),
        ("PNG with one long side", claiming_png(u32::MAX >> 1, 1)),
        ("PNG of 16 bits", claiming_png(8_000, 8_000)),
        ("GIF", gif),
        ("JPEG", jpeg),
        ("BMP", bmp),
        ("TIFF", claiming_tiff(60_000)),
    ];
    for (name, bomb) in bombs {
        let before = peak();
        let error = error(&bomb);
        assert!(error.starts_with("is too large a picture ("), "{name}: {error}");
        assert!(peak() - before < 32 << 20, "{name} took {} MiB", (peak() - before) >> 20);
    }
}
