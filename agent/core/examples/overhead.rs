//! What a call costs through the tool host, beside the same call through rmcp's bare client, to the same echo server
//! over stdio in the same run; and whether a thousand starts leave a process behind.
//!
//! `cargo run --release -p gaia-agent --example overhead [CALLS [STARTS]]`
#![allow(clippy::print_stdout, reason = "the figures are the output")]

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use gaia_agent::tools::{
    CallOrder, OfferedTool, Protocol, Redactor, Scope, Server, ServerSpec, ToolHost, TransportSpec,
};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RunningService};
use rmcp::transport::TokioChildProcess;
use rmcp::{RoleClient, RoleServer, ServerHandler, ServiceExt};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

/// Pairs of servers: where the scheduler puts a process can double the time of its calls.
const PAIRS: usize = 20;

/// Calls of each kind that are made to a pair but not counted.
const WARM_UP: usize = 50;

/// Servers that start at the same time.
const STARTS_AT_ONCE: usize = 8;

struct Echo;

impl ServerHandler for Echo {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = json!({ "type": "object", "properties": { "text": { "type": "string" } } });
        let schema = schema.as_object().cloned().unwrap_or_default();
        Ok(ListToolsResult::with_all_items(vec![Tool::new("echo", "says it again", Arc::new(schema))]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        let text = arguments.get("text").and_then(Value::as_str).unwrap_or_default().to_owned();
        Ok(CallToolResponse::Complete(CallToolResult::success(vec![ContentBlock::text(text)])))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "serve") {
        Echo.serve(rmcp::transport::stdio()).await?.waiting().await?;
        return Ok(());
    }
    let number = |index: usize, default: usize| -> Result<usize, std::num::ParseIntError> {
        arguments.get(index).map_or(Ok(default), |text| text.parse())
    };
    let (calls, starts) = (number(0, 4_000)?, number(1, 1_000)?);
    compare(calls).await?;
    start_many(starts).await
}

fn spec(environment: BTreeMap<String, String>) -> Result<ServerSpec, Box<dyn Error>> {
    Ok(ServerSpec {
        name: "echo".to_owned(),
        transport: TransportSpec::Stdio {
            command: std::env::current_exe()?.to_string_lossy().into_owned(),
            args: vec!["serve".to_owned()],
            env: environment,
            cwd: None,
        },
        scope: Scope::Run,
        enabled_tools: None,
        disabled_tools: Vec::new(),
        startup_timeout: Duration::from_secs(60),
        tool_timeout: Duration::from_secs(60),
        required: true,
        protocol: Protocol::Auto,
        call_order: CallOrder::AsDeclared,
        max_concurrent_calls: None,
        redactor: Redactor::default(),
        prefix: None,
    })
}

fn arguments() -> Map<String, Value> {
    Map::from_iter([("text".to_owned(), json!("The quick brown fox jumps over the lazy dog. ".repeat(4)))])
}

async fn compare(calls: usize) -> Result<(), Box<dyn Error>> {
    let (mut through_host, mut through_rmcp, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..PAIRS {
        let (mut ours, mut theirs) = pair(calls.div_ceil(PAIRS)).await?;
        ratios.push(quantiles(&mut ours).0 / quantiles(&mut theirs).0);
        through_host.append(&mut ours);
        through_rmcp.append(&mut theirs);
    }
    let (ours, theirs) = (quantiles(&mut through_host), quantiles(&mut through_rmcp));
    ratios.sort_unstable_by(f64::total_cmp);
    println!("calls: {} of each kind, in turn, to {PAIRS} pairs of servers", through_host.len());
    println!("through the host:   median {:.1} us, p90 {:.1} us", ours.0, ours.1);
    println!("through bare rmcp:  median {:.1} us, p90 {:.1} us", theirs.0, theirs.1);
    println!(
        "ratio of medians:   {:.3}; of each pair: median {:.3}, from {:.3} to {:.3}",
        ours.0 / theirs.0,
        ratios[PAIRS / 2],
        ratios[0],
        ratios[PAIRS - 1]
    );
    Ok(())
}

/// Calls to one server through the host and to another through rmcp.
async fn pair(calls: usize) -> Result<(Vec<Duration>, Vec<Duration>), Box<dyn Error>> {
    // With a secret, so that results are searched as they are in a run.
    let secret = BTreeMap::from([("API_KEY".to_owned(), "sk-0123456789".to_owned())]);
    let host = ToolHost::start(&[spec(secret)?], &[], &BTreeMap::new(), Arc::new(|_| ()), None).await?;
    let tool = host.find("echo").ok_or("no echo")?.clone();
    let mut command = tokio::process::Command::new(std::env::current_exe()?);
    command.arg("serve");
    let bare: RunningService<RoleClient, ()> = ().serve(TokioChildProcess::new(command)?).await?;
    let (mut through_host, mut through_rmcp) = (Vec::new(), Vec::new());
    // One of each in turn: both then meet the same load of the machine.
    for number in 0..calls + WARM_UP {
        let ours = host_call(&host, &tool).await?;
        let begin = Instant::now();
        let request = CallToolRequestParams::new("echo").with_arguments(arguments());
        if bare.call_tool(request).await?.content.is_empty() {
            return Err("rmcp's client got nothing".into());
        }
        let theirs = begin.elapsed();
        if number >= WARM_UP {
            through_host.push(ours);
            through_rmcp.push(theirs);
        }
    }
    bare.cancel().await?;
    host.close().await;
    Ok((through_host, through_rmcp))
}

async fn host_call(host: &ToolHost, tool: &OfferedTool) -> Result<Duration, Box<dyn Error>> {
    let begin = Instant::now();
    let output = host.call(tool, arguments(), &CancellationToken::new()).await;
    match output.is_error {
        true => Err(format!("the host's call failed: {output:?}").into()),
        false => Ok(begin.elapsed()),
    }
}

/// Median and 90th percentile in microseconds.
fn quantiles(times: &mut [Duration]) -> (f64, f64) {
    times.sort_unstable();
    let at = |share: usize| times.get(times.len() * share / 100).map_or(0.0, |time| time.as_secs_f64() * 1e6);
    (at(50), at(90))
}

async fn start_many(starts: usize) -> Result<(), Box<dyn Error>> {
    let begin = Instant::now();
    let mut times = Vec::new();
    let spec = spec(BTreeMap::new())?;
    while times.len() < starts {
        let one = || async {
            let begin = Instant::now();
            let server = Server::start(&spec, &BTreeMap::new(), Arc::new(|_| ())).await?;
            let took = begin.elapsed();
            server.close().await;
            Ok::<_, gaia_agent::tools::StartError>(took)
        };
        let batch = join_all((0..STARTS_AT_ONCE.min(starts - times.len())).map(|_| one())).await;
        times.extend(batch.into_iter().collect::<Result<Vec<_>, _>>()?);
    }
    let left = children()?;
    let (median, p90) = quantiles(&mut times);
    println!(
        "starts: {} in {:.1} s, {STARTS_AT_ONCE} at a time; median {:.1} ms, p90 {:.1} ms; processes left: {left}",
        times.len(),
        begin.elapsed().as_secs_f64(),
        median / 1e3,
        p90 / 1e3
    );
    if left == 0 { Ok(()) } else { Err("processes were left behind".into()) }
}

/// Processes whose parent is this one, dead ones that nobody has collected included.
fn children() -> Result<usize, Box<dyn Error>> {
    let own = std::process::id().to_string();
    let mut count = 0;
    for entry in fs_err::read_dir("/proc")? {
        let stat = fs_err::read_to_string(entry?.path().join("stat")).unwrap_or_default();
        let parent = stat.rsplit(')').next().unwrap_or_default().split_whitespace().nth(1).map(str::to_owned);
        count += usize::from(parent.as_deref() == Some(&own));
    }
    Ok(count)
}
