//! From options to a container whose guest has reported in.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bollard::query_parameters::{
    AttachContainerOptionsBuilder, CreateContainerOptions, StartContainerOptions,
    UploadToContainerOptionsBuilder, WaitContainerOptionsBuilder,
};
use bytes::Bytes;
use futures_util::StreamExt;
use gaia_sandbox_protocol::{GuestFrame, HostFrame, Init, PROTOCOL_VERSION, Shell};

use crate::connection::{Connection, LEASE_SECONDS};
use crate::container::{self, FILES_PATH};
use crate::egress::Egress;
use crate::engine::{self, Engine};
use crate::error::{EngineError, SandboxError};
use crate::guest_program;
use crate::network::PROXY_PORT;
use crate::options::SandboxOptions;
use crate::shared_folder::SharedFolder;

/// Bytes of one command's output kept in the container: enough for any log a model pages through, little enough that
/// some hundred of them fit on a disk.
const SPILL_BYTES: u64 = 64 << 20;

/// From the engine's "started" to the guest's first frame. Milliseconds, unless the host is very busy.
const HELLO_TIMEOUT: Duration = Duration::from_secs(60);

/// A container that runs, and the way to its guest.
pub(crate) struct Started {
    pub(crate) container_id: String,
    pub(crate) connection: Connection,
    /// Mounted at [`FILES_PATH`], for files that come later.
    pub(crate) shared: Option<SharedFolder>,
}

/// When a container gets the files it shows at [`FILES_PATH`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FilesArrival {
    /// Those of [`SandboxOptions::files_dir`], if any, before the first command.
    AtStart,
    /// When its user is known.
    Later,
}

/// Creates and starts a container. On failure nothing is left of it.
pub(crate) async fn start(
    engine: &Engine,
    options: &SandboxOptions,
    arrival: FilesArrival,
) -> Result<Started, SandboxError> {
    check_architecture(engine, options)?;
    options.network.prepare(engine).await?;
    let shared = match arrival {
        FilesArrival::Later if engine.is_local() => {
            let failed = |error: std::io::Error| start_error(options, error.to_string());
            Some(SharedFolder::create().map_err(failed)?)
        }
        FilesArrival::Later | FilesArrival::AtStart => None,
    };
    let files = match (&shared, options.files_dir.as_deref()) {
        (Some(shared), _) => Some(shared.path()),
        (None, folder) => folder.map(resolve_files).transpose()?,
    };
    let (container_id, is_mounted) = create(engine, options, files.as_deref()).await?;
    let to_upload = files.filter(|_| !is_mounted);
    match prepare_and_start(engine, options, &container_id, to_upload.as_deref()).await {
        Ok(connection) => Ok(Started { container_id, connection, shared: shared.filter(|_| is_mounted) }),
        Err(error) => {
            if let Err(removal) = engine.remove(&container_id).await {
                tracing::warn!(%removal, "a container that did not start was left behind");
            }
            Err(error)
        }
    }
}

/// The id, and whether the files are mounted.
async fn create(
    engine: &Engine,
    options: &SandboxOptions,
    files: Option<&Path>,
) -> Result<(String, bool), SandboxError> {
    let attempt = async |mounted: Option<&Path>| {
        let body = container::body(options, engine, mounted);
        engine.docker.create_container(None::<CreateContainerOptions>, body).await
    };
    let mounted = files.filter(|_| engine.is_local());
    let mut is_mounted = mounted.is_some();
    let mut created = attempt(mounted).await;
    if let Err(error) = &created
        && is_mounted
        && error.to_string().contains("bind source path does not exist")
    {
        // The socket is here but the engine is elsewhere: in a virtual machine, or outside of our own container.
        is_mounted = false;
        created = attempt(None).await;
    }
    match created {
        Ok(created) => Ok((created.id, is_mounted)),
        Err(error) if engine::status_of(&error) == Some(404) => {
            Err(EngineError::ImageAbsent { name: options.image.clone() }.into())
        }
        Err(error) => {
            Err(engine::request(format!("create a container from `{}`", options.image), &error).into())
        }
    }
}

