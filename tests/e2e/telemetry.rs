//! A run as spans, as a collector gets them.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use gaia_tests::scripted::{Fault, Options, Script, ScriptedModel, turn};
use serde_json::Value;

use crate::gaia::{Desk, results};

/// A collector that keeps what it is sent. The first request is told to come again.
#[derive(Clone, Default)]
struct Collector {
    requests: Arc<Mutex<Vec<(HeaderMap, Value)>>>,
}

impl Collector {
    async fn start(&self) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let collector = self.clone();
        let first = Arc::new(Mutex::new(true));
        let take = move |headers: HeaderMap, body: Bytes| async move {
            if std::mem::replace(&mut *first.lock().unwrap(), false) {
                return StatusCode::SERVICE_UNAVAILABLE;
            }
            let body = serde_json::from_slice(&body).unwrap();
            collector.requests.lock().unwrap().push((headers, body));
            StatusCode::OK
        };
        let app = Router::new().route("/v1/traces", post(take));
        tokio::spawn(async move { axum::serve(listener, app).await });
        format!("http://{address}")
    }

    fn spans(&self) -> Vec<Span> {
        let requests = self.requests.lock().unwrap();
        let of_request = |(_, body): &(HeaderMap, Value)| {
            let spans = body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone();
            spans.into_iter().map(Span::read)
        };
        requests.iter().flat_map(of_request).collect()
    }

    fn text(&self) -> String {
        self.requests.lock().unwrap().iter().map(|(_, body)| body.to_string()).collect()
    }
}

#[derive(Debug, Clone)]
struct Span {
    id: String,
    trace: String,
    parent: Option<String>,
    name: String,
    kind: u64,
    begun: u128,
    ended: u128,
    about: BTreeMap<String, Value>,
    has_failed: bool,
}

impl Span {
    fn read(value: Value) -> Self {
        let text = |key: &str| value[key].as_str().map(str::to_owned);
        let time = |key: &str| text(key).unwrap().parse().unwrap();
        let pairs = value["attributes"].as_array().unwrap().iter().map(|pair| {
            // One of a kind, with its value.
            let value = pair["value"].as_object().unwrap().values().next().unwrap().clone();
            (pair["key"].as_str().unwrap().to_owned(), value)
        });
        let is_hex = |text: &str, digits| text.len() == digits && u128::from_str_radix(text, 16).unwrap() > 0;
        assert!(is_hex(&text("traceId").unwrap(), 32) && is_hex(&text("spanId").unwrap(), 16), "{value:#}");
        Self {
            id: text("spanId").unwrap(),
            trace: text("traceId").unwrap(),
            parent: text("parentSpanId"),
            name: text("name").unwrap(),
            kind: value["kind"].as_u64().unwrap(),
            begun: time("startTimeUnixNano"),
            ended: time("endTimeUnixNano"),
            about: pairs.collect(),
            has_failed: value["status"]["code"] == 2,
        }
    }
}

const QUESTIONS: [&str; 2] = ["Which colour has the first boat?", "Which colour has the second boat?"];

