use std::time::{Duration, Instant};

use gaia_agent::tools::{Protocol, StartError};
use serde_json::json;

use crate::support::*;

trials![
    a_server_that_dies_shows_its_stderr_and_no_secret,
    a_silent_server_is_given_up,
    a_server_that_never_lists_is_given_up,
    a_command_that_does_not_exist,
    all_pages_are_read,
    a_cursor_that_repeats_is_an_error,
    too_many_pages_are_an_error,
    clashing_names_and_the_answer_tool,
    an_allow_list_that_matches_nothing,
    allow_and_deny,
    unusable_tools_are_hidden_with_the_reason,
    a_modern_server_over_stdio,
    servers_start_side_by_side,
    a_server_that_is_not_required_is_missed,
    one_failure_closes_the_others,
    noise_before_the_handshake,
];

async fn a_server_that_dies_shows_its_stderr_and_no_secret() {
    let mut spec = peer("db", &["exit"]);
    env_of(&mut spec).insert("SECRET_KEY".to_owned(), "sk-12345".to_owned());
    let notices = Notices::default();
    let error = start_with(&[spec], &notices, None).await.unwrap_err();
    assert!(matches!(error, StartError::Failed { .. }));
    let text = error.to_string();
    assert_eq!(
        text,
        "failed to start MCP server `db`: exited with code 4 before it was ready; its stderr:\n  reading the \
         database\n  cannot open the database; the key is [redacted: SECRET_KEY]"
    );
    notices.wait_for("reading the database").await;
    assert!(!format!("{:?}{error:?}", notices.all()).contains("sk-12345"));
}

async fn a_silent_server_is_given_up() {
    let mut spec = peer("mute", &["silent"]);
    spec.startup_timeout = Duration::from_secs(2);
    let begin = Instant::now();
    let error = start(&[spec]).await.unwrap_err().to_string();
    assert!(
        error.contains("`mute`: no answer to its first request within 2 s (`startup_timeout_sec`)"),
        "{error}"
    );
    assert!(error.contains("ready in mode silent"), "{error}");
    assert!(begin.elapsed() < Duration::from_secs(9), "{:?}", begin.elapsed());
}

async fn a_server_that_never_lists_is_given_up() {
    let mut spec = peer("mute", &["silent-list"]);
    spec.startup_timeout = Duration::from_secs(2);
    let error = start(&[spec]).await.unwrap_err().to_string();
    assert!(error.contains("no complete list of tools within 2 s"), "{error}");
}

async fn a_command_that_does_not_exist() {
    let error = start(&[stdio("x", "no-such-server", Vec::new())]).await.unwrap_err();
    assert!(matches!(&error, StartError::NoProgram { server, .. } if server == "x"));
    let text = error.to_string();
    assert!(text.contains("`no-such-server` not found: neither beside this program in `/"), "{text}");
    assert!(text.contains("nor on PATH"), "{text}");
}

async fn all_pages_are_read() {
    let host = start(&[peer("x", &["pages", "5"])]).await.unwrap();
    assert_eq!(host.offered().len(), 15);
    assert_eq!(names(&host)[14], "tool_4_2");
    assert_eq!(host.definitions()[0].name, "tool_0_0");
    assert_eq!(host.definitions()[0].description, "does tool_0_0");
    host.close().await;
}

async fn a_cursor_that_repeats_is_an_error() {
    let error = start(&[peer("x", &["circle"])]).await.unwrap_err().to_string();
    assert!(error.contains("in a circle: the cursor `1` came twice"), "{error}");
}

async fn too_many_pages_are_an_error() {
    let error = start(&[peer("x", &["pages", "1000"])]).await.unwrap_err().to_string();
    assert!(error.contains("more than 100 pages"), "{error}");
}

async fn clashing_names_and_the_answer_tool() {
    let specs = [
        peer("evil", &["named", "submit", "bash", "search"]),
        peer("submit", &["named", "submit"]),
        peer("sandbox", &["named", "bash"]),
    ];
    let host = start_with(&specs, &Notices::default(), Some("submit/submit")).await.unwrap();
    assert_eq!(names(&host), ["evil__submit", "evil__bash", "search", "submit", "sandbox__bash"]);
    assert_eq!(host.find("submit").unwrap().canonical, "submit/submit");
    assert_eq!(host.find("evil/submit").unwrap().model_name, "evil__submit");
    assert!(host.find("bash").is_none(), "an ambiguous name is nobody's");
    host.close().await;
}

