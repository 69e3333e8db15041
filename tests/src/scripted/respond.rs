//! One request for a completion, from its bytes to its reply or fault.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream;
use http::{HeaderMap, StatusCode, header};
use serde_json::{Value, json};

use super::check;
use super::conversation;
use super::dice::Dice;
use super::fault::{self, Fault, Refusal};
use super::ledger::CapturedRequest;
use super::reply::{self, Arguments, Reply};
use super::responses;
use super::server::{InFlight, Shared};
use super::textual::{self, CallForm};
use super::wire::{self, Head};

/// Between two pieces of a slow reply: a slow but live model.
const SLOW_PIECE_MS: u64 = 40;
/// Before a connection is cut, so that what was written is on its way.
const CUT_AFTER_MS: u64 = 20;

/// Set on a response to have the connection reset instead.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ResetConnection;

/// Which API a request was made to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Api {
    Chat,
    Responses,
}

/// What is to be said, and how badly.
struct Decision {
    api: Api,
    reply: Reply,
    fault: Option<Fault>,
    wait: Duration,
    dice: Dice,
}

pub(crate) async fn completion(shared: Arc<Shared>, api: Api, headers: HeaderMap, body: Bytes) -> Response {
    let in_flight = shared.arrive();
    let latency = shared.options.latency;
    let decided = decide(&shared, api, &headers, &body);
    shared.notify();
    let wait = latency + decided.as_ref().map_or(Duration::ZERO, |(_, decision)| decision.wait);
    if !wait.is_zero() {
        tokio::time::sleep(wait).await;
    }
    match decided {
        Ok((request, decision)) => send(&shared, &request, decision, in_flight).await,
        Err(refusal) => refusal.into_response(),
    }
}

fn decide(shared: &Shared, api: Api, headers: &HeaderMap, body: &[u8]) -> Result<(Value, Decision), Refusal> {
    let invalid = |message: &str| {
        let error = json!({"message": message, "type": "invalid_request_error", "param": null, "code": null});
        Refusal::json(StatusCode::BAD_REQUEST, json!({ "error": error }))
    };
    let parsed: Result<Value, _> = serde_json::from_slice(body);
    let mut ledger = shared.ledger();
    ledger.stats.requests += 1;
    if !shared.options.api_key.admits(headers) {
        ledger.stats.unauthorized += 1;
        let mut dice = Dice::new(shared.options.seed, "", 0, 0);
        return Err(
            fault::refusal(Fault::Unauthorized, "", 0, &mut dice).unwrap_or_else(|| invalid("no key"))
        );
    }
    if shared.options.max_in_flight.is_some_and(|most| ledger.stats.in_flight > most) {
        ledger.stats.crowded_out += 1;
        return Err(fault::rate_limited());
    }
    let original = match parsed {
        Ok(request) => request,
        Err(error) => {
            let message = format!("the body is not JSON: {error}");
            ledger.stats.violations.push(message.clone());
            return Err(invalid(&message));
        }
    };
    // Both APIs and both forms of calls are looked at as the native calls of chat completions.
    let (chat, broken) = match api {
        Api::Chat => (original.clone(), check::request(&original).err()),
        Api::Responses => match responses::as_chat(&original) {
            Ok(chat) => {
                let broken = check::request(&chat).err();
                (chat, broken)
            }
            Err(broken) => (json!({}), Some(broken)),
        },
    };
    let native = textual::as_native(&chat);
    let as_text = native.is_some() || shared.options.call_form == CallForm::Text;
    let request = native.unwrap_or(chat);
    let task = shared.script.find(&conversation::question(&request));
    let step = conversation::step(&request);
    let mut captured = CapturedRequest {
        task_id: task.map(|task| task.task_id.clone()),
        step,
        headers: kept(headers),
        body: original,
        fault: None,
        violation: None,
    };
    if let Some(violation) = broken {
        tracing::warn!(task = captured.task_id, step, violation, "protocol violation");
        ledger.stats.violations.push(violation.clone());
        captured.violation = Some(violation.clone());
        ledger.capture(captured);
        return Err(invalid(&violation));
    }
    if request["stream"] == true {
        ledger.stats.streamed += 1;
    }
    let Some(task) = task else {
        ledger.stats.unknown += 1;
        ledger.capture(captured);
        let reply = reply::plain_reply(reply::UNKNOWN_TASK, body.len());
        let dice = Dice::new(shared.options.seed, "", step, 0);
        return Ok((request, Decision { api, reply, fault: None, wait: Duration::ZERO, dice }));
    };
    let attempt = ledger.attempt(&task.task_id, step);
    let mut dice = Dice::new(shared.options.seed, &task.task_id, step, attempt);
    let used_tokens = body.len() as u64 / 4;
    if let Some(window_tokens) = shared.options.window_tokens.filter(|window| used_tokens > *window) {
        ledger.stats.overflows += 1;
        ledger.capture(captured);
        return Err(fault::overflow(window_tokens, used_tokens, &mut dice));
    }
    let turn = task.turn(step);
    let drawn = fault::draw(&shared.options.faults, &mut dice);
    let scripted = turn.and_then(|turn| turn.faults.get(attempt as usize - 1).copied());
    let fits = |fault: &Fault| turn.map_or(*fault != Fault::BadArguments, |turn| fault.fits(turn));
    let fault = scripted.or(drawn).filter(fits);
    captured.fault = fault;
    ledger.capture(captured);
    if let Some(fault) = fault {
        *ledger.stats.faults.entry(fault.name()).or_default() += 1;
        tracing::debug!(task = task.task_id, step, attempt, fault = fault.name(), "fault");
    }
    let model = request["model"].as_str().unwrap_or_default();
    if let Some(refusal) =
        fault.and_then(|f| fault::refusal(f, model, shared.options.retry_after_secs, &mut dice))
    {
        return Err(refusal);
    }
    let arguments = if fault == Some(Fault::BadArguments) { Arguments::Broken } else { Arguments::Whole };
    let reply = reply::compose(task, step, &request, body.len(), arguments, &mut dice);
    let reply = if as_text { textual::said(reply) } else { reply };
    if fault.is_none_or(Fault::delivers) {
        ledger.stats.ok += 1;
        if turn.is_none() {
            ledger.stats.past_end += 1;
        }
        let counts = ledger.stats.tasks.entry(task.task_id.clone()).or_default();
        if request.get("tools").is_some() {
            *counts.turns.entry(step).or_default() += 1;
        } else {
            counts.forced += 1;
        }
    }
    let wait = Duration::from_millis(turn.and_then(|turn| turn.latency_ms).unwrap_or(0));
    Ok((request, Decision { api, reply, fault, wait, dice }))
}

