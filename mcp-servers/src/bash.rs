//! A shell in a container for any MCP client.

mod args;
mod describe;
mod files;
mod jobs;
mod picture;
mod places;
mod pull;
mod render;
mod slot;
mod tasks;
mod terminal;
mod tools;
mod view;
mod warden;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gaia_sandbox::{Command, Engine, EngineError, Input, Pool, Sandbox, SandboxOptions};
use rmcp::model::{CallToolResult, JsonObject, Tool};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub use self::args::BashArgs;
use self::args::PullArg;
use self::jobs::{LongCall, Work};
use self::places::Places;
use self::render::Circumstances;
use self::slot::{Blueprint, Place, SlotError};
use self::view::{View, Viewer};
use self::warden::Warden;
use crate::arguments::{ArgumentError, Arguments};
use crate::serve::{ServeError, Start};
use crate::toolset::{
    Address, Addressing, Call, Caller, Heartbeat, Identity, Removal, SessionId, Sharing, Status, Toolset,
    Variables, failure,
};

/// The longest a command may run: what Claude Code allows, and every host's own limit can be set above it.
pub const MAX_TIMEOUT: Duration = Duration::from_secs(600);
/// Docker answers in milliseconds; one that does not is as good as absent.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
/// Between two searches for containers whose owner died without a word.
const REAP_INTERVAL: Duration = Duration::from_secs(600);

/// The bash server.
pub struct Bash {
    tools: Vec<Tool>,
    places: Arc<Places>,
    default_timeout: Duration,
    memory_bytes: u64,
    /// How long a client without progress is kept waiting; `None` for as long as it takes.
    answer_within: Option<Duration>,
    viewer: Viewer,
    warden: Mutex<Option<Warden>>,
}

/// Connects to Docker and checks the image before anything is served; the first container starts in the background.
pub async fn start(args: BashArgs) -> Result<Start<Bash>, ServeError> {
    if args.warden {
        warden::watch().await?;
        return Ok(Start::Done);
    }
    let options = args.options()?;
    let attachments = args.attachments()?;
    let pool_size = args.pool_size()?;
    let late = |_elapsed| {
        ServeError::Environment(format!("Docker did not answer within {} s", CONNECT_TIMEOUT.as_secs()))
    };
    let connected = tokio::time::timeout(CONNECT_TIMEOUT, async {
        let engine = Engine::connect().await?;
        let image = engine.image(&options.image).await;
        Ok::<_, EngineError>((engine, image))
    });
    let (engine, image) = connected.await.map_err(late)?.map_err(environment)?;
    match image {
        Err(EngineError::ImageAbsent { name }) if args.pull == PullArg::Missing => {
            pull::pull(&engine, &name).await.map_err(environment)?;
        }
        present => drop(present.map_err(environment)?),
    }
    if args.check {
        check(&engine, &options).await?;
        return Ok(Start::Done);
    }
    // Before the first container.
    let warden = Mutex::new(Warden::start());
    let tools = tools::all(&describe::bash(&args, &options, &attachments), options.network);
    let memory_bytes = options.limits.memory_bytes;
    let pool = (pool_size > 0).then(|| Pool::new(engine.clone(), options.clone(), pool_size));
    let places = Arc::new(Places::new(
        Blueprint::new(engine.clone(), options, pool),
        args.max_containers(),
        args.idle_timeout(),
    ));
    if args.serve.http.is_none() && !args.many {
        places.prepare(&Caller::Process, &Variables::new());
    }
    tokio::spawn(reap(engine));
    tokio::spawn(Arc::clone(&places).end_idle());
    Ok(Start::Serve(Bash {
        tools,
        places,
        default_timeout: args.default_timeout(),
        memory_bytes,
        answer_within: args.answer_within(),
        viewer: Viewer::default(),
        warden,
    }))
}

fn environment(error: EngineError) -> ServeError {
    ServeError::Environment(error.to_string())
}

/// One container from start to end, for people who set things up.
async fn check(engine: &Engine, options: &SandboxOptions) -> Result<(), ServeError> {
    let failed = |error: gaia_sandbox::SandboxError| ServeError::Environment(error.to_string());
    let sandbox = Sandbox::start(engine, options).await.map_err(failed)?;
    let command = Command::new("true", Duration::from_secs(30));
    let ran = sandbox.run(command, |_progress| {}, &CancellationToken::new()).await;
    sandbox.close().await.map_err(failed)?;
    let output = ran.map_err(failed)?;
    if output.exit_code != 0 {
        return Err(ServeError::Environment(format!(
            "`true` ended with {} in a container of image `{}`",
            output.exit_code, options.image
        )));
    }
    tracing::info!("ok: a container of image `{}` started, ran a command and is gone", options.image);
    Ok(())
}

