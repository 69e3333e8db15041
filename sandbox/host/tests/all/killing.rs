//! Time limits, cancellation, and commands that fight back.

use std::time::{Duration, Instant};

use gaia_sandbox::{Command, Sandbox};
use tokio_util::sync::CancellationToken;

use crate::support::{LATENESS, PLENTY, Run, eventually, sandbox, text_of};

const LIMIT: Duration = Duration::from_secs(2);

/// Processes beside PID 1, the runner and shell that count them, and those that wait for the next command.
async fn stray_processes(sandbox: &Sandbox) -> String {
    sandbox.says("ps -eo comm= | grep -E 'sleep|yes|python|cat' || true").await
}

#[tokio::test]
async fn a_time_limit_ends_everything_however_it_hides() {
    let sandbox = sandbox().await;
    for text in [
        "sleep 300",
        "trap '' TERM INT HUP; sleep 300; sleep 300",
        "setsid sleep 300 & setsid setsid sleep 300 & sleep 300",
        "( ( setsid bash -c 'trap \"\" TERM; sleep 300; sleep 300' & ) & ) ; sleep 300",
        "( ( ( env -i setsid sleep 300 >/dev/null 2>&1 </dev/null & ) & ) & ) ; sleep 300",
        "python3 -c 'import os,time\nos.chdir(\"/\")\nif os.fork(): time.sleep(300)\nos.setsid()\nif os.fork(): os._exit(0)\nos.closerange(0, 256)\nos.execvp(\"sleep\", [\"sleep\", \"300\"])'",
        "for i in $(seq 200); do sleep 300 & done; wait",
        "sleep 300 | cat",
    ] {
        let output = sandbox.within(text, LIMIT).await;
        assert!(output.timed_out, "`{text}`: {output:?}");
        assert!(output.processes_killed > 0, "`{text}`");
        assert_eq!(stray_processes(&sandbox).await, "", "after `{text}`");
    }
    sandbox.close().await.unwrap();
}

#[tokio::test]
async fn a_cooperative_command_need_not_wait_for_the_grace_period() {
    let sandbox = sandbox().await;
    sandbox.says("true").await;
    let output = sandbox.within("echo before; sleep 300", Duration::from_millis(200)).await;
    assert!(output.timed_out);
    assert_eq!(text_of(&output), "before\n", "what it said before is kept");
    assert!(output.duration < Duration::from_millis(650), "{:?}", output.duration);
    sandbox.close().await.unwrap();
}

#[tokio::test]
async fn a_time_limit_spares_other_commands() {
    let sandbox = sandbox().await;
    let slow = sandbox.within("trap '' TERM; sleep 300", LIMIT);
    let other = sandbox.sh("sleep 3; echo survived");
    let (slow, other) = tokio::join!(slow, other);
    assert!(slow.timed_out);
    assert_eq!((other.exit_code, text_of(&other).as_str()), (0, "survived\n"));
    sandbox.close().await.unwrap();
}

#[tokio::test]
async fn signals_to_everything_and_to_pid_1_do_not_end_the_sandbox() {
    let sandbox = sandbox().await;
    for text in [
        "kill 1; echo alive",
        "kill -9 1; echo alive",
        "kill -STOP 1; echo alive",
        "kill -INT 1; kill -HUP 1; echo alive",
    ] {
        assert_eq!(sandbox.says(text).await, "alive", "`{text}`");
    }
    // The shell itself is spared by kill(2), its runner is not.
    assert_eq!(sandbox.says("kill -9 -1; echo alive").await, "alive");
    assert_eq!(sandbox.says("kill -9 $PPID; echo alive").await, "alive");
    assert_eq!(sandbox.says("kill -STOP $PPID; echo alive").await, "alive");
    assert_eq!(sandbox.sh("kill -9 $PPID; exit 9").await.exit_code, 9);
    assert_eq!(sandbox.sh("pkill -9 bash; exit 9").await.exit_code, 137);
    assert_eq!(sandbox.says("echo ok").await, "ok");
    let output = sandbox.within("kill -9 $PPID; setsid sleep 300 & sleep 300", LIMIT).await;
    assert!(output.timed_out);
    assert_eq!(stray_processes(&sandbox).await, "");
    sandbox.close().await.unwrap();
}

#[tokio::test]
async fn fork_bombs_end_with_their_time_limit_and_the_next_command_works() {
    let sandbox = sandbox().await;
    for text in [":(){ :|:& };:; sleep 300", "f() { trap '' TERM; f & f & sleep 300; }; f"] {
        let output = sandbox.within(text, LIMIT).await;
        assert!(output.timed_out, "`{text}`: {output:?}");
        assert_eq!(sandbox.says("echo ok").await, "ok", "after `{text}`");
    }
    // Left in the background, it eats every process the next command would need.
    sandbox.within("(:(){ :|:& };:) >/dev/null 2>&1 & sleep 1", PLENTY).await;
    let output = sandbox.within("echo ok", PLENTY).await;
    assert_eq!(text_of(&output), "ok\n", "{output:?}");
    // A bomb that has not reached the limit yet may do so in the middle of a command: that one says so, in words, and a
    // later one has the bomb removed.
    eventually("the bomb is gone", PLENTY, async || {
        let output = sandbox.sh("ps -e | wc -l").await;
        assert!(
            output.exit_code == 0 || text_of(&output).contains("Resource temporarily unavailable"),
            "{output:?}"
        );
        output.exit_code == 0 && text_of(&output).trim().parse::<u32>().is_ok_and(|count| count < 20)
    })
    .await;
    sandbox.close().await.unwrap();
}

#[tokio::test]
async fn cancelling_ends_the_command_with_what_it_started() {
    let sandbox = sandbox().await;
    let cancel = CancellationToken::new();
    let command = Command::new("echo begun; setsid sleep 300 & sleep 300", PLENTY);
    let canceller = cancel.clone();
    let output = sandbox.run(command, move |_| canceller.cancel(), &cancel).await.unwrap();
    assert!(output.cancelled && !output.timed_out, "{output:?}");
    assert_eq!(text_of(&output), "begun\n");
    assert_eq!(stray_processes(&sandbox).await, "");
    // Before it has begun.
    let started = Instant::now();
    let output = sandbox.run(Command::new("sleep 300", PLENTY), |_| {}, &cancel).await.unwrap();
    assert!(output.cancelled && started.elapsed() < LATENESS, "{output:?}");
    sandbox.close().await.unwrap();
}

#[tokio::test]
async fn a_caller_that_goes_away_takes_its_command_with_it() {
    let sandbox = sandbox().await;
    sandbox.says("mkfifo /tmp/begun").await;
    {
        let run = sandbox.sh("echo x >/tmp/begun; sleep 300");
        let begun = sandbox.says("cat /tmp/begun");
        tokio::select! {
            _ = run => panic!("it cannot have ended"),
            _ = begun => {}
        }
    }
    eventually("it is killed", LATENESS, async || stray_processes(&sandbox).await.is_empty()).await;
    sandbox.close().await.unwrap();
}

#[tokio::test]
async fn memory_hogs_are_killed_and_told() {
    let sandbox = sandbox().await;
    let output = sandbox.sh("python3 -c 'x = bytearray(4 << 30)'").await;
    assert!(output.oom_killed, "{output:?}");
    assert_eq!(output.exit_code, 137);
    let output = sandbox.sh("echo ok").await;
    assert_eq!((text_of(&output).as_str(), output.oom_killed), ("ok\n", false));
    sandbox.close().await.unwrap();
}
