//! What a model sees of its shell. These tests need Docker and fail without it.

use std::sync::{Arc, Mutex};

use rmcp::ClientHandler;
use rmcp::RoleClient;
use rmcp::model::ProgressNotificationParam;
use rmcp::service::NotificationContext;
use serde_json::{Value, json};

use crate::support::{
    BASH, CONTAINER_ID, Client, ERAS, Era, Process, command, fact, image, stdio, stdio_of, text,
};

async fn shell(args: &[&str]) -> (Process, Client) {
    let image = image();
    stdio(BASH, &[&["--image", &image], args].concat(), Era::Legacy).await
}

/// Output and status line of a command.
async fn run(client: &Client, command: &str) -> (String, String) {
    let result = client.call("bash", json!({ "command": command })).await;
    assert_eq!(result.is_error, Some(false), "{}", text(&result));
    let (output, status) = text(&result).rsplit_once('\n').expect("a status line follows the output");
    assert!(status.starts_with('[') && status.ends_with(']'), "{status}");
    (output.to_owned(), status.to_owned())
}

#[tokio::test]
async fn exit_codes_and_signals_are_normal_results() {
    let (_server, client) = shell(&[]).await;
    for (command, exit_code, status) in [
        ("true", 0, "[exit 0 · "),
        ("false", 1, "[exit 1 · "),
        ("exit 7", 7, "[exit 7 · "),
        ("exec true", 0, "[exit 0 · "),
        ("nonexistent-program", 127, "[exit 127 · "),
        ("kill -9 $$", 137, "[exit 137 (SIGKILL) · "),
        ("sh -c 'kill -11 $$'", 139, "[exit 139 (SIGSEGV) · "),
        ("set -e; false; echo not here", 1, "[exit 1 · "),
    ] {
        let result = client.call("bash", json!({ "command": command })).await;
        assert_eq!(result.is_error, Some(false), "{command}");
        assert_eq!(fact(&result, "exit_code"), exit_code, "{command}");
        // Some hosts show a model only the structured content.
        assert_eq!(fact(&result, "output"), text(&result), "{command}");
        let last = text(&result).lines().last().unwrap();
        assert!(last.starts_with(status) && last.ends_with(" · cwd /workspace]"), "{command}: {last}");
    }
    client.close().await;
}

#[tokio::test]
async fn both_streams_come_in_order_and_clean() {
    let (_server, client) = shell(&[]).await;
    let interleaved = "for i in 1 2 3; do echo out $i; echo err $i >&2; done";
    assert_eq!(run(&client, interleaved).await.0, "out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3");
    assert_eq!(run(&client, r"printf '\033[31mred\033[0m 10%%\r99%%\n'").await.0, "99%");
    assert_eq!(run(&client, r"printf 'caf\351'").await.0, "caf\u{FFFD}");
    assert_eq!(run(&client, "true").await.0, "(no output)");
    let (binary, _) = run(&client, "head -c 5000 /dev/urandom").await;
    assert!(binary.starts_with("[binary, 5 000 bytes, "), "{binary}");
    client.close().await;
}

#[tokio::test]
async fn state_persists_between_calls_until_a_restart() {
    for era in ERAS {
        let image = image();
        let (_server, client) = stdio(BASH, &["--image", &image], era).await;
        let setup =
            "mkdir -p /tmp/a && cd /tmp/a && export FRUIT=pear && greet() { echo \"hi $1\"; } && touch here";
        assert!(run(&client, setup).await.1.ends_with("cwd /tmp/a]"));
        assert_eq!(run(&client, "pwd; echo $FRUIT; greet you").await.0, "/tmp/a\npear\nhi you");

        let result = client.call("bash", json!({ "command": "", "restart": true })).await;
        assert!(text(&result).starts_with("[shell restarted;"), "{}", text(&result));
        assert_eq!(run(&client, "pwd; echo \"<$FRUIT>\"; ls /tmp/a").await.0, "/workspace\n<>\nhere");

        let result = client.call("bash", json!({ "command": "echo fresh", "restart": true })).await;
        assert!(text(&result).starts_with("fresh\n"));
        client.close().await;
    }
}

#[tokio::test]
async fn input_is_empty_unless_given() {
    let (_server, client) = shell(&[]).await;
    assert_eq!(run(&client, "cat; read x; echo \"read: $?\"").await.0, "read: 1");
    let result = client.call("bash", json!({ "command": "wc -c", "stdin": "12345" })).await;
    assert!(text(&result).starts_with("5\n"), "{}", text(&result));
    client.close().await;
}

