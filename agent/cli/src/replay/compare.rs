//! Two trajectories side by side: what the loop says now, and what stands in the log.

use std::sync::{Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gaia_agent::{AgentEvent, EventSink, StopReason};
use serde_json::Value;

use super::Difference;
use crate::recording::{Recording, is_of_the_loop, step};
use crate::store::{StoreError, artefact_name, picture_name};

/// Characters of a value that a difference shows.
const SHOWN_CHARACTERS: usize = 120;

/// Characters of equal text before the place where two texts part.
const LEAD_CHARACTERS: usize = 30;

/// Compares each event as it comes and keeps the first difference.
pub(super) struct Comparing {
    state: Mutex<State>,
}

struct State {
    recorded: Vec<AgentEvent>,
    next: usize,
    difference: Option<Difference>,
}

impl Comparing {
    pub(super) fn new(recording: &Recording) -> Result<Self, StoreError> {
        let recorded = recording.events.iter().filter(|event| is_of_the_loop(event)).cloned().collect();
        Ok(Self { state: Mutex::new(State { recorded, next: 0, difference: None }) })
    }

    /// The first difference; a recording that goes on where the replay has ended is one.
    pub(super) fn into_difference(self) -> Option<Difference> {
        let mut state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        if state.difference.is_none()
            && let Some(event) = state.recorded.get(state.next)
        {
            state.difference = Some(Difference {
                step: step(event),
                what: "the replay ended".to_owned(),
                recorded: kind(&plain(event)),
                now: "nothing more".to_owned(),
            });
        }
        state.difference
    }
}

impl EventSink for Comparing {
    fn emit(&self, event: AgentEvent) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.difference.is_some() || !is_of_the_loop(&event) {
            return;
        }
        let recorded = state.recorded.get(state.next);
        // Where time ran out between two turns, the recording has no request and the replay asks in vain.
        let out_of_time = |event: &AgentEvent| {
            matches!(event, AgentEvent::LimitReached { reason: StopReason::TimeLimit, .. })
        };
        if recorded.is_some_and(out_of_time)
            && matches!(event, AgentEvent::ModelCall { .. } | AgentEvent::ModelFailed { .. })
        {
            return;
        }
        // A call that time left no room for has a result and no start.
        if let (AgentEvent::ToolStarted { call_id, .. }, Some(AgentEvent::ToolResult { call_id: other, .. })) =
            (&event, recorded)
            && call_id == other
        {
            return;
        }
        state.difference = match recorded {
            None => Some(Difference {
                step: step(&event),
                what: "the recording ended".to_owned(),
                recorded: "nothing more".to_owned(),
                now: kind(&plain(&event)),
            }),
            Some(recorded) => difference(recorded, &event),
        };
        state.next += 1;
    }

    fn keep(&self, text: &str) -> Option<String> {
        Some(artefact_name("txt", text.as_bytes()))
    }
}

fn difference(recorded: &AgentEvent, now: &AgentEvent) -> Option<Difference> {
    let (mut before, mut after) = (plain(recorded), plain(now));
    // Not in logs of before it was written.
    if before.get("request").is_none_or(Value::is_null) {
        remove(&mut before, "request");
        remove(&mut after, "request");
    }
    let (path, before, after) = first_difference(&before, &after, String::new())?;
    let (recorded_text, now_text) = shown(before, after);
    let what = format!("{}{path}", kind(&plain(recorded)));
    Some(Difference { step: step(now).or(step(recorded)), what, recorded: recorded_text, now: now_text })
}

/// An event without what the clock, the price list or the storage did to it.
fn plain(event: &AgentEvent) -> Value {
    let mut value = serde_json::to_value(event).unwrap_or_default();
    for key in ["duration_ms", "queued_ms", "cost_usd", "attempt", "offer"] {
        remove(&mut value, key);
    }
    if let Some(outcome) = value.get_mut("outcome") {
        remove(outcome, "timing");
        remove(outcome, "cost_usd");
    }
    // The name of an answer that was too long to be taken, which a replay has no file of; and of text the hash alone.
    if let Some(Value::String(whole)) = value.get("whole") {
        let hash = whole.split('.').next().unwrap_or_default().to_owned();
        let is_text = whole.contains(".txt");
        remove(&mut value, "whole");
        if is_text {
            value["whole"] = hash.into();
        }
    }
    name_pictures(&mut value);
    value
}

