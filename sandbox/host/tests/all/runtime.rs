//! Another OCI runtime: gVisor, whose kernel is a program.

use std::time::Duration;

use gaia_sandbox::{Engine, Sandbox};

use crate::private_engine::PrivateEngine;
use crate::support::{Run, engine, image, options};

#[tokio::test]
async fn the_guest_runs_on_the_kernel_of_gvisor() {
    assert!(std::path::Path::new("/usr/bin/runsc").exists(), "`.ci/setup clients` installs runsc");
    let machine = engine().await;
    let image = image(&machine).await;
    let mut private = PrivateEngine::start(&machine, &image).await;
    let gvisor = Engine::connect_to(&private.address()).await.unwrap();
    let mut options = options(&machine).await;
    options.runtime = Some("runsc".to_owned());
    let sandbox = Sandbox::start(&gvisor, &options).await.unwrap();
    assert!(sandbox.says("cat /proc/version").await.contains("4.4.0"), "the kernel is not the machine's");
    sandbox.says("cd /tmp; export FRUIT=pear; f() { echo f; }").await;
    assert_eq!(sandbox.says("echo $PWD $FRUIT; f").await, "/tmp pear\nf");
    let output = sandbox.within("trap '' TERM; setsid sleep 300 & sleep 300", Duration::from_secs(2)).await;
    assert!(output.timed_out, "{output:?}");
    assert_eq!(sandbox.says("ps -eo comm= | grep sleep || true").await, "");
    assert_eq!(sandbox.sh("head -c 1000000 /dev/zero").await.total_bytes, 1_000_000);
    sandbox.close().await.unwrap();
    private.signal("TERM");
    private.wait();
}
