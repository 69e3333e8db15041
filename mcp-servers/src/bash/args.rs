//! The command line of `gaia-mcp-bash`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Parser, ValueEnum};
use gaia_sandbox::{
    AddressRange, EgressOptions, HostRule, Labels, Limits, Network, SandboxOptions, UpstreamProxies,
};

use tokio::sync::Semaphore;

use super::MAX_TIMEOUT;
use crate::serve::{ServeArgs, ServeError};

/// Small enough to fetch, with bash, Python and the tools that a model reaches for first.
const DEFAULT_IMAGE: &str = "python:3.11";

/// Variables in which hosts say what belongs to a sample.
pub(super) const FILES_VARIABLE: &str = "GAIA_FILES_DIR";
/// See [`FILES_VARIABLE`].
pub(super) const SAMPLE_VARIABLE: &str = "GAIA_SAMPLE_ID";

/// MCP server that runs shell commands in a Docker container
///
/// Exit codes: 0 the client is gone or a signal came; 2 wrong command line; 4 no Docker or no image; 1 anything else.
#[derive(Debug, Parser)]
#[command(version)]
pub struct BashArgs {
    /// Image the container is made from
    #[arg(long, value_name = "IMAGE", default_value = DEFAULT_IMAGE)]
    pub image: String,

    /// Whether an image that is not there is pulled before the server answers; its progress goes to stderr
    #[arg(long, value_enum, default_value_t = PullArg::Missing)]
    pub pull: PullArg,

    /// Network of the container
    #[arg(long, value_enum, default_value_t = NetworkArg::Off)]
    pub network: NetworkArg,

    /// Host that --network allow lets through: example.org, *.example.org, example.org:8443; may be repeated
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    pub allow_host: Vec<HostRule>,

    /// Addresses that are let through although they are not public, such as 10.1.0.0/16; may be repeated
    #[arg(long, value_name = "CIDR", value_delimiter = ',')]
    pub allow_private: Vec<AddressRange>,