#[tokio::test]
async fn a_timeout_kills_the_whole_tree_and_keeps_the_output() {
    let (_server, client) = shell(&[]).await;
    let command = "echo before; setsid sleep 4001 & (trap '' TERM; sleep 4002) & sleep 4003";
    let result = client.call("bash", json!({ "command": command, "timeout": 1 })).await;
    assert_eq!(result.is_error, Some(false));
    assert_eq!(fact(&result, "timed_out"), true);
    let text = text(&result);
    assert!(text.starts_with("before\n[timed out after 1 s; "), "{text}");
    assert!(text.ends_with("partial output above; use run_in_background or a larger timeout]"), "{text}");
    let (left, _) =
        run(&client, "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -c 'sleep 400[123]'").await;
    assert_eq!(left, "0");
    client.close().await;
}

#[tokio::test]
async fn long_output_is_cut_in_the_middle_and_kept_in_a_file() {
    let (_server, client) = shell(&[]).await;
    let result = client.call("bash", json!({ "command": "seq 1 1000000" })).await;
    let text = text(&result).to_owned();
    assert!(text.starts_with("1\n2\n3\n"));
    assert!(text.len() <= 16 * 1024, "{}", text.len());
    assert_eq!(fact(&result, "truncated"), true);
    assert_eq!(fact(&result, "total_bytes"), 6_888_896);
    let path = fact(&result, "output_path").as_str().unwrap().to_owned();
    let omission = text.lines().find(|line| line.starts_with("… ")).expect("a line says what is missing");
    assert!(
        omission.contains(&format!(" omitted; full output: {path} – page it with sed -n …")),
        "{omission}"
    );
    // The two ends and what is said to be missing make up the whole.
    let shown: Vec<&str> = text.lines().filter(|line| line.parse::<u32>().is_ok()).collect();
    assert_eq!(shown.last(), Some(&"1000000"));
    let lines = omission.split(['(', ')']).nth(1).unwrap().trim_end_matches(" lines").replace(' ', "");
    assert_eq!(lines.parse::<usize>().unwrap() + shown.len(), 1_000_000);
    assert_eq!(
        run(&client, &format!("sed -n '500000,500001p' {path}; wc -l < {path}")).await.0,
        "500000\n500001\n1000000"
    );
    client.close().await;
}

#[tokio::test]
async fn wrong_arguments_are_named_and_nothing_runs() {
    let (_server, client) = shell(&[]).await;
    let range = "`timeout` must be a whole number of seconds from 1 to 600, not ";
    for (arguments, expected) in [
        (json!({ "command": "touch /tmp/ran", "timeout": 601 }), format!("{range}601")),
        (json!({ "command": "touch /tmp/ran", "timeout": 0 }), format!("{range}0")),
        (json!({ "command": "touch /tmp/ran", "timeout": "10" }), format!("{range}the string \"10\"")),
        (
            json!({ "command": "touch /tmp/ran", "timeout_ms": 5 }),
            "unknown argument `timeout_ms`; this tool takes: command, timeout, run_in_background, stdin, restart".to_owned(),
        ),
        (json!({ "command": ["touch", "/tmp/ran"] }), "`command` must be a string, not an array".to_owned()),
        (json!({}), "`command` is missing; it is a string".to_owned()),
        (
            json!({ "command": "" }),
            "`command` is empty; give a shell command, or set `restart` for a fresh shell".to_owned(),
        ),
    ] {
        let result = client.call("bash", arguments).await;
        assert_eq!(result.is_error, Some(true));
        assert_eq!(text(&result), expected);
    }
    assert_eq!(run(&client, "ls /tmp/ran 2>/dev/null | wc -l").await.0, "0");
    client.close().await;
}

#[tokio::test]
async fn a_cancelled_call_ends_in_the_container_too() {
    for era in ERAS {
        let image = image();
        let (_server, client) = stdio(BASH, &["--image", &image], era).await;
        run(&client, "mkfifo /tmp/started").await;
        let call = client.try_call("bash", json!({ "command": "echo x > /tmp/started; sleep 4004" }));
        let started = client.try_call("bash", json!({ "command": "cat /tmp/started" }));
        tokio::select! {
            result = call => panic!("{era:?}: it was to be cancelled: {result:?}"),
            result = started => assert!(result.is_ok(), "{era:?}"),
        }
        // The future was dropped, which sends the cancel.
        let gone = "for i in $(seq 100); do grep -lz '^4004' /proc/[0-9]*/cmdline >/dev/null 2>&1 || break; sleep 0.1; done; \
                    grep -lz '^4004' /proc/[0-9]*/cmdline 2>/dev/null | wc -l";
        assert_eq!(run(&client, gone).await.0, "0", "{era:?}");
        client.close().await;
    }
}

