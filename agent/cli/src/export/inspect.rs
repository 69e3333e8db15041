//! A log that Inspect reads and its viewer opens: a zip of JSON files (version 2 of its format). A sample is its last
//! attempt. The format has a place for the truth, `target`, and for the scorer's reason, which tells it too.

mod events;
mod messages;

use std::collections::BTreeMap;
use std::io::{Seek, Write};

use gaia_agent::{Status, StopReason, Usage};
use serde_json::{Map, Value, json};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::ExportError;
use super::table::{name_of, rfc3339};
use crate::report::is_withheld;
use crate::store::{RunDirectory, RunRecord, SampleEntry, SampleKey};
use crate::trajectory::Trajectory;
use events::events;
use messages::{Files, input, messages};

/// What our scorer is called in the log.
const SCORER: &str = "gaia_official";

/// Characters of an input in the summary of a sample; Inspect shortens it too.
const SUMMARY_CHARACTERS: usize = 1_000;

/// Writes the log. Samples without an outcome are left out, and counted.
pub fn write_inspect(
    out: impl Write + Seek,
    run: &RunDirectory,
    record: &RunRecord,
) -> Result<(), ExportError> {
    let mut zip = ZipWriter::new(out);
    let mut member = |name: &str, value: &Value| -> Result<(), ExportError> {
        zip.start_file(name, SimpleFileOptions::default().compression_method(CompressionMethod::Deflated))?;
        serde_json::to_writer(&mut zip, value)?;
        Ok(())
    };
    let (spec, plan) =
        (spec(record), json!({"name": "plan", "steps": [{"solver": "gaia", "params": {}}], "config": {}}));
    member("_journal/start.json", &json!({"version": 2, "eval": spec, "plan": plan}))?;
    let mut summaries = Vec::new();
    let mut count = Count::default();
    // What a stage left out was not asked.
    let withheld = record.withheld();
    for entry in run.entries(record) {
        let entry = entry?;
        if !is_withheld(&entry, &withheld) {
            count.add(&entry);
        }
        if entry.result.is_none() {
            continue;
        }
        let sample = sample(run, record, &entry)?;
        // The name that Inspect looks for.
        let name = format!("samples/{}_epoch_{}.json", entry.planned.task_id, entry.epoch);
        member(&name, &sample)?;
        summaries.push(summary(&sample));
    }
    if summaries.is_empty() {
        return Err(ExportError::Empty(record.id.clone()));
    }
    member("summaries.json", &Value::from(summaries))?;
    member("header.json", &header(record, spec, plan, &count))?;
    zip.finish()?.flush()?;
    Ok(())
}

#[derive(Default)]
struct Count {
    asked: u64,
    ended: u64,
    correct: u64,
    usage: Usage,
    cost_usd: Option<f64>,
}

impl Count {
    fn add(&mut self, entry: &SampleEntry) {
        self.asked += 1;
        let Some(result) = &entry.result else { return };
        self.ended += 1;
        self.correct += u64::from(result.score.as_ref().is_some_and(|score| score.correct));
        self.usage += result.usage;
        if let Some(cost) = result.cost_usd {
            *self.cost_usd.get_or_insert(0.0) += cost;
        }
    }
}

fn spec(record: &RunRecord) -> Value {
    let ids: Vec<&str> = record.dataset.samples.iter().map(|planned| planned.task_id.as_str()).collect();
    json!({
        "eval_id": record.id,
        "run_id": record.id,
        "created": rfc3339(record.started),
        "task": "gaia",
        "task_id": record.id,
        "task_version": 0,
        "dataset": {"name": record.dataset.name, "samples": ids.len(), "sample_ids": ids, "shuffled": false},
        "model": record.model,
        "config": {"epochs": record.epochs},
        "packages": {"gaia": record.program_version},
        "metadata": {
            "answer_of": record.strategy.label(),
            "rehearsal": record.rehearsal,
            "split": record.dataset.split,
            "dataset_fingerprint": record.dataset.fingerprint,
        },
        "scorers": [{"name": SCORER, "options": {}, "metrics": [{"name": "accuracy", "options": {}}], "metadata": {}}],
    })
}

fn header(record: &RunRecord, spec: Value, plan: Value, count: &Count) -> Value {
    let is_whole = count.ended == count.asked;
    // As everywhere: whoever was asked and has no answer is wrong.
    let scores = record.dataset.has_truth.then(|| {
        let accuracy = count.correct as f64 / count.asked as f64;
        json!([{
            "name": SCORER, "scorer": SCORER, "scored_samples": count.ended,
            "unscored_samples": count.asked - count.ended, "params": {},
            "metrics": {"accuracy": {"name": "accuracy", "value": accuracy, "params": {}}},
        }])
    });
    json!({
        "version": 2,
        "status": if is_whole { "success" } else { "cancelled" },
        "eval": spec,
        "plan": plan,
        "results": {
            "total_samples": count.asked,
            "completed_samples": count.ended,
            "logged_samples": count.ended,
            "scores": scores.unwrap_or_else(|| json!([])),
        },
        "stats": {
            "started_at": rfc3339(record.started),
            "completed_at": record.ended.and_then(rfc3339).unwrap_or_default(),
            "model_usage": {record.model.clone(): usage(count.usage, count.cost_usd)},
        },
    })
}

/// Inspect counts what came out of a cache apart.
fn usage(usage: Usage, cost_usd: Option<f64>) -> Value {
    json!({
        "input_tokens": usage.input_tokens.saturating_sub(usage.cached_tokens),
        "output_tokens": usage.output_tokens,
        "total_tokens": usage.total(),
        "input_tokens_cache_read": usage.cached_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "total_cost": cost_usd,
    })
}

