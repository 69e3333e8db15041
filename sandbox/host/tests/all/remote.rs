//! An engine that is not on this machine, as far as the library can tell: the local one behind a TCP port.

use gaia_sandbox::{Engine, Sandbox};

use crate::support::{Run, engine, forwarded, options};

#[tokio::test]
async fn files_are_copied_to_an_engine_that_is_elsewhere() {
    let local = engine().await;
    let remote = Engine::connect_to(&forwarded(&local).await).await.unwrap();
    let mut options = options(&local).await;
    let folder = tempfile::tempdir().unwrap();
    fs_err::create_dir(folder.path().join("sub")).unwrap();
    fs_err::write(folder.path().join("sub/data.csv"), "a,b\n").unwrap();
    options.files_dir = Some(folder.path().to_owned());
    let sandbox = Sandbox::start(&remote, &options).await.unwrap();
    assert_eq!(sandbox.says("cat /shared_files/sub/data.csv").await, "a,b");
    assert_eq!(sandbox.says("grep -c shared_files /proc/mounts || true").await, "0");
    sandbox.says("echo x >>/shared_files/sub/data.csv").await;
    assert_eq!(
        fs_err::read_to_string(folder.path().join("sub/data.csv")).unwrap(),
        "a,b\n",
        "only the copy changed"
    );
    sandbox.close().await.unwrap();
}
