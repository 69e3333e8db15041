use rmcp::model::{JsonObject, ProtocolVersion};
use rmcp::service::{ClientLifecycleMode, ClientServiceExt, RunningService, ServiceExt};
use rmcp::{ClientHandler, RoleClient};
use serde_json::json;
use tokio::sync::Notify;

use super::*;
use crate::schema;
use crate::toolset::{Identity, success};

/// Tools that behave badly.
struct Rogue {
    tools: Vec<Tool>,
    cancelled: Arc<Notify>,
}

impl Rogue {
    fn new() -> Self {
        let tool = |name: &'static str| Tool::new(name, "Test", schema::object(&[]));
        Self {
            tools: vec![tool("crash"), tool("crash_later"), tool("fine"), tool("wait")],
            cancelled: Arc::default(),
        }
    }
}

impl Toolset for Rogue {
    fn identity(&self) -> Identity {
        Identity { name: "rogue", title: "Rogue", instructions: "None".to_owned() }
    }

    fn tools(&self) -> &[Tool] {
        &self.tools
    }

    async fn call(&self, tool: &str, _arguments: JsonObject, call: Call) -> CallToolResult {
        match tool {
            "crash" => panic!("at once"),
            "crash_later" => {
                tokio::task::yield_now().await;
                panic!("later")
            }
            "wait" => {
                call.cancel.cancelled().await;
                self.cancelled.notify_one();
                failure("cancelled")
            }
            _ => success("fine", json!({})),
        }
    }
}

async fn connect(lifecycle: ClientLifecycleMode) -> (RunningService<RoleClient, ()>, Arc<Notify>) {
    connect_with((), lifecycle).await
}

async fn connect_with<H: ClientHandler>(
    client: H,
    lifecycle: ClientLifecycleMode,
) -> (RunningService<RoleClient, H>, Arc<Notify>) {
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let rogue = Arc::new(Rogue::new());
    let cancelled = Arc::clone(&rogue.cancelled);
    tokio::spawn(async move {
        let running = Handler::for_process(rogue).serve(ours).await.unwrap();
        running.waiting().await.unwrap();
    });
    (client.serve_with_lifecycle(theirs, lifecycle).await.unwrap(), cancelled)
}

fn eras() -> [ClientLifecycleMode; 2] {
    let modern = ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] };
    [ClientLifecycleMode::Initialize, modern]
}

#[tokio::test]
async fn a_crash_is_an_error_result_and_the_server_goes_on() {
    for era in eras() {
        let (client, _) = connect(era).await;
        for tool in ["crash", "crash_later"] {
            let result = client.call_tool(CallToolRequestParams::new(tool)).await.unwrap();
            assert_eq!(result.is_error, Some(true));
            let text = &result.content[0].as_text().unwrap().text;
            assert!(text.contains(&format!("the tool `{tool}` crashed")), "{text}");
        }
        let result = client.call_tool(CallToolRequestParams::new("fine")).await.unwrap();
        assert_eq!(result.is_error, Some(false));
    }
}

#[tokio::test]
async fn a_client_that_gives_up_cancels_the_call() {
    for era in eras() {
        let (client, cancelled) = connect(era).await;
        {
            let mut call = std::pin::pin!(client.call_tool(CallToolRequestParams::new("wait")));
            // Polled until the request is out: the answer to another request comes after it.
            let other = client.call_tool(CallToolRequestParams::new("fine"));
            tokio::select! {
                result = &mut call => panic!("answered without a cancel: {result:?}"),
                result = other => assert!(result.is_ok()),
            }
        }
        cancelled.notified().await;
    }
}
