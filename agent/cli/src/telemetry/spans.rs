//! Spans out of events: one for the run, below it one for each attempt at a sample (`invoke_agent`), below that one for
//! each request to the model (`chat`) and one for each call (`execute_tool`), which runs after the reply that asked for it
//! and is no part of it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gaia_agent::{AgentEvent, Part};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use time::OffsetDateTime;

use super::otlp::{Kind, Span};
use super::{Content, Telemetry};
use crate::config::Secrets;
use crate::store::SampleKey;

/// What all spans of a run have in common.
#[derive(Debug)]
pub(super) struct RunTrace {
    run: String,
    model: String,
    /// The run, as its sessions and the collector know it.
    id: String,
    /// Of this session.
    root: String,
    begun: OffsetDateTime,
}

impl RunTrace {
    pub(super) fn new(run: &str, model: &str) -> Self {
        let id = Sha256::digest(run).iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        Self {
            run: run.to_owned(),
            model: model.to_owned(),
            id,
            root: span_id(),
            begun: OffsetDateTime::now_utc(),
        }
    }

    pub(super) fn run_span(&self) -> Value {
        let attributes = vec![("gaia.run", json!(self.run)), ("gen_ai.request.model", json!(self.model))];
        self.span(self.root.clone(), "", "gaia run".to_owned(), Kind::Internal, self.begun, attributes)
            .ended()
    }

    fn span<'a>(
        &'a self,
        id: String,
        parent: &'a str,
        name: String,
        kind: Kind,
        begun: OffsetDateTime,
        attributes: Vec<(&'static str, Value)>,
    ) -> Span<'a> {
        Span { trace: &self.id, id, parent, name, kind, begun, attributes, error: None }
    }
}

/// Sixteen hexadecimal digits, never all zero.
fn span_id() -> String {
    format!("{:016x}", rand::random::<u64>().max(1))
}

/// Makes spans of the events of one sample, attempt by attempt.
#[derive(Debug)]
pub struct SampleSpans {
    telemetry: Arc<Telemetry>,
    secrets: Arc<Secrets>,
    key: SampleKey,
    level: u8,
    open: Mutex<Open>,
}

/// What has begun and not ended.
#[derive(Debug)]
struct Open {
    attempt: u32,
    id: String,
    begun: OffsetDateTime,
    /// By role and step.
    requests: HashMap<(String, u32), OffsetDateTime>,
    /// By role and id of the call: when, and with what.
    calls: HashMap<(String, String), (OffsetDateTime, Value)>,
}

impl SampleSpans {
    pub fn new(telemetry: Arc<Telemetry>, secrets: Arc<Secrets>, key: SampleKey, level: u8) -> Self {
        let open = Open {
            attempt: 0,
            id: span_id(),
            begun: OffsetDateTime::now_utc(),
            requests: HashMap::new(),
            calls: HashMap::new(),
        };
        Self { telemetry, secrets, key, level, open: Mutex::new(open) }
    }