async fn an_allow_list_that_matches_nothing() {
    let mut spec = peer("x", &["named", "read_file", "write_file"]);
    spec.enabled_tools = Some(vec!["raed_file".to_owned()]);
    let error = start(&[spec]).await.unwrap_err();
    assert!(matches!(error, StartError::Config { .. }));
    assert_eq!(
        error.to_string(),
        "failed to start MCP server `x`: `raed_file` in its `enabled_tools` matches none of its tools; it has \
         `read_file`, `write_file`"
    );
}

async fn allow_and_deny() {
    let mut spec = peer("x", &["named", "read_file", "read_link", "write_file"]);
    spec.enabled_tools = Some(vec!["read_*".to_owned()]);
    spec.disabled_tools = vec!["read_link".to_owned()];
    let host = start(&[spec]).await.unwrap();
    assert_eq!(names(&host), ["read_file"]);
    let hidden: Vec<_> =
        host.hidden().iter().map(|tool| (tool.tool.as_str(), tool.reason.as_str())).collect();
    assert_eq!(hidden, [("read_link", "in `disabled_tools`"), ("write_file", "not in `enabled_tools`")]);
    assert!(host.find("x/write_file").is_none());
    host.close().await;
}

async fn unusable_tools_are_hidden_with_the_reason() {
    let host = start(&[peer("x", &["zoo"])]).await.unwrap();
    assert_eq!(names(&host), ["good", "bare"]);
    assert_eq!(host.definitions()[1].parameters, json!({ "type": "object", "properties": {} }));
    let reasons: Vec<_> =
        host.hidden().iter().map(|tool| format!("{}: {}", tool.tool, tool.reason)).collect();
    for expected in
        ["good: listed twice", ": it has no name", "no_schema: its input schema", "array: ", "broken: "]
    {
        assert!(reasons.iter().any(|reason| reason.contains(expected)), "{expected} in {reasons:?}");
    }
    host.close().await;
}

async fn a_modern_server_over_stdio() {
    for protocol in [Protocol::Auto, Protocol::Modern] {
        let mut spec = peer("x", &["modern"]);
        spec.protocol = protocol;
        let host = start(&[spec]).await.unwrap();
        assert_eq!(host.servers().next().unwrap().info().unwrap().protocol_version, "2026-07-28");
        assert_eq!(text(&call(&host, "echo", json!({ "text": "hi" })).await), "hi");
        host.close().await;
    }
    let mut spec = peer("x", &["modern"]);
    spec.protocol = Protocol::Legacy;
    let error = start(&[spec]).await.unwrap_err().to_string();
    assert!(
        error.contains("refused the handshake: only 2026-07-28 is spoken here (MCP error -32022)"),
        "{error}"
    );
}

async fn servers_start_side_by_side() {
    // Each server is ready only when all of them run: one after the other they would never be.
    let folder = tempfile::tempdir().unwrap();
    let script = format!(
        "touch {0}/$GAIA_SAMPLE_ID.$$; while [ $(ls {0} | wc -l) -lt 4 ]; do sleep 0.02; done; exec \"$@\"",
        folder.path().display()
    );
    let specs: Vec<_> =
        ["a", "b", "c", "d"].iter().map(|name| wrapped_peer(name, &script, &["named", name])).collect();
    let host = start(&specs).await.unwrap();
    assert_eq!(names(&host), ["a", "b", "c", "d"]);
    host.close().await;
}

async fn a_server_that_is_not_required_is_missed() {
    let mut broken = peer("broken", &["exit"]);
    broken.required = false;
    let notices = Notices::default();
    let host = start_with(&[broken, peer("x", &["named", "a"])], &notices, None).await.unwrap();
    assert_eq!(names(&host), ["a"]);
    assert_eq!((host.hidden()[0].server.as_str(), host.hidden()[0].tool.as_str()), ("broken", "*"));
    notices.wait_for("failed to start MCP server `broken`: exited with code 4").await;
    host.close().await;
}

async fn one_failure_closes_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let good = wrapped_peer("good", &format!("echo $$ > {}; exec \"$@\"", file.display()), &[]);
    let mut broken = peer("broken", &["silent-list"]);
    broken.startup_timeout = Duration::from_secs(3);
    let error = start(&[good, broken]).await.unwrap_err().to_string();
    assert!(error.contains("`broken`"), "{error}");
    let pid: u32 = fs_err::read_to_string(&file).unwrap().trim().parse().unwrap();
    gone(pid).await;
}

async fn noise_before_the_handshake() {
    let notices = Notices::default();
    let host = start_with(&[peer("x", &["chatty"])], &notices, None).await.unwrap();
    notices.wait_for("wrote to stdout what is not a message of the protocol: Welcome to the server!").await;
    notices.wait_for("listening").await;
    assert_eq!(text(&call(&host, "echo", json!({ "text": "hi" })).await), "hi");
    host.close().await;
}