async fn prepare_and_start(
    engine: &Engine,
    options: &SandboxOptions,
    container_id: &str,
    files: Option<&Path>,
) -> Result<Connection, SandboxError> {
    let container = engine::short_id(container_id);
    let unpacked = guest_program::archive().map_err(|error| start_error(options, error.to_string()))?;
    upload(engine, container_id, unpacked, "the guest").await?;
    if let Some(folder) = files.map(Path::to_owned) {
        let packed = tokio::task::spawn_blocking(move || pack_files(&folder)).await;
        let packed = packed
            .map_err(std::io::Error::other)
            .and_then(|packed| packed)
            .map_err(|error| start_error(options, format!("its files cannot be packed: {error}")))?;
        upload(engine, container_id, packed, "the files").await?;
    }
    let attach =
        AttachContainerOptionsBuilder::default().stdin(true).stdout(true).stderr(true).stream(true).build();
    // Before the start, so that nothing the guest says is missed and its input is tied to us from the beginning.
    let streams = engine
        .docker
        .attach_container(container_id, Some(attach))
        .await
        .map_err(|error| engine::request(format!("attach to container `{container}`"), &error))?;
    let connection = Connection::open(streams.output, streams.input);
    let mut greeting = connection.expect_answers_to(0);
    let init = Init { version: PROTOCOL_VERSION, lease_seconds: LEASE_SECONDS, spill_bytes: SPILL_BYTES };
    connection.send(0, [&HostFrame::Init(init)]);
    let mut listening = None;
    if let Some(egress) = Egress::new(options.network, &options.egress) {
        connection.serve_tunnels(egress);
        let answers = connection.expect_answers();
        connection.send(answers.id, [&HostFrame::Listen { port: PROXY_PORT }]);
        listening = Some(answers);
    }
    engine
        .docker
        .start_container(container_id, None::<StartContainerOptions>)
        .await
        .map_err(|error| engine::request(format!("start container `{container}`"), &error))?;
    connection.end_after(container_end(engine.clone(), container_id.to_owned()));

    match tokio::time::timeout(HELLO_TIMEOUT, greeting.next()).await {
        Ok(Some(GuestFrame::Hello { version: PROTOCOL_VERSION, shell, .. })) => {
            if shell == Shell::None {
                return Err(start_error(options, "the image has neither bash nor sh".to_owned()));
            }
        }
        Ok(Some(other)) => return Err(start_error(options, format!("its guest greeted with {other:?}"))),
        Ok(None) => return Err(start_error(options, connection.end_reason())),
        Err(_) => {
            let reason = format!("its guest was silent for {} s", HELLO_TIMEOUT.as_secs());
            return Err(start_error(options, reason));
        }
    }
    let Some(mut listening) = listening else { return Ok(connection) };
    match listening.next().await {
        Some(GuestFrame::Done) => Ok(connection),
        Some(GuestFrame::Error { text, .. }) => {
            let reason = format!("its guest cannot listen on port {PROXY_PORT} for the proxy: {text}");
            Err(start_error(options, reason))
        }
        Some(other) => Err(start_error(options, format!("its guest answered with {other:?}"))),
        None => Err(start_error(options, connection.end_reason())),
    }
}

/// Waits until the engine says that the container has ended.
async fn container_end(engine: Engine, container_id: String) -> String {
    let options = WaitContainerOptionsBuilder::default().condition("not-running").build();
    let mut ends = std::pin::pin!(engine.docker.wait_container(&container_id, Some(options)));
    match ends.next().await {
        Some(Ok(end)) => format!("its container ended with status {}", end.status_code),
        Some(Err(bollard::errors::Error::DockerContainerWaitError { code, .. })) => {
            format!("its container ended with status {code}")
        }
        Some(Err(error)) => format!("the engine lost sight of its container: {error}"),
        None => "the engine lost sight of its container".to_owned(),
    }
}

async fn upload(
    engine: &Engine,
    container_id: &str,
    archive: Vec<u8>,
    what: &str,
) -> Result<(), EngineError> {
    let options = UploadToContainerOptionsBuilder::default().path("/").build();
    let body = bollard::body_full(Bytes::from(archive));
    engine.docker.upload_to_container(container_id, Some(options), body).await.map_err(|error| {
        engine::request(format!("copy {what} to container `{}`", engine::short_id(container_id)), &error)
    })
}

fn pack_files(folder: &Path) -> std::io::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    archive.follow_symlinks(false);
    archive.append_dir_all(FILES_PATH.trim_start_matches('/'), folder)?;
    archive.into_inner()
}

fn resolve_files(folder: &Path) -> Result<PathBuf, SandboxError> {
    let invalid = |reason: String| SandboxError::Invalid {
        operation: format!("share the folder `{}` with a sandbox", folder.display()),
        reason,
    };
    let resolved = fs_err::canonicalize(folder).map_err(|error| invalid(error.to_string()))?;
    if resolved.is_dir() { Ok(resolved) } else { Err(invalid("it is not a folder".to_owned())) }
}

fn check_architecture(engine: &Engine, options: &SandboxOptions) -> Result<(), SandboxError> {
    let ours = guest_program::engine_architecture();
    if engine.architecture.is_empty() || engine.architecture == ours {
        return Ok(());
    }
    let reason = format!(
        "the engine's machine is {} but this program brings a guest for {ours} only: build it for that machine",
        engine.architecture
    );
    Err(start_error(options, reason))
}

fn start_error(options: &SandboxOptions, reason: String) -> SandboxError {
    SandboxError::Start { image: options.image.clone(), reason }
}
