//! The bound on what a container writes to the disk.

use std::time::Duration;

use gaia_sandbox::{Sandbox, SandboxError};

use crate::support::{PLENTY, Run, engine, eventually, options};

#[tokio::test]
async fn a_container_that_fills_the_disk_is_ended_and_says_why() {
    let engine = engine().await;
    let mut options = options(&engine).await;
    options.limits.disk_bytes = 256 << 20;
    let sandbox = Sandbox::start(&engine, &options).await.unwrap();
    // Memory is another bound's affair, and what is written and removed again is none.
    sandbox.says("head -c 600M /dev/zero >/tmp/memory; rm /tmp/memory; head -c 100M /dev/zero >/small").await;
    let command = gaia_sandbox::Command::new(
        "for i in $(seq 100); do head -c 50M /dev/zero >/big$i; sleep 0.1; done; sleep 30",
        PLENTY,
    );
    let error = sandbox.command(command).await.unwrap_err();
    let SandboxError::Dead { reason, .. } = &error else { panic!("{error:?}") };
    assert!(reason.contains("to its disk, and 0.2 GiB is the most"), "{reason}");
    assert!(!sandbox.is_alive());
    let id = sandbox.container_id().to_owned();
    eventually("its files are gone from the disk", Duration::from_secs(10), async || {
        let all = engine.list(&gaia_sandbox::LabelFilter::default()).await.unwrap();
        all.iter().all(|container| container.id != id)
    })
    .await;
}
