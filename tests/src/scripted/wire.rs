//! Replies as bytes: the JSON of chat completions, whole and as server-sent events.

use serde_json::{Map, Value, json};

use super::dice::Dice;
use super::fault::Fault;
use super::reply::Reply;

/// Whose habits the replies have. All are correct; clients trip over the differences.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Dialect {
    #[default]
    OpenAi,
    /// Null content in the first chunk, comment lines, arguments with blanks.
    LlamaCpp,
    /// Every chunk repeats id, type and name of its call, with a null role.
    LlamaCppPython,
    /// `reasoning` instead of `reasoning_content`, comment lines, usage in a chunk that has a choice.
    OpenRouter,
}

/// What all parts of one reply have in common.
pub(crate) struct Head {
    pub(crate) id: String,
    /// Seconds since 1970.
    pub(crate) created: u64,
    pub(crate) model: String,
    pub(crate) dialect: Dialect,
}

impl Head {
    fn object(&self, kind: &str) -> Map<String, Value> {
        let fields = json!({"id": self.id, "object": kind, "created": self.created, "model": self.model});
        fields.as_object().cloned().unwrap_or_default()
    }

    fn reasoning_field(&self) -> &'static str {
        match self.dialect {
            Dialect::OpenRouter => "reasoning",
            Dialect::OpenAi | Dialect::LlamaCpp | Dialect::LlamaCppPython => "reasoning_content",
        }
    }
}

/// The reply as one JSON object.
pub(crate) fn whole(reply: &Reply, head: &Head, fault: Option<Fault>) -> Value {
    let mut message = json!({"role": "assistant", "content": reply.content});
    if let Some(reasoning) = &reply.reasoning {
        message[head.reasoning_field()] = json!(reasoning);
    }
    if !reply.calls.is_empty() {
        let calls = reply.calls.iter().map(|call| {
            json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}})
        });
        message["tool_calls"] = calls.collect();
    }
    let finish_reason = (fault != Some(Fault::NoFinish)).then_some(&reply.finish_reason);
    let choices = match fault {
        Some(Fault::Empty) => json!([]),
        _ => json!([{"index": 0, "message": message, "logprobs": null, "finish_reason": finish_reason}]),
    };
    let mut object = head.object("chat.completion");
    object.insert("choices".to_owned(), choices);
    object.insert("usage".to_owned(), usage(reply));
    match fault {
        Some(Fault::ErrorEvent) => error_event(),
        _ => Value::Object(object),
    }
}

/// The reply as server-sent events, each with its blank line. A stream that ends early does so by being shorter.
pub(crate) fn events(
    reply: &Reply,
    head: &Head,
    include_usage: bool,
    fault: Option<Fault>,
    dice: &mut Dice,
) -> Vec<String> {
    let mut deltas = match head.dialect {
        Dialect::LlamaCpp => vec![json!({"role": "assistant", "content": null})],
        _ => vec![json!({"role": "assistant", "content": ""})],
    };
    if let Some(reasoning) = &reply.reasoning {
        let pieces = pieces(reasoning, dice).into_iter();
        deltas.extend(
            pieces.map(|piece| {
                Value::Object(Map::from_iter([(head.reasoning_field().to_owned(), json!(piece))]))
            }),
        );
    }
    if let Some(content) = &reply.content {
        deltas.extend(pieces(content, dice).into_iter().map(|piece| json!({ "content": piece })));
    }
    for (index, call) in reply.calls.iter().enumerate() {
        let first = json!({"index": index, "id": call.id, "type": "function",
            "function": {"name": call.name, "arguments": ""}});
        deltas.push(json!({"tool_calls": [first.clone()]}));
        for piece in pieces(&call.arguments, dice) {
            let delta = if head.dialect == Dialect::LlamaCppPython {
                let mut repeated = first.clone();
                repeated["function"]["arguments"] = json!(piece);
                json!({"role": null, "content": null, "tool_calls": [repeated]})
            } else {
                json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
            };
            deltas.push(delta);
        }
    }
    let chunk = |choices: Value, usage: Option<Value>| {
        let mut object = head.object("chat.completion.chunk");
        object.insert("choices".to_owned(), choices);
        if let Some(usage) = usage.or_else(|| include_usage.then_some(Value::Null)) {
            object.insert("usage".to_owned(), usage);
        }
        format!("data: {}\n\n", Value::Object(object))
    };
    let choice = |delta: Value, finish: Option<&str>| json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}]);
    let mut events: Vec<_> = deltas.into_iter().map(|delta| chunk(choice(delta, None), None)).collect();
    if matches!(head.dialect, Dialect::LlamaCpp | Dialect::OpenRouter) {
        events.insert(0, ": still working\n\n".to_owned());
    }
    let middle = events.len().div_ceil(2);
    match fault {
        Some(Fault::Cut | Fault::NoFinish) => events.truncate(middle),
        Some(Fault::ErrorEvent) => {
            events.truncate(middle);
            events.push(format!("data: {}\n\n", error_event()));
        }
        Some(Fault::Empty) => {
            events = vec![chunk(json!([]), Some(usage(reply))), "data: [DONE]\n\n".to_owned()]
        }
        _ => {
            events.push(chunk(choice(json!({}), Some(&reply.finish_reason)), None));
            if include_usage {
                let choices = match head.dialect {
                    Dialect::OpenRouter => choice(json!({"role": "assistant", "content": ""}), None),
                    _ => json!([]),
                };
                events.push(chunk(choices, Some(usage(reply))));
            }
            if fault != Some(Fault::NoDone) {
                events.push("data: [DONE]\n\n".to_owned());
            }
        }
    }
    events
}

fn error_event() -> Value {
    json!({"error": {"message": "The server had an error while processing your request (injected).",
        "type": "server_error", "param": null, "code": "server_error"}})
}

fn usage(reply: &Reply) -> Value {
    let tokens = reply.usage;
    let reasoning_tokens =
        reply.reasoning.as_ref().map_or(0, |text| text.len() as u64 / 4).min(tokens.completion_tokens);
    json!({"prompt_tokens": tokens.prompt_tokens, "completion_tokens": tokens.completion_tokens,
        "total_tokens": tokens.prompt_tokens + tokens.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": reasoning_tokens}})
}

/// Cuts a text anywhere between two characters, as tokens do.
fn pieces(text: &str, dice: &mut Dice) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut characters = text.chars().peekable();
    while characters.peek().is_some() {
        let length = 1 + dice.below(24);
        pieces.push(characters.by_ref().take(length).collect());
    }
    pieces
}

/// Cuts bytes at arbitrary places, inside events and inside characters, as networks do.
pub(crate) fn packets(bytes: &[u8], dice: &mut Dice) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let (packet, tail) = rest.split_at(rest.len().min(1 + dice.below(700)));
        packets.push(packet.to_vec());
        rest = tail;
    }
    packets
}
