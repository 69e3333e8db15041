//! The connection to Docker: is it there, which images, which of our containers.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::time::{Duration, Instant};

use bollard::Docker;
use bollard::query_parameters::{
    InspectContainerOptions, ListContainersOptionsBuilder, RemoveContainerOptionsBuilder,
};

use crate::error::EngineError;
use crate::labels;
use crate::owner::Owner;

/// Oldest API we use: Docker 20.10, what Debian 12 has.
const REQUIRED_API: (u32, u32) = (1, 41);
const REQUIRED_API_TEXT: &str = "1.41";

/// Where engines listen unless told otherwise.
const DEFAULT_ADDRESS: &str = "unix:///var/run/docker.sock";

/// Longest wait for a removed container to be gone from the engine's list.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(20);

/// Between two looks whether it is gone. Removal takes 40 ms at least.
const REMOVAL_INTERVAL: Duration = Duration::from_millis(10);

/// A connection to Docker (or to Podman's Docker socket). Cheap to clone.
#[derive(Debug, Clone)]
pub struct Engine {
    pub(crate) docker: Docker,
    pub(crate) address: String,
    /// Machine of the engine's host in the engine's words: `amd64`, `arm64`.
    pub(crate) architecture: String,
    /// Processors of the engine's host.
    pub(crate) processors: f64,
}

impl Engine {
    /// Connects to `DOCKER_HOST`, else to the local socket, and checks that the API is recent enough.
    pub async fn connect() -> Result<Self, EngineError> {
        let address = std::env::var("DOCKER_HOST")
            .ok()
            .filter(|address| !address.is_empty())
            .unwrap_or_else(|| DEFAULT_ADDRESS.to_owned());
        Self::connect_to(&address).await
    }

    /// Connects to the engine at an address like those in `DOCKER_HOST`.
    pub async fn connect_to(address: &str) -> Result<Self, EngineError> {
        if let Some(socket) = address.strip_prefix("unix://")
            && !Path::new(socket).exists()
        {
            return Err(EngineError::Absent { address: address.to_owned() });
        }
        let docker =
            Docker::connect_with_host(address).map_err(|error| unreachable_engine(address, &error))?;
        let version = docker.version().await.map_err(|error| unreachable_engine(address, &error))?;
        let found = version.api_version.unwrap_or_default();
        if parse_api_version(&found).is_none_or(|found| found < REQUIRED_API) {
            return Err(EngineError::TooOld {
                address: address.to_owned(),
                found,
                required: REQUIRED_API_TEXT,
            });
        }
        let info = docker.info().await.map_err(|error| unreachable_engine(address, &error))?;
        Ok(Self {
            docker,
            address: address.to_owned(),
            architecture: version.arch.unwrap_or_default(),
            processors: info.ncpu.filter(|count| *count > 0).map_or(1.0, |count| count as f64),
        })
    }

    /// Where the engine is, as `DOCKER_HOST` would say it.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Whether folders of this machine can be mounted into its containers.
    pub(crate) fn is_local(&self) -> bool {
        self.address.starts_with("unix://")
    }

    /// Facts about an image the engine has.
    pub async fn image(&self, name: &str) -> Result<ImageInfo, EngineError> {
        match self.docker.inspect_image(name).await {
            Ok(image) => Ok(ImageInfo {
                id: image.id.unwrap_or_default(),
                size_bytes: image.size.unwrap_or(0).max(0) as u64,
                labels: image
                    .config
                    .and_then(|config| config.labels)
                    .unwrap_or_default()
                    .into_iter()
                    .collect(),
            }),
            Err(error) if status_of(&error) == Some(404) => {
                Err(EngineError::ImageAbsent { name: name.to_owned() })
            }
            Err(error) => Err(request(format!("inspect image `{name}`"), &error)),
        }
    }

