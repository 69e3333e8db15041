//! The two tables of a run: one row for each sample, one for each turn. Neither holds a truth.

use serde::Serialize;
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::ExportError;
use crate::report::is_withheld;
use crate::store::{RunDirectory, RunRecord, SampleEntry, SampleKey};
use crate::trajectory::{Trajectory, Turn};

/// Which of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Table {
    /// One row a sample
    #[default]
    Samples,
    /// One row a turn: a reply of the model with its calls
    Turns,
}

/// What the cells of a column are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Whole,
    Number,
    Flag,
    /// Text where the format has no other place for it.
    Json,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Cell {
    Text(String),
    Whole(i64),
    Number(f64),
    Flag(bool),
    Json(Value),
    None,
}

pub(super) type Column = (&'static str, Kind);

const SAMPLE_COLUMNS: &[Column] = &[
    ("task_id", Kind::Text),
    ("epoch", Kind::Whole),
    ("level", Kind::Whole),
    ("status", Kind::Text),
    ("answer", Kind::Text),
    ("correct", Kind::Flag),
    ("kind", Kind::Text),
    ("steps", Kind::Whole),
    ("tool_calls", Kind::Whole),
    ("input_tokens", Kind::Whole),
    ("output_tokens", Kind::Whole),
    ("cost_usd", Kind::Number),
    ("wall_seconds", Kind::Number),
    ("model_seconds", Kind::Number),
    ("tool_seconds", Kind::Number),
    ("error_kind", Kind::Text),
    ("error", Kind::Text),
    // In every row: rows of several runs end up in one table.
    ("answer_of", Kind::Text),
    ("run", Kind::Text),
    ("model", Kind::Text),
    ("cached_tokens", Kind::Whole),
    ("reasoning_tokens", Kind::Whole),
];

const TURN_COLUMNS: &[Column] = &[
    ("run", Kind::Text),
    ("task_id", Kind::Text),
    ("epoch", Kind::Whole),
    ("attempt", Kind::Whole),
    ("turn", Kind::Whole),
    ("branch", Kind::Text),
    ("step", Kind::Whole),
    ("started", Kind::Text),
    ("model_seconds", Kind::Number),
    ("queued_seconds", Kind::Number),
    ("tool_seconds", Kind::Number),
    ("finish_reason", Kind::Text),
    ("input_tokens", Kind::Whole),
    ("output_tokens", Kind::Whole),
    ("cached_tokens", Kind::Whole),
    ("reasoning_tokens", Kind::Whole),
    ("cost_usd", Kind::Number),
    ("thoughts", Kind::Text),
    ("content", Kind::Text),
    ("failure", Kind::Text),
    ("tool_calls", Kind::Whole),
    ("tool_errors", Kind::Whole),
    ("calls", Kind::Json),
];

impl Table {
    pub(super) fn columns(self) -> &'static [Column] {
        match self {
            Self::Samples => SAMPLE_COLUMNS,
            Self::Turns => TURN_COLUMNS,
        }
    }

    /// The rows of one sample, which are none of turns when it was not begun.
    pub(super) fn rows(
        self,
        run: &RunDirectory,
        record: &RunRecord,
        entry: &SampleEntry,
    ) -> Result<Vec<Vec<Cell>>, ExportError> {
        if self == Self::Samples {
            return Ok(vec![sample_row(record, entry)]);
        }
        let key = SampleKey { task_id: entry.planned.task_id.clone(), epoch: entry.epoch };
        let trajectory = Trajectory::read(&run.sample(&key), None)?;
        let rows = trajectory.iter().flat_map(|trajectory| {
            trajectory.turns().map(|turn| turn_row(record, &key, trajectory.attempt, turn))
        });
        Ok(rows.collect())
    }
}

/// The word for a sample that was not run because a stage ended the run is not that for one that is lost.
fn without_outcome(record: &RunRecord, entry: &SampleEntry) -> &'static str {
    if is_withheld(entry, &record.withheld()) { "not_run" } else { "missing" }
}

