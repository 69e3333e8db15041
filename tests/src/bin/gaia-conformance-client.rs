//! The client that the official conformance suite asks for, made of our tool host and nothing else: the suite starts it
//! with the address of its server as the last argument and the scenario in the environment.

use std::collections::BTreeMap;
use std::env;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use gaia_agent::tools::oauth::{self, Login, RegisteredClient, TokenStore};
use gaia_agent::tools::{
    CallOrder, HttpWire, Notice, OfferedTool, Protocol, Redactor, Scope, ServerSpec, StartError, ToolHost,
    TransportSpec,
};
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

/// What a scenario wants called; without it every tool is called once.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ScenarioContext {
    tool_calls: Vec<WantedCall>,
    /// Of a client that is registered by hand.
    #[serde(rename = "client_id")]
    client_id: Option<String>,
    #[serde(rename = "client_secret")]
    client_secret: Option<String>,
}

/// For a server on this machine; the suite gives a scenario 30 s.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug, Deserialize)]
struct WantedCall {
    name: String,
    #[serde(default)]
    arguments: Map<String, Value>,
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let url = env::args().next_back().context("the last argument is the address of the server")?;
    let context = match env::var("MCP_CONFORMANCE_CONTEXT") {
        Ok(text) => serde_json::from_str(&text)?,
        Err(_) => ScenarioContext::default(),
    };
    let folder = tempfile::tempdir()?;
    let store = TokenStore::new(folder.path().join("logins.json"));
    let spec = spec(&url, store.clone());
    let host = match start(&spec).await {
        Ok(host) => host,
        // As a user would, who reads that the server wants a login.
        Err(error) => {
            tracing::info!("{error}");
            log_in(&url, &context, &store).await?;
            start(&spec).await?
        }
    };
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
        let output = host.call(tool, call.arguments, &CancellationToken::new()).await;
        tracing::info!("{}: {:?}", call.name, output.content);
    }
    host.close().await;
    Ok(ExitCode::SUCCESS)
}

fn spec(url: &str, tokens: TokenStore) -> ServerSpec {
    let modern = env::var("MCP_CONFORMANCE_PROTOCOL_VERSION").is_ok_and(|version| version.as_str() >= "2026");
    ServerSpec {
        name: "suite".to_owned(),
        transport: TransportSpec::Http {
            url: url.to_owned(),
            headers: BTreeMap::new(),
            bearer_token: None,
            wire: HttpWire::Auto,
            tokens: Some(tokens),
        },
        scope: Scope::Sample,
        enabled_tools: None,
        disabled_tools: Vec::new(),
        startup_timeout: PATIENCE,
        tool_timeout: PATIENCE,
        required: true,
        protocol: if modern { Protocol::Modern } else { Protocol::Legacy },
        call_order: CallOrder::AsDeclared,
        max_concurrent_calls: None,
        redactor: Redactor::default(),
        prefix: None,
    }
}

async fn start(spec: &ServerSpec) -> Result<ToolHost, StartError> {
    let notices = Arc::new(|notice: Notice| tracing::info!("{}", notice.text));
    ToolHost::start(std::slice::from_ref(spec), &[], &BTreeMap::new(), notices, None).await
}

/// With the suite's authorization server, which sends a browser back at once.
async fn log_in(url: &str, context: &ScenarioContext, store: &TokenStore) -> anyhow::Result<()> {
    let client =
        context.client_id.clone().map(|id| RegisteredClient { id, secret: context.client_secret.clone() });
    let login = Login { client, patience: PATIENCE, ..Login::new("suite", url) };
    let browser = |address: &str| {
        let address = address.to_owned();
        tokio::spawn(async move {
            let visited = reqwest::get(address).await.map(|response| response.status());
            tracing::info!("the browser ended at {visited:?}");
        });
    };
    let granted = oauth::login(&login, store, browser).await?;
    tracing::info!("{granted:?}");
    Ok(())
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
