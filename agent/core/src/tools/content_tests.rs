use serde_json::json;

use super::*;

fn shown(result: Value) -> (Vec<Part>, bool) {
    let converted = convert(serde_json::from_value(result).unwrap()).unwrap();
    (converted.content, converted.is_error)
}

fn shown_text(result: Value) -> String {
    match &shown(result).0[..] {
        [Part::Text { text }] => text.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_kind_of_content() {
    let (content, is_error) = shown(json!({ "isError": true, "content": [
        { "type": "text", "text": "a" },
        { "type": "image", "mimeType": "image/png", "data": "aGV\nsbG8=" },
        { "type": "audio", "mimeType": "audio/wav", "data": "aGVsbG8=" },
        { "type": "audio", "mimeType": "audio/flac", "data": "aGVsbG8=" },
        { "type": "resource", "resource": { "uri": "file:///a", "mimeType": "text/plain", "text": "inner" } },
        { "type": "resource", "resource": { "uri": "file:///b", "mimeType": "application/pdf", "blob": "aGVsbG8=" } },
        { "type": "resource", "resource": { "uri": "file:///z", "mimeType": "application/zip", "blob": "aGVsbG8=" } },
        { "type": "resource", "resource": { "uri": "file:///c", "mimeType": "image/gif", "blob": "aGVsbG8=" } },
        { "type": "resource_link", "uri": "file:///d", "name": "d", "mimeType": "text/csv", "size": 7, "description": "data" },
    ]}));
    let image = |media_type: &str| {
        Part::Image(Image { media_type: media_type.to_owned(), data: "aGVsbG8=".to_owned() })
    };
    assert!(is_error);
    assert_eq!(
        content,
        [
            text("a".to_owned()),
            image("image/png"),
            Part::Sound(Sound { media_type: "audio/wav".to_owned(), data: "aGVsbG8=".to_owned() }),
            text("[audio, audio/flac, 5 bytes: not shown]".to_owned()),
            text("inner".to_owned()),
            Part::Document(Document {
                name: "b".to_owned(),
                media_type: "application/pdf".to_owned(),
                data: "aGVsbG8=".to_owned(),
            }),
            text("[resource file:///z, application/zip, 5 bytes: not shown]".to_owned()),
            image("image/gif"),
            text("[link to resource d, file:///d (text/csv, 7 bytes): data]".to_owned()),
        ]
    );
}

#[test]
fn structured_content_is_shown_when_there_is_no_text() {
    assert_eq!(shown_text(json!({ "structuredContent": { "a": 1 } })), "{\n  \"a\": 1\n}");
    assert_eq!(shown_text(json!({ "content": [], "structuredContent": [1] })), "[\n  1\n]");
    assert_eq!(
        shown_text(json!({ "content": [{ "type": "text", "text": "t" }], "structuredContent": {} })),
        "t"
    );
}

#[test]
fn nothing_is_said_to_be_nothing() {
    for empty in [json!({ "content": [] }), json!({ "content": [{ "type": "text", "text": "" }] }), json!({})]
    {
        assert_eq!(shown_text(empty), "(the tool returned nothing)");
    }
}

#[test]
fn one_strange_block_does_not_cost_the_others() {
    let (content, _) =
        shown(json!({ "content": [{ "type": "text", "text": "a" }, { "type": "hologram", "x": 1 }] }));
    assert_eq!(content[0], text("a".to_owned()));
    assert!(matches!(&content[1], Part::Text { text } if text.contains("hologram")), "{content:?}");
}

#[test]
fn an_image_that_is_none_is_described() {
    for (data, media_type) in
        [("not base64!", "image/png"), ("", "image/png"), ("aGVsbG8=", "application/pdf")]
    {
        let shown =
            shown_text(json!({ "content": [{ "type": "image", "mimeType": media_type, "data": data }] }));
        assert!(shown.starts_with(&format!("[image, {media_type}, ")), "{shown}");
    }
}

#[test]
fn what_is_no_result_is_an_error() {
    let error = |value: Value| convert(serde_json::from_value(value).unwrap()).unwrap_err();
    assert!(error(json!({ "surprise": 1 })).contains("not a tool result"));
    assert!(
        error(json!({ "resultType": "input_required", "inputRequests": {}, "requestState": "s" }))
            .contains("input from a person")
    );
}