async fn send(shared: &Shared, request: &Value, decision: Decision, in_flight: InFlight) -> Response {
    let Decision { api, reply, fault, mut dice, .. } = decision;
    let head = Head {
        id: format!("chatcmpl-{:016x}", dice.bits()),
        created: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        model: request["model"].as_str().unwrap_or_default().to_owned(),
        dialect: shared.options.dialect,
    };
    let streams = request["stream"] == true;
    match fault {
        Some(Fault::Reset) => {
            let mut response = StatusCode::INTERNAL_SERVER_ERROR.into_response();
            response.extensions_mut().insert(ResetConnection);
            return response;
        }
        Some(Fault::EmptyBody) => return typed("application/json", Body::empty()),
        // Without streaming not even the headers come; the request ends when the client goes or the server closes.
        Some(Fault::Silent) if !streams => return std::future::pending().await,
        Some(Fault::Silent) => {
            let silence = stream::pending::<Result<Bytes, Infallible>>().map(move |item| {
                let _held = &in_flight;
                item
            });
            return typed("text/event-stream", Body::from_stream(silence));
        }
        _ => {}
    }
    let (content_type, pieces) = if streams {
        let include_usage = request["stream_options"]["include_usage"] == true;
        let events = match api {
            Api::Chat => wire::events(&reply, &head, include_usage, fault, &mut dice),
            Api::Responses => responses::events(&reply, &head, fault),
        };
        let pieces = match fault {
            Some(Fault::Slow) => events.into_iter().map(String::into_bytes).collect(),
            _ => wire::packets(events.concat().as_bytes(), &mut dice),
        };
        ("text/event-stream", pieces)
    } else {
        let whole = match api {
            Api::Chat => wire::whole(&reply, &head, fault),
            Api::Responses => responses::whole(&reply, &head, fault),
        };
        let mut bytes = whole.to_string().into_bytes();
        if fault == Some(Fault::Cut) {
            bytes.truncate(bytes.len() / 2);
        }
        ("application/json", wire::packets(&bytes, &mut dice))
    };
    let pause = Duration::from_millis(if fault == Some(Fault::Slow) { SLOW_PIECE_MS } else { 0 });
    let whole = stream::iter(pieces).then(move |piece| async move {
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
        Ok::<_, io::Error>(Bytes::from(piece))
    });
    let end = stream::iter((fault == Some(Fault::Cut)).then_some(())).then(|()| async {
        tokio::time::sleep(Duration::from_millis(CUT_AFTER_MS)).await;
        Err(io::Error::new(io::ErrorKind::ConnectionAborted, "cut by the script"))
    });
    let body = whole.chain(end).map(move |item| {
        let _held = &in_flight;
        item
    });
    typed(content_type, Body::from_stream(body))
}

fn typed(content_type: &'static str, body: Body) -> Response {
    ([(header::CONTENT_TYPE, content_type)], body).into_response()
}

/// Headers worth showing; the key is never kept.
fn kept(headers: &HeaderMap) -> BTreeMap<String, String> {
    let shown = headers.iter().filter(|(name, _)| *name != header::AUTHORIZATION);
    shown
        .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
        .collect()
}