    /// Seconds a command may run when the call does not say, at most 600
    #[arg(long, value_name = "N", default_value_t = 120,
          value_parser = clap::value_parser!(u64).range(1..=MAX_TIMEOUT.as_secs()))]
    pub timeout_sec: u64,

    /// Memory of the container, without swap, such as 512m or 2g
    #[arg(long, value_name = "SIZE", default_value = "2g", value_parser = parse_bytes)]
    pub memory: u64,

    /// Processors of the container, such as 1.5
    #[arg(long, value_name = "N", default_value_t = 2.0, value_parser = parse_cpus)]
    pub cpus: f64,

    /// Processes and threads of the container
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(16..))]
    pub pids: u32,

    /// What all files of the container may take on the disk, such as 20g; a container that writes more is ended
    #[arg(long, value_name = "SIZE", default_value = "10g", value_parser = parse_bytes)]
    pub disk: u64,

    /// OCI runtime known to Docker, such as runsc
    #[arg(long, value_name = "NAME")]
    pub runtime: Option<String>,

    /// Folder shown read-only at /shared_files
    #[arg(long, value_name = "DIR", env = FILES_VARIABLE, hide_env_values = true)]
    pub files_dir: Option<OsString>,

    /// Run that the container is labelled with
    #[arg(long, value_name = "ID", env = "GAIA_RUN_ID", hide_env_values = true)]
    pub run_id: Option<String>,

    /// Sample that the container is labelled with
    #[arg(long, value_name = "ID", env = SAMPLE_VARIABLE, hide_env_values = true)]
    pub sample_id: Option<String>,

    /// Containers at the same time, over HTTP
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..))]
    pub max_containers: u16,

    /// Containers kept ready for new clients, over HTTP, in addition to those in use
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(..=256))]
    pub pool: u16,

    /// Seconds after which a container that nobody uses is removed, over HTTP
    #[arg(long, value_name = "N", default_value_t = 1800, value_parser = clap::value_parser!(u64).range(1..))]
    pub idle_timeout_sec: u64,

    /// Seconds after which a call of a client that takes no progress is answered with a task id; 0 for never
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u64).range(..=MAX_TIMEOUT.as_secs()))]
    pub answer_within_sec: u64,

    /// Start no container before a call: each call names the state that it works on
    #[arg(long, hide = true, env = crate::many::VARIABLE, hide_env_values = true)]
    pub many: bool,

    /// Start one container, run `true` in it, remove it, and end
    #[arg(long)]
    pub check: bool,

    /// Wait for the end of the server that started this, and remove the containers of a killed one
    #[arg(long, hide = true)]
    pub warden: bool,

    #[command(flatten)]
    pub serve: ServeArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PullArg {
    /// Pulled by Docker from its registry
    Missing,
    /// An error that says so
    Never,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum NetworkArg {
    /// No network but the container's own loopback
    Off,
    /// Every public host by HTTP and HTTPS, through a proxy of this server's; nothing of the host or its networks
    On,
    /// The same, but only the hosts named by --allow-host
    Allow,
    /// Docker's bridge: every protocol, but also the services of the host and its networks
    Bridge,
}

impl BashArgs {
    pub(super) fn options(&self) -> Result<SandboxOptions, ServeError> {
        let mut options = SandboxOptions::new(&self.image);
        options.network = match self.network {
            NetworkArg::Off => Network::Off,
            NetworkArg::On => Network::On,
            NetworkArg::Allow => Network::Allow,
            NetworkArg::Bridge => Network::Bridge,
        };
        options.egress = self.egress()?;
        options.files_dir = self.files_dir()?;
        options.limits = Limits {
            memory_bytes: self.memory,
            cpus: self.cpus,
            processes: self.pids,
            disk_bytes: self.disk,
            ..Limits::default()
        };
        // An empty variable is the usual way to unset one.
        let named = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        options.labels = Labels { run: named(&self.run_id), sample: named(&self.sample_id) };
        options.runtime = named(&self.runtime);
        Ok(options)
    }

    fn egress(&self) -> Result<EgressOptions, ServeError> {
        let usage = |text: &str| Err(ServeError::Usage(text.to_owned()));
        match self.network {
            NetworkArg::Allow if self.allow_host.is_empty() => {
                return usage("--network allow lets nothing through without --allow-host HOST");
            }
            NetworkArg::Off | NetworkArg::On | NetworkArg::Bridge if !self.allow_host.is_empty() => {
                return usage("--allow-host has no effect without --network allow");
            }
            NetworkArg::Off | NetworkArg::Bridge if !self.allow_private.is_empty() => {
                return usage("--allow-private has no effect without --network on or allow");
            }
            _ => {}
        }
        let upstream = UpstreamProxies::from_variables(|name| std::env::var(name).ok())
            .map_err(|error| ServeError::Usage(format!("failed to read the proxy variables: {error}")))?;
        Ok(EgressOptions {
            allow_hosts: self.allow_host.clone(),
            allow_private: self.allow_private.clone(),
            upstream,
            ..EgressOptions::default()
        })
    }

    fn files_dir(&self) -> Result<Option<PathBuf>, ServeError> {
        let Some(dir) = self.files_dir.as_ref().filter(|dir| !dir.is_empty()).map(Path::new) else {
            return Ok(None);
        };
        // Docker takes absolute paths only.
        let absolute = fs_err::canonicalize(dir).map_err(|error| ServeError::Usage(error.to_string()))?;
        if !absolute.is_dir() {
            return Err(ServeError::Usage(format!("--files-dir `{}` is not a folder", dir.display())));
        }
        Ok(Some(absolute))
    }

    /// Paths of the attachments as the model sees them, in order of name.
    pub(super) fn attachments(&self) -> Result<Vec<String>, ServeError> {
        let Some(dir) = self.files_dir()? else {
            return Ok(Vec::new());
        };
        let unreadable = |error: std::io::Error| ServeError::Usage(error.to_string());
        let mut paths = Vec::new();
        for entry in fs_err::read_dir(dir).map_err(unreadable)? {
            let name = entry.map_err(unreadable)?.file_name();
            paths.push(format!("/shared_files/{}", name.to_string_lossy()));
        }
        paths.sort();
        Ok(paths)
    }

    pub(super) fn default_timeout(&self) -> Duration {
        Duration::from_secs(self.timeout_sec)
    }

    pub(super) fn idle_timeout(&self) -> Option<Duration> {
        // On stdio the container lives as long as its one client.
        self.serve.http.map(|_address| Duration::from_secs(self.idle_timeout_sec))
    }

    pub(super) fn answer_within(&self) -> Option<Duration> {
        (self.answer_within_sec > 0).then(|| Duration::from_secs(self.answer_within_sec))
    }

    /// How many containers to keep ready: none on stdio, where the only one is started with the server.
    pub(super) fn pool_size(&self) -> Result<usize, ServeError> {
        if self.pool > 0 && self.serve.http.is_none() {
            return Err(ServeError::Usage(
                "--pool has no effect without --http: on stdio the one container starts with the server"
                    .to_owned(),
            ));
        }
        Ok(usize::from(self.pool))
    }

    pub(super) fn max_containers(&self) -> usize {
        match self.serve.http {
            Some(_) => usize::from(self.max_containers),
            // The one client knows how many it works on.
            None => Semaphore::MAX_PERMITS,
        }
    }
}

/// A size as Docker writes it: a number with `k`, `m` or `g`, powers of 1024.
fn parse_bytes(text: &str) -> Result<u64, String> {
    /// Docker refuses less than 6 MiB, and nothing useful runs in less than this.
    const MIN_MEMORY_BYTES: u64 = 64 << 20;
    let lower = text.trim().to_ascii_lowercase();
    let unit = lower.trim_end_matches("ib").trim_end_matches('b');
    let (digits, shift) = match unit.as_bytes().last() {
        Some(b'k') => (&unit[..unit.len() - 1], 10),
        Some(b'm') => (&unit[..unit.len() - 1], 20),
        Some(b'g') => (&unit[..unit.len() - 1], 30),
        _ => (unit, 0),
    };
    let bytes = digits
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(1 << shift))
        .ok_or_else(|| "a size is a whole number with k, m or g, such as 512m".to_owned())?;
    if bytes < MIN_MEMORY_BYTES { Err("at least 64m".to_owned()) } else { Ok(bytes) }
}

