use std::collections::BTreeMap;

use comfy_table::{Table, presets};
use gaia_agent::tools::{ServerSpec, ToolHost, TransportSpec};
use serde::Serialize;
use tempfile::TempDir;

use super::Surroundings;
use crate::args::ToolsArguments;
use crate::config::{Loaded, Purpose};
use crate::environment::FILES_DIR;
use crate::exit_code::{self, CommandError, CommandResult};
use crate::preflight::{log_notices, start_error};

/// Characters of a description in the table.
const DESCRIPTION_CHARACTERS: usize = 60;

/// A row of the table.
#[derive(Debug, Serialize)]
struct ToolRow {
    /// What the model calls it; `None` when it is hidden.
    model_name: Option<String>,
    /// `server/tool`.
    tool: String,
    server: String,
    origin: String,
    /// Why the model is not offered it.
    #[serde(skip_serializing_if = "Option::is_none")]
    hidden: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
}

pub(super) async fn tools(arguments: ToolsArguments, surroundings: &Surroundings) -> CommandResult {
    let loaded = surroundings.load(&arguments.config, Vec::new(), Purpose::Tools)?;
    let (host, _files) = start_all(&loaded).await?;
    let rows = rows(&host, &loaded.servers);
    host.close().await;
    let text = if arguments.json { serde_json::to_string_pretty(&rows)? } else { table(&rows) };
    surroundings.console.print(&text)?;
    Ok(exit_code::SUCCESS)
}

/// Starts every server of the config, as one task would see them, with an empty folder of files.
pub(super) async fn start_all(loaded: &Loaded) -> CommandResult<(ToolHost, TempDir)> {
    if loaded.servers.is_empty() {
        return Err(CommandError::usage(anyhow::anyhow!("the config has no MCP server"))
            .with_hint("add a table `[mcp_servers.NAME]`, or name another config"));
    }
    let files = tempfile::Builder::new().prefix("gaia-files-").tempdir()?;
    let environment = BTreeMap::from([(FILES_DIR.to_owned(), files.path().to_string_lossy().into_owned())]);
    let answer_tool = Some(loaded.config.agent.answer_tool.as_str());
    let host = ToolHost::start(&loaded.servers, &[], &environment, log_notices(), answer_tool)
        .await
        .map_err(start_error)?;
    Ok((host, files))
}

fn rows(host: &ToolHost, servers: &[ServerSpec]) -> Vec<ToolRow> {
    let origin =
        |name: &str| servers.iter().find(|server| server.name == name).map_or_else(String::new, origin);
    let offered = host.offered().iter().map(|tool| ToolRow {
        model_name: Some(tool.model_name.clone()),
        tool: tool.canonical.clone(),
        server: tool.server.clone(),
        origin: origin(&tool.server),
        hidden: None,
        description: Some(tool.description.clone()),
    });
    let hidden = host.hidden().iter().map(|tool| ToolRow {
        model_name: None,
        tool: format!("{}/{}", tool.server, tool.tool),
        server: tool.server.clone(),
        origin: origin(&tool.server),
        hidden: Some(tool.reason.clone()),
        description: None,
    });
    offered.chain(hidden).collect()
}

/// The program or the host; arguments and paths of URLs may hold keys.
fn origin(server: &ServerSpec) -> String {
    match &server.transport {
        TransportSpec::Stdio { command, .. } => command.clone(),
        TransportSpec::Http { url, .. } => {
            let host = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
            let host = host.split(['/', '?', '#']).next().unwrap_or_default();
            host.rsplit('@').next().unwrap_or_default().to_owned()
        }
    }
}

fn table(rows: &[ToolRow]) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header(["Name", "Tool", "Origin", "Description"]);
    for row in rows {
        let about = match (&row.hidden, &row.description) {
            (Some(reason), _) => format!("hidden: {reason}"),
            (None, description) => {
                let line = description.as_deref().and_then(|text| text.lines().next()).unwrap_or_default();
                match line.char_indices().nth(DESCRIPTION_CHARACTERS) {
                    Some((end, _)) => format!("{}…", &line[..end]),
                    None => line.to_owned(),
                }
            }
        };
        let name = row.model_name.as_deref().unwrap_or("–");
        table.add_row([name, &row.tool, &row.origin, &about]);
    }
    table.to_string()
}
