//! From start to removal, in order and out of order.

use std::collections::{BTreeSet, HashMap};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Stdio};
use std::time::Duration;

use gaia_sandbox::{Command, Engine, EngineError, LabelFilter, Sandbox, SandboxError};

use crate::support::{PLENTY, RUN_LABEL, Run, engine, eventually, image, options, sandbox};

/// From the owner's death to the container's end.
const ORPHAN_LIMIT: Duration = Duration::from_secs(5);

async fn is_present(engine: &Engine, id: &str) -> bool {
    engine.list(&LabelFilter::default()).await.unwrap().iter().any(|container| container.id == id)
}

#[tokio::test]
async fn closing_removes_the_container_before_it_returns() {
    let engine = engine().await;
    let sandbox = sandbox().await;
    let id = sandbox.container_id().to_owned();
    sandbox.says("trap '' TERM HUP; setsid sleep 300 & true").await;
    assert!(is_present(&engine, &id).await);
    sandbox.close().await.unwrap();
    assert!(!is_present(&engine, &id).await);
}

#[tokio::test]
async fn dropping_removes_the_container_soon() {
    let engine = engine().await;
    let sandbox = sandbox().await;
    let id = sandbox.container_id().to_owned();
    drop(sandbox);
    eventually("it is removed", PLENTY, async || !is_present(&engine, &id).await).await;
}

#[tokio::test]
async fn a_start_nobody_waits_for_leaves_nothing_behind() {
    let engine = engine().await;
    let mut options = options(&engine).await;
    options.labels.sample = Some(format!("abandoned-{}", std::process::id()));
    let filter = LabelFilter { sample: options.labels.sample.clone(), ..LabelFilter::default() };
    tokio::select! {
        _ = Sandbox::start(&engine, &options) => panic!("it cannot be ready yet"),
        () = eventually("it is created", PLENTY, async || !engine.list(&filter).await.unwrap().is_empty()) => {}
    }
    eventually("it is removed", PLENTY, async || engine.list(&filter).await.unwrap().is_empty()).await;
}

#[tokio::test]
async fn labels_find_a_container() {
    let engine = engine().await;
    let mut options = options(&engine).await;
    options.labels.sample = Some(format!("labelled-{}", std::process::id()));
    let sandbox = Sandbox::start(&engine, &options).await.unwrap();
    let filter = LabelFilter { run: Some(RUN_LABEL.to_owned()), sample: options.labels.sample.clone() };
    let found = engine.list(&filter).await.unwrap();
    assert_eq!(
        found.iter().map(|container| container.id.as_str()).collect::<Vec<_>>(),
        [sandbox.container_id()]
    );
    assert_eq!((found[0].owner_alive, found[0].state.as_str()), (Some(true), "running"));
    for label in ["gaia.owner", "gaia.created", "gaia.version"] {
        assert!(found[0].labels.contains_key(label), "{label}");
    }
    sandbox.close().await.unwrap();
}

#[tokio::test]
async fn a_container_removed_from_outside_is_an_error_not_a_hang() {
    let engine = engine().await;
    let sandbox = sandbox().await;
    sandbox.says("mkfifo /tmp/begun").await;
    let run = sandbox.command(Command::new("echo x >/tmp/begun; sleep 300", Duration::from_secs(300)));
    let remove = async {
        sandbox.says("cat /tmp/begun").await;
        engine.remove(sandbox.container_id()).await.unwrap();
    };
    let (result, ()) = tokio::join!(run, remove);
    assert!(matches!(result, Err(SandboxError::Dead { .. })), "{result:?}");
    assert!(!sandbox.is_alive());
    let error = sandbox.command(Command::new("true", PLENTY)).await.unwrap_err();
    assert!(matches!(error, SandboxError::Dead { .. }), "{error:?}");
    sandbox.close().await.unwrap();
}

#[tokio::test]
async fn an_absent_image_says_how_to_get_it() {
    let engine = engine().await;
    let mut options = options(&engine).await;
    options.image = "gaia-no-such-image:none".to_owned();
    let error = Sandbox::start(&engine, &options).await.unwrap_err();
    assert!(matches!(error, SandboxError::Engine(EngineError::ImageAbsent { .. })), "{error:?}");
    for hint in ["docker pull gaia-no-such-image:none", "make image", "--image"] {
        assert!(error.to_string().contains(hint), "{error}");
    }
    let error = engine.image("gaia-no-such-image:none").await.unwrap_err();
    assert!(matches!(error, EngineError::ImageAbsent { .. }), "{error:?}");
    let info = engine.image(&image(&engine).await).await.unwrap();
    assert!(info.id.starts_with("sha256:") && info.size_bytes > 1 << 20, "{info:?}");
}

