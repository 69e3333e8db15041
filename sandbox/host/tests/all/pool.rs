//! Containers that are ready before they are asked for.

use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use gaia_sandbox::{Engine, LabelFilter, Pool, Sandbox, SandboxError, SandboxOptions};

use crate::measure;
use crate::support::{PLENTY, Run, engine, eventually, forwarded, options};

/// Options under a label of the test's own, and the filter that finds its containers.
async fn labelled(engine: &Engine, name: &str) -> (SandboxOptions, LabelFilter) {
    let mut options = options(engine).await;
    options.labels.sample = Some(format!("pool-{name}-{}", std::process::id()));
    let filter = LabelFilter { sample: options.labels.sample.clone(), ..LabelFilter::default() };
    (options, filter)
}

async fn count(engine: &Engine, filter: &LabelFilter) -> usize {
    engine.list(filter).await.unwrap().len()
}

#[tokio::test]
async fn a_first_command_costs_a_tenth_of_what_a_cold_container_does() {
    let engine = engine().await;
    let (options, filter) = labelled(&engine, "fast").await;
    let (cold, _) = measure::cold_starts(&engine, &options, 3).await.unwrap();
    let warm = measure::warm_starts(&engine, &options, 5).await.unwrap();
    let (cold, warm) = (cold.median(), warm.median());
    println!("cold {cold:?}, warm {warm:?}");
    assert!(warm * 10 < cold, "warm {warm:?}, cold {cold:?}");
    assert_eq!(count(&engine, &filter).await, 0);
}

#[tokio::test]
async fn twenty_at_once_are_all_ready_and_none_is_left_behind() {
    let engine = engine().await;
    let (options, filter) = labelled(&engine, "twenty").await;
    let pool = Pool::new(engine.clone(), options, 2);
    let sandboxes = try_join_all((0..20).map(|_| pool.check_out(None))).await.unwrap();
    let ids: std::collections::BTreeSet<&str> = sandboxes.iter().map(Sandbox::container_id).collect();
    assert_eq!(ids.len(), 20, "nobody shares one");
    for said in join_all(sandboxes.iter().map(|sandbox| sandbox.says("echo ready"))).await {
        assert_eq!(said, "ready");
    }
    try_join_all(sandboxes.into_iter().map(Sandbox::close)).await.unwrap();
    pool.close().await.unwrap();
    assert_eq!(count(&engine, &filter).await, 0);
}

#[tokio::test]
async fn each_gets_the_files_of_its_own_sample() {
    let engine = engine().await;
    let (options, filter) = labelled(&engine, "files").await;
    let pool = Pool::new(engine.clone(), options, 1);
    let mut sandboxes = Vec::new();
    for name in ["one", "two"] {
        let folder = tempfile::tempdir().unwrap();
        fs_err::create_dir(folder.path().join("sub")).unwrap();
        fs_err::write(folder.path().join(format!("sub/{name}.csv")), name).unwrap();
        let sandbox = pool.check_out(Some(folder.path())).await.unwrap();
        assert_eq!(sandbox.says("cd /shared_files; find . -type f").await, format!("./sub/{name}.csv"));
        let text = format!("su nobody -s /bin/sh -c 'cat /shared_files/sub/{name}.csv'");
        assert_eq!(sandbox.says(&text).await, name, "not only root reads it");
        let output =
            sandbox.sh(&format!("echo x >>/shared_files/sub/{name}.csv; touch /shared_files/new")).await;
        assert_ne!(output.exit_code, 0, "the mount is read-only");
        assert_eq!(fs_err::read_to_string(folder.path().join(format!("sub/{name}.csv"))).unwrap(), name);
        sandboxes.push(sandbox);
    }
    try_join_all(sandboxes.into_iter().map(Sandbox::close)).await.unwrap();
    pool.close().await.unwrap();
    assert_eq!(count(&engine, &filter).await, 0);
}

