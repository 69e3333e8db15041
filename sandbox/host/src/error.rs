//! Errors, by what the caller can do about them.

use crate::command::TaskId;

/// The engine or the image is not usable; no sandbox can start until a person acts.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// No engine is installed, or none where it was looked for.
    #[error(
        "failed to connect to Docker at `{address}`: nothing is there\n\
         hint: install it (Debian, Ubuntu: `apt-get install docker.io`) and start it, or point DOCKER_HOST at an engine"
    )]
    Absent {
        /// Where it was looked for.
        address: String,
    },
    /// An engine is installed but does not answer.
    #[error(
        "failed to connect to Docker at `{address}`: {reason}\n\
         hint: start it (`systemctl start docker`, `service docker start` or `dockerd &`), or point DOCKER_HOST at a \
         running engine"
    )]
    NotRunning {
        /// Where it was looked for.
        address: String,
        /// What the connection said.
        reason: String,
    },
    /// An engine on another machine, or behind TCP, cannot be reached.
    #[error(
        "failed to connect to Docker at `{address}`: {reason}\n\
         hint: check DOCKER_HOST; TLS wants DOCKER_TLS_VERIFY=1 and key.pem, cert.pem and ca.pem in DOCKER_CERT_PATH, and \
         ssh a login without a password on a host with the `docker` command"
    )]
    Unreachable {
        /// Where it was looked for.
        address: String,
        /// What the connection said.
        reason: String,
    },
    /// This user may not talk to the engine.
    #[error(
        "failed to connect to Docker at `{address}`: permission denied\n\
         hint: join the docker group (`sudo usermod -aG docker $USER`, then log in again), or use rootless Docker"
    )]
    PermissionDenied {
        /// Where it was looked for.
        address: String,
    },
    /// The engine is older than what we use of it.
    #[error(
        "failed to use Docker at `{address}`: its API is {found}, at least {required} is needed (Docker 20.10)"
    )]
    TooOld {
        /// Where it is.
        address: String,
        /// API version it has.
        found: String,
        /// API version needed.
        required: &'static str,
    },
    /// The engine does not have the image.
    #[error(
        "failed to find image `{name}`\n\
         hint: `docker pull {name}`, or build the sandbox image with `make image`, or name another one with --image"
    )]
    ImageAbsent {
        /// Name that was asked for.
        name: String,
    },
    /// The engine could not pull the image.
    #[error(
        "failed to pull image `{name}`: {reason}\n\
         hint: check the name and the network of the engine, `docker login` where the registry wants it and \
         `docker pull {name}`, or build the sandbox image with `make image` and name it with --image"
    )]
    Pull {
        /// Name that was asked for.
        name: String,
        /// What the engine said.
        reason: String,
    },
    /// The engine refused or failed an operation.
    #[error("failed to {operation}: {reason}")]
    Request {
        /// What was tried, with its object in backticks.
        operation: String,
        /// What the engine said.
        reason: String,
    },
}

/// A sandbox could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The engine stands in the way: see its hint.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The container started but its first program did not report in; another image or runtime is needed.
    #[error("failed to start a sandbox from `{image}`: {reason}")]
    Start {
        /// Image it was to start from.
        image: String,
        /// What is known, with what the program wrote to standard error.
        reason: String,
    },
    /// The container is gone or does not answer. Its state is lost; start another one and tell the model.
    #[error("the sandbox `{container}` is gone: {reason}")]
    Dead {
        /// Short container id.
        container: String,
        /// What is known.
        reason: String,
    },
    /// The caller asked for something that can never work; the sandbox is fine.
    #[error("failed to {operation}: {reason}")]
    Invalid {
        /// What was tried.
        operation: String,
        /// Why it cannot work and what would.
        reason: String,
    },
    /// A file in the container could not be read or written; the sandbox is fine.
    #[error("failed to {operation} `{path}`: {problem}")]
    File {
        /// `read` or `write`.
        operation: &'static str,
        /// Path as given.
        path: String,
        /// What stands in the way.
        problem: FileProblem,
    },
    /// No task has this handle; the sandbox is fine.
    #[error("no task `{id}` in this sandbox")]
    UnknownTask {
        /// Handle that was given.
        id: TaskId,
    },
}

/// What stands in the way of reading or writing a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileProblem {
    /// Nothing has this name.
    #[error("no such file")]
    NotFound,
    /// It is a folder.
    #[error("is a directory")]
    IsDirectory,
    /// It is a pipe, a socket or a device.
    #[error("not a regular file")]
    NotRegular,
    /// The file system forbids it.
    #[error("permission denied")]
    Denied,
    /// The disk is full or the size limit is reached.
    #[error("no space left")]
    NoSpace,
    /// Something else, in the system's words.
    #[error("{0}")]
    Other(String),
}
