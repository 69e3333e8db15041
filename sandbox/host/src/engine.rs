//! The connection to Docker: is it there, which images, which of our containers.

use crate::error::EngineError;

/// A connection to Docker (or to Podman's Docker socket). Cheap to clone.
#[derive(Debug, Clone)]
pub struct Engine;

impl Engine {
    /// Connects to `DOCKER_HOST`, else to the local socket, and checks that the API is recent enough.
    pub async fn connect() -> Result<Self, EngineError> {
        Err(EngineError::Absent { address: "not implemented".to_owned() })
    }

    /// Facts about an image the engine has.
    pub async fn image(&self, name: &str) -> Result<ImageInfo, EngineError> {
        Err(EngineError::ImageAbsent { name: name.to_owned() })
    }

    /// Our containers on this engine that match, whoever owns them.
    pub async fn list(&self, _filter: &LabelFilter) -> Result<Vec<SandboxContainer>, EngineError> {
        Ok(Vec::new())
    }

    /// Removes the containers whose owner is dead.
    pub async fn reap(&self) -> Result<Reaped, EngineError> {
        Ok(Reaped::default())
    }

    /// Removes a container with everything in it and returns once it is gone. Gone already is success.
    pub async fn remove(&self, _container_id: &str) -> Result<(), EngineError> {
        Ok(())
    }
}

/// Facts about an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageInfo {
    /// Content id, `sha256:…`.
    pub id: String,
    /// Size on disk in bytes.
    pub size_bytes: u64,
    /// Its labels.
    pub labels: std::collections::BTreeMap<String, String>,
}

/// Which of our containers are meant; fields that are set must all match.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelFilter {
    /// Run they belong to.
    pub run: Option<String>,
    /// Sample they belong to.
    pub sample: Option<String>,
}

/// One of our containers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxContainer {
    /// Full container id.
    pub id: String,
    /// Image it was made from.
    pub image: String,
    /// Engine's word for its state: `running`, `created`, `exited`, …
    pub state: String,
    /// Whether the process that made it still lives, as far as this machine can tell.
    pub owner_alive: Option<bool>,
    /// Its labels.
    pub labels: std::collections::BTreeMap<String, String>,
}

/// What a reaper did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reaped {
    /// Containers removed.
    pub removed: Vec<String>,
    /// Containers left alone because their owner lives or cannot be judged from here.
    pub kept: usize,
}
