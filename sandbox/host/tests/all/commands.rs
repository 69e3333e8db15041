//! Exit codes, input, and what ordinary and malformed commands do.

use std::time::{Duration, Instant};

use gaia_sandbox::{Command, Input};
use tokio_util::sync::CancellationToken;

use crate::support::{PLENTY, Run, eventually, sandbox, text_of};

#[tokio::test]
async fn exit_codes_are_those_of_the_shell() {
    let sandbox = sandbox().await;
    for (text, exit_code, signal) in [
        ("true", 0, None),
        ("exit 7", 7, None),
        ("exit 256", 0, None),
        ("(exit 3)", 3, None),
        ("exec true", 0, None),
        ("exec sh -c 'exit 4'", 4, None),
        ("set -e; false; echo not reached", 1, None),
        ("set -u; echo $NOPE", 127, None),
        ("kill -9 $$", 137, Some(9)),
        ("kill -TERM $$", 143, Some(15)),
        ("bash -c 'kill -9 $$'", 137, None),
        ("bash -c 'kill -TERM $$'; exit $?", 143, None),
        ("nonexistent-program", 127, None),
        ("/etc/passwd", 126, None),
        ("false | true", 0, None),
        ("set -o pipefail; false | true", 1, None),
        ("set +o pipefail", 0, None),
        ("", 0, None),
        ("# only a comment", 0, None),
        ("\n\n\n", 0, None),
        ("trap 'echo bye' EXIT; exit 5", 5, None),
        ("return 3", 2, None),
        ("unset PATH; ls", 127, None),
    ] {
        let output = sandbox.sh(text).await;
        assert_eq!((output.exit_code, output.signal), (exit_code, signal), "`{text}`: {}", text_of(&output));
        assert!(!output.timed_out && !output.cancelled && !output.oom_killed, "`{text}`: {output:?}");
        sandbox.restart_shell().await.unwrap();
    }
    sandbox.close().await.unwrap();
}

#[tokio::test]
async fn malformed_text_is_an_error_of_the_shell_and_the_next_command_works() {
    let sandbox = sandbox().await;
    for (text, message) in [
        ("echo 'open", "unexpected EOF"),
        ("echo \"open", "unexpected EOF"),
        ("if true; then echo x", "unexpected end of file"),
        ("echo $(", "unexpected EOF"),
        (")", "unexpected token"),
    ] {
        let output = sandbox.sh(text).await;
        assert_ne!(output.exit_code, 0, "`{text}`");
        assert!(text_of(&output).contains(message), "`{text}` said: {}", text_of(&output));
        assert_eq!(sandbox.says("echo ok").await, "ok", "after `{text}`");
    }
    // These are accepted by bash, with or without a warning.
    assert_eq!(sandbox.sh("echo x \\").await.exit_code, 0);
    let heredoc = sandbox.sh("cat <<END\nbody\n").await;
    assert!(text_of(&heredoc).contains("body"), "{}", text_of(&heredoc));
    assert_eq!(sandbox.says("echo ok").await, "ok");
    sandbox.close().await.unwrap();
}

#[tokio::test]
async fn messages_name_the_line_of_the_command() {
    let sandbox = sandbox().await;
    let output = sandbox.sh("nonexistent-program").await;
    assert_eq!(text_of(&output), "bash: line 1: nonexistent-program: command not found\n");
    let output = sandbox.sh("true\n\nnonexistent-program").await;
    assert_eq!(text_of(&output), "bash: line 3: nonexistent-program: command not found\n");
    sandbox.close().await.unwrap();
}

#[tokio::test]
async fn readers_of_standard_input_get_its_end_at_once() {
    let sandbox = sandbox().await;
    for text in ["cat", "read line; true", "python3 -c 'import sys; sys.stdin.read()'", "head -c 20", "sort"]
    {
        let output = sandbox.within(text, Duration::from_secs(10)).await;
        assert_eq!((output.exit_code, output.timed_out), (0, false), "`{text}`: {}", text_of(&output));
    }
    let output = sandbox.sh("python3 -c 'input()'").await;
    assert!(text_of(&output).contains("EOFError"), "{}", text_of(&output));
    sandbox.close().await.unwrap();
}

