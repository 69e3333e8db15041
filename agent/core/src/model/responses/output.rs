//! A reply of the Responses API, out of one object or the events of a stream.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::input::CARRIED_OUTPUT;
use crate::model::Reply;
use crate::model::classify::{Verdict, error_in_reply};
use crate::model::reply::{refused, with_unique_ids};
use crate::model::transport::Gather;
use crate::model::usage::read_usage;

/// Gathers the events of one stream. The last of them holds the whole; what came before is kept for servers whose last
/// event leaves the output out.
#[derive(Debug, Default)]
pub(super) struct ResponseBuilder {
    items: BTreeMap<u64, Value>,
    whole: Option<Value>,
}

impl Gather for ResponseBuilder {
    fn add(&mut self, event: &Value) -> Result<(), Verdict> {
        match event["type"].as_str() {
            // Not streamed: the response itself.
            None if event["object"] == "response" || event.get("output").is_some() => {
                self.whole = Some(event.clone());
            }
            // In one of the shapes that errors have everywhere.
            None if event.get("error").is_some_and(|error| !error.is_null())
                || event.get("message").is_some() =>
            {
                return Err(error_in_reply(event));
            }
            Some("error") => return Err(error_in_reply(event)),
            Some("response.output_item.done") => {
                let index = event["output_index"].as_u64().unwrap_or(self.items.len() as u64);
                self.items.insert(index, event["item"].clone());
            }
            Some("response.completed" | "response.incomplete" | "response.failed" | "response.done") => {
                self.whole = Some(event["response"].clone());
            }
            _ => {}
        }
        Ok(())
    }

    fn finish(self) -> Result<Reply, Verdict> {
        let Some(response) = self.whole else {
            return Err(Verdict::retry("the reply ended before its last event (cut off on the way)"));
        };
        if let Some(error) = response.get("error").filter(|error| !error.is_null()) {
            return Err(error_in_reply(error));
        }
        let status = response["status"].as_str().unwrap_or("completed");
        let reason =
            response.pointer("/incomplete_details/reason").and_then(Value::as_str).unwrap_or_default();
        if !matches!(status, "completed" | "incomplete") {
            return Err(Verdict::retry(format!("the provider gave up on the reply: status `{status}`")));
        }
        let output = match response["output"].as_array().filter(|output| !output.is_empty()) {
            Some(output) => output.clone(),
            None => self.items.into_values().collect(),
        };
        let said = Said::of(&output);
        let silent = said.text.trim().is_empty() && said.calls.is_empty();
        if silent && (reason == "content_filter" || !said.refusal.is_empty()) {
            return Err(refused(&said.refusal));
        }
        let finish_reason = match (status, reason) {
            ("incomplete", "max_output_tokens") => "length",
            ("incomplete", "") => "incomplete",
            ("incomplete", reason) => reason,
            _ if said.calls.is_empty() => "stop",
            _ => "tool_calls",
        };
        Ok(Reply {
            content: Some(said.text).filter(|text| !text.is_empty()),
            reasoning: Some(said.thought).filter(|thought| !thought.is_empty()),
            // Half an output cannot be gone on with.
            carried: (status == "completed").then(|| json!({ CARRIED_OUTPUT: output })),
            finish_reason: finish_reason.to_owned(),
            tool_calls: with_unique_ids(said.calls.into_iter()),
            usage: read_usage(&response["usage"]),
            model: response["model"].as_str().map(str::to_owned),
            ..Reply::default()
        })
    }
}

/// What an output says.
#[derive(Debug, Default)]
struct Said {
    text: String,
    thought: String,
    refusal: String,
    /// Id, name and arguments.
    calls: Vec<(String, String, String)>,
}

impl Said {
    fn of(output: &[Value]) -> Self {
        let mut said = Self::default();
        for item in output {
            match item["type"].as_str() {
                Some("message") => {
                    for part in item["content"].as_array().into_iter().flatten() {
                        match part["type"].as_str() {
                            Some("refusal") => add(&mut said.refusal, &part["refusal"]),
                            _ => add(&mut said.text, &part["text"]),
                        }
                    }
                }
                Some("reasoning") => {
                    let parts = |key: &str| item[key].as_array().into_iter().flatten();
                    parts("summary")
                        .chain(parts("content"))
                        .for_each(|part| add(&mut said.thought, &part["text"]));
                }
                Some("function_call") => {
                    let text = |key: &str| item[key].as_str().unwrap_or_default().to_owned();
                    let id = if text("call_id").is_empty() { text("id") } else { text("call_id") };
                    let arguments = match &item["arguments"] {
                        Value::String(text) => text.clone(),
                        Value::Null => String::new(),
                        object => object.to_string(),
                    };
                    said.calls.push((id, text("name"), arguments));
                }
                _ => {}
            }
        }
        said
    }
}