    pub fn observe(&self, branch: Option<&str>, event: &AgentEvent) {
        let role = || branch.unwrap_or_default().to_owned();
        let now = OffsetDateTime::now_utc();
        let mut open = self.open();
        match event {
            AgentEvent::Started { attempt, .. } | AgentEvent::Continued { attempt, .. } => {
                open.attempt = *attempt;
            }
            AgentEvent::ModelCall { step, .. } => {
                open.requests.insert((role(), *step), now);
            }
            AgentEvent::ModelReply { step, content, reasoning, tool_calls, finish_reason, usage, .. } => {
                let begun = open.requests.remove(&(role(), *step)).unwrap_or(now);
                let mut about = self.request(branch, *step);
                about.extend([
                    ("gen_ai.response.finish_reasons", json!([finish_reason])),
                    ("gen_ai.usage.input_tokens", json!(usage.input_tokens)),
                    ("gen_ai.usage.output_tokens", json!(usage.output_tokens)),
                    ("gen_ai.usage.cache_read.input_tokens", json!(usage.cached_tokens)),
                ]);
                if self.telemetry.content == Content::Captured {
                    about.push((
                        "gen_ai.output.messages",
                        self.said(content, reasoning, tool_calls, finish_reason),
                    ));
                }
                self.end(&open.id, self.chat_name(), Kind::Client, begun, about, None);
            }
            AgentEvent::ModelFailed { step, failure } => {
                let begun = open.requests.remove(&(role(), *step)).unwrap_or(now);
                let mut about = self.request(branch, *step);
                about.push(("error.type", serde_json::to_value(failure.kind).unwrap_or_default()));
                self.end(&open.id, self.chat_name(), Kind::Client, begun, about, Some(&failure.message));
            }
            AgentEvent::ToolStarted { call_id, arguments, .. } => {
                open.calls.insert((role(), call_id.clone()), (now, arguments.clone()));
            }
            AgentEvent::ToolResult { step, call_id, tool, content, is_error, .. } => {
                let (begun, arguments) =
                    open.calls.remove(&(role(), call_id.clone())).unwrap_or((now, Value::Null));
                let mut about = vec![
                    ("gen_ai.operation.name", json!("execute_tool")),
                    ("gen_ai.tool.name", json!(tool)),
                    ("gen_ai.tool.call.id", json!(call_id)),
                    ("gaia.step", json!(step)),
                    ("gaia.branch", json!(branch)),
                    ("error.type", if *is_error { json!("tool_error") } else { Value::Null }),
                ];
                if self.telemetry.content == Content::Captured {
                    about.push(("gen_ai.tool.call.arguments", self.without_secrets(&arguments.to_string())));
                    about.push(("gen_ai.tool.call.result", self.without_secrets(&text_of(content))));
                }
                let error = is_error.then_some("the tool reported an error");
                self.end(&open.id, format!("execute_tool {tool}"), Kind::Internal, begun, about, error);
            }
            AgentEvent::Finished { outcome } if branch.is_none() => {
                let error = outcome.error.as_ref();
                let mut about = self.sample(open.attempt);
                about.extend([
                    ("gen_ai.usage.input_tokens", json!(outcome.usage.input_tokens)),
                    ("gen_ai.usage.output_tokens", json!(outcome.usage.output_tokens)),
                    ("gaia.status", serde_json::to_value(outcome.status).unwrap_or_default()),
                    ("gaia.steps", json!(outcome.steps)),
                    ("gaia.cost_usd", json!(outcome.cost_usd)),
                    ("error.type", error.map_or(Value::Null, |error| json!(error.kind))),
                ]);
                let trace = &self.telemetry.trace;
                let name = "invoke_agent gaia".to_owned();
                // The next attempt is a span of its own.
                let id = std::mem::replace(&mut open.id, span_id());
                let mut span = trace.span(id, &trace.root, name, Kind::Internal, open.begun, about);
                span.error = error.map(|error| self.secrets.redact(&error.message).into_owned());
                self.telemetry.push(span.ended());
                open.begun = now;
                open.requests.clear();
                open.calls.clear();
            }
            _ => {}
        }
    }

    fn chat_name(&self) -> String {
        format!("chat {}", self.telemetry.trace.model)
    }

    fn request(&self, branch: Option<&str>, step: u32) -> Vec<(&'static str, Value)> {
        vec![
            ("gen_ai.operation.name", json!("chat")),
            // Of the API; whose model answers behind it is not known.
            ("gen_ai.provider.name", json!("openai")),
            ("gen_ai.request.model", json!(self.telemetry.trace.model)),
            ("gaia.step", json!(step)),
            ("gaia.branch", json!(branch)),
        ]
    }

    fn sample(&self, attempt: u32) -> Vec<(&'static str, Value)> {
        vec![
            ("gen_ai.operation.name", json!("invoke_agent")),
            ("gen_ai.agent.name", json!("gaia")),
            ("gen_ai.provider.name", json!("openai")),
            ("gen_ai.request.model", json!(self.telemetry.trace.model)),
            (
                "gen_ai.conversation.id",
                json!(format!("{}/{}/{}", self.telemetry.trace.run, self.key.task_id, self.key.epoch)),
            ),
            ("gaia.task_id", json!(self.key.task_id)),
            ("gaia.epoch", json!(self.key.epoch)),
            ("gaia.level", json!(self.level)),
            ("gaia.attempt", json!(attempt)),
        ]
    }

    /// A reply in the form of the conventions.
    fn said(
        &self,
        content: &Option<String>,
        reasoning: &Option<String>,
        tool_calls: &[gaia_agent::ToolCall],
        finish_reason: &str,
    ) -> Value {
        let mut parts = Vec::new();
        parts.extend(reasoning.iter().map(|text| json!({ "type": "reasoning", "content": text })));
        parts.extend(content.iter().map(|text| json!({ "type": "text", "content": text })));
        parts.extend(tool_calls.iter().map(|call| {
            json!({ "type": "tool_call", "id": call.id, "name": call.name, "arguments": call.arguments })
        }));
        let message = json!([{ "role": "assistant", "parts": parts, "finish_reason": finish_reason }]);
        self.without_secrets(&message.to_string())
    }

    fn without_secrets(&self, text: &str) -> Value {
        self.secrets.redact(text).into()
    }

    fn end(
        &self,
        parent: &str,
        name: String,
        kind: Kind,
        begun: OffsetDateTime,
        attributes: Vec<(&'static str, Value)>,
        error: Option<&str>,
    ) {
        let mut span = self.telemetry.trace.span(span_id(), parent, name, kind, begun, attributes);
        span.error = error.map(|error| self.secrets.redact(error).into_owned());
        self.telemetry.push(span.ended());
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn text_of(content: &[Part]) -> String {
    let texts = content.iter().map(|part| part.text().unwrap_or("[media]"));
    texts.collect::<Vec<_>>().join("\n")
}