#[tokio::test]
async fn files_go_through_the_guest_when_the_engine_is_elsewhere() {
    let local = engine().await;
    let remote = Engine::connect_to(&forwarded(&local).await).await.unwrap();
    let (options, _) = labelled(&local, "remote").await;
    let pool = Pool::new(remote, options, 1);
    let folder = tempfile::tempdir().unwrap();
    fs_err::create_dir(folder.path().join("sub")).unwrap();
    let bytes: Vec<u8> = (0..2_000_000_u32).map(|index| (index % 251) as u8).collect();
    fs_err::write(folder.path().join("sub/data.bin"), &bytes).unwrap();
    fs_err::write(folder.path().join("empty"), "").unwrap();
    let sandbox = pool.check_out(Some(folder.path())).await.unwrap();
    assert_eq!(
        sandbox.says("cd /shared_files && stat -c '%n %s' empty sub/*").await,
        "empty 0\nsub/data.bin 2000000"
    );
    let read = sandbox.read_file("/shared_files/sub/data.bin", 0, 4_000_000).await.unwrap();
    assert!(read.bytes == bytes, "the same bytes arrived");
    sandbox.close().await.unwrap();
    pool.close().await.unwrap();
}

#[tokio::test]
async fn dead_and_stopped_containers_are_replaced() {
    let engine = engine().await;
    let (options, filter) = labelled(&engine, "dead").await;
    let pool = Pool::new(engine.clone(), options, 2);
    pool.filled().await;
    let docker = bollard::Docker::connect_with_host(engine.address()).unwrap();
    let ids: Vec<String> =
        engine.list(&filter).await.unwrap().into_iter().map(|container| container.id).collect();
    engine.remove(&ids[0]).await.unwrap();
    docker.pause_container(&ids[1]).await.unwrap();
    let sandbox = pool.check_out(None).await.unwrap();
    assert!(!ids.iter().any(|id| id == sandbox.container_id()));
    assert_eq!(sandbox.says("echo alive").await, "alive");
    sandbox.close().await.unwrap();
    pool.close().await.unwrap();
    eventually("the stopped one is removed too", PLENTY, async || count(&engine, &filter).await == 0).await;
}

#[tokio::test]
async fn closing_ends_starts_and_waits() {
    let engine = engine().await;
    let (options, filter) = labelled(&engine, "closed").await;
    let pool = Pool::new(engine.clone(), options, 4);
    let ((), waited) = tokio::join!(
        async {
            eventually("a start is under way", PLENTY, async || count(&engine, &filter).await > 0).await;
            pool.close().await.unwrap();
            assert_eq!(count(&engine, &filter).await, 0);
        },
        join_all((0..8).map(|_| pool.check_out(None))),
    );
    for result in waited {
        match result {
            // It was served before the pool was closed.
            Ok(sandbox) => sandbox.close().await.unwrap(),
            Err(SandboxError::Invalid { reason, .. }) => assert_eq!(reason, "the pool was closed"),
            Err(error) => panic!("{error:?}"),
        }
    }
    assert!(matches!(pool.check_out(None).await, Err(SandboxError::Invalid { .. })));
    pool.close().await.unwrap();
    assert_eq!(count(&engine, &filter).await, 0);
}

#[tokio::test]
async fn a_dropped_pool_leaves_nothing_behind() {
    let engine = engine().await;
    let (options, filter) = labelled(&engine, "dropped").await;
    let pool = Pool::new(engine.clone(), options, 2);
    eventually("one is ready", PLENTY, async || pool.ready() > 0).await;
    drop(pool);
    eventually("all are removed", PLENTY, async || count(&engine, &filter).await == 0).await;
}

#[tokio::test]
async fn whoever_waits_is_told_why_nothing_starts() {
    let engine = engine().await;
    let (mut options, _) = labelled(&engine, "absent").await;
    options.image = "gaia-no-such-image:none".to_owned();
    let pool = Pool::new(engine, options, 2);
    let error =
        tokio::time::timeout(Duration::from_secs(30), pool.check_out(None)).await.unwrap().unwrap_err();
    assert!(error.to_string().contains("gaia-no-such-image"), "{error}");
    pool.close().await.unwrap();
}