#[tokio::test]
async fn standard_input_is_given_whole() {
    let sandbox = sandbox().await;
    let lines = "line\n".repeat(1_000_000).into_bytes();
    for (text, expected) in [("wc -c", "5000000"), ("read first; cat | wc -l", "999999"), ("true", "")] {
        let command = Command { input: Input::Bytes(lines.clone()), ..Command::new(text, PLENTY) };
        let output = sandbox.command(command).await.unwrap();
        assert_eq!((output.exit_code, text_of(&output).trim()), (0, expected), "`{text}`");
    }
    sandbox.close().await.unwrap();
}

#[tokio::test]
async fn long_texts_run_and_impossible_ones_are_refused() {
    let sandbox = sandbox().await;
    // Above the kernel's limit for one argument (128 KiB) and above one frame (1 MiB).
    let long = format!("x='{}'; echo ${{#x}}", "y".repeat(2_000_000));
    assert_eq!(sandbox.says(&long).await, "2000000");
    let refused = sandbox.command(Command::new("echo a\0b", PLENTY)).await.unwrap_err();
    assert!(refused.to_string().contains("NUL"), "{refused}");
    let refused = sandbox.command(Command::new("x".repeat(17 << 20), PLENTY)).await.unwrap_err();
    assert!(refused.to_string().contains("16 MiB"), "{refused}");
    assert_eq!(sandbox.says("echo 'tab\there' ünïcödé -x").await, "tab\there ünïcödé -x");
    sandbox.close().await.unwrap();
}

#[tokio::test]
async fn fifty_commands_at_once_all_answer() {
    let sandbox = sandbox().await;
    let runs = (0..50).map(|index| {
        let sandbox = &sandbox;
        async move { (index, sandbox.says(&format!("echo {index}")).await) }
    });
    for (index, said) in futures_util::future::join_all(runs).await {
        assert_eq!(said, index.to_string());
    }
    sandbox.close().await.unwrap();
}

#[tokio::test]
async fn progress_is_told_while_a_command_runs() {
    let sandbox = sandbox().await;
    let (progress_to, mut progress) = tokio::sync::mpsc::unbounded_channel();
    let command = Command::new("echo 'step one'; mkfifo /tmp/go; read line </tmp/go; echo $line", PLENTY);
    let cancel = CancellationToken::new();
    let run = sandbox.run(command, move |told| drop(progress_to.send(told)), &cancel);
    let release = async {
        let told = progress.recv().await.unwrap();
        assert_eq!((told.last_line.as_str(), told.total_bytes, told.total_lines), ("step one", 9, 1));
        sandbox.says("echo done >/tmp/go").await;
    };
    let (output, ()) = tokio::join!(run, release);
    assert_eq!(text_of(&output.unwrap()), "step one\ndone\n");
    sandbox.close().await.unwrap();
}

#[tokio::test]
async fn a_background_job_that_holds_the_pipe_does_not_delay_the_answer() {
    let sandbox = sandbox().await;
    sandbox.says("true").await;
    for text in
        ["sleep 300 & echo started", "nohup sleep 300 & disown; echo started", "(sleep 300 &) ; echo started"]
    {
        let started = Instant::now();
        let output = sandbox.sh(text).await;
        assert!(started.elapsed() < Duration::from_secs(5), "`{text}` took {:?}", started.elapsed());
        assert!(text_of(&output).ends_with("started\n"), "{}", text_of(&output));
        assert_eq!(output.background.len(), 1, "`{text}`: {output:?}");
    }
    // The last one may still be on its way to becoming `sleep`.
    eventually("all three go on", PLENTY, async || sandbox.says("pgrep -c sleep || true").await == "3").await;
    sandbox.close().await.unwrap();
}