async fn reap(engine: Engine) {
    let mut ticks = tokio::time::interval(REAP_INTERVAL);
    loop {
        ticks.tick().await;
        match engine.reap().await {
            Ok(reaped) if !reaped.removed.is_empty() => {
                tracing::info!("removed {} containers whose owner is dead", reaped.removed.len());
            }
            Ok(_) => {}
            Err(error) => tracing::debug!(%error, "failed to look for abandoned containers"),
        }
    }
}

impl Toolset for Bash {
    fn identity(&self) -> Identity {
        Identity {
            name: "gaia-mcp-bash",
            title: "Shell in a container",
            instructions: "Runs commands in a Linux container that belongs to this client alone.".to_owned(),
        }
    }

    fn tools(&self) -> &[Tool] {
        &self.tools
    }

    fn addressing(&self) -> Addressing {
        Addressing::ByUrl
    }

    async fn call(&self, tool: &str, arguments: JsonObject, call: Call) -> CallToolResult {
        let result = match tool {
            tools::BASH => self.bash(arguments, &call).await,
            other => self.helper(other, arguments, &call).await,
        };
        result.unwrap_or_else(|error| failure(error.to_string()))
    }

    fn sharing(&self) -> Sharing {
        Sharing::ByCall
    }

    fn begin(&self, address: &Address, variables: &Variables) {
        self.places.prepare(&Caller::Address(address.clone()), variables);
    }

    fn session_ended(&self, session: SessionId) {
        self.places.end(&Caller::Session(session));
    }

    async fn remove(&self, address: &Address) -> Removal {
        self.places.remove(&Caller::Address(address.clone())).await
    }

    async fn close(&self) {
        self.places.close().await;
        let warden = self.warden.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(warden) = warden {
            warden.dismiss().await;
        }
    }
}