#[tokio::test]
async fn an_unknown_runtime_is_an_error_and_leaves_nothing_behind() {
    let engine = engine().await;
    let mut options = options(&engine).await;
    options.runtime = Some("no-such-runtime".to_owned());
    options.labels.sample = Some(format!("runtime-{}", std::process::id()));
    let filter = LabelFilter { sample: options.labels.sample.clone(), ..LabelFilter::default() };
    let error = Sandbox::start(&engine, &options).await.unwrap_err();
    assert!(error.to_string().contains("no-such-runtime"), "{error}");
    assert_eq!(engine.list(&filter).await.unwrap(), []);
}

/// Another process that owns a sandbox: this test program, told to run `owner_process` only.
struct OwnerProcess {
    child: Child,
    container: String,
    /// Kept open, or the other process could not print its test result.
    _output: BufReader<ChildStdout>,
}

impl OwnerProcess {
    fn start() -> Self {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "lifecycle::owner_process", "--nocapture"])
            .env("GAIA_TEST_OWNER", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let container = output
            .by_ref()
            .lines()
            .find_map(|line| line.unwrap().split_once("container=").map(|(_, id)| id.to_owned()))
            .expect("the other process says which container it owns");
        Self { child, container, _output: output }
    }
}

/// Not a test by itself: what [`OwnerProcess`] runs. It holds a sandbox, full of processes that resist, until it is
/// killed or its standard input closes.
#[tokio::test]
async fn owner_process() {
    if std::env::var_os("GAIA_TEST_OWNER").is_none() {
        return;
    }
    let sandbox = sandbox().await;
    sandbox
        .says("for i in 1 2 3; do setsid bash -c 'trap \"\" TERM HUP INT; sleep 300; sleep 300' & done")
        .await;
    println!("container={}", sandbox.container_id());
    tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new())).await.unwrap().unwrap();
    sandbox.close().await.unwrap();
}

#[tokio::test]
async fn a_container_ends_with_its_killed_owner_and_others_stay() {
    let engine = engine().await;
    let other = sandbox().await;
    let mut owner = OwnerProcess::start();
    assert!(is_present(&engine, &owner.container).await);
    owner.child.kill().unwrap();
    owner.child.wait().unwrap();
    eventually("the orphan is gone", ORPHAN_LIMIT, async || !is_present(&engine, &owner.container).await)
        .await;
    assert_eq!(other.says("echo alive").await, "alive");
    other.close().await.unwrap();
}

#[tokio::test]
async fn the_reaper_removes_what_dead_owners_left_and_nothing_else() {
    let engine = engine().await;
    let mine = sandbox().await;
    let mut living = OwnerProcess::start();
    let dead = create_without_start(&engine).await;
    let reaped = engine.reap().await.unwrap();
    assert!(reaped.removed.contains(&dead), "{reaped:?}");
    let kept = BTreeSet::from([mine.container_id(), living.container.as_str()]);
    assert!(reaped.removed.iter().all(|id| !kept.contains(id.as_str())), "{reaped:?}");
    assert!(!is_present(&engine, &dead).await);
    for id in kept {
        assert!(is_present(&engine, id).await);
    }
    mine.close().await.unwrap();
    drop(living.child.stdin.take());
    assert!(living.child.wait().unwrap().success());
}

/// What a process leaves that dies between creating and starting: nothing but the reaper can end it. Labelled with a
/// process of this boot that has ended.
async fn create_without_start(engine: &Engine) -> String {
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let pid = child.id();
    child.wait().unwrap();
    let boot = fs_err::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let namespace = fs_err::read_link("/proc/self/ns/pid").unwrap();
    let labels = HashMap::from([
        ("gaia.owner".to_owned(), format!("{}:{pid}:1", boot.trim())),
        ("gaia.owner.namespace".to_owned(), namespace.display().to_string()),
        ("gaia.run".to_owned(), RUN_LABEL.to_owned()),
    ]);
    let body = bollard::models::ContainerCreateBody {
        image: Some(image(engine).await),
        cmd: Some(vec!["true".to_owned()]),
        labels: Some(labels),
        ..Default::default()
    };
    let docker = bollard::Docker::connect_with_host(engine.address()).unwrap();
    let options = None::<bollard::query_parameters::CreateContainerOptions>;
    docker.create_container(options, body).await.unwrap().id
}
