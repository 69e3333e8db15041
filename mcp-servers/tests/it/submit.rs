use serde_json::json;

use crate::support::{ERAS, Era, Process, SUBMIT, command, fact, http, stdio, text};

#[tokio::test]
async fn an_answer_is_taken_as_text_and_as_a_fact() {
    for era in ERAS {
        let (_server, client) = stdio(SUBMIT, &[], era).await;
        let result = client.call("submit", json!({ "answer": " 17 " })).await;
        assert_eq!(result.is_error, Some(false));
        assert_eq!(text(&result), "answer taken: 17");
        assert_eq!(result.structured_content, Some(json!({ "answer": "17" })));
    }
}

#[tokio::test]
async fn an_empty_answer_is_refused_with_the_reason() {
    let (_server, client) = stdio(SUBMIT, &[], Era::Legacy).await;
    for empty in ["", "  \n"] {
        let result = client.call("submit", json!({ "answer": empty })).await;
        assert_eq!(result.is_error, Some(true));
        assert!(text(&result).contains("the answer is empty"), "{}", text(&result));
        assert_eq!(result.structured_content, None);
    }
}

#[tokio::test]
async fn wrong_arguments_are_named() {
    let (_server, client) = stdio(SUBMIT, &[], Era::Modern).await;
    for (arguments, expected) in [
        (json!({}), "`answer` is missing; it is a string"),
        (json!({ "answer": 17 }), "`answer` must be a string, not the number 17; send \"17\" in quotes"),
        (json!({ "answer": ["a"] }), "`answer` must be a string, not an array"),
        (json!({ "result": "17" }), "unknown argument `result`; this tool takes: answer"),
    ] {
        let result = client.call("submit", arguments).await;
        assert_eq!(result.is_error, Some(true));
        assert_eq!(text(&result), expected);
    }
}

#[tokio::test]
async fn the_form_is_warned_about_once_and_then_taken() {
    for era in ERAS {
        let (_server, client) = stdio(SUBMIT, &[], era).await;
        let warned = client.call("submit", json!({ "answer": "FINAL ANSWER: 17 km." })).await;
        assert_eq!(warned.is_error, Some(true));
        for part in ["final answer", "full stop", "the same again"] {
            assert!(text(&warned).contains(part), "{part}: {}", text(&warned));
        }
        let insisted = client.call("submit", json!({ "answer": "17 km" })).await;
        assert_eq!(fact(&insisted, "answer"), "17 km");
    }
}

#[tokio::test]
async fn over_http_the_warning_is_remembered_without_a_session() {
    let server = http(SUBMIT, &[], &[]).await;
    for era in ERAS {
        let client = server.connect("/mcp", era).await;
        let warned = client.call("submit", json!({ "answer": "17 km" })).await;
        assert_eq!(warned.is_error, Some(true), "{era:?}");
        let insisted = client.call("submit", json!({ "answer": "17 km" })).await;
        assert_eq!(fact(&insisted, "answer"), "17 km", "{era:?}");
        client.close().await;
    }
}

#[tokio::test]
async fn over_http_each_session_has_its_own_warning() {
    let server = http(SUBMIT, &[], &[]).await;
    let first = server.connect("/mcp", Era::Legacy).await;
    let second = server.connect("/mcp", Era::Legacy).await;
    assert_eq!(first.call("submit", json!({ "answer": "17 km" })).await.is_error, Some(true));
    assert_eq!(second.call("submit", json!({ "answer": "17 km" })).await.is_error, Some(true));
    assert_eq!(first.call("submit", json!({ "answer": "18 km" })).await.is_error, Some(false));
}

#[tokio::test]
async fn an_unknown_tool_is_a_protocol_error_that_names_the_known() {
    for era in ERAS {
        let (_server, client) = stdio(SUBMIT, &[], era).await;
        let error = client.try_call("answer", json!({})).await.unwrap_err().to_string();
        assert!(error.contains("unknown tool `answer`; this server has: submit"), "{error}");
        assert!(error.contains("-32602"), "{error}");
    }
}

#[tokio::test]
async fn a_pipe_of_requests_gets_its_replies_and_nothing_else_on_stdout() {
    use tokio::io::AsyncWriteExt;
    let mut server = Process::spawn(command(SUBMIT, &[]));
    let requests = [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "pipe", "version": "0" } } }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call",
            "params": { "name": "submit", "arguments": { "answer": "17" } } }),
    ];
    let text: String = requests.iter().map(|request| format!("{request}\n")).collect();
    server.child.stdin.as_mut().unwrap().write_all(text.as_bytes()).await.unwrap();
    let (code, stdout, stderr) = server.end().await;
    assert_eq!(code, Some(0), "{stderr}");
    let replies: Vec<serde_json::Value> =
        stdout.lines().map(|line| serde_json::from_str(line).expect("stdout is JSON lines")).collect();
    assert_eq!(replies.len(), 2, "{stdout}");
    assert_eq!(replies[0]["result"]["protocolVersion"], "2025-06-18");
    assert_eq!(replies[0]["result"]["serverInfo"]["name"], "gaia-mcp-submit");
    assert_eq!(replies[1]["result"]["structuredContent"]["answer"], "17");
    assert_eq!(replies[1]["result"].get("resultType"), None, "an older client must not see newer fields");
}

#[tokio::test]
async fn a_wrong_command_line_is_exit_code_2() {
    for args in [&["--nonsense"][..], &["--http", "nonsense"], &["--stdio", "--http", "127.0.0.1:0"]] {
        let (code, stdout, stderr) = Process::spawn(command(SUBMIT, args)).end().await;
        assert_eq!(code, Some(2), "{args:?}: {stderr}");
        assert!(stdout.is_empty() && !stderr.is_empty(), "{args:?}");
    }
}
