//! The connection to Docker: is it there, which images, which of our containers.

mod connect;
mod image;
mod ssh;

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use bollard::Docker;
use bollard::models::ContainerSummary;
use bollard::query_parameters::{
    InspectContainerOptions, ListContainersOptionsBuilder, RemoveContainerOptionsBuilder,
};

use crate::error::EngineError;
use crate::labels;
use crate::owner::Owner;

pub use self::image::{ImageInfo, PullProgress};

/// Longest wait for a removed container to be gone from the engine's list.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(20);

/// Between two looks whether it is gone. Removal takes 40 ms at least.
const REMOVAL_INTERVAL: Duration = Duration::from_millis(10);

/// The engine's word for a container that it was removing when it was killed, or whose removal failed.
const HALF_REMOVED: &str = "dead";

/// A connection to Docker (or to Podman's Docker socket). Cheap to clone.
#[derive(Debug, Clone)]
pub struct Engine {
    pub(crate) docker: Docker,
    pub(crate) address: String,
    pub(crate) brand: Brand,
    /// Machine of the engine's host in the engine's words: `amd64`, `arm64`.
    pub(crate) architecture: String,
    /// Processors of the engine's host.
    pub(crate) processors: f64,
    pub(crate) version: String,
}

/// Who made the engine; they differ in what they take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Brand {
    Docker,
    Podman,
}

impl Engine {
    /// Where the engine is, as `DOCKER_HOST` would say it.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// In the engine's words, such as `27.3.1`; of Podman with its name.
    pub fn version(&self) -> String {
        match self.brand {
            Brand::Docker => self.version.clone(),
            Brand::Podman => format!("Podman {}", self.version),
        }
    }

    /// Of the machine that the engine runs on.
    pub fn processors(&self) -> usize {
        (self.processors as usize).max(1)
    }

    /// Whether folders of this machine can be mounted into its containers.
    pub(crate) fn is_local(&self) -> bool {
        self.address.starts_with("unix://")
    }

    /// Our containers on this engine that match, whoever owns them.
    pub async fn list(&self, filter: &LabelFilter) -> Result<Vec<SandboxContainer>, EngineError> {
        let mut wanted = vec![labels::OWNER.to_owned()];
        wanted.extend(filter.run.iter().map(|run| format!("{}={run}", labels::RUN)));
        wanted.extend(filter.sample.iter().map(|sample| format!("{}={sample}", labels::SAMPLE)));
        let mut filters = HashMap::from([("label".to_owned(), wanted)]);
        if self.brand == Brand::Podman {
            // It also has a state that Docker does not, for the moment between a container's end and its removal, and
            // the client refuses the whole list for it.
            let states = ["created", "running", "paused", "exited"];
            filters.insert("status".to_owned(), states.map(str::to_owned).to_vec());
        }
        let options = ListContainersOptionsBuilder::default().all(true).filters(&filters).build();
        let containers = self
            .docker
            .list_containers(Some(options))
            .await
            .map_err(|error| request("list containers".to_owned(), &error))?;
        let mut found = Vec::new();
        for container in containers.into_iter().filter_map(sandbox_container) {
            // The list of an engine that was killed while it removed a container can name it until the next start,
            // although nothing of it is left and nobody can remove it.
            let is_gone = container.state == HALF_REMOVED && !self.is_there(&container.id).await?;
            if !is_gone {
                found.push(container);
            }
        }
        Ok(found)
    }

    async fn is_there(&self, container_id: &str) -> Result<bool, EngineError> {
        match self.docker.inspect_container(container_id, None::<InspectContainerOptions>).await {
            Ok(_) => Ok(true),
            Err(error) if status_of(&error) == Some(404) => Ok(false),
            Err(error) => Err(request(format!("inspect container `{}`", short_id(container_id)), &error)),
        }
    }

    /// Removes the containers whose owner is dead: same boot of this machine, and the process gone or its pid now
    /// another's. Those of living owners and of owners that cannot be judged from here are left alone, unless the engine
    /// itself calls them dead: so it does with what it was removing when it was killed, and leaves the rest to others.
    pub async fn reap(&self) -> Result<Reaped, EngineError> {
        let mut reaped = Reaped::default();
        for container in self.list(&LabelFilter::default()).await? {
            let is_half_removed = container.state == HALF_REMOVED;
            if container.owner_alive == Some(false) || is_half_removed {
                self.remove(&container.id).await?;
                tracing::info!(
                    container = short_id(&container.id),
                    is_half_removed,
                    "removed a sandbox that nobody uses"
                );
                reaped.removed.push(container.id);
            } else {
                reaped.kept += 1;
            }
        }
        Ok(reaped)
    }

    /// Removes a container with everything in it and returns once it is gone. Gone already is success.
    pub async fn remove(&self, container_id: &str) -> Result<(), EngineError> {
        let operation = || format!("remove container `{}`", short_id(container_id));
        let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
        let until = Instant::now() + REMOVAL_TIMEOUT;
        loop {
            let removal = self.docker.remove_container(container_id, Some(options.clone())).await;
            match removal {
                Err(error) if status_of(&error) == Some(404) => return Ok(()),
                // 409: the engine is at it already.
                Err(error) if status_of(&error) != Some(409) => return Err(request(operation(), &error)),
                _ => {}
            }
            if !self.is_there(container_id).await? {
                return Ok(());
            }
            if until <= Instant::now() {
                let reason = format!("it is still there after {} s", REMOVAL_TIMEOUT.as_secs());
                return Err(EngineError::Request { operation: operation(), reason });
            }
            tokio::time::sleep(REMOVAL_INTERVAL).await;
        }
    }
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
    /// Whether the process that made it still lives; `None` when that cannot be judged from this machine.
    pub owner_alive: Option<bool>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
}

/// `None` of what is not ours.
fn sandbox_container(container: ContainerSummary) -> Option<SandboxContainer> {
    let labels: BTreeMap<String, String> = container.labels?.into_iter().collect();
    let owner = Owner::from_labels(labels.get(labels::OWNER)?, labels.get(labels::OWNER_NAMESPACE));
    Some(SandboxContainer {
        id: container.id?,
        image: container.image.unwrap_or_default(),
        state: container.state.map(|state| state.to_string()).unwrap_or_default(),
        owner_alive: owner.and_then(|owner| owner.is_alive()),
        labels,
    })
}

/// What a reaper did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reaped {
    /// Containers removed.
    pub removed: Vec<String>,
    /// Containers left alone because they may be in use: their owner lives or cannot be judged from here.
    pub kept: usize,
}

/// First twelve characters of a container id, as people know it.
pub(crate) fn short_id(id: &str) -> &str {
    id.get(..12).unwrap_or(id)
}

pub(crate) fn request(operation: String, error: &bollard::errors::Error) -> EngineError {
    let reason = match error {
        bollard::errors::Error::DockerResponseServerError { message, .. } => message.clone(),
        other => chain(other),
    };
    EngineError::Request { operation, reason }
}

/// HTTP status of the engine's refusal.
pub(crate) fn status_of(error: &bollard::errors::Error) -> Option<u16> {
    match error {
        bollard::errors::Error::DockerResponseServerError { status_code, .. } => Some(*status_code),
        _ => None,
    }
}

/// An error and its causes, each once.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = String::new();
    for cause in std::iter::successors(Some(error), |error| error.source()).map(ToString::to_string) {
        if !text.contains(&cause) {
            if !text.is_empty() {
                text.push_str(": ");
            }
            text.push_str(&cause);
        }
    }
    text
}
