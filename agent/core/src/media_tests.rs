use std::io::Cursor;
use std::time::Duration;

use image::{DynamicImage, ImageFormat, RgbImage};

use super::*;
use crate::settings::Budget;

fn settings(accepted: &[&str], limits: ImageLimits) -> AgentSettings {
    AgentSettings {
        max_steps: 1,
        answer_tool: String::new(),
        sample_timeout: Duration::ZERO,
        budget: Budget::default(),
        run_budget: None,
        result_bytes: 0,
        context_window_tokens: None,
        accepted_media: accepted.iter().map(|prefix| (*prefix).to_owned()).collect(),
        image_limits: limits,
        system_prompt: String::new(),
    }
}

fn picture(width: u32, height: u32) -> DynamicImage {
    RgbImage::from_fn(width, height, |x, y| image::Rgb([x as u8, y as u8, (x * y) as u8])).into()
}

fn file(image: &DynamicImage, format: ImageFormat) -> Vec<u8> {
    let mut bytes = Vec::new();
    image.write_to(&mut Cursor::new(&mut bytes), format).unwrap();
    bytes
}

fn shown(bytes: &[u8], limits: ImageLimits) -> (String, u32, u32, usize) {
    let settings = settings(&["image/"], limits);
    let Some(Part::Image(image)) = attach("x", bytes, &settings).unwrap() else { panic!("no picture") };
    let bytes = STANDARD.decode(&image.data).unwrap();
    let decoded = image::load_from_memory(&bytes).unwrap();
    (image.media_type, decoded.width(), decoded.height(), bytes.len())
}

#[test]
fn what_fits_goes_out_as_it_is_and_the_rest_is_converted_and_scaled() {
    let limits =
        ImageLimits { longest_side_px: 64, file_bytes: 20_000, formats: ImageLimits::default().formats };
    let small = picture(40, 20);
    for format in [ImageFormat::Bmp, ImageFormat::Tiff, ImageFormat::WebP, ImageFormat::Gif, ImageFormat::Png]
    {
        let (media_type, width, height, _) = shown(&file(&small, format), limits);
        assert_eq!((media_type.as_str(), width, height), ("image/png", 40, 20), "{format:?}");
    }
    let png = file(&small, ImageFormat::Png);
    let settings = settings(&["image/"], limits);
    let Some(Part::Image(image)) = attach("x", &png, &settings).unwrap() else { panic!("no picture") };
    assert_eq!(STANDARD.decode(image.data).unwrap(), png, "changed although it fits");
    let (media_type, width, height, _) = shown(&file(&picture(200, 100), ImageFormat::Jpeg), limits);
    assert_eq!((media_type.as_str(), width, height), ("image/jpeg", 64, 32));
}

#[test]
fn a_picture_is_made_as_small_as_the_provider_wants_it() {
    let noise = RgbImage::from_fn(200, 200, |_, _| image::Rgb(rand::random::<[u8; 3]>()));
    let bytes = file(&noise.into(), ImageFormat::Png);
    for file_bytes in [60_000, 20_000, 3_000] {
        let limits =
            ImageLimits { longest_side_px: 200, file_bytes, formats: ImageLimits::default().formats };
        let (media_type, _, _, size) = shown(&bytes, limits);
        assert!(media_type == "image/jpeg" && size <= file_bytes, "{media_type}, {size} of {file_bytes}");
    }
}

#[test]
fn a_bomb_is_refused_by_what_it_names() {
    // A PNG that names 60,000 × 60,000 pixels and holds none.
    let mut bomb = file(&picture(1, 1), ImageFormat::Png);
    bomb[16..24].copy_from_slice(&[0, 0, 0xea, 0x60, 0, 0, 0xea, 0x60]);
    let crc = crc32(&bomb[12..29]);
    bomb[29..33].copy_from_slice(&crc.to_be_bytes());
    let refused = attach("x", &bomb, &settings(&["image/"], ImageLimits::default())).unwrap_err();
    assert!(refused.contains("60000 × 60000"), "{refused}");
    let cut = &file(&picture(50, 50), ImageFormat::Png)[..200];
    let refused = attach("x", cut, &settings(&["image/"], ImageLimits::default())).unwrap_err();
    assert!(refused.contains("is broken"), "{refused}");
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |mut crc, byte| {
        crc ^= u32::from(*byte);
        (0..8).for_each(|_| crc = if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 });
        crc
    })
}

#[test]
fn sound_and_documents_are_known_by_what_they_begin_with() {
    let all = settings(&["image/", "audio/", "application/pdf"], ImageLimits::default());
    let none = settings(&[], ImageLimits::default());
    let wav = [b"RIFF\0\0\0\0WAVE".as_slice(), &[0; 100]].concat();
    for (bytes, expected) in [
        (wav.as_slice(), "audio/wav"),
        (b"ID3\x04 and so on".as_slice(), "audio/mpeg"),
        (b"\xff\xfb\x90\x64".as_slice(), "audio/mpeg"),
        (b"%PDF-1.7".as_slice(), "application/pdf"),
    ] {
        let part = attach("a.bin", bytes, &all).unwrap().unwrap();
        assert_eq!(part.media().unwrap(), (expected, STANDARD.encode(bytes).as_str()));
        assert_eq!(attach("a.bin", bytes, &none), Ok(None));
        assert!(attachment_note(bytes, None).unwrap().contains("read it with a tool"), "{expected}");
    }
    assert_eq!(attach("a.pdf", b"plain text", &all), Ok(None));
    assert_eq!(attachment_note(b"plain text", None), None);
}

#[tokio::test]
async fn results_are_fitted_or_described() {
    let png = STANDARD.encode(file(&picture(3_000, 10), ImageFormat::Png));
    let image = Part::Image(Image { media_type: "image/png".to_owned(), data: png });
    let broken = Part::Image(Image { media_type: "image/png".to_owned(), data: "AAAA".to_owned() });
    let sound = Part::Sound(Sound { media_type: "audio/wav".to_owned(), data: "AAAA".to_owned() });
    let sees = settings(&["image/"], ImageLimits::default());
    let parts = fitted(vec![image.clone(), broken, sound], &sees).await;
    let [Part::Image(fit), Part::Text { text: broken }, Part::Text { text: sound }] = parts.as_slice() else {
        panic!("{parts:?}")
    };
    let decoded = image::load_from_memory(&STANDARD.decode(&fit.data).unwrap()).unwrap();
    assert_eq!(decoded.width(), 2_048);
    assert!(broken.contains("cannot be shown"), "{broken}");
    assert!(sound.contains("a sound, audio/wav") && sound.contains("use a tool"), "{sound}");
    let blind = settings(&[], ImageLimits::default());
    let parts = fitted(vec![image], &blind).await;
    assert!(matches!(&parts[0], Part::Text { text } if text.contains("an image, image/png")), "{parts:?}");
}
