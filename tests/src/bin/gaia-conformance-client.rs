//! The client that the official conformance suite asks for, made of our tool host and nothing else: the suite starts it
//! with the address of its server as the last argument and the scenario in the environment.

use std::collections::BTreeMap;
use std::env;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use gaia_agent::tools::{
    CallOrder, OfferedTool, Protocol, Scope, ServerSpec, ToolHost, ToolOutput, TransportSpec,
};
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

/// What a scenario wants called; without it every tool is called once.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ScenarioContext {
    tool_calls: Vec<WantedCall>,
}

#[derive(Debug, Deserialize)]
struct WantedCall {
    name: String,
    #[serde(default)]
    arguments: Map<String, Value>,
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let url = env::args().next_back().context("the last argument is the address of the server")?;
    let context = match env::var("MCP_CONFORMANCE_CONTEXT") {
        Ok(text) => serde_json::from_str(&text)?,
        Err(_) => ScenarioContext::default(),
    };
    let modern = env::var("MCP_CONFORMANCE_PROTOCOL_VERSION").is_ok_and(|version| version.as_str() >= "2026");
    let spec = ServerSpec {
        name: "suite".to_owned(),
        transport: TransportSpec::Http { url, headers: BTreeMap::new(), bearer_token: None },
        scope: Scope::Sample,
        enabled_tools: None,
        disabled_tools: Vec::new(),
        startup_timeout: Duration::from_secs(20),
        tool_timeout: Duration::from_secs(20),
        required: true,
        protocol: if modern { Protocol::Modern } else { Protocol::Legacy },
        call_order: CallOrder::AsDeclared,
    };
    let notices = Arc::new(|notice: gaia_agent::tools::Notice| tracing::info!("{}", notice.text));
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let host = ToolHost::start(&[spec], &[], &BTreeMap::new(), notices, None).await?;
    for hidden in host.hidden() {
        tracing::info!("hidden: {} {}", hidden.tool, hidden.reason);
    }
    let calls = match context.tool_calls.is_empty() {
        false => context.tool_calls,
        true => host
            .offered()
            .iter()
            .map(|tool| WantedCall { name: tool.tool.clone(), arguments: sample_arguments(tool, &host) })
            .collect(),
    };
    for call in calls {
        let Some(tool) = host.offered().iter().find(|tool| tool.tool == call.name) else {
            tracing::info!("`{}` is not offered", call.name);
            continue;
        };
        let output: ToolOutput = host.call(tool, call.arguments, &CancellationToken::new()).await;
        tracing::info!("{}: {:?}", call.name, output.content);
    }
    host.close().await;
    Ok(ExitCode::SUCCESS)
}

/// A value for each property that the schema names. A tool that asks for a schema wants to see what we got of another.
fn sample_arguments(tool: &OfferedTool, host: &ToolHost) -> Map<String, Value> {
    let other = host.offered().iter().find(|other| other.tool != tool.tool);
    let properties = tool.input_schema.get("properties").and_then(Value::as_object);
    let sample = |name: &String, property: &Value| match (name.as_str(), other) {
        ("schema", Some(other)) => other.input_schema.clone(),
        _ => match property.get("type").and_then(Value::as_str) {
            Some("number" | "integer") => Value::from(1),
            Some("boolean") => Value::from(true),
            Some("array") => Value::Array(Vec::new()),
            Some("object") => Value::Object(Map::new()),
            _ => Value::from("text"),
        },
    };
    properties.into_iter().flatten().map(|(name, property)| (name.clone(), sample(name, property))).collect()
}
