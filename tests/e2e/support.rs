use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gaia_agent::model::{ChatModel, Endpoint, EndpointLimits, ModelSettings, connect};
use gaia_agent::tools::{CallOrder, Protocol, Redactor, Scope, ServerSpec, ToolHost, TransportSpec};
use gaia_agent::{AgentEvent, AgentSettings, Attachment, Budget, EventSink, Message, Outcome, Part, Task};
use gaia_tests::machine::{program, sandbox_image};
use gaia_tests::scripted::{Options, Script, ScriptedModel};
use tokio_util::sync::CancellationToken;

/// Waits for something that another process does.
pub(crate) async fn eventually(what: &str, limit: Duration, mut check: impl AsyncFnMut() -> bool) {
    let until = std::time::Instant::now() + limit;
    while !check().await {
        assert!(std::time::Instant::now() < until, "not within {limit:?}: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub(crate) fn stdio_server(name: &str, program_name: &str, args: &[&str]) -> ServerSpec {
    ServerSpec {
        name: name.to_owned(),
        transport: TransportSpec::Stdio {
            command: program(program_name).display().to_string(),
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            env: BTreeMap::new(),
            cwd: None,
        },
        scope: Scope::Sample,
        enabled_tools: None,
        disabled_tools: Vec::new(),
        startup_timeout: Duration::from_secs(60),
        tool_timeout: Duration::from_secs(120),
        required: true,
        protocol: Protocol::Auto,
        call_order: CallOrder::AsDeclared,
        max_concurrent_calls: None,
        redactor: Redactor::default(),
        prefix: None,
    }
}

pub(crate) fn submit_server() -> ServerSpec {
    stdio_server("submit", "gaia-mcp-submit", &[])
}

pub(crate) fn bash_server() -> ServerSpec {
    let mut spec = stdio_server("bash", "gaia-mcp-bash", &["--image", &sandbox_image(), "--network", "off"]);
    spec.enabled_tools = Some(vec!["bash".to_owned()]);
    spec
}

pub(crate) fn settings() -> AgentSettings {
    AgentSettings {
        max_steps: 20,
        answer_tool: "submit/submit".to_owned(),
        sample_timeout: Duration::from_secs(120),
        budget: Budget::default(),
        run_budget: None,
        result_bytes: gaia_agent::tools::DEFAULT_RESULT_BYTES,
        context_window_tokens: None,
        accepted_media: Vec::new(),
        image_limits: gaia_agent::ImageLimits::default(),
        system_prompt: "You answer questions.".to_owned(),
    }
}

pub(crate) fn model_settings(base_url: &str, stream: bool) -> ModelSettings {
    ModelSettings {
        stream,
        request_timeout: Duration::from_secs(30),
        idle_timeout: Duration::from_secs(2),
        max_retries: 4,
        ..ModelSettings::new("scripted", base_url)
    }
}

pub(crate) fn chat(base_url: &str, stream: bool) -> Arc<dyn ChatModel> {
    let endpoint = Arc::new(Endpoint::new(EndpointLimits::default()));
    connect(model_settings(base_url, stream), endpoint).unwrap()
}

/// Everything that one task left behind.
pub(crate) struct Worked {
    pub(crate) outcome: Outcome,
    pub(crate) events: Vec<AgentEvent>,
    pub(crate) model: ScriptedModel,
}

impl Worked {
    /// The results of tool calls as the model saw them, in order.
    pub(crate) fn results(&self) -> Vec<(String, bool)> {
        let results = self.events.iter().filter_map(|event| match event {
            AgentEvent::ToolResult { content, is_error, .. } => Some((text_of(content), *is_error)),
            _ => None,
        });
        results.collect()
    }

    pub(crate) fn prompts(&self) -> Vec<&str> {
        let prompts = self.events.iter().filter_map(|event| match event {
            AgentEvent::Prompted { text, .. } => Some(text.as_str()),
            _ => None,
        });
        prompts.collect()
    }

    pub(crate) fn answer(&self) -> Option<&str> {
        self.outcome.answer.as_deref()
    }

    /// Ends the model, which must not have seen a request that breaks the protocol.
    pub(crate) async fn close(self) {
        let stats = self.model.stats();
        self.model.close().await;
        assert!(stats.violations.is_empty(), "requests broke the protocol: {:#?}", stats.violations);
        assert_eq!(
            self.events.iter().filter(|event| matches!(event, AgentEvent::Finished { .. })).count(),
            1
        );
        assert!(
            matches!(self.events.last(), Some(AgentEvent::Finished { outcome }) if *outcome == self.outcome)
        );
    }
}

pub(crate) fn text_of(content: &[Part]) -> String {
    let texts = content.iter().map(|part| match part {
        Part::Text { text } => text.as_str(),
        _ => "[media]",
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// Works on the question `q` with the given script and servers.
pub(crate) async fn work(script: Script, specs: &[ServerSpec], settings: &AgentSettings) -> Worked {
    work_with(script, Options::default(), specs, settings, true).await
}

pub(crate) async fn work_with(
    script: Script,
    options: Options,
    specs: &[ServerSpec],
    settings: &AgentSettings,
    stream: bool,
) -> Worked {
    work_as(script, options, specs, settings, |model| model.stream = stream).await
}

/// The same with a model that is asked in another way.
pub(crate) async fn work_as(
    script: Script,
    options: Options,
    specs: &[ServerSpec],
    settings: &AgentSettings,
    change: impl FnOnce(&mut ModelSettings),
) -> Worked {
    work_on(None, script, options, specs, settings, change).await
}

/// The same with an attachment.
pub(crate) async fn work_on(
    attachment: Option<Attachment>,
    script: Script,
    options: Options,
    specs: &[ServerSpec],
    settings: &AgentSettings,
    change: impl FnOnce(&mut ModelSettings),
) -> Worked {
    let model = ScriptedModel::start(script, options).await.unwrap();
    let tools = ToolHost::start(specs, &[], &BTreeMap::new(), Arc::new(|_| {}), Some(&settings.answer_tool))
        .await
        .unwrap();
    let task = Task { id: "t".to_owned(), question: QUESTION.to_owned(), attachment, attempt: 1 };
    let sink = Recorder::default();
    let mut asked = model_settings(&model.base_url, true);
    change(&mut asked);
    let chat = connect(asked, Arc::new(Endpoint::new(EndpointLimits::default()))).unwrap();
    let outcome =
        gaia_agent::run_task(&task, chat.as_ref(), &tools, settings, &sink, &CancellationToken::new()).await;
    tools.close().await;
    let events = std::mem::take(&mut *sink.events.lock().unwrap());
    Worked { outcome, events, model }
}

pub(crate) const QUESTION: &str = "What is the colour of the boat?";

#[derive(Default)]
pub(crate) struct Recorder {
    pub(crate) events: Mutex<Vec<AgentEvent>>,
}

impl EventSink for Recorder {
    fn emit(&self, event: AgentEvent) {
        self.events.lock().unwrap().push(event);
    }
}

/// The system prompt and question, as the first event tells them.
pub(crate) fn first_messages(events: &[AgentEvent]) -> &[Message] {
    match events.first() {
        Some(AgentEvent::Started { messages, .. }) => messages,
        other => panic!("the first event is {other:?}"),
    }
}
