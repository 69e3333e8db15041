//! The engine, or somebody at its command line, takes a container away in the middle of a command. Whoever waits is
//! told within bounded time, and nothing stays.

use std::time::{Duration, Instant};

use gaia_sandbox::{Command, Engine, LabelFilter, Sandbox, SandboxError};

use crate::private_engine::PrivateEngine;
use crate::support::{PLENTY, RUN_LABEL, Run, engine, eventually, image, options, sandbox, text_of};

/// From the loss to the answer.
const LOSS_LIMIT: Duration = Duration::from_secs(10);

/// From the return of the engine to the last container gone.
const REMOVAL_LIMIT: Duration = Duration::from_secs(5);

/// What comes of a command that would run for minutes when something happens in its middle, and how long after.
async fn lose(
    sandbox: &Sandbox,
    timeout: Duration,
    loss: impl AsyncFnOnce(),
) -> (Result<gaia_sandbox::Output, SandboxError>, Duration) {
    sandbox.says("rm -f /workspace/begun; mkfifo /workspace/begun").await;
    let run = sandbox.command(Command::new("echo x >/workspace/begun; sleep 300", timeout));
    let lost = async {
        sandbox.says("cat /workspace/begun").await;
        loss().await;
        Instant::now()
    };
    let (result, since) = tokio::join!(run, lost);
    (result, since.elapsed())
}

fn docker(engine: &Engine) -> bollard::Docker {
    bollard::Docker::connect_with_host(engine.address()).unwrap()
}

#[tokio::test]
async fn a_container_killed_or_restarted_from_outside_is_dead_at_once() {
    let engine = engine().await;
    let docker = docker(&engine);
    for action in ["kill", "restart", "stop"] {
        let sandbox = sandbox().await;
        let id = sandbox.container_id().to_owned();
        let (result, took) = lose(&sandbox, Duration::from_secs(300), async || {
            let done = match action {
                "kill" => docker.kill_container(&id, None).await,
                "restart" => docker.restart_container(&id, None).await,
                _ => docker.stop_container(&id, None).await,
            };
            // Auto-removal may win the race against what comes after the kill.
            if let Err(error) = done {
                assert!(error.to_string().contains("container"), "{action}: {error}");
            }
        })
        .await;
        assert!(matches!(result, Err(SandboxError::Dead { .. })), "{action}: {result:?}");
        assert!(took < LOSS_LIMIT, "{action}: {took:?}");
        assert!(!sandbox.is_alive(), "{action}");
        sandbox.close().await.unwrap();
        let left = engine.list(&LabelFilter::default()).await.unwrap();
        assert!(left.iter().all(|container| container.id != id), "{action}");
    }
}

#[tokio::test]
async fn a_paused_container_is_dead_when_its_answer_is_overdue() {
    let engine = engine().await;
    let docker = docker(&engine);
    let sandbox = sandbox().await;
    let id = sandbox.container_id().to_owned();
    let limit = Duration::from_secs(1);
    let (result, took) = lose(&sandbox, limit, async || docker.pause_container(&id).await.unwrap()).await;
    assert!(
        matches!(&result, Err(SandboxError::Dead { reason, .. }) if reason.contains("stopped answering")),
        "{result:?}"
    );
    // Half a minute is what a very busy host is given.
    assert!(took < Duration::from_secs(45), "{took:?}");
    let error = sandbox.command(Command::new("true", PLENTY)).await.unwrap_err();
    assert!(matches!(error, SandboxError::Dead { .. }), "{error:?}");
    sandbox.close().await.unwrap();
}

#[tokio::test]
async fn an_engine_that_goes_away_is_an_error_and_leaves_nothing_when_it_is_back() {
    let source = engine().await;
    let image = image(&source).await;
    let mut private = PrivateEngine::start(&source, &image).await;
    let mut engine = Engine::connect_to(&private.address()).await.unwrap();
    let mut options = options(&source).await;
    options.image = image;
    let mine = LabelFilter { run: Some(RUN_LABEL.to_owned()), ..LabelFilter::default() };

    for signal in ["TERM", "KILL"] {
        let sandbox = Sandbox::start(&engine, &options).await.unwrap();
        let (result, took) = lose(&sandbox, Duration::from_secs(300), async || private.signal(signal)).await;
        assert!(matches!(result, Err(SandboxError::Dead { .. })), "{signal}: {result:?}");
        assert!(took < LOSS_LIMIT, "{signal}: {took:?}");
        private.wait();
        // With no engine there is nothing to start, and nothing to wait for.
        let started = Instant::now();
        let error = Sandbox::start(&engine, &options).await.unwrap_err();
        assert!(
            started.elapsed() < LOSS_LIMIT && matches!(error, SandboxError::Engine(_)),
            "{signal}: {error:?}"
        );
        assert!(sandbox.close().await.is_err(), "{signal}: nobody is there to remove it");

        engine = private.resume().await;
        eventually("nothing of ours runs", REMOVAL_LIMIT, async || {
            let left = engine.list(&mine).await.unwrap();
            left.iter().all(|container| container.state == "dead")
        })
        .await;
        // It leaves what it was just removing when it was killed to others.
        engine.reap().await.unwrap();
        assert_eq!(engine.list(&mine).await.unwrap(), [], "{signal}");
        let next = Sandbox::start(&engine, &options).await.unwrap();
        assert_eq!(next.says("echo ok").await, "ok", "{signal}");
        next.close().await.unwrap();
    }

    // An engine that is killed while it removes a container may leave the half of it, for somebody to finish.
    let sandbox = Sandbox::start(&engine, &options).await.unwrap();
    // As many files as take it a while.
    sandbox.says("mkdir /workspace/many && cd /workspace/many && seq 60000 | xargs touch").await;
    let closing = tokio::spawn(sandbox.close());
    eventually("the engine is removing it", REMOVAL_LIMIT, async || {
        let left = engine.list(&mine).await.unwrap();
        left.iter().any(|container| matches!(container.state.as_str(), "removing" | "dead"))
    })
    .await;
    private.signal("KILL");
    private.wait();
    let _ = closing.await.unwrap();
    engine = private.resume().await;
    engine.reap().await.unwrap();
    assert_eq!(engine.list(&mine).await.unwrap(), []);

    // The disk of this engine is small: all of it is taken, and then every inode.
    let sandbox = Sandbox::start(&engine, &options).await.unwrap();
    for (what, text) in [
        ("bytes", "head -c 3G /dev/zero >/workspace/fill"),
        (
            "inodes",
            "mkdir /workspace/many && cd /workspace/many && \
             python3 -c 'import os\nfor i in range(10**6): os.close(os.open(str(i), os.O_CREAT))'",
        ),
    ] {
        let output = sandbox.sh(text).await;
        let said = text_of(&output);
        assert!(output.exit_code != 0 && said.contains("No space left"), "{what}: {said}");
        let output = sandbox.sh("seq 100000; echo still o''k").await;
        assert!(output.exit_code == 0 && text_of(&output).ends_with("still ok\n"), "{what}: {output:?}");
        sandbox.says("cd /; rm -rf /workspace/fill /workspace/many").await;
    }
    sandbox.close().await.unwrap();
    private.signal("TERM");
    private.wait();
}
