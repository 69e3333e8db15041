//! Traces: OpenTelemetry's JSON of OTLP, one line for each sample, as its file exporters write it. Names are those of the
//! GenAI conventions, and of OpenInference beside them, which other tools read.

use std::io::Write;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use time::OffsetDateTime;

use super::ExportError;
use super::table::name_of;
use crate::store::{RunDirectory, RunRecord, SampleEntry, SampleKey};
use crate::telemetry::otlp::any_value;
use crate::trajectory::{Call, Trajectory, Turn, milliseconds, question_of};

/// Writes a trace for each sample that was begun: a span for the agent, one for each reply, one for each call.
pub fn write_otel(out: &mut dyn Write, run: &RunDirectory, record: &RunRecord) -> Result<(), ExportError> {
    let mut traces = 0;
    for entry in run.entries(record) {
        let entry = entry?;
        let key = SampleKey { task_id: entry.planned.task_id.clone(), epoch: entry.epoch };
        let Some(trajectory) = Trajectory::read(&run.sample(&key), None)? else { continue };
        let spans = Trace::new(record, &key).spans(record, &entry, &trajectory);
        let service = [("service.name", json!("gaia")), ("service.version", json!(record.program_version))];
        let line = json!({"resourceSpans": [{
            "resource": {"attributes": attributes(service)},
            "scopeSpans": [{"scope": {"name": "gaia", "version": record.program_version}, "spans": spans}],
        }]});
        writeln!(out, "{line}")?;
        traces += 1;
    }
    if traces == 0 {
        return Err(ExportError::Empty(record.id.clone()));
    }
    Ok(())
}

/// Ids that are the same each time that a run is exported.
struct Trace {
    seed: String,
    id: String,
}

impl Trace {
    fn new(record: &RunRecord, key: &SampleKey) -> Self {
        let seed = format!("{}/{}/{}", record.id, key.task_id, key.epoch);
        let id = hex(&seed, 16);
        Self { seed, id }
    }

    fn span_id(&self, name: &str) -> String {
        hex(&format!("{}/{name}", self.seed), 8)
    }

    fn spans(&self, record: &RunRecord, entry: &SampleEntry, trajectory: &Trajectory) -> Vec<Value> {
        let question = question_of(&trajectory.messages).unwrap_or_default();
        let result = entry.result.as_ref();
        let root = self.span_id("agent");
        let mut about = vec![
            ("gen_ai.operation.name", json!("invoke_agent")),
            ("gen_ai.agent.name", json!("gaia")),
            ("gen_ai.conversation.id", json!(self.seed)),
            ("gen_ai.request.model", json!(record.model)),
            ("openinference.span.kind", json!("AGENT")),
            ("input.value", json!(question)),
            ("session.id", json!(record.id)),
            ("gaia.task_id", json!(entry.planned.task_id)),
            ("gaia.level", json!(entry.planned.level)),
            ("gaia.epoch", json!(entry.epoch)),
        ];
        if let Some(result) = result {
            about.push(("output.value", json!(result.answer.clone().unwrap_or_default())));
            about.push(("gaia.status", json!(name_of(&result.status))));
            if let Some(score) = &result.score {
                about.push(("gaia.correct", json!(score.correct)));
            }
        }
        let error = result.and_then(|result| result.error.as_ref()).map(|error| error.message.as_str());
        let name = "invoke_agent gaia";
        let mut spans =
            vec![self.span(&root, None, name, (trajectory.started, trajectory.ended), about, error)];
        for turn in trajectory.turns() {
            spans.extend(self.of_turn(record, &root, turn));
        }
        spans
    }

