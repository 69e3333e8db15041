//! An engine that is not on this machine, as far as the library can tell: the local one behind a TCP port.

use gaia_sandbox::{Engine, Sandbox};
use tokio::net::{TcpListener, UnixStream};

use crate::support::{Run, engine, options};

/// Forwards a port of the loopback interface to the engine's socket.
async fn forwarded(engine: &Engine) -> String {
    let socket = engine.address().strip_prefix("unix://").expect("a local engine").to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("tcp://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let socket = socket.clone();
            tokio::spawn(async move {
                let mut engine = UnixStream::connect(socket).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut client, &mut engine).await;
            });
        }
    });
    address
}

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