/// A run of two samples, one of which the model refuses in the end; with these variables.
async fn run(variables: &[(&str, &str)]) -> (Desk, Collector) {
    let script = Script::new()
        .task(QUESTIONS[0], [turn::raw_call("submit", "{}"), turn::submit("blue-as-the-sea")])
        .task(QUESTIONS[1], [turn::text("hm").with_faults([Fault::RefusedContent])]);
    let model = ScriptedModel::start(script, Options::default()).await.unwrap();
    let collector = Collector::default();
    let endpoint = collector.start().await;
    let mut desk = Desk::new()
        .with_variable("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint)
        .with_variable("OTEL_EXPORTER_OTLP_HEADERS", "x-team=evals%20one");
    for (name, value) in variables {
        desk = desk.with_variable(name, value);
    }
    desk.dataset(&[
        ("task-1", QUESTIONS[0], 1, "blue-as-the-sea"),
        ("task-2", QUESTIONS[1], 2, "red-as-rust"),
    ]);
    desk.write(
        "c.toml",
        &format!(
            "[dataset]\npath = \"samples\"\n[model]\nname = \"scripted\"\nbase_url = \"{}\"\n[agent]\nanswer_tool = \
             \"submit/submit\"\n[mcp_servers.submit]\ncommand = \"gaia-mcp-submit\"\n",
            model.base_url
        ),
    );
    let ended = desk.gaia(&["run", "c.toml"]).await;
    model.close().await;
    assert_eq!(ended.code, 3, "{ended:#?}");
    assert!(!ended.stderr.contains("collector"), "{ended:#?}");
    (desk, collector)
}

#[tokio::test]
async fn a_run_is_a_tree_of_spans_with_the_names_of_the_conventions_and_without_content() {
    let (desk, collector) = run(&[]).await;
    let spans = collector.spans();
    let by_id: HashMap<&str, &Span> = spans.iter().map(|span| (span.id.as_str(), span)).collect();
    assert_eq!(by_id.len(), spans.len(), "ids are given once");
    let named = |name: &str| spans.iter().filter(|span| span.name == name).collect::<Vec<_>>();
    let root = named("gaia run");
    assert!(root.len() == 1 && root[0].parent.is_none(), "{spans:#?}");
    let samples = named("invoke_agent gaia");
    assert_eq!(samples.len(), 2, "{spans:#?}");
    let chats = named("chat scripted");
    let calls: Vec<_> = spans.iter().filter(|span| span.name.starts_with("execute_tool submit")).collect();
    assert_eq!((chats.len(), calls.len()), (3, 2), "{spans:#?}");
    for span in &spans {
        assert_eq!(span.trace, root[0].trace);
        assert!(span.begun <= span.ended, "{span:#?}");
        let Some(parent) = &span.parent else { continue };
        let parent = by_id[parent.as_str()];
        assert!(parent.begun <= span.begun && span.ended <= parent.ended, "{span:#?} in {parent:#?}");
    }
    assert!(samples.iter().all(|span| span.parent.as_deref() == Some(&root[0].id)));
    let first = samples.iter().find(|span| span.about["gaia.task_id"] == "task-1").unwrap();
    let second = samples.iter().find(|span| span.about["gaia.task_id"] == "task-2").unwrap();
    assert_eq!((&first.about["gaia.status"], first.has_failed), (&"answered".into(), false));
    assert_eq!((&second.about["error.type"], second.has_failed), (&"content_refused".into(), true));
    assert_eq!(first.about["gaia.level"], "1");
    for chat in &chats {
        assert_eq!((chat.kind, &chat.about["gen_ai.operation.name"]), (3, &"chat".into()));
        assert_eq!(chat.about["gen_ai.request.model"], "scripted");
    }
    let good: Vec<_> = chats.iter().filter(|chat| !chat.has_failed).collect();
    assert_eq!(good.len(), 2);
    assert!(good.iter().all(|chat| chat.parent.as_deref() == Some(&first.id)));
    assert_eq!(good[0].about["gen_ai.response.finish_reasons"]["values"][0]["stringValue"], "tool_calls");
    // What the spans say they used is what the results say.
    let run = desk.runs().pop().unwrap();
    let result = results(&run).into_iter().find(|result| result["task_id"] == "task-1").unwrap();
    let sum: u64 = good
        .iter()
        .map(|chat| chat.about["gen_ai.usage.input_tokens"].as_str().unwrap().parse::<u64>().unwrap())
        .sum();
    assert_eq!(result["usage"]["input_tokens"], sum);
    let failed: Vec<bool> = calls.iter().map(|call| call.has_failed).collect();
    assert_eq!(failed, [true, false], "the first call was refused for its arguments");
    assert!(calls.iter().all(|call| call.parent.as_deref() == Some(&first.id) && call.kind == 1));

    let (headers, _) = collector.requests.lock().unwrap()[0].clone();
    assert_eq!(
        (&headers["x-team"], &headers["content-type"]),
        (&"evals one".parse().unwrap(), &"application/json".parse().unwrap())
    );
    let text = collector.text();
    for content in [QUESTIONS[0], "blue-as-the-sea", "red-as-rust"] {
        assert!(!text.contains(content), "{content}: {text}");
    }
}

#[tokio::test]
async fn what_was_said_is_sent_only_when_asked_for_and_the_truth_never() {
    let (_desk, collector) = run(&[("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")]).await;
    let spans = collector.spans();
    let call = spans.iter().rfind(|span| span.name.starts_with("execute_tool")).unwrap();
    assert!(
        call.about["gen_ai.tool.call.arguments"].as_str().unwrap().contains("blue-as-the-sea"),
        "{call:#?}"
    );
    assert!(spans.iter().any(|span| span.about.contains_key("gen_ai.output.messages")));
    assert!(!collector.text().contains("red-as-rust"));
}

#[tokio::test]
async fn a_collector_that_is_not_there_costs_a_warning() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let script = Script::new().task(QUESTIONS[0], [turn::submit("blue")]);
    let model = ScriptedModel::start(script, Options::default()).await.unwrap();
    let desk = Desk::new().with_variable("OTEL_EXPORTER_OTLP_ENDPOINT", &format!("http://{free}"));
    desk.dataset(&[("task-1", QUESTIONS[0], 1, "blue")]);
    desk.write(
        "c.toml",
        &format!(
            "[dataset]\npath = \"samples\"\n[model]\nname = \"scripted\"\nbase_url = \"{}\"\n[mcp_servers.submit]\ncommand \
             = \"gaia-mcp-submit\"\n",
            model.base_url
        ),
    );
    let ended = desk.gaia(&["run", "c.toml"]).await;
    model.close().await;
    assert_eq!(ended.code, 0, "{ended:#?}");
    assert_eq!(ended.stderr.matches("did not reach the collector").count(), 1, "{ended:#?}");
}