    /// Our containers on this engine that match, whoever owns them.
    pub async fn list(&self, filter: &LabelFilter) -> Result<Vec<SandboxContainer>, EngineError> {
        let mut wanted = vec![labels::OWNER.to_owned()];
        wanted.extend(filter.run.iter().map(|run| format!("{}={run}", labels::RUN)));
        wanted.extend(filter.sample.iter().map(|sample| format!("{}={sample}", labels::SAMPLE)));
        let filters = HashMap::from([("label".to_owned(), wanted)]);
        let options = ListContainersOptionsBuilder::default().all(true).filters(&filters).build();
        let containers = self
            .docker
            .list_containers(Some(options))
            .await
            .map_err(|error| request("list containers".to_owned(), &error))?;
        Ok(containers
            .into_iter()
            .filter_map(|container| {
                let labels: BTreeMap<String, String> = container.labels?.into_iter().collect();
                let owner =
                    Owner::from_labels(labels.get(labels::OWNER)?, labels.get(labels::OWNER_NAMESPACE));
                Some(SandboxContainer {
                    id: container.id?,
                    image: container.image.unwrap_or_default(),
                    state: container.state.map(|state| state.to_string()).unwrap_or_default(),
                    owner_alive: owner.and_then(|owner| owner.is_alive()),
                    labels,
                })
            })
            .collect())
    }

    /// Removes the containers whose owner is dead: same boot of this machine, and the process gone or its pid now
    /// another's. Those of living owners and of owners that cannot be judged from here are left alone.
    pub async fn reap(&self) -> Result<Reaped, EngineError> {
        let mut reaped = Reaped::default();
        for container in self.list(&LabelFilter::default()).await? {
            if container.owner_alive == Some(false) {
                self.remove(&container.id).await?;
                tracing::info!(container = short_id(&container.id), "removed a sandbox whose owner is dead");
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
            match self.docker.inspect_container(container_id, None::<InspectContainerOptions>).await {
                Err(error) if status_of(&error) == Some(404) => return Ok(()),
                Err(error) => return Err(request(operation(), &error)),
                Ok(_) if until <= Instant::now() => {
                    let reason = format!("it is still there after {} s", REMOVAL_TIMEOUT.as_secs());
                    return Err(EngineError::Request { operation: operation(), reason });
                }
                Ok(_) => tokio::time::sleep(REMOVAL_INTERVAL).await,
            }
        }
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
    pub labels: BTreeMap<String, String>,
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

/// What a reaper did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reaped {
    /// Containers removed.
    pub removed: Vec<String>,
    /// Containers left alone because their owner lives or cannot be judged from here.
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

fn unreachable_engine(address: &str, error: &bollard::errors::Error) -> EngineError {
    let address = address.to_owned();
    match io_kind(error) {
        Some(std::io::ErrorKind::PermissionDenied) => EngineError::PermissionDenied { address },
        Some(std::io::ErrorKind::NotFound) => EngineError::Absent { address },
        _ => EngineError::NotRunning { address, reason: chain(error) },
    }
}

/// The kind of the I/O error at the bottom of an error, if there is one.
fn io_kind(error: &(dyn std::error::Error + 'static)) -> Option<std::io::ErrorKind> {
    std::iter::successors(Some(error), |error| error.source())
        .filter_map(|error| error.downcast_ref::<std::io::Error>())
        .map(std::io::Error::kind)
        .last()
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

fn parse_api_version(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_versions_compare_as_numbers() {
        assert!(parse_api_version("1.9") < Some(REQUIRED_API));
        assert!(parse_api_version("1.53") > Some(REQUIRED_API));
        assert_eq!(parse_api_version(REQUIRED_API_TEXT), Some(REQUIRED_API));
        assert_eq!(parse_api_version("new"), None);
    }

    #[tokio::test]
    async fn an_absent_socket_says_how_to_get_an_engine() {
        let error = Engine::connect_to("unix:///nonexistent/docker.sock").await.unwrap_err();
        assert!(matches!(error, EngineError::Absent { .. }), "{error:?}");
        assert!(error.to_string().contains("apt-get install docker.io"), "{error}");
    }

    #[tokio::test]
    async fn a_socket_nobody_listens_on_says_how_to_start_the_engine() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("docker.sock");
        drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
        let error = Engine::connect_to(&format!("unix://{}", socket.display())).await.unwrap_err();
        assert!(matches!(error, EngineError::NotRunning { .. }), "{error:?}");
        assert!(error.to_string().contains("systemctl start docker"), "{error}");
    }
}