/// Pictures by the name of their file, as the log has them.
fn name_pictures(value: &mut Value) {
    match value {
        Value::Object(map) => {
            if let (Some(Value::String(media_type)), Some(Value::String(data))) =
                (map.get("media_type"), map.get("data"))
                && !data.starts_with("file:")
                && let Ok(bytes) = STANDARD.decode(data)
            {
                let name = format!("file:{}", picture_name(media_type, &bytes));
                map.insert("data".to_owned(), name.into());
            }
            map.values_mut().for_each(name_pictures);
        }
        Value::Array(values) => values.iter_mut().for_each(name_pictures),
        _ => {}
    }
}

fn remove(value: &mut Value, key: &str) {
    if let Some(map) = value.as_object_mut() {
        map.shift_remove(key);
    }
}

fn kind(event: &Value) -> String {
    event.get("type").and_then(Value::as_str).unwrap_or("event").to_owned()
}

/// The first place where two values part, with both sides.
fn first_difference<'a>(
    before: &'a Value,
    after: &'a Value,
    path: String,
) -> Option<(String, Option<&'a Value>, Option<&'a Value>)> {
    match (before, after) {
        (before, after) if before == after => None,
        (Value::Object(one), Value::Object(other)) => {
            let keys = one.keys().chain(other.keys().filter(|key| !one.contains_key(*key)));
            keys.into_iter().find_map(|key| {
                let path = format!("{path}.{key}");
                match (one.get(key), other.get(key)) {
                    (Some(before), Some(after)) => first_difference(before, after, path),
                    (before, after) => Some((path, before, after)),
                }
            })
        }
        (Value::Array(one), Value::Array(other)) => (0..one.len().max(other.len())).find_map(|index| {
            let path = format!("{path}[{index}]");
            match (one.get(index), other.get(index)) {
                (Some(before), Some(after)) => first_difference(before, after, path),
                (before, after) => Some((path, before, after)),
            }
        }),
        (before, after) => Some((path, Some(before), Some(after))),
    }
}

/// Both sides from shortly before the place where they part.
fn shown(before: Option<&Value>, after: Option<&Value>) -> (String, String) {
    let text = |value: Option<&Value>| match value {
        None => "nothing".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    };
    let (before, after) = (text(before), text(after));
    let equal = before.chars().zip(after.chars()).take_while(|(one, other)| one == other).count();
    let from = equal.saturating_sub(LEAD_CHARACTERS);
    let cut = |text: &str| {
        let lead = if from > 0 { "…" } else { "" };
        let part: String = text.chars().skip(from).take(SHOWN_CHARACTERS).collect();
        let tail = if text.chars().count() > from + SHOWN_CHARACTERS { "…" } else { "" };
        format!("{lead}{}{tail}", part.escape_debug())
    };
    (cut(&before), cut(&after))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(before: Value, after: Value) -> Option<String> {
        let (path, before, after) = first_difference(&before, &after, String::new())?;
        let (before, after) = shown(before, after);
        Some(format!("{path}: {before} → {after}"))
    }

    #[test]
    fn the_first_place_where_two_values_part_is_named() {
        assert_eq!(found(json!({"a": [1, {"b": 2}]}), json!({"a": [1, {"b": 2}]})), None);
        assert_eq!(
            found(json!({"a": [1, {"b": 2}]}), json!({"a": [1, {"b": 3}]})).unwrap(),
            ".a[1].b: 2 → 3"
        );
        assert_eq!(found(json!({"a": []}), json!({"a": ["x"]})).unwrap(), ".a[0]: nothing → x");
        let long = "x".repeat(500);
        let told = found(json!(format!("{long}one\n")), json!(format!("{long}two\n"))).unwrap();
        assert_eq!(told, format!(": …{0}one\\n → …{0}two\\n", "x".repeat(LEAD_CHARACTERS)));
    }
}
