use std::io::Read;
use std::time::Duration;

use gaia_agent::Part;
use gaia_agent::tools::{ToolOutput, validate};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::Surroundings;
use super::tools::start_all;
use crate::args::{CallArguments, ConfigArguments};
use crate::config::Purpose;
use crate::exit_code::{self, CommandError, CommandResult};
use crate::shown::shown;

pub(super) async fn call(arguments: CallArguments, surroundings: &Surroundings) -> CommandResult {
    let config = ConfigArguments { config: Some(arguments.config), set: arguments.set };
    let loaded = surroundings.load(&config, Vec::new(), Purpose::Tools)?;
    let text = match arguments.arguments.as_str() {
        "-" => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text)?;
            text
        }
        text => text.to_owned(),
    };
    serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(&text).map_err(|error| {
        CommandError::usage(anyhow::Error::from(error).context("the arguments are no JSON object"))
            .with_hint(r#"such as '{"command": "ls"}'"#)
    })?;
    let (host, _files) = start_all(&loaded).await?;
    let output = match host.find(&arguments.tool) {
        // As in a run: what does not fit the schema never reaches the server.
        Some(tool) => Ok(match validate(&text, tool) {
            Ok(values) => host.call(tool, values, &CancellationToken::new()).await,
            Err(reason) => {
                refused(&format!("the arguments of `{}` were not accepted: {reason}", tool.model_name))
            }
        }),
        None => {
            let names: Vec<_> = host.offered().iter().map(|tool| tool.canonical.as_str()).collect();
            let names = names.join(", ");
            Err(CommandError::usage(anyhow::anyhow!(
                "there is no tool `{}`; the tools are {names}",
                arguments.tool
            )))
        }
    };
    host.close().await;
    let output = output?;
    let text =
        if arguments.json { as_json(&output)? } else { as_text(&output, loaded.config.agent.result_bytes) };
    surroundings.console.print(&text)?;
    Ok(if output.is_error { exit_code::TOOL } else { exit_code::SUCCESS })
}

/// The answer to a call that was not made.
fn refused(reason: &str) -> ToolOutput {
    ToolOutput {
        content: vec![Part::Text { text: format!("error: {reason}") }],
        structured: None,
        is_error: true,
        failure: None,
        whole: None,
        duration: Duration::ZERO,
    }
}

/// What the model would be shown, images described.
fn as_text(output: &ToolOutput, limit_bytes: usize) -> String {
    let parts = shown(&output.content, limit_bytes).into_iter().map(|part| match part {
        Part::Text { text } => text,
        media => {
            let (media_type, data) = media.media().unwrap_or_default();
            format!("[{media_type}, about {} bytes]", data.len() / 4 * 3)
        }
    });
    parts.collect::<Vec<_>>().join("\n")
}

fn as_json(output: &ToolOutput) -> CommandResult<String> {
    Ok(serde_json::to_string_pretty(&json!({
        "content": output.content,
        "structured": output.structured,
        "is_error": output.is_error,
        "duration_ms": u64::try_from(output.duration.as_millis()).unwrap_or(u64::MAX),
    }))?)
}