/// A paragraph more.
fn add(text: &mut String, more: &Value) {
    let Some(more) = more.as_str().filter(|more| !more.is_empty()) else { return };
    if !text.is_empty() {
        text.push_str("\n\n");
    }
    text.push_str(more);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ModelError;
    use crate::outcome::Usage;

    fn built(events: &[Value]) -> Result<Reply, Verdict> {
        let mut builder = ResponseBuilder::default();
        for event in events {
            builder.add(event)?;
        }
        builder.finish()
    }

    fn output() -> Value {
        json!([
            {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "e"},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
            {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look", "arguments": "{\"a\":1}"},
        ])
    }

    fn response(status: &str, more: Value) -> Value {
        let mut response = json!({"object": "response", "status": status, "model": "m-2026", "output": output(),
            "usage": {"input_tokens": 9, "output_tokens": 5, "total_tokens": 14,
                      "input_tokens_details": {"cached_tokens": 4}, "output_tokens_details": {"reasoning_tokens": 2}}});
        response.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        response
    }

    #[test]
    fn a_stream_and_a_whole_response_say_the_same() {
        let whole = built(&[response("completed", json!({}))]).unwrap();
        let items = output();
        let mut events = vec![json!({"type": "response.created", "response": {"status": "in_progress"}})];
        for (index, item) in items.as_array().unwrap().iter().enumerate().rev() {
            events.push(json!({"type": "response.output_item.done", "output_index": index, "item": item}));
        }
        let ended = response("completed", json!({"output": []}));
        events.push(json!({"type": "response.completed", "response": ended}));
        assert_eq!(built(&events).unwrap(), whole);
        assert_eq!((whole.content.as_deref(), whole.reasoning.as_deref()), (Some("I look."), Some("hm")));
        assert_eq!(whole.tool_calls[0].id, "call_1");
        assert_eq!(whole.finish_reason, "tool_calls");
        assert_eq!(whole.carried, Some(json!({ "output": items })));
        let usage = Usage { input_tokens: 9, output_tokens: 5, cached_tokens: 4, reasoning_tokens: 2 };
        assert_eq!((whole.usage, whole.model.as_deref()), (usage, Some("m-2026")));
    }

    #[test]
    fn a_reply_that_was_cut_off_says_why_and_carries_nothing() {
        for (reason, expected) in [("max_output_tokens", "length"), ("content_filter", "content_filter")] {
            let cut = response("incomplete", json!({"incomplete_details": {"reason": reason}}));
            let reply = built(&[cut]).unwrap();
            assert_eq!((reply.finish_reason.as_str(), &reply.carried), (expected, &None));
        }
    }

    #[test]
    fn what_is_no_reply_is_told_apart() {
        let refusal = json!([{"type": "message", "content": [{"type": "refusal", "refusal": "I cannot"}]}]);
        let failed = |code: &str| {
            json!({"type": "response.failed", "response": {"status": "failed", "output": [],
                   "error": {"code": code, "message": "words"}}})
        };
        for (events, expected) in [
            (vec![response("completed", json!({"output": refusal}))], "content"),
            (
                vec![response(
                    "incomplete",
                    json!({"output": [], "incomplete_details": {"reason": "content_filter"}}),
                )],
                "content",
            ),
            (vec![failed("server_error")], "retry"),
            (vec![failed("rate_limit_exceeded")], "retry"),
            (vec![failed("context_length_exceeded")], "overflow"),
            (vec![failed("insufficient_quota")], "refused"),
            (vec![failed("invalid_prompt")], "request"),
            (vec![json!({"type": "error", "code": "server_error", "message": "words"})], "retry"),
            (vec![response("cancelled", json!({}))], "retry"),
            (vec![json!({"type": "response.created"})], "retry"),
            (vec![], "retry"),
        ] {
            let seen = match built(&events) {
                Err(Verdict::Retry { .. }) => "retry",
                Err(Verdict::GiveUp(ModelError::ContentRefused(_))) => "content",
                Err(Verdict::GiveUp(ModelError::ContextOverflow { .. })) => "overflow",
                Err(Verdict::GiveUp(ModelError::Refused(_))) => "refused",
                Err(Verdict::GiveUp(ModelError::Request(_))) => "request",
                other => panic!("{other:?}"),
            };
            assert_eq!(seen, expected, "{events:?}");
        }
    }
}
