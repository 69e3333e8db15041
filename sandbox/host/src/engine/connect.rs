//! Finding the engine and speaking to it: a local socket, TCP with or without TLS, or ssh.

use std::path::{Path, PathBuf};

use bollard::{API_DEFAULT_VERSION, Docker};

use super::ssh::{self, Destination};
use super::{Brand, Engine, chain};
use crate::error::EngineError;

/// Oldest API we use: Docker 20.10, what Debian 12 has.
const REQUIRED_API: (u32, u32) = (1, 41);
const REQUIRED_API_TEXT: &str = "1.41";

/// Where an engine of the machine listens.
const SYSTEM_SOCKET: &str = "/var/run/docker.sock";

/// Where engines of a user listen, below `XDG_RUNTIME_DIR` (rootless Docker, Podman) and below the home folder (Docker
/// Desktop on macOS and on Linux).
const RUNTIME_SOCKETS: [&str; 2] = ["docker.sock", "podman/podman.sock"];
const HOME_SOCKETS: [&str; 2] = [".docker/run/docker.sock", ".docker/desktop/docker.sock"];

/// Where Podman listens for all users of the machine.
const PODMAN_SOCKET: &str = "/run/podman/podman.sock";

/// Seconds for a request that is not a stream; bollard's own default, which also bounds a start on a busy engine.
pub(super) const REQUEST_SECONDS: u64 = 120;

impl Engine {
    /// Connects to `DOCKER_HOST` (`unix://`, `tcp://`, `https://`, `ssh://`), else to the first socket of this machine
    /// that is there: the system's, the user's rootless engine, Docker Desktop, Podman. As the `docker` command does, it
    /// uses TLS when `DOCKER_TLS_VERIFY` is set, with the certificates in `DOCKER_CERT_PATH` or `~/.docker`. The API
    /// must be recent enough.
    pub async fn connect() -> Result<Self, EngineError> {
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let folder = |name: &str| variable(name).map(PathBuf::from);
        let address =
            variable("DOCKER_HOST").map(|address| address.to_string_lossy().into_owned()).unwrap_or_else(
                || local_address(Path::new(SYSTEM_SOCKET), folder("XDG_RUNTIME_DIR"), folder("HOME")),
            );
        if address.starts_with("https://") || variable("DOCKER_TLS_VERIFY").is_some() && is_tcp(&address) {
            let certificates = folder("DOCKER_CERT_PATH")
                .or_else(|| Some(folder("HOME")?.join(".docker")))
                .unwrap_or_else(|| PathBuf::from("/root/.docker"));
            return Self::connect_with_tls(&address, &certificates).await;
        }
        Self::connect_to(&address).await
    }

    /// Connects to the engine at an address like those in `DOCKER_HOST`, without TLS.
    pub async fn connect_to(address: &str) -> Result<Self, EngineError> {
        if let Some(socket) = address.strip_prefix("unix://")
            && !Path::new(socket).exists()
        {
            return Err(EngineError::Absent { address: address.to_owned() });
        }
        let connected = if is_tcp(address) {
            Docker::connect_with_http(address, REQUEST_SECONDS, API_DEFAULT_VERSION)
        } else if address.starts_with("ssh://") {
            let destination = Destination::parse(address).ok_or_else(|| EngineError::Unreachable {
                address: address.to_owned(),
                reason: "it is not of the form ssh://[user@]host[:port]".to_owned(),
            })?;
            ssh::connect(destination)
        } else {
            Docker::connect_with_unix(address, REQUEST_SECONDS, API_DEFAULT_VERSION)
        };
        Self::check(address, connected.map_err(|error| unreachable_engine(address, &error))?).await
    }