fn sample(run: &RunDirectory, record: &RunRecord, entry: &SampleEntry) -> Result<Value, ExportError> {
    let key = SampleKey { task_id: entry.planned.task_id.clone(), epoch: entry.epoch };
    let directory = run.sample(&key);
    // A sample that ended before its first attempt has an outcome and no log.
    let trajectory = Trajectory::read(&directory, None)?.unwrap_or_default();
    let files = Files::new(&directory);
    let input = input(&trajectory, &files);
    let messages = messages(&trajectory, &record.model, &files);
    let last = messages.iter().rev().find(|message| message["role"] == "assistant");
    let Some(result) = &entry.result else { return Ok(Value::Null) };
    let choices: Vec<Value> =
        last.map(|message| json!({"message": message, "stop_reason": "stop"})).into_iter().collect();
    let score = result.score.as_ref();
    let scores: BTreeMap<&str, Value> = score
        .map(|score| {
            let value = if score.correct { "C" } else { "I" };
            let answer = result.answer.clone().unwrap_or_default();
            let about = json!({"kind": score.kind});
            (
                SCORER,
                json!({"value": value, "answer": answer, "explanation": score.reason, "metadata": about}),
            )
        })
        .into_iter()
        .collect();
    let stop = trajectory.outcome.as_ref().map(|outcome| outcome.stop);
    let mut sample = json!({
        "id": key.task_id,
        "epoch": key.epoch,
        "input": input,
        "target": score.map(|score| score.truth.clone()).unwrap_or_default(),
        "messages": messages,
        "output": {
            "model": record.model,
            "choices": choices,
            "completion": result.answer.clone().unwrap_or_default(),
            "usage": usage(result.usage, result.cost_usd),
            "time": result.timing.model,
        },
        "scores": scores,
        "metadata": {
            "level": entry.planned.level,
            "status": name_of(&result.status),
            "stop": stop.map(|stop| name_of(&stop)),
            "attempt": trajectory.attempt,
            "tool_calls": result.tool_calls,
        },
        "model_usage": {record.model.clone(): usage(result.usage, result.cost_usd)},
        "started_at": trajectory.started.and_then(rfc3339),
        "completed_at": trajectory.ended.and_then(rfc3339),
        "total_time": result.timing.wall,
        "working_time": result.timing.model + result.timing.tool,
        "uuid": format!("{}/{}/{}", record.id, key.task_id, key.epoch),
        "turn_count": result.steps,
        "events": events(&trajectory, &record.model),
        "error_retries": [],
    });
    if result.status == Status::Error {
        let message = result.error.as_ref().map(|error| error.message.clone()).unwrap_or_default();
        sample["error"] = json!({"message": message, "traceback": message, "traceback_ansi": message});
    }
    if let Some((kind, limit)) = stop.and_then(|stop| limit(stop, record)) {
        sample["limit"] = json!({"type": kind, "limit": limit, "reason": stop.map(|stop| name_of(&stop))});
    }
    Ok(sample)
}

/// Inspect's name of a limit that ended a sample, and its size where the config has it.
fn limit(stop: StopReason, record: &RunRecord) -> Option<(&'static str, f64)> {
    let agent = record.config.get("agent").and_then(toml::Value::as_table);
    let number = |value: Option<&toml::Value>| {
        value.and_then(|value| value.as_float().or_else(|| Some(value.as_integer()? as f64)))
    };
    let of_budget = |name: &str| number(agent.and_then(|agent| agent.get("budget")?.get(name)));
    Some(match stop {
        StopReason::StepLimit => {
            ("turn", number(agent.and_then(|agent| agent.get("max_steps"))).unwrap_or(0.0))
        }
        StopReason::TokenLimit => ("token", of_budget("tokens").unwrap_or(0.0)),
        StopReason::CostLimit => ("cost", of_budget("cost_usd").unwrap_or(0.0)),
        StopReason::TimeLimit => ("time", 0.0),
        StopReason::ContextLimit => ("context", 0.0),
        _ => return None,
    })
}

/// What the list of samples shows.
fn summary(sample: &Value) -> Value {
    let mut summary = Map::new();
    let kept = [
        "id",
        "epoch",
        "target",
        "metadata",
        "scores",
        "model_usage",
        "started_at",
        "completed_at",
        "total_time",
        "working_time",
        "uuid",
        "turn_count",
    ];
    for name in kept {
        summary.insert(name.to_owned(), sample[name].clone());
    }
    let texts = sample["input"].as_array().into_iter().flatten().filter(|message| message["role"] == "user");
    let question: Vec<&str> = texts
        .flat_map(|message| match &message["content"] {
            Value::String(text) => vec![text.as_str()],
            parts => {
                parts.as_array().into_iter().flatten().filter_map(|part| part["text"].as_str()).collect()
            }
        })
        .collect();
    let question: String = question.join("\n").chars().take(SUMMARY_CHARACTERS).collect();
    summary.insert("input".to_owned(), question.into());
    summary.insert("completed".to_owned(), true.into());
    summary.insert("message_count".to_owned(), sample["messages"].as_array().map_or(0, Vec::len).into());
    if let Some(message) = sample["error"]["message"].as_str() {
        summary.insert("error".to_owned(), message.into());
    }
    if let Some(kind) = sample["limit"]["type"].as_str() {
        summary.insert("limit".to_owned(), kind.into());
    }
    Value::from(summary)
}