    fn of_turn(&self, record: &RunRecord, root: &str, turn: &Turn) -> Vec<Value> {
        let mut spans = Vec::new();
        let chat = self.span_id(&format!("turn {}", turn.number));
        let mut about = vec![
            ("gen_ai.operation.name", json!("chat")),
            ("gen_ai.request.model", json!(record.model)),
            ("openinference.span.kind", json!("LLM")),
            ("llm.model_name", json!(record.model)),
            ("gaia.turn", json!(turn.number)),
        ];
        if let Some(branch) = &turn.branch {
            about.push(("gaia.branch", json!(branch)));
        }
        let times = match &turn.reply {
            Some(reply) => {
                let usage = reply.usage;
                about.extend([
                    ("gen_ai.response.finish_reasons", json!([reply.finish_reason])),
                    ("gen_ai.usage.input_tokens", json!(usage.input_tokens)),
                    ("gen_ai.usage.output_tokens", json!(usage.output_tokens)),
                    ("gen_ai.usage.reasoning.output_tokens", json!(usage.reasoning_tokens)),
                    ("llm.token_count.prompt", json!(usage.input_tokens)),
                    ("llm.token_count.completion", json!(usage.output_tokens)),
                    ("llm.token_count.total", json!(usage.total())),
                    ("output.value", json!(reply.content.clone().unwrap_or_default())),
                ]);
                let begun = reply.time.map(|time| time - milliseconds(reply.duration_ms));
                (begun.or(turn.asked), reply.time)
            }
            None => (turn.asked.or(turn.begun()), turn.asked.or(turn.begun())),
        };
        // Where an agent of others made the calls, nobody knows of its model.
        let is_ours = turn.asked.is_some() || turn.reply.is_some();
        if is_ours {
            let name = format!("chat {}", record.model);
            spans.push(self.span(&chat, Some(root), &name, times, about, turn.failure.as_deref()));
        }
        for (index, call) in turn.calls.iter().enumerate() {
            // Beside the reply that led to it: it runs after it.
            let id = self.span_id(&format!("turn {} call {index}", turn.number));
            spans.push(self.of_call(&id, root, turn, call));
        }
        spans
    }

    fn of_call(&self, id: &str, root: &str, turn: &Turn, call: &Call) -> Value {
        let result = call.result.as_ref();
        let output = result.map(|result| result.text()).unwrap_or_default();
        let about = vec![
            ("gen_ai.operation.name", json!("execute_tool")),
            ("gen_ai.tool.name", json!(call.tool)),
            ("gen_ai.tool.call.id", json!(call.id)),
            ("gen_ai.tool.call.arguments", json!(call.arguments)),
            ("gen_ai.tool.call.result", json!(output)),
            ("openinference.span.kind", json!("TOOL")),
            ("tool.name", json!(call.tool)),
            ("input.value", json!(call.arguments)),
            ("output.value", json!(output)),
            ("gaia.turn", json!(turn.number)),
        ];
        let begun = call.begun().or(turn.begun());
        let times = (begun, result.and_then(|result| result.time).or(begun));
        let error = call.is_error().then_some(output.as_str());
        self.span(id, Some(root), &format!("execute_tool {}", call.tool), times, about, error)
    }

    fn span(
        &self,
        id: &str,
        parent: Option<&str>,
        name: &str,
        (begun, ended): (Option<OffsetDateTime>, Option<OffsetDateTime>),
        about: Vec<(&str, Value)>,
        error: Option<&str>,
    ) -> Value {
        let status = match error {
            Some(message) => json!({"code": 2, "message": message}),
            None => json!({"code": 1}),
        };
        let begun = begun.unwrap_or(OffsetDateTime::UNIX_EPOCH);
        json!({
            "traceId": self.id,
            "spanId": id,
            "parentSpanId": parent.unwrap_or_default(),
            "name": name,
            // Of OTLP: CLIENT for what leaves the process, INTERNAL for the rest.
            "kind": if name.starts_with("chat ") { 3 } else { 1 },
            "startTimeUnixNano": begun.unix_timestamp_nanos().to_string(),
            "endTimeUnixNano": ended.unwrap_or(begun).max(begun).unix_timestamp_nanos().to_string(),
            "attributes": attributes(about),
            "status": status,
        })
    }
}

fn attributes<'a>(pairs: impl IntoIterator<Item = (&'a str, Value)>) -> Value {
    pairs.into_iter().map(|(key, value)| json!({"key": key, "value": any_value(value)})).collect()
}

fn hex(text: &str, bytes: usize) -> String {
    Sha256::digest(text).iter().take(bytes).map(|byte| format!("{byte:02x}")).collect()
}
