//! Commands in the background, by handle.

use std::time::{Duration, Instant};

use gaia_sandbox::{Command, Input, SandboxError, TaskId, TaskState};

use crate::support::{LATENESS, PLENTY, Run, sandbox};

#[tokio::test]
async fn output_of_a_task_is_read_while_it_runs_and_after() {
    let sandbox = sandbox().await;
    sandbox.says("cd /tmp; mkfifo go; x=seen").await;
    let text = "echo first $x; read line <go; echo second; cd /; x=changed; exit 4";
    let id = sandbox.start_task(Command::new(text, PLENTY)).await.unwrap();
    let first = sandbox.task_output(id, 0, 1024, PLENTY).await.unwrap();
    assert_eq!((first.state, first.bytes.as_slice()), (TaskState::Running, b"first seen\n".as_slice()));
    // Nothing new: answers when the wait is over.
    let started = Instant::now();
    let nothing = sandbox.task_output(id, first.next_offset, 1024, Duration::from_millis(100)).await.unwrap();
    assert_eq!((nothing.state, nothing.bytes.len()), (TaskState::Running, 0));
    assert!(started.elapsed() < LATENESS);
    sandbox.says("echo >go").await;
    let mut said = Vec::new();
    let mut offset = first.next_offset;
    let output = loop {
        let piece = sandbox.task_output(id, offset, 4, PLENTY).await.unwrap();
        said.extend(&piece.bytes);
        offset = piece.next_offset;
        if let (TaskState::Ended(output), true) = (piece.state, piece.bytes.is_empty()) {
            break output;
        }
    };
    assert_eq!((said.as_slice(), output.exit_code), (b"second\n".as_slice(), 4));
    assert_eq!(sandbox.says("pwd; echo $x").await, "/tmp\nseen", "a task changes no state");
    let tasks = sandbox.tasks();
    assert_eq!((tasks.len(), tasks[0].id, tasks[0].text.as_str()), (1, id, text));
    assert_eq!(tasks[0].state, TaskState::Ended(output));
    sandbox.close().await.unwrap();
}

#[tokio::test]
async fn a_task_reads_what_is_written_to_it() {
    let sandbox = sandbox().await;
    let command = Command { input: Input::Open, ..Command::new("python3 -iq", PLENTY) };
    let id = sandbox.start_task(command).await.unwrap();
    sandbox.task_input(id, b"print(6 * 7)\n").await.unwrap();
    let mut said = String::new();
    let mut offset = 0;
    while !said.contains("42") {
        let piece = sandbox.task_output(id, offset, 1024, PLENTY).await.unwrap();
        assert_eq!(piece.state, TaskState::Running, "{said}");
        said.push_str(&String::from_utf8_lossy(&piece.bytes));
        offset = piece.next_offset;
    }
    sandbox.close_task_input(id).await.unwrap();
    while sandbox
        .task_output(id, offset, 1024, PLENTY)
        .await
        .map(|piece| {
            offset = piece.next_offset;
            piece.state
        })
        .unwrap()
        == TaskState::Running
    {}
    let error = sandbox.task_input(id, b"late").await.unwrap_err();
    assert!(
        matches!(error, SandboxError::Invalid { .. }) && error.to_string().contains("has ended"),
        "{error}"
    );
    sandbox.close().await.unwrap();
}

#[tokio::test]
async fn a_reader_that_does_not_read_is_not_waited_for() {
    let sandbox = sandbox().await;
    let command = Command { input: Input::Open, ..Command::new("sleep 300", PLENTY) };
    let id = sandbox.start_task(command).await.unwrap();
    let error = sandbox.task_input(id, &vec![b'x'; 10 << 20]).await.unwrap_err();
    assert!(error.to_string().contains("1 MiB"), "{error}");
    assert_eq!(sandbox.says("echo ok").await, "ok");
    sandbox.close().await.unwrap();
}

#[tokio::test]
async fn killing_a_task_kills_all_of_it_and_keeps_what_it_said() {
    let sandbox = sandbox().await;
    let text = "echo said; setsid sleep 300 & trap '' TERM; sleep 300; sleep 300";
    let id = sandbox.start_task(Command::new(text, PLENTY)).await.unwrap();
    sandbox.task_output(id, 0, 1024, PLENTY).await.unwrap();
    let output = sandbox.kill_task(id).await.unwrap();
    assert!(output.cancelled && output.processes_killed >= 2, "{output:?}");
    assert_eq!(output.head, b"said\n");
    assert_eq!(sandbox.says("pgrep -c sleep || true").await, "0");
    assert_eq!(sandbox.kill_task(id).await.unwrap(), output, "killing twice is harmless");
    let error = sandbox.kill_task(TaskId(9999)).await.unwrap_err();
    assert!(matches!(error, SandboxError::UnknownTask { id: TaskId(9999) }), "{error:?}");
    sandbox.close().await.unwrap();
}

#[tokio::test]
async fn the_time_limit_of_a_task_holds() {
    let sandbox = sandbox().await;
    let id = sandbox.start_task(Command::new("sleep 300", Duration::from_millis(300))).await.unwrap();
    let piece = sandbox.task_output(id, 0, 1024, PLENTY).await.unwrap();
    assert!(matches!(piece.state, TaskState::Ended(output) if output.timed_out));
    sandbox.close().await.unwrap();
}
