//! Which samples of a run are listed, and in which order.

use std::cmp::Ordering;

use gaia_agent::Status;

use super::arguments::RunQuery;
use super::index::{Class, SampleRow};

/// The states that a filter can ask for.
pub(super) const STATUSES: [(&str, &str); 5] = [
    ("answered", "answered"),
    ("no_answer", "no answer"),
    ("error", "error"),
    ("running", "begun, no outcome"),
    ("waiting", "not begun"),
];

pub(super) fn status(row: &SampleRow) -> &'static str {
    match row.facts.result.as_ref().map(|result| result.status) {
        Some(Status::Answered) => "answered",
        Some(Status::NoAnswer) => "no_answer",
        Some(Status::Error) => "error",
        None if row.facts.is_begun => "running",
        None => "waiting",
    }
}

/// What stands before the colon: `format: article` is of the class `format`.
pub(super) fn class_group(class: &str) -> &str {
    class.split(':').next().unwrap_or(class)
}

/// The rows that the query asks for, in its order, each with its place in the run.
pub(super) fn chosen<'a>(rows: &'a [SampleRow], query: &RunQuery) -> Vec<(usize, &'a SampleRow)> {
    let find = query.find.trim().to_lowercase();
    let fits = |row: &SampleRow| {
        let correct = match row.correct() {
            Some(true) => "yes",
            Some(false) => "no",
            None => "unknown",
        };
        let class = match &row.class {
            Class::Known(class) => class_group(class),
            Class::None | Class::Unread => "",
        };
        let is = |wanted: &str, found: &str| wanted.is_empty() || wanted == found;
        is(&query.level, &row.planned.level.to_string())
            && is(&query.status, status(row))
            && is(&query.correct, correct)
            && is(&query.class, class)
            && (find.is_empty() || texts(row).any(|text| text.to_lowercase().contains(&find)))
    };
    let mut chosen: Vec<(usize, &SampleRow)> = rows.iter().enumerate().filter(|(_, row)| fits(row)).collect();
    if !query.sort.is_empty() {
        chosen.sort_by(|(_, first), (_, second)| match query.order.as_str() {
            "down" => compare(second, first, &query.sort),
            _ => compare(first, second, &query.sort),
        });
    }
    chosen
}

fn texts(row: &SampleRow) -> impl Iterator<Item = &str> {
    let answer = row.facts.result.as_ref().and_then(|result| result.answer.as_deref());
    [Some(row.planned.task_id.as_str()), row.facts.question.as_deref(), answer].into_iter().flatten()
}

fn compare(first: &SampleRow, second: &SampleRow, column: &str) -> Ordering {
    let number = |row: &SampleRow| {
        let result = row.facts.result.as_ref();
        match column {
            "level" => Some(f64::from(row.planned.level)),
            "epoch" => Some(f64::from(row.epoch)),
            "correct" => row.correct().map(|correct| f64::from(u8::from(correct))),
            "steps" => result.map(|result| f64::from(result.steps)),
            "calls" => result.map(|result| f64::from(result.tool_calls)),
            "tokens" => result.map(|result| result.usage.total() as f64),
            "cost" => result.and_then(|result| result.cost_usd),
            "time" => result.map(|result| result.timing.wall),
            _ => None,
        }
    };
    let text = |row: &SampleRow| match column {
        "task" => row.planned.task_id.clone(),
        "status" => status(row).to_owned(),
        "answer" => row.facts.result.as_ref().and_then(|result| result.answer.clone()).unwrap_or_default(),
        "class" => match &row.class {
            Class::Known(class) => class.clone(),
            Class::None | Class::Unread => String::new(),
        },
        _ => String::new(),
    };
    // What has no number comes first.
    let numbers = number(first).unwrap_or(-1.0).total_cmp(&number(second).unwrap_or(-1.0));
    numbers.then_with(|| text(first).cmp(&text(second)))
}
