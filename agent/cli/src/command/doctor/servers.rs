//! Each server of the config, started alone: how long that took, what it is, or what is wrong.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use gaia_agent::tools::{Server, ServerSpec, StartError, ToolHost};
use serde::Serialize;

use super::{Check, State};
use crate::config::Loaded;
use crate::environment::FILES_DIR;
use crate::preflight::log_notices;

/// Characters of what is wrong: one line of a wide terminal and a half. The log and `gaia tools` have the whole.
const MAX_ERROR_CHARACTERS: usize = 300;

/// What a server that started says of itself.
#[derive(Debug, Serialize)]
pub(super) struct ServerReport {
    server: String,
    start_ms: u64,
    /// As it calls itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    reported_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reported_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    protocol: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<Tools>,
}

#[derive(Debug, Clone, Copy, Serialize)]
struct Tools {
    offered: usize,
    hidden: usize,
}

/// All side by side; each is closed again before its line is there.
pub(super) async fn check_servers(loaded: &Loaded) -> std::io::Result<Vec<Check>> {
    let files = tempfile::Builder::new().prefix("gaia-files-").tempdir()?;
    let environment = BTreeMap::from([(FILES_DIR.to_owned(), files.path().to_string_lossy().into_owned())]);
    let mut checks = join_all(loaded.servers.iter().map(|spec| check_server(spec, &environment))).await;
    checks.extend(loaded.config.mcp_servers.iter().filter(|(_, server)| !server.enabled).map(|(name, _)| {
        Check::new("server", State::Skipped, format!("{name}: switched off in the config"))
    }));
    Ok(checks)
}

async fn check_server(spec: &ServerSpec, environment: &BTreeMap<String, String>) -> Check {
    let start = Instant::now();
    let started = start_alone(spec, environment).await;
    let took = start.elapsed();
    let mut report = ServerReport {
        server: spec.name.clone(),
        start_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        reported_name: None,
        reported_version: None,
        protocol: None,
        tools: None,
    };
    let (state, detail) = match started {
        Ok(host) => {
            let info = host.servers().next().and_then(Server::info);
            let tools = Tools { offered: host.offered().len(), hidden: host.hidden().len() };
            host.close().await;
            if let Some(info) = info {
                report.protocol = Some(info.protocol_version);
                report.reported_name = info.name;
                report.reported_version = info.version;
            }
            report.tools = Some(tools);
            (State::Ok, found(&report, tools, took))
        }
        // The run would go on without it.
        Err(error) if !spec.required && !matches!(error, StartError::Config { .. }) => {
            (State::Skipped, format!("{} (not required): {}", spec.name, reason(&error, &spec.name)))
        }
        Err(error) => (State::Fail, format!("{}: {}", spec.name, reason(&error, &spec.name))),
    };
    Check { server: Some(report), ..Check::new("server", state, detail) }
}

/// A host of this server only, which also finds the tools that cannot be used.
async fn start_alone(
    spec: &ServerSpec,
    environment: &BTreeMap<String, String>,
) -> Result<ToolHost, StartError> {
    let required = ServerSpec { required: true, ..spec.clone() };
    ToolHost::start(std::slice::from_ref(&required), &[], environment, log_notices(), None).await
}

fn found(report: &ServerReport, tools: Tools, took: Duration) -> String {
    let itself = match (&report.reported_name, &report.reported_version) {
        (Some(name), Some(version)) if !version.is_empty() => format!("{name} {version}"),
        (Some(name), _) => name.clone(),
        (None, _) => "a server without a name".to_owned(),
    };
    let hidden = if tools.hidden > 0 { format!(" ({} hidden)", tools.hidden) } else { String::new() };
    let plural = if tools.offered == 1 { "" } else { "s" };
    format!(
        "{}: {itself}, protocol {}, {} tool{plural}{hidden}, started in {:.1} s",
        report.server,
        report.protocol.as_deref().unwrap_or("unknown"),
        tools.offered,
        took.as_secs_f64(),
    )
}

/// What is wrong, without the name that stands before it.
fn reason(error: &StartError, name: &str) -> String {
    let text = error.to_string();
    let prefix = format!("failed to start MCP server `{name}`: ");
    one_line(text.strip_prefix(&prefix).unwrap_or(&text))
}

/// The lines of an error behind each other.
fn one_line(text: &str) -> String {
    let line = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" | ");
    match line.char_indices().nth(MAX_ERROR_CHARACTERS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_many_lines_is_one_line() {
        assert_eq!(one_line("a:\n  b\n\n  c\n"), "a: | b | c");
        let long = one_line(&"ä".repeat(400));
        assert_eq!(long.chars().count(), MAX_ERROR_CHARACTERS + 1);
    }
}