/// The tool itself failed; the text is for the model.
#[derive(Debug, thiserror::Error)]
enum ToolError {
    #[error(transparent)]
    Arguments(#[from] ArgumentError),
    #[error(transparent)]
    Slot(#[from] SlotError),
    #[error(transparent)]
    Sandbox(#[from] gaia_sandbox::SandboxError),
    #[error("{0}")]
    Text(String),
}

/// The arguments of `bash`, checked.
struct BashCall {
    command: String,
    /// `None` when the call does not say.
    timeout: Option<Duration>,
    /// `None` when the call gives none.
    input: Option<Vec<u8>>,
    restart: bool,
    run_in_background: bool,
}

impl BashCall {
    fn new(arguments: JsonObject) -> Result<Self, ToolError> {
        let known = ["command", "timeout", "run_in_background", "stdin", "restart"];
        let arguments = Arguments::new(arguments, &known)?;
        let restart = arguments.flag("restart")?.unwrap_or(false);
        let command = match arguments.text("command")? {
            Some(command) => command,
            None if restart => String::new(),
            None => arguments.required_text("command")?,
        };
        if command.trim().is_empty() && !restart {
            return Err(ToolError::Text(
                "`command` is empty; give a shell command, or set `restart` for a fresh shell".to_owned(),
            ));
        }
        let input = arguments.text("stdin")?.map(String::into_bytes);
        let timeout = arguments.seconds("timeout", MAX_TIMEOUT)?;
        let run_in_background = arguments.flag("run_in_background")?.unwrap_or(false);
        Ok(Self { command, timeout, input, restart, run_in_background })
    }
}

impl Bash {
    async fn bash(&self, arguments: JsonObject, call: &Call) -> Result<CallToolResult, ToolError> {
        let BashCall { command, timeout, input, restart, run_in_background } = BashCall::new(arguments)?;
        let place = self.places.enter(&call.caller, &call.variables, &call.cancel).await?;
        let sandbox = place.sandbox();
        if restart {
            place.unless_closed(sandbox.restart_shell()).await??;
            if command.trim().is_empty() {
                return Ok(render::restarted(place.take_reset()));
            }
        }
        if run_in_background {
            let timeout = timeout.unwrap_or(tasks::DEFAULT_TASK_TIMEOUT);
            // For bash_input, which may come or not.
            let input = input.map_or(Input::Open, Input::Bytes);
            let task = sandbox.start_task(Command { text: command, timeout, input });
            let id = place.unless_closed(task).await??;
            return Ok(tasks::started(place.jobs().add(Work::Task(id)), place.take_reset()));
        }
        let timeout = timeout.unwrap_or(self.default_timeout);
        let command = Command { text: command, timeout, input: input.map_or(Input::Empty, Input::Bytes) };
        if let (Heartbeat::Silent, Some(patience)) = (call.heartbeat, self.answer_within) {
            return self.run_with_patience(place, command, call, patience).await;
        }
        let status = call.status.clone();
        let run = sandbox.run(command, |progress| show(&status, &progress), &call.cancel);
        let output = place.unless_closed(run).await??;
        let reset = place.take_reset();
        Ok(render::output(&output, &Circumstances { timeout, memory_bytes: self.memory_bytes, reset }))
    }

    /// Runs a command for a client that gives up on a silent call: after `patience` the call is answered and the
    /// command goes on as a task.
    async fn run_with_patience(
        &self,
        place: Place,
        command: Command,
        call: &Call,
        patience: Duration,
    ) -> Result<CallToolResult, ToolError> {
        let timeout = command.timeout;
        let place = Arc::new(place);
        let cancel = CancellationToken::new();
        // A call that is dropped takes its command along.
        let ends_with_call = cancel.clone().drop_guard();
        let (ending_to, ending) = watch::channel(None);
        let long = LongCall { status: call.status.clone(), timeout, cancel: cancel.clone(), ending };
        let (running_in, status) = (Arc::clone(&place), call.status.clone());
        tokio::spawn(async move {
            let run = running_in.sandbox().run(command, |progress| show(&status, &progress), &cancel);
            let ending = match running_in.unless_closed(run).await {
                Ok(ran) => ran.map(Arc::new).map_err(|error| error.to_string()),
                Err(closed) => Err(closed.to_string()),
            };
            ending_to.send_replace(Some(ending));
        });
        let ending = tokio::select! {
            biased;
            ending = long.ended() => ending,
            () = call.cancel.cancelled() => {
                long.cancel.cancel();
                long.ended().await
            }
            () = tokio::time::sleep(patience) => {
                ends_with_call.disarm();
                let number = place.jobs().add(Work::Call(long));
                return Ok(tasks::handed_over(number, patience, place.take_reset()));
            }
        };
        let output = ending.map_err(ToolError::Text)?;
        let reset = place.take_reset();
        Ok(render::output(&output, &Circumstances { timeout, memory_bytes: self.memory_bytes, reset }))
    }

    /// The tools beside `bash`, which work on the same container.
    async fn helper(
        &self,
        tool: &str,
        arguments: JsonObject,
        call: &Call,
    ) -> Result<CallToolResult, ToolError> {
        let place = self.places.enter(&call.caller, &call.variables, &call.cancel).await?;
        let work = async {
            match tool {
                tools::BASH_OUTPUT => tasks::Read::new(arguments)?.run(&place, self.memory_bytes).await,
                tools::BASH_INPUT => tasks::write(arguments, &place).await,
                tools::KILL_SHELL => tasks::kill(arguments, &place).await,
                tools::READ_FILE => files::Read::new(arguments)?.run(&place).await,
                tools::WRITE_FILE => files::write(arguments, &place).await,
                tools::VIEW_IMAGE => View::new(arguments)?.run(&place, &self.viewer).await,
                other => Err(ToolError::Text(format!("the tool `{other}` does not exist"))),
            }
        };
        tokio::select! {
            biased;
            result = place.unless_closed(work) => result?,
            () = call.cancel.cancelled() => Err(SlotError::Cancelled.into()),
        }
    }
}

fn show(status: &Status, progress: &gaia_sandbox::Progress) {
    let line = terminal::clean(progress.last_line.as_bytes());
    status.set(format!("{} bytes of output; last line: {line}", progress.total_bytes));
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn parse(arguments: Value) -> Result<BashCall, String> {
        let Value::Object(arguments) = arguments else { panic!("not an object") };
        BashCall::new(arguments).map_err(|error| error.to_string())
    }

    #[test]
    fn the_defaults_are_no_input_and_the_foreground() {
        let call = parse(json!({ "command": "ls" })).ok().unwrap();
        assert_eq!((call.command.as_str(), call.timeout, call.input), ("ls", None, None));
        assert_eq!((call.restart, call.run_in_background), (false, false));
    }

    #[test]
    fn restart_needs_no_command() {
        assert!(parse(json!({ "restart": true })).is_ok());
        assert!(parse(json!({ "restart": true, "command": "" })).is_ok());
        assert_eq!(parse(json!({})).err().unwrap(), "`command` is missing; it is a string");
        assert!(parse(json!({ "command": " " })).err().unwrap().contains("`command` is empty"));
        assert!(parse(json!({ "command": "", "restart": false })).is_err());
    }
}
