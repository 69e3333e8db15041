//! Pictures out of the container. These tests need Docker and fail without it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use image::{GenericImageView, ImageFormat, Rgb, RgbImage};
use rmcp::model::CallToolResult;
use serde_json::json;

use crate::support::{BASH, ERAS, Era, command, image, stdio_of, text};

fn picture(result: &CallToolResult) -> (image::DynamicImage, &str, &str) {
    let [shown, line] = &result.content[..] else {
        panic!("a picture and a line expected: {:?}", result.content)
    };
    let shown = shown.as_image().expect("the first block is a picture");
    let bytes = STANDARD.decode(&shown.data).unwrap();
    (image::load_from_memory(&bytes).unwrap(), &shown.mime_type, &line.as_text().unwrap().text)
}

#[tokio::test]
async fn a_picture_is_shown_scaled_down() {
    let files = tempfile::tempdir().unwrap();
    let image = RgbImage::from_fn(400, 200, |x, _| if x < 200 { Rgb([250, 0, 0]) } else { Rgb([0, 0, 250]) });
    image.save_with_format(files.path().join("two colours.png"), ImageFormat::Png).unwrap();
    image.save_with_format(files.path().join("photo.jpg"), ImageFormat::Jpeg).unwrap();
    for era in ERAS {
        let mut command = command(BASH, &["--image", &crate::support::image()]);
        command.env("GAIA_FILES_DIR", files.path());
        let (_server, client) = stdio_of(command, era, ()).await;
        let path = "/shared_files/two colours.png";
        let result = client.call("view_image", json!({ "path": path })).await;
        let (shown, media_type, line) = picture(&result);
        assert_eq!((shown.dimensions(), media_type), ((400, 200), "image/png"));
        assert_eq!(line, "[/shared_files/two colours.png: PNG, 400 × 200]");
        assert_eq!(shown.to_rgb8(), image);

        let result = client.call("view_image", json!({ "path": path, "max_side": 100 })).await;
        let (shown, _, line) = picture(&result);
        assert_eq!(shown.dimensions(), (100, 50));
        assert_eq!(line, "[/shared_files/two colours.png: PNG, 400 × 200, shown at 100 × 50]");
        assert_eq!(shown.to_rgb8().get_pixel(10, 25), &Rgb([250, 0, 0]));

        // A relative path starts where the shell is.
        client.call("bash", json!({ "command": "cd /shared_files" })).await;
        let result = client.call("view_image", json!({ "path": "photo.jpg" })).await;
        assert_eq!(picture(&result).1, "image/jpeg");
        client.close().await;
    }
}

#[tokio::test]
async fn what_cannot_be_shown_is_said_and_the_server_goes_on() {
    let files = tempfile::tempdir().unwrap();
    let mut bomb = Vec::new();
    RgbImage::new(4, 4).write_to(&mut std::io::Cursor::new(&mut bomb), ImageFormat::Bmp).unwrap();
    bomb[18..26].copy_from_slice(&[0x60, 0xEA, 0, 0, 0x60, 0xEA, 0, 0]);
    fs_err::write(files.path().join("bomb.bmp"), bomb).unwrap();
    fs_err::write(files.path().join("text.png"), "no picture").unwrap();
    let mut command = command(BASH, &["--image", &image()]);
    command.env("GAIA_FILES_DIR", files.path());
    let (_server, client) = stdio_of(command, Era::Legacy, ()).await;
    client.call("bash", json!({ "command": "truncate -s 40M /tmp/large.png; mkfifo /tmp/pipe.png" })).await;
    for (arguments, expected) in [
        (json!({ "path": "/shared_files/bomb.bmp" }), "`/shared_files/bomb.bmp` is too large a picture ("),
        (json!({ "path": "/shared_files/text.png" }), "`/shared_files/text.png` is no PNG, JPEG, "),
        (
            json!({ "path": "/tmp/large.png" }),
            "`/tmp/large.png` has 41943040 bytes, and at most 32 MiB can be shown; scale it down in bash first",
        ),
        (json!({ "path": "/nowhere.png" }), "failed to read `/nowhere.png`: no such file"),
        (json!({ "path": "/tmp/pipe.png" }), "failed to read `/tmp/pipe.png`: not a regular file"),
        (json!({ "path": "/tmp" }), "failed to read `/tmp`: is a directory"),
        (json!({ "path": "" }), "`path` must be a path in the container"),
        (json!({}), "`path` is missing; it is a string"),
        (
            json!({ "path": "/tmp/x", "max_side": 5000 }),
            "`max_side` must be a whole number from 64 to 2048, not 5000",
        ),
        (json!({ "path": "/tmp/x", "size": 5 }), "unknown argument `size`; this tool takes: path, max_side"),
    ] {
        let result = client.call("view_image", arguments.clone()).await;
        assert_eq!(result.is_error, Some(true), "{arguments}");
        assert!(text(&result).starts_with(expected), "{arguments}: {}", text(&result));
    }
    let alive = client.call("bash", json!({ "command": "echo alive" })).await;
    assert!(text(&alive).starts_with("alive\n"));
    client.close().await;
}
