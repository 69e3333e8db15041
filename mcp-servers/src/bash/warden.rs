//! A process that outlives a server which is killed, for as long as it takes to see that no container is left.
//!
//! A container ends by itself when its owner's connection closes. One that was created and not yet started has no
//! guest that could notice, and the engine may still be at work on a creation whose caller is gone. So the server
//! starts its own program once more, with a pipe: when that closes without a word, the server was killed, and what the
//! dead leave is removed.

use std::io::Read;
use std::process::Stdio;
use std::time::Duration;

use gaia_sandbox::Engine;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin, Command};

use crate::serve::ServeError;

/// The argument that makes a warden of the program.
pub(super) const ARGUMENT: &str = "--warden";

/// What a server that ends in order says.
const FAREWELL: u8 = b'.';

/// After the server's end, when to look. A creation that was under way takes up to some seconds on a busy engine.
const LOOKS: [Duration; 6] = [
    Duration::from_millis(100),
    Duration::from_millis(400),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(5),
    Duration::from_secs(10),
];

/// Time for a warden that was told of an orderly end to be gone; it has nothing to do.
const FAREWELL_LIMIT: Duration = Duration::from_secs(1);

/// The server's end of the pipe.
pub(super) struct Warden {
    process: Child,
    pipe: ChildStdin,
}

impl Warden {
    /// Starts one. A server without is as good as one with until it is killed, so failing to is only logged.
    pub(super) fn start() -> Option<Self> {
        let started = std::env::current_exe().and_then(|program| {
            Command::new(program)
                .arg(ARGUMENT)
                .stdin(Stdio::piped())
                // An open output would look to our client as if the server lived.
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                // Hosts kill the whole process group of a server.
                .process_group(0)
                .spawn()
        });
        match started {
            Ok(mut process) => process.stdin.take().map(|pipe| Self { process, pipe }),
            Err(error) => {
                tracing::debug!(%error, "no warden: a killed server may leave a container until the next one starts");
                None
            }
        }
    }

    /// Says that the end is in order and waits until the warden is gone.
    pub(super) async fn dismiss(mut self) {
        let _ = self.pipe.write_all(&[FAREWELL]).await;
        drop(self.pipe);
        let _ = tokio::time::timeout(FAREWELL_LIMIT, self.process.wait()).await;
    }
}

/// In the warden: waits for the server's end, and cleans up after one that was killed.
pub(super) async fn watch() -> Result<(), ServeError> {
    let mut said = Vec::new();
    // Blocks the whole runtime, which has nothing else to do.
    let _ = std::io::stdin().lock().read_to_end(&mut said);
    if said == [FAREWELL] {
        return Ok(());
    }
    let mut elapsed = Duration::ZERO;
    for look in LOOKS {
        tokio::time::sleep(look - elapsed).await;
        elapsed = look;
        // An engine that is down will be looked at again, and in the end by the next server.
        if let Ok(engine) = Engine::connect().await {
            let _ = engine.reap().await;
        }
    }
    Ok(())
}
