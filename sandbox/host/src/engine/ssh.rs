//! An engine on another machine, through the `ssh` command: as the `docker` command does it, so that whatever makes
//! `ssh HOST` work (keys, agents, jump hosts, shared connections of `ControlMaster`) works here too.

use std::io;
use std::process::Stdio;
use std::time::Duration;

use bollard::{API_DEFAULT_VERSION, BollardRequest, Docker};
use futures_util::FutureExt;
use http::Uri;
use http::header::{HOST, HeaderValue};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};

use super::connect::REQUEST_SECONDS;

/// Time for `ssh` to say what is wrong after its connection has broken.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Bytes of what it says that are kept.
const MAX_STDERR_BYTES: u64 = 4096;

type Failure = bollard::errors::Error;

/// The words after `ssh://`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Destination {
    /// `host` or `user@host`.
    host: String,
    port: Option<u16>,
}

impl Destination {
    /// Reads `ssh://[user@]host[:port]`.
    pub(super) fn parse(address: &str) -> Option<Self> {
        let rest = address.strip_prefix("ssh://")?.trim_end_matches('/');
        let uri: Uri = format!("ssh://{rest}").parse().ok()?;
        let authority = uri.authority()?;
        let user = authority.as_str().rsplit_once('@').map(|(user, _)| format!("{user}@"));
        let host = format!("{}{}", user.unwrap_or_default(), authority.host().trim_matches(['[', ']']));
        // What begins with a dash would be an option of `ssh`.
        let is_whole =
            matches!(uri.path(), "" | "/") && !host.starts_with('-') && !authority.host().is_empty();
        is_whole.then_some(Self { host, port: authority.port_u16() })
    }

    fn command(&self) -> Command {
        let mut command = Command::new("ssh");
        // Never asks: nobody would see the question.
        command.args(["-o", "BatchMode=yes", "-o", "ConnectTimeout=30", "-T"]);
        if let Some(port) = self.port {
            command.arg("-p").arg(port.to_string());
        }
        command.args(["--", &self.host, "docker", "system", "dial-stdio"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        command
    }
}

/// A client whose every connection is an `ssh` of its own.
pub(super) fn connect(destination: Destination) -> Result<Docker, Failure> {
    let transport = move |request: BollardRequest| {
        let destination = destination.clone();
        async move { send(&destination, request).await }.boxed()
    };
    Docker::connect_with_custom_transport(
        transport,
        Some("http://docker"),
        REQUEST_SECONDS,
        API_DEFAULT_VERSION,
    )
}

async fn send(
    destination: &Destination,
    mut request: BollardRequest,
) -> Result<http::Response<Incoming>, Failure> {
    let mut child =
        destination.command().spawn().map_err(|error| failure(format!("cannot run `ssh`: {error}")))?;
    let (Some(output), Some(input)) = (child.stdout.take(), child.stdin.take()) else {
        return Err(failure("`ssh` has no pipes".to_owned()));
    };
    let stream = TokioIo::new(tokio::io::join(output, input));
    // On a connection of its own a request names its path only, and the host in a header.
    let path = request.uri().path_and_query().map_or("/", http::uri::PathAndQuery::as_str).to_owned();
    *request.uri_mut() = path.parse().map_err(|error| failure(format!("bad path `{path}`: {error}")))?;
    request.headers_mut().insert(HOST, HeaderValue::from_static("docker"));
    let answer = async {
        let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await?;
        // Streams of a container go on after the answer. Its end ends the process, which is killed when dropped.
        let connection = tokio::spawn(connection.with_upgrades());
        Ok::<_, hyper::Error>((sender.send_request(request).await?, connection))
    };
    match answer.await {
        Ok((answer, connection)) => {
            tokio::spawn(async move {
                let _ = connection.await;
                // An upgraded stream outlives the connection: `ssh` ends when both its pipes are closed.
                let _ = child.wait().await;
            });
            Ok(answer)
        }
        Err(error) => Err(failure(match last_words(&mut child).await {
            words if words.is_empty() => error.to_string(),
            words => words,
        })),
    }
}

async fn last_words(child: &mut Child) -> String {
    let mut said = Vec::new();
    if let Some(stderr) = child.stderr.take() {
        let _ = tokio::time::timeout(LAST_WORDS, stderr.take(MAX_STDERR_BYTES).read_to_end(&mut said)).await;
    }
    String::from_utf8_lossy(&said).trim().to_owned()
}

fn failure(reason: String) -> Failure {
    Failure::IOError { err: io::Error::other(reason) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destinations_are_read_as_the_docker_command_reads_them() {
        let parsed = |text: &str| Destination::parse(text).map(|found| (found.host, found.port));
        let some = |host: &str, port| Some((host.to_owned(), port));
        assert_eq!(parsed("ssh://host"), some("host", None));
        assert_eq!(parsed("ssh://me@host:2222"), some("me@host", Some(2222)));
        assert_eq!(parsed("ssh://me@10.0.0.1/"), some("me@10.0.0.1", None));
        assert_eq!(parsed("ssh://[::1]:22"), some("::1", Some(22)));
        for wrong in ["host", "ssh://", "ssh://-oProxyCommand=x", "ssh://host/path", "tcp://host"] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }
}