fn parse_cpus(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(cpus) if (0.1..=1024.0).contains(&cpus) => Ok(cpus),
        _ => Err("a number of processors from 0.1 to 1024".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_docker_reads_them() {
        assert_eq!(parse_bytes("2g"), Ok(2 << 30));
        assert_eq!(parse_bytes("512M"), Ok(512 << 20));
        assert_eq!(parse_bytes("1GiB"), Ok(1 << 30));
        assert_eq!(parse_bytes("134217728"), Ok(128 << 20));
        for wrong in ["", "g", "-1g", "1.5g", "99999999999g", "1m", "1t"] {
            assert!(parse_bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn empty_variables_count_as_unset() {
        let args = BashArgs::try_parse_from([
            "gaia-mcp-bash",
            "--image",
            "x",
            "--run-id",
            "",
            "--sample-id",
            "",
            "--files-dir",
            "",
        ])
        .unwrap();
        let options = args.options().unwrap();
        assert_eq!((options.labels, options.files_dir), (Labels::default(), None));
    }

    #[test]
    fn attachments_are_listed_by_the_path_inside() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["b.xlsx", "a b.pdf"] {
            fs_err::write(dir.path().join(name), "x").unwrap();
        }
        let path = dir.path().to_str().unwrap();
        let args = BashArgs::try_parse_from(["gaia-mcp-bash", "--image", "x", "--files-dir", path]).unwrap();
        assert_eq!(args.attachments().unwrap(), ["/shared_files/a b.pdf", "/shared_files/b.xlsx"]);
        let absent =
            BashArgs::try_parse_from(["gaia-mcp-bash", "--image", "x", "--files-dir", "/nonexistent"])
                .unwrap();
        assert!(absent.attachments().unwrap_err().to_string().contains("/nonexistent"));
    }

    #[test]
    fn hosts_and_ranges_belong_to_the_networks_that_look_at_them() {
        let options = |arguments: &[&str]| {
            let arguments = ["gaia-mcp-bash"].iter().chain(arguments);
            BashArgs::try_parse_from(arguments)
                .map_err(|error| error.to_string())?
                .options()
                .map_err(|error| error.to_string())
        };
        let allowed = options(&["--network", "allow", "--allow-host", "example.com,*.example.org"]).unwrap();
        assert_eq!((allowed.network, allowed.egress.allow_hosts.len()), (Network::Allow, 2));
        let on = options(&["--network", "on", "--allow-private", "10.0.0.0/8"]).unwrap();
        assert_eq!(on.egress.allow_private, ["10.0.0.0/8".parse().unwrap()]);
        for (wrong, reason) in [
            (vec!["--network", "allow"], "without --allow-host"),
            (vec!["--network", "on", "--allow-host", "example.com"], "without --network allow"),
            (vec!["--allow-private", "10.0.0.0/8"], "without --network on"),
            (vec!["--network", "allow", "--allow-host", "https://example.com/"], "without scheme"),
            (vec!["--network", "on", "--allow-private", "lan"], "range of addresses"),
        ] {
            let error = options(&wrong).unwrap_err();
            assert!(error.contains(reason), "{wrong:?}: {error}");
        }
    }

    #[test]
    fn out_of_range_is_refused() {
        for wrong in [["--timeout-sec", "601"], ["--timeout-sec", "0"], ["--cpus", "0"], ["--pids", "1"]] {
            let args = ["gaia-mcp-bash", "--image", "x"].into_iter().chain(wrong);
            assert!(BashArgs::try_parse_from(args).is_err(), "{wrong:?}");
        }
    }
}
