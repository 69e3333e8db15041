use rmcp::model::JsonRpcMessage;
use tokio::io::BufReader;

use super::*;

async fn lines(bytes: &[u8], limit: usize) -> Vec<Line> {
    // A small buffer, so that a line arrives in many pieces.
    let mut reader = LineReader::new(BufReader::with_capacity(7, bytes), limit);
    let mut found = Vec::new();
    while let Some(line) = reader.next().await {
        found.push(line);
    }
    found
}

#[tokio::test]
async fn lines_are_split_and_the_last_one_counts() {
    let whole = |text: &str| Line::Whole(text.as_bytes().to_vec());
    assert_eq!(
        lines(b"one\n\nthree is longer\nlast", 100).await,
        [whole("one"), whole(""), whole("three is longer"), whole("last")]
    );
}

#[tokio::test]
async fn a_line_over_the_limit_keeps_its_ends_and_the_next_one_is_whole() {
    let long = format!("{{\"id\":7,\"result\":\"{}\"}}", "x".repeat(5_000));
    let found = lines(format!("{long}\nnext\n").as_bytes(), 1_000).await;
    let Line::TooLong { bytes, head, tail, .. } = &found[0] else { panic!("{found:?}") };
    assert_eq!(*bytes, long.len());
    assert_eq!((head.len(), tail.len()), (ENDS_BYTES, ENDS_BYTES));
    assert!(tail.ends_with(b"xx\"}"));
    assert_eq!(answered_id(head, tail), Some(7));
    assert_eq!(found[1], Line::Whole(b"next".to_vec()));
}

#[test]
fn the_id_of_an_unreadable_answer_is_found() {
    let check = |line: &str, expected: Option<i64>| {
        assert_eq!(answered_id(line.as_bytes(), line.as_bytes()), expected, "{line}");
    };
    check(r#"{"jsonrpc":"2.0","id":5,"result":{"content":[{"id":6"#, Some(5));
    check(r#"{"jsonrpc" : "2.0", "id" : 12, "error":{"#, Some(12));
    check(r#"{"result":{"content":[{"id":6}]},"jsonrpc":"2.0","id":5}"#, Some(5));
    check(r#"{"result":{"x":1},"id":5,"jsonrpc":"2.0"}"#, Some(5));
    check(r#"{"result":{"content":{"id":6}}"#, None);
    check(r#"{"jsonrpc":"2.0","id":5,"method":"ping","params":{"result":1"#, None);
    check(r#"{"level":"info","id":5}"#, None);
    check("INFO \"id\": 5, \"result\"", None);
}

#[test]
fn readable_mistakes_are_read() {
    let text = |line: &[u8]| match decode(line) {
        Decoded::Messages(messages) => serde_json::to_string(&messages).unwrap(),
        Decoded::BadAnswer { id, .. } => format!("bad answer to {id}"),
        Decoded::Noise(text) => format!("noise: {text}"),
        Decoded::Empty => "empty".to_owned(),
    };
    let answer = |inner: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"content":[{{"type":"text","text":"{inner}"}}]}}}}"#)
    };
    assert!(text(answer(r"a\ud800b").as_bytes()).contains("a\u{fffd}b"));
    assert!(text(answer(r"\udc00\ud83d\ude00").as_bytes()).contains("\u{fffd}😀"));
    assert!(text(answer(r"\\ud800").as_bytes()).contains(r"\\ud800"), "an escaped backslash is no escape");
    assert!(text(answer(r"\u0000").as_bytes()).contains(r"\u0000"));
    assert!(text(&[answer("a").as_bytes(), b"\r"].concat()).contains("\"a\""));
    let mut bytes = answer("abc").into_bytes();
    let at = bytes.windows(3).position(|window| window == b"abc").unwrap();
    bytes[at] = 0xff;
    assert!(text(&bytes).contains("\u{fffd}bc"));
    assert_eq!(text(br#"{"jsonrpc":"2.0","id":3,"result":{"a":}}"#), "bad answer to 3");
    assert_eq!(text(br#"{"id":3,"result":{}}"#), "bad answer to 3", "without the version it is no JSON-RPC");
    assert_eq!(text(b"Listening on stdio"), "noise: Listening on stdio");
    assert_eq!(text(br#"{"level":"info"}"#), r#"noise: {"level":"info"}"#);
    assert_eq!(text(b"42"), "noise: 42");
    assert_eq!(text(b" \r"), "empty");
    let batch = format!("[{},{}]", answer("a"), answer("b"));
    let Decoded::Messages(messages) = decode(batch.as_bytes()) else { panic!("a batch is messages") };
    assert!(matches!(messages[..], [JsonRpcMessage::Response(_), JsonRpcMessage::Response(_)]));
}

proptest::proptest! {
    #[test]
    fn decode_never_panics(line in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
        let _ = decode(&line);
        let _ = answered_id(&line, &line);
    }

    #[test]
    fn surrogate_repair_never_panics_and_leaves_valid_json_alone(text in ".*") {
        let json = serde_json::to_string(&text).unwrap();
        proptest::prop_assert_eq!(replace_lone_surrogates(&json), json);
        let _ = replace_lone_surrogates(&text);
    }
}
