//! `@modelcontextprotocol/server-filesystem` in a folder of the test.

use serde_json::json;

use super::Plugged;

#[tokio::test]
async fn server_filesystem_reads_writes_and_stays_in_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    fs_err::write(root.join("tides.txt"), "high water 14:35\n").unwrap();
    let png = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs/sandbox/fixtures/sign.png");
    fs_err::copy(png, root.join("sign.png")).unwrap();
    let entry = json!({
        "command": "npx",
        "args": ["-y", "@modelcontextprotocol/server-filesystem", root]
    });
    let plugged = Plugged::new("filesystem", &entry);
    let tools = plugged.tools().await;
    assert_eq!(tools.len(), 14, "{tools:?}");

    let path = |name: &str| root.join(name).display().to_string();
    let called = plugged.call("read_text_file", json!({ "path": path("tides.txt") })).await;
    assert!(called.text().contains("high water 14:35") && !called.is_error, "{called:#?}");
    let called =
        plugged.call("write_file", json!({ "path": path("new.txt"), "content": "low water 20:50" })).await;
    assert!(!called.is_error, "{called:#?}");
    assert_eq!(fs_err::read_to_string(root.join("new.txt")).unwrap(), "low water 20:50");
    let called = plugged.call("list_directory", json!({ "path": root })).await;
    assert!(
        called.text().contains("[FILE] new.txt") && called.text().contains("[FILE] sign.png"),
        "{called:#?}"
    );
    let called = plugged.call("read_media_file", json!({ "path": path("sign.png") })).await;
    assert_eq!(called.images.len(), 1, "{called:#?}");
    assert_eq!(called.images[0].0, "image/png");
    let called = plugged.call("search_files", json!({ "path": root, "pattern": "*.txt" })).await;
    assert!(called.text().contains("tides.txt") && called.text().contains("new.txt"), "{called:#?}");

    let called = plugged.call("read_text_file", json!({ "path": "/etc/passwd" })).await;
    assert!(called.is_error && called.text().contains("Access denied"), "{called:#?}");
    // With its folder's full name too.
    let called = plugged.call("filesystem/get_file_info", json!({ "path": path("none") })).await;
    assert!(called.is_error && called.text().contains("ENOENT"), "{called:#?}");
}
