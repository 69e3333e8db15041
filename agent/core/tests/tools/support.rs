use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gaia_agent::message::Part;
use gaia_agent::tools::{
    CallOrder, Notice, NoticeSink, Protocol, Redactor, Scope, ServerSpec, StartError, ToolHost, ToolOutput,
    TransportSpec,
};
use libtest_mimic::Trial;
use serde_json::{Map, Value};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// For events that must come: far above what a loaded machine needs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A trial with a runtime of its own.
pub(crate) fn trial<F>(name: &'static str, body: fn() -> F) -> Trial
where
    F: Future<Output = ()> + 'static,
{
    Trial::test(name, move || {
        block_on(body);
        Ok(())
    })
}

pub(crate) fn block_on<F: Future<Output = ()>>(body: fn() -> F) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(body());
}

/// `trials![name, …]`: each an async function of this module.
macro_rules! trials {
    ($($name:ident),* $(,)?) => {
        pub(crate) fn trials() -> Vec<libtest_mimic::Trial> {
            vec![$(crate::support::trial(concat!(module_path!(), "::", stringify!($name)), $name)),*]
        }
    };
}
pub(crate) use trials;

/// The peer as a server of the given name, in a mode.
pub(crate) fn peer(name: &str, mode: &[&str]) -> ServerSpec {
    let own = std::env::current_exe().unwrap();
    let arguments = ["mcp-server"].iter().chain(mode).map(|&argument| argument.to_owned()).collect();
    stdio(name, own.to_str().unwrap(), arguments)
}

/// The peer behind a shell that does something first; `"$@"` in the script is the peer's command line.
pub(crate) fn wrapped_peer(name: &str, script: &str, mode: &[&str]) -> ServerSpec {
    let own = std::env::current_exe().unwrap().to_str().unwrap().to_owned();
    let rest = ["sh".to_owned(), own, "mcp-server".to_owned()];
    let arguments = ["-c".to_owned(), script.to_owned()]
        .into_iter()
        .chain(rest)
        .chain(mode.iter().map(|&argument| argument.to_owned()))
        .collect();
    stdio(name, "sh", arguments)
}

pub(crate) fn stdio(name: &str, command: &str, args: Vec<String>) -> ServerSpec {
    server(name, TransportSpec::Stdio { command: command.to_owned(), args, env: BTreeMap::new(), cwd: None })
}

pub(crate) fn server(name: &str, transport: TransportSpec) -> ServerSpec {
    ServerSpec {
        name: name.to_owned(),
        transport,
        scope: Scope::Sample,
        enabled_tools: None,
        disabled_tools: Vec::new(),
        startup_timeout: PATIENCE,
        tool_timeout: PATIENCE,
        required: true,
        protocol: Protocol::Auto,
        call_order: CallOrder::AsDeclared,
        max_concurrent_calls: None,
        redactor: Redactor::default(),
        prefix: None,
    }
}

pub(crate) fn env_of(spec: &mut ServerSpec) -> &mut BTreeMap<String, String> {
    match &mut spec.transport {
        TransportSpec::Stdio { env, .. } => env,
        TransportSpec::Http { .. } => panic!("an HTTP server has no environment"),
    }
}

#[derive(Clone, Default)]
pub(crate) struct Notices {
    heard: Arc<Mutex<Vec<Notice>>>,
    changed: Arc<Notify>,
}

impl Notices {
    pub(crate) fn sink(&self) -> NoticeSink {
        let this = self.clone();
        Arc::new(move |notice| {
            this.heard.lock().unwrap().push(notice);
            this.changed.notify_waiters();
        })
    }

    /// The first notice with `part` in its text, waiting for it.
    pub(crate) async fn wait_for(&self, part: &str) -> Notice {
        let found = async {
            loop {
                let changed = self.changed.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                if let Some(notice) = self.all().into_iter().find(|notice| notice.text.contains(part)) {
                    return notice;
                }
                changed.await;
            }
        };
        let heard = tokio::time::timeout(PATIENCE, found).await;
        heard.unwrap_or_else(|_| panic!("no notice with {part:?} in {:#?}", self.all()))
    }

    pub(crate) fn all(&self) -> Vec<Notice> {
        self.heard.lock().unwrap().clone()
    }
}

pub(crate) async fn start(specs: &[ServerSpec]) -> Result<ToolHost, StartError> {
    start_with(specs, &Notices::default(), None).await
}

pub(crate) async fn start_with(
    specs: &[ServerSpec],
    notices: &Notices,
    answer_tool: Option<&str>,
) -> Result<ToolHost, StartError> {
    let environment = BTreeMap::from([("GAIA_SAMPLE_ID".to_owned(), "sample-1".to_owned())]);
    ToolHost::start(specs, &[], &environment, notices.sink(), answer_tool).await
}

pub(crate) async fn call(host: &ToolHost, tool: &str, arguments: Value) -> ToolOutput {
    call_with(host, tool, arguments, &CancellationToken::new()).await
}

pub(crate) async fn call_with(
    host: &ToolHost,
    tool: &str,
    arguments: Value,
    cancel: &CancellationToken,
) -> ToolOutput {
    let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
    let tool = host.find(tool).unwrap_or_else(|| panic!("no tool {tool} in {:?}", host.offered()));
    host.call(tool, Map::from_iter(arguments), cancel).await
}

pub(crate) fn text(output: &ToolOutput) -> String {
    let texts = output.content.iter().map(|part| match part {
        Part::Text { text } => text.as_str(),
        _ => "[media]",
    });
    texts.collect::<Vec<_>>().join("\n")
}

pub(crate) fn names(host: &ToolHost) -> Vec<&str> {
    host.offered().iter().map(|tool| tool.model_name.as_str()).collect()
}

/// Whether the process runs; a dead one that nobody has collected yet does not.
pub(crate) fn runs(pid: u32) -> bool {
    match fs_err::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => !stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with(['Z', 'X']),
        Err(_) => false,
    }
}

/// Waits until a killed process has really gone: the kernel takes a moment.
pub(crate) async fn gone(pid: u32) {
    let wait = async {
        while runs(pid) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), wait)
        .await
        .unwrap_or_else(|_| panic!("process {pid} still runs"));
}