#[tokio::test]
async fn the_description_names_the_attachments_which_can_be_read_only() {
    let files = tempfile::tempdir().unwrap();
    fs_err::write(files.path().join("data set.csv"), "a,b\n1,2\n").unwrap();
    let image = image();
    let mut command = command(BASH, &["--image", &image]);
    command.env("GAIA_FILES_DIR", files.path());
    let (_server, client) = stdio_of(command, Era::Modern, ()).await;
    let tools = client.tools().await;
    let description = tools.iter().find(|tool| tool.name == "bash").unwrap().description.clone().unwrap();
    for part in ["/shared_files/data set.csv", "There is no network", "2 GiB of memory", "120 s", &image] {
        assert!(description.contains(part), "{part}: {description}");
    }
    assert_eq!(
        tools.iter().find(|tool| tool.name == "bash").unwrap().annotations.as_ref().unwrap().open_world_hint,
        Some(false)
    );
    assert_eq!(run(&client, "cat '/shared_files/data set.csv'").await.0, "a,b\n1,2");
    let (_, status) = run(&client, "echo x >> '/shared_files/data set.csv'").await;
    assert!(status.starts_with("[exit 1"), "{status}");
    client.close().await;
}

#[derive(Clone, Default)]
struct Listener(Arc<Mutex<Vec<ProgressNotificationParam>>>);

impl ClientHandler for Listener {
    async fn on_progress(
        &self,
        progress: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        self.0.lock().unwrap().push(progress);
    }
}

#[tokio::test]
async fn a_long_call_sends_progress() {
    for era in ERAS {
        let listener = Listener::default();
        let image = image();
        let (_server, client) = stdio_of(command(BASH, &["--image", &image]), era, listener.clone()).await;
        client.call("bash", json!({ "command": "echo working hard; sleep 6" })).await;
        let heard = listener.0.lock().unwrap().clone();
        assert!(!heard.is_empty(), "{era:?}");
        let message = heard[0].message.as_deref().unwrap_or_default();
        assert!(message.starts_with("running for 5 s: ") && message.contains("working hard"), "{message}");
        client.close().await;
    }
}

#[tokio::test]
async fn a_dead_container_is_replaced_and_the_model_told() {
    let (_server, client) = shell(&[]).await;
    let (container, _) = run(&client, &format!("touch /workspace/kept; {CONTAINER_ID}")).await;
    let removed = std::process::Command::new("docker").args(["rm", "--force", &container]).output().unwrap();
    assert!(removed.status.success(), "{removed:?}");
    let mut result = client.call("bash", json!({ "command": "ls /workspace/kept" })).await;
    if result.is_error == Some(true) {
        // The call met the container at its end.
        assert!(text(&result).contains("is gone"), "{}", text(&result));
        result = client.call("bash", json!({ "command": "ls /workspace/kept" })).await;
    }
    assert!(text(&result).starts_with("sandbox was reset: "), "{}", text(&result));
    assert_eq!(fact(&result, "sandbox_reset"), true);
    assert_ne!(fact(&result, "exit_code"), &Value::from(0));
    let result = client.call("bash", json!({ "command": "true" })).await;
    assert_eq!(fact(&result, "sandbox_reset"), false, "it is told once");
    client.close().await;
}

#[tokio::test]
async fn files_are_written_and_read_by_lines() {
    let (_server, client) = shell(&[]).await;
    let content = "it's \"quoted\" $HOME\nsecond\n";
    let written = client.call("write_file", json!({ "path": "notes/a b.txt", "content": content })).await;
    assert!(text(&written).starts_with("[wrote "), "{}", text(&written));
    client
        .call(
            "write_file",
            json!({ "path": "/workspace/notes/a b.txt", "content": "third\n", "append": true }),
        )
        .await;
    assert_eq!(run(&client, "cat 'notes/a b.txt'").await.0, format!("{content}third"));
    let read = client.call("read_file", json!({ "path": "notes/a b.txt", "offset": 2, "limit": 1 })).await;
    assert!(text(&read).starts_with("second\n[lines 2 to 2 · "), "{}", text(&read));
    assert_eq!(fact(&read, "output"), text(&read));
    assert_eq!(fact(&read, "end_of_file"), false);
    let read = client.call("read_file", json!({ "path": "notes/a b.txt" })).await;
    assert_eq!((fact(&read, "last_line"), fact(&read, "end_of_file")), (&Value::from(3), &Value::from(true)));
    let absent = client.call("read_file", json!({ "path": "/nowhere" })).await;
    assert_eq!(absent.is_error, Some(true));
    assert!(text(&absent).contains("failed to read `/nowhere`: no such file"), "{}", text(&absent));
    client.close().await;
}