    /// Connects to an engine over TLS. The folder holds `ca.pem`, `cert.pem` and `key.pem`, as the `docker` command
    /// expects them.
    pub async fn connect_with_tls(address: &str, certificates: &Path) -> Result<Self, EngineError> {
        let unusable = |reason: String| EngineError::Unreachable { address: address.to_owned(), reason };
        let file = |name: &str| {
            let path = certificates.join(name);
            match std::fs::File::open(&path) {
                Ok(_) => Ok(path),
                Err(error) => Err(unusable(format!("cannot read `{}`: {error}", path.display()))),
            }
        };
        let (key, certificate, authority) = (file("key.pem")?, file("cert.pem")?, file("ca.pem")?);
        let docker = Docker::connect_with_ssl(
            address,
            &key,
            &certificate,
            &authority,
            REQUEST_SECONDS,
            API_DEFAULT_VERSION,
        )
        .map_err(|error| unusable(chain(&error)))?;
        Self::check(address, docker).await
    }

    async fn check(address: &str, docker: Docker) -> Result<Self, EngineError> {
        let version = docker.version().await.map_err(|error| unreachable_engine(address, &error))?;
        let found = version.api_version.unwrap_or_default();
        if parse_api_version(&found).is_none_or(|found| found < REQUIRED_API) {
            return Err(EngineError::TooOld {
                address: address.to_owned(),
                found,
                required: REQUIRED_API_TEXT,
            });
        }
        let components = version.components.unwrap_or_default();
        let brand = match components.iter().any(|component| component.name == "Podman Engine") {
            true => Brand::Podman,
            false => Brand::Docker,
        };
        let info = docker.info().await.map_err(|error| unreachable_engine(address, &error))?;
        Ok(Self {
            docker,
            address: address.to_owned(),
            brand,
            version: version.version.unwrap_or_default(),
            architecture: version.arch.unwrap_or_default(),
            processors: info.ncpu.filter(|count| *count > 0).map_or(1.0, |count| count as f64),
        })
    }
}

fn is_tcp(address: &str) -> bool {
    address.starts_with("tcp://") || address.starts_with("http://")
}

/// The first socket that is there; the system's when none is, so that the error names it.
fn local_address(system: &Path, runtime: Option<PathBuf>, home: Option<PathBuf>) -> String {
    let below = |folder: Option<PathBuf>, names: [&'static str; 2]| {
        folder.into_iter().flat_map(move |folder| names.map(|name| folder.join(name)))
    };
    let socket = std::iter::once(system.to_owned())
        .chain(below(runtime, RUNTIME_SOCKETS))
        .chain(below(home, HOME_SOCKETS))
        .chain([PathBuf::from(PODMAN_SOCKET)])
        .find(|socket| socket.exists())
        .unwrap_or_else(|| system.to_owned());
    format!("unix://{}", socket.display())
}

fn unreachable_engine(address: &str, error: &bollard::errors::Error) -> EngineError {
    let address = address.to_owned();
    if !address.starts_with("unix://") {
        return EngineError::Unreachable { address, reason: chain(error) };
    }
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

    #[tokio::test]
    async fn an_engine_elsewhere_that_cannot_be_reached_is_not_told_to_be_started_here() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let error = Engine::connect_to(&format!("tcp://{free}")).await.unwrap_err().to_string();
        assert!(error.contains(&free.to_string()) && error.contains("DOCKER_HOST"), "{error}");
        assert!(!error.contains("systemctl"), "{error}");
    }

    #[tokio::test]
    async fn a_certificate_that_is_missing_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let error = Engine::connect_with_tls("tcp://127.0.0.1:1", folder.path()).await.unwrap_err();
        let key = folder.path().join("key.pem");
        assert!(error.to_string().contains(&key.display().to_string()), "{error}");
    }

    #[test]
    fn the_first_socket_that_is_there_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let found = || local_address(&path("system"), Some(path("runtime")), Some(path("home")));
        let address = |name: &str| format!("unix://{}", path(name).display());
        if !Path::new(PODMAN_SOCKET).exists() {
            assert_eq!(found(), address("system"), "named when there is none");
        }
        // The last choice first: each is better than those before.
        for name in [
            "home/.docker/desktop/docker.sock",
            "home/.docker/run/docker.sock",
            "runtime/podman/podman.sock",
            "runtime/docker.sock",
            "system",
        ] {
            fs_err::create_dir_all(path(name).parent().unwrap()).unwrap();
            fs_err::write(path(name), "").unwrap();
            assert_eq!(found(), address(name));
        }
    }
}