fn sample_row(record: &RunRecord, entry: &SampleEntry) -> Vec<Cell> {
    let result = entry.result.as_ref();
    let score = result.and_then(|result| result.score.as_ref());
    let error = result.and_then(|result| result.error.as_ref());
    let usage = result.map(|result| result.usage);
    let timing = result.map(|result| result.timing);
    vec![
        text(&entry.planned.task_id),
        whole(entry.epoch),
        whole(entry.planned.level),
        text(
            &result
                .map_or_else(|| without_outcome(record, entry).to_owned(), |result| name_of(&result.status)),
        ),
        or_none(result.and_then(|result| result.answer.as_deref()), text),
        or_none(score.map(|score| score.correct), Cell::Flag),
        or_none(score.map(|score| score.kind.as_str()), text),
        or_none(result.map(|result| result.steps), whole),
        or_none(result.map(|result| result.tool_calls), whole),
        or_none(usage.map(|usage| usage.input_tokens), tokens),
        or_none(usage.map(|usage| usage.output_tokens), tokens),
        or_none(result.and_then(|result| result.cost_usd), Cell::Number),
        or_none(timing.map(|timing| timing.wall), Cell::Number),
        or_none(timing.map(|timing| timing.model), Cell::Number),
        or_none(timing.map(|timing| timing.tool), Cell::Number),
        or_none(error.map(|error| name_of(&error.kind)), Cell::Text),
        or_none(error.map(|error| error.message.as_str()), text),
        text(&record.strategy.label()),
        text(&record.id),
        text(&record.model),
        or_none(usage.map(|usage| usage.cached_tokens), tokens),
        or_none(usage.map(|usage| usage.reasoning_tokens), tokens),
    ]
}

fn turn_row(record: &RunRecord, key: &SampleKey, attempt: u32, turn: &Turn) -> Vec<Cell> {
    let reply = turn.reply.as_ref();
    let usage = reply.map(|reply| reply.usage);
    let tool_ms: u64 = turn.calls.iter().map(|call| call.duration_ms()).sum();
    vec![
        text(&record.id),
        text(&key.task_id),
        whole(key.epoch),
        whole(attempt),
        whole(turn.number),
        or_none(turn.branch.as_deref(), text),
        whole(turn.step),
        or_none(turn.begun().and_then(rfc3339), Cell::Text),
        or_none(reply.map(|reply| reply.duration_ms), seconds),
        or_none(reply.map(|reply| reply.queued_ms), seconds),
        seconds(tool_ms),
        or_none(reply.map(|reply| reply.finish_reason.as_str()), text),
        or_none(usage.map(|usage| usage.input_tokens), tokens),
        or_none(usage.map(|usage| usage.output_tokens), tokens),
        or_none(usage.map(|usage| usage.cached_tokens), tokens),
        or_none(usage.map(|usage| usage.reasoning_tokens), tokens),
        or_none(reply.and_then(|reply| reply.cost_usd), Cell::Number),
        or_none(reply.and_then(|reply| reply.reasoning.as_deref()), text),
        or_none(reply.and_then(|reply| reply.content.as_deref()), text),
        or_none(turn.failure.as_deref(), text),
        tokens(turn.calls.len() as u64),
        tokens(turn.calls.iter().filter(|call| call.is_error()).count() as u64),
        Cell::Json(calls(turn)),
    ]
}

fn calls(turn: &Turn) -> Value {
    let calls = turn.calls.iter().map(|call| {
        let arguments: Value =
            serde_json::from_str(&call.arguments).unwrap_or_else(|_| call.arguments.clone().into());
        let result = call.result.as_ref();
        json!({
            "id": call.id,
            "tool": call.tool,
            "arguments": arguments,
            "result": result.map(|result| result.text()),
            "is_error": result.map(|result| result.is_error),
            "seconds": result.map(|result| result.duration_ms as f64 / 1e3),
            "media": result.map(|result| result.content.iter().filter(|part| part.media().is_some()).count()),
        })
    });
    calls.collect()
}

fn or_none<T>(value: Option<T>, cell: impl FnOnce(T) -> Cell) -> Cell {
    value.map_or(Cell::None, cell)
}

fn text(text: &str) -> Cell {
    Cell::Text(text.to_owned())
}

fn whole(number: impl Into<i64>) -> Cell {
    Cell::Whole(number.into())
}

fn tokens(number: u64) -> Cell {
    Cell::Whole(number.try_into().unwrap_or(i64::MAX))
}

fn seconds(milliseconds: u64) -> Cell {
    Cell::Number(milliseconds as f64 / 1e3)
}

pub(super) fn rfc3339(time: OffsetDateTime) -> Option<String> {
    time.format(&Rfc3339).ok()
}

/// The name that an enum without data has in JSON.
pub(super) fn name_of(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(name)) => name,
        _ => String::new(),
    }
}
