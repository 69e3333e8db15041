//! Flags of runs on more than one machine.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::environment::Environment;
use crate::fleet::{ClaimRules, Connection, Coordination, Earlier};

/// Who one is at the server. What is secret comes from the environment.
#[derive(Debug, Clone, Default, Args)]
pub struct NatsArguments {
    /// Credentials file for the NATS server (GAIA_NATS_USER and GAIA_NATS_PASSWORD, or GAIA_NATS_TOKEN, instead)
    #[arg(long, value_name = "FILE", requires = "nats")]
    pub nats_creds: Option<PathBuf>,

    /// File with the seed of an nkey
    #[arg(long, value_name = "FILE", requires = "nats", conflicts_with = "nats_creds")]
    pub nats_nkey: Option<PathBuf>,

    /// Certificates (PEM) that the server's is checked against, beside those of the system
    #[arg(long, value_name = "FILE", requires = "nats")]
    pub nats_ca: Option<PathBuf>,

    /// Certificate (PEM) of this client
    #[arg(long, value_name = "FILE", requires_all = ["nats", "nats_key"])]
    pub nats_cert: Option<PathBuf>,

    /// Key (PEM) of this client's certificate
    #[arg(long, value_name = "FILE", requires_all = ["nats", "nats_cert"])]
    pub nats_key: Option<PathBuf>,
}

impl NatsArguments {
    fn connection(&self, url: &str, environment: &Environment) -> Connection {
        let connection = Connection {
            url: url.to_owned(),
            creds: self.nats_creds.clone(),
            nkey: self.nats_nkey.clone(),
            ca: self.nats_ca.clone(),
            client_certificate: self.nats_cert.clone().zip(self.nats_key.clone()),
            ..Connection::default()
        };
        connection.with_secrets_of(environment)
    }
}

/// Of the coordinator of a run.
#[derive(Debug, Clone, Default, Args)]
pub struct FleetArguments {
    /// Have the samples run by `gaia worker` processes that are at this NATS server, which must have JetStream:
    /// nats://HOST:4222, tls://…, or several with commas between
    #[arg(long, value_name = "URL", help_heading = "More than one machine")]
    pub nats: Option<String>,

    #[command(flatten, next_help_heading = "More than one machine")]
    pub server: NatsArguments,

    /// A worker that gives no sign of life for so long loses its samples to others
    #[arg(long, value_name = "TIME", requires = "nats", default_value = "30s", value_parser = humantime::parse_duration)]
    pub claim_timeout: Duration,

    /// A sample that takes down whoever works on it so often ends in an error
    #[arg(long, value_name = "N", requires = "nats", default_value_t = 3)]
    pub max_deliveries: u32,
}

impl FleetArguments {
    /// `None` for a run on this machine.
    pub(crate) fn coordination(&self, earlier: Earlier, environment: &Environment) -> Option<Coordination> {
        let connection = self.server.connection(self.nats.as_deref()?, environment);
        let timeout_ms = u64::try_from(self.claim_timeout.as_millis()).unwrap_or(u64::MAX);
        let rules = ClaimRules { timeout_ms, max_begun: self.max_deliveries.max(1) };
        Some(Coordination { connection, rules, earlier })
    }
}

#[derive(Debug, Args)]
pub struct WorkerArguments {
    /// NATS server where runs are offered: nats://HOST:4222, tls://…, or several with commas between
    #[arg(long, value_name = "URL", env = "GAIA_NATS_URL")]
    pub nats: String,

    #[command(flatten)]
    pub server: NatsArguments,

    /// Samples worked on at the same time
    #[arg(long, value_name = "N", default_value = "4")]
    pub concurrency: NonZeroUsize,

    /// Config whose MCP servers, model endpoint and agent this worker may start and use; a run that wants others is
    /// refused (repeatable)
    #[arg(long = "config", value_name = "FILE")]
    pub configs: Vec<PathBuf>,

    /// Start whatever command a run names, and send requests and keys where it says: only where everybody who may
    /// write to the NATS server may also run commands here
    #[arg(long, conflicts_with = "configs")]
    pub trust_coordinator: bool,

    /// On SIGTERM or Ctrl-C: time that running samples get to end before they are handed back
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = humantime::parse_duration)]
    pub drain_timeout: Duration,

    /// End when no run wanted this worker for so long; without it, wait for ever
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub exit_when_idle: Option<Duration>,
}

impl WorkerArguments {
    pub fn connection(&self, environment: &Environment) -> Connection {
        self.server.connection(&self.nats, environment)
    }
}

#[derive(Debug, Args)]
pub struct WorkersArguments {
    /// NATS server: nats://HOST:4222, tls://…, or several with commas between
    #[arg(long, value_name = "URL", env = "GAIA_NATS_URL")]
    pub nats: String,

    #[command(flatten)]
    pub server: NatsArguments,

    /// Print JSON instead of a table
    #[arg(long)]
    pub json: bool,
}

impl WorkersArguments {
    pub fn connection(&self, environment: &Environment) -> Connection {
        self.server.connection(&self.nats, environment)
    }
}
