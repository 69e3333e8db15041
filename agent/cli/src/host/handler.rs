use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use gaia_agent::Part;
use gaia_agent::desk::{Called, DeskTool};
use gaia_agent::tools::{Progress, ProgressSink};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, ListToolsResult,
    PaginatedRequestParams, ProgressNotificationParam, ResourceContents, ServerCapabilities, ServerConfig,
    Tool, ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Map, Value};
use tokio::sync::watch;
use tokio::time::Instant;

use super::Hosted;

/// Time between signs of life for a client that wants progress: well below the 60 s after which clients give up.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// One client, or one request of a client without sessions.
pub(super) struct Handler {
    served: Arc<dyn Hosted>,
}

impl Handler {
    pub(super) fn new(served: Arc<dyn Hosted>) -> Self {
        Self { served }
    }

    async fn call(&self, name: &str, arguments: Map<String, Value>, context: &Context) -> CallToolResult {
        let (reported, reports) = watch::channel(None);
        let sink: ProgressSink = Arc::new(move |progress| drop(reported.send_replace(Some(progress))));
        let called = tokio::select! {
            biased;
            called = self.served.call(name, arguments, &context.ct, sink) => called,
            never = send_progress(context, reports) => match never {},
        };
        result(called)
    }
}

type Context = RequestContext<RoleServer>;

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let mut info = ServerConfig::new(ServerCapabilities::builder().enable_tools().build());
        info.server_info = Implementation::new("gaia-host", env!("CARGO_PKG_VERSION"))
            .with_title("The tools of a gaia config");
        info.with_instructions(format!("Tools of these MCP servers: {}.", self.served.servers().join(", ")))
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: Context,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tools().into_iter().find(|tool| tool.name == name)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: Context,
    ) -> Result<CallToolResponse, ErrorData> {
        let offered = self.served.tools();
        if !offered.iter().any(|tool| tool.definition.name == *request.name) {
            let known: Vec<&str> = offered.iter().map(|tool| tool.definition.name.as_str()).collect();
            let text = format!("unknown tool `{}`; the tools are {}", request.name, known.join(", "));
            return Err(ErrorData::invalid_params(text, None));
        }
        let work = self.call(&request.name, request.arguments.unwrap_or_default(), &context);
        let result = AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|_panic| {
            let text = format!("internal error: the call of `{}` crashed; the host goes on", request.name);
            CallToolResult::error(vec![ContentBlock::text(text)])
        });
        Ok(result.into())
    }
}

impl Handler {
    /// Names, descriptions and schemas as a model request of the loop carries them.
    fn tools(&self) -> Vec<Tool> {
        let tools = self.served.tools().into_iter();
        let tools = tools.map(|DeskTool { definition, annotations: hints }| {
            let schema = match definition.parameters {
                Value::Object(schema) => schema,
                _ => Map::new(),
            };
            let mut annotations = ToolAnnotations::new().read_only(hints.read_only);
            annotations.destructive_hint = hints.destructive;
            annotations.idempotent_hint = hints.idempotent;
            annotations.open_world_hint = hints.open_world;
            Tool::new(definition.name, definition.description, Arc::new(schema)).with_annotations(annotations)
        });
        tools.collect()
    }
}

/// What a model would be shown, with pictures as pictures.
fn result(called: Called) -> CallToolResult {
    let content = called.content.into_iter().map(|part| match part {
        Part::Text { text } => ContentBlock::text(text),
        Part::Image(image) => ContentBlock::image(image.data, image.media_type),
        Part::Sound(sound) => ContentBlock::audio(sound.data, sound.media_type),
        Part::Document(document) => ContentBlock::resource(
            ResourceContents::blob(document.data, format!("file:///{}", document.name))
                .with_mime_type(document.media_type),
        ),
    });
    let content = content.collect();
    let mut result = match called.is_error {
        true => CallToolResult::error(content),
        false => CallToolResult::success(content),
    };
    result.structured_content = called.structured;
    result
}

/// Passes on what the server reports for as long as it is polled, when the client asked for progress; and a sign of life
/// for a server that reports nothing.
async fn send_progress(
    context: &Context,
    mut reports: watch::Receiver<Option<Progress>>,
) -> std::convert::Infallible {
    let Some(token) = context.meta.get_progress_token() else {
        return std::future::pending().await;
    };
    let started = Instant::now();
    let mut last = 0.0;
    loop {
        let reported = tokio::select! {
            Ok(()) = reports.changed() => reports.borrow_and_update().clone(),
            () = tokio::time::sleep(PROGRESS_INTERVAL) => None,
        };
        let mut progress = match reported {
            Some(Progress { done, total, message }) => {
                let mut progress = ProgressNotificationParam::new(token.clone(), done);
                progress.total = total;
                progress.message = message;
                progress
            }
            None => ProgressNotificationParam::new(token.clone(), last)
                .with_message(format!("running for {} s", started.elapsed().as_secs())),
        };
        // It must grow with every notification.
        if progress.progress <= last {
            progress.progress = last + f64::EPSILON.max(last.abs() * f64::EPSILON);
        }
        last = progress.progress;
        if let Err(error) = context.peer.notify_progress(progress).await {
            tracing::debug!(%error, "progress was not sent");
        }
    }
}
