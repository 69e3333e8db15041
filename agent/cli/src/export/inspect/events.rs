//! A trajectory as the events from which Inspect's viewer draws its transcript. What a request held stands in the
//! messages of the sample and is not said again with each.

use gaia_agent::AgentEvent;
use serde_json::{Value, json};
use time::OffsetDateTime;

use super::super::table::{name_of, rfc3339};
use super::messages::{assistant, error, tool_call};
use super::usage;
use crate::trajectory::{Call, Entry, Note, Noted, Reply, Trajectory, Turn};

pub(super) fn events(trajectory: &Trajectory, model: &str) -> Vec<Value> {
    let mut events = Vec::new();
    for entry in &trajectory.entries {
        match entry {
            Entry::Turn(turn) => {
                if let Some(reply) = &turn.reply {
                    events.push(of_reply(trajectory, turn, reply, model));
                }
                events.extend(turn.calls.iter().map(|call| of_call(trajectory, call)));
            }
            Entry::Note(Note { time, what: Noted::Event(event), .. }) => {
                if let Some(said) = said(event) {
                    let mut event = json!({"event": "info", "source": "gaia", "data": said});
                    place(&mut event, trajectory, *time);
                    events.push(event);
                }
            }
            Entry::Note(_) => {}
        }
    }
    events
}

fn of_reply(trajectory: &Trajectory, turn: &Turn, reply: &Reply, model: &str) -> Value {
    let message = assistant(turn, model).unwrap_or_default();
    let seconds = reply.duration_ms as f64 / 1e3;
    let stop = if turn.calls.is_empty() { "stop" } else { "tool_calls" };
    let mut event = json!({
        "event": "model", "model": model, "input": [], "tools": [], "tool_choice": "auto", "config": {},
        "output": {
            "model": model, "choices": [{"message": message, "stop_reason": stop}],
            "completion": reply.content.clone().unwrap_or_default(), "usage": usage(reply.usage, reply.cost_usd),
            "time": seconds,
        },
        "completed": reply.time.and_then(rfc3339), "working_time": seconds,
    });
    place(&mut event, trajectory, turn.begun());
    event
}

fn of_call(trajectory: &Trajectory, call: &Call) -> Value {
    let result = call.result.as_ref();
    let text = result.map(|result| result.text()).unwrap_or_default();
    let mut event = json!({
        "event": "tool", "type": "function", "id": call.id, "function": call.tool,
        "arguments": tool_call(call)["arguments"], "result": text, "events": [],
        "completed": result.and_then(|result| result.time).and_then(rfc3339),
        "working_time": call.duration_ms() as f64 / 1e3,
        "error": call.is_error().then(|| error(&text)),
    });
    place(&mut event, trajectory, call.begun());
    event
}

/// When it was; the log of a crash may lack a time, and then it was at the beginning.
fn place(event: &mut Value, trajectory: &Trajectory, time: Option<OffsetDateTime>) {
    let begun = trajectory.started.unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let time = time.unwrap_or(begun);
    event["timestamp"] = rfc3339(time).into();
    event["working_start"] = (time - begun).as_seconds_f64().max(0.0).into();
}

/// What happened beside the turns, as far as a reader of the transcript wants to know it.
fn said(event: &AgentEvent) -> Option<String> {
    Some(match event {
        AgentEvent::Prompted { text, .. } => format!("gaia said to the model: {text}"),
        AgentEvent::Compacted { shortened_results, dropped_bytes, .. } => {
            format!("{shortened_results} results were shortened by {dropped_bytes} bytes to fit the window")
        }
        AgentEvent::LimitReached { reason, .. } => format!("{} reached", name_of(reason).replace('_', " ")),
        AgentEvent::Decided { reason, answer, .. } => {
            format!("decided: {reason}: {}", answer.as_deref().unwrap_or("no answer"))
        }
        AgentEvent::ServerNotice { server, text, .. } => format!("{server}: {text}"),
        AgentEvent::ProgramEnded { exit, .. } => format!("the program {exit}"),
        AgentEvent::Failed { failure } => failure.message.clone(),
        _ => return None,
    })
}
