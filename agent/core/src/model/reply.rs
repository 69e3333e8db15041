//! A reply of the chat completions API, out of one object or the chunks of a stream. Lenient in form, strict in one
//! thing: a reply without a finish reason is no reply.

use serde_json::{Map, Value, json};

use super::classify::{Verdict, error_in_reply};
use super::thoughts::{self, Thoughts};
use super::transport::Gather;
use super::usage::read_usage;
use super::{ModelError, Reply};
use crate::message::ToolCall;
use crate::outcome::Usage;

/// Gathers the pieces of one reply.
#[derive(Debug, Default)]
pub(super) struct ReplyBuilder {
    content: String,
    thoughts: Thoughts,
    refusal: String,
    calls: Vec<PartialCall>,
    finish_reason: Option<String>,
    usage: Usage,
    model: Option<String>,
}

#[derive(Debug, Default)]
struct PartialCall {
    /// The server's own number for the call; fragments of one call share it.
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
    /// Google's signature of the thought behind the call.
    extra: Option<Value>,
}

/// What one entry of `tool_calls` is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Piece,
    Whole,
}

/// The keys of `Message::Assistant::carried` as this API makes and reads it: extra fields of the message, and extra
/// fields of each call in order.
pub(super) const CARRIED_FIELDS: &str = "fields";
pub(super) const CARRIED_CALLS: &str = "calls";

impl Gather for ReplyBuilder {
    /// Takes one chunk of a stream, or a whole reply: `delta` and `message` hold the same fields.
    fn add(&mut self, chunk: &Value) -> Result<(), Verdict> {
        if chunk.get("error").is_some_and(|error| !error.is_null()) || chunk["object"] == "error" {
            return Err(error_in_reply(chunk));
        }
        // At the top, in the choice (Moonshot) or in a field of its own (Groq); counts that grow come several times.
        let counted = ["/usage", "/choices/0/usage", "/x_groq/usage"]
            .iter()
            .find_map(|place| chunk.pointer(place).filter(|usage| usage.is_object()))
            .map(read_usage);
        self.usage = counted.filter(|usage| usage.total() > 0).unwrap_or(self.usage);
        if let Some(model) = chunk["model"].as_str() {
            self.model = Some(model.to_owned());
        }
        // One reply was asked for; a server that gives several gives the first of them all the same.
        let choices = chunk["choices"].as_array().into_iter().flatten();
        let mut first = choices.filter(|choice| choice["index"].as_u64().unwrap_or(0) == 0);
        let Some(choice) = first.next() else { return Ok(()) };
        if let Some(error) = choice.get("error").filter(|error| !error.is_null()) {
            return Err(error_in_reply(error));
        }
        // A message holds whole calls; only a delta holds pieces of them.
        let (form, piece) = match choice.get("delta").filter(|delta| delta.is_object()) {
            Some(delta) => (Form::Piece, delta),
            None => (Form::Whole, &choice["message"]),
        };
        self.content.push_str(&text_of(&piece["content"]));
        self.thoughts.add(piece);
        self.refusal.push_str(&text_of(&piece["refusal"]));
        match piece["tool_calls"].as_array().filter(|calls| !calls.is_empty()) {
            Some(fragments) => fragments.iter().for_each(|fragment| self.add_call(fragment, form)),
            // The form before there were several calls in a reply.
            None if piece["function_call"].is_object() => {
                self.add_call(&json!({"function": piece["function_call"]}), form);
            }
            None => {}
        }
        if let Some(reason) = choice["finish_reason"].as_str().filter(|reason| !reason.is_empty()) {
            self.finish_reason = Some(reason.to_owned());
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Reply, Verdict> {
        let Some(finish_reason) = self.finish_reason.take() else {
            return Err(Verdict::retry("the reply ended before its finish reason (cut off on the way)"));
        };
        if finish_reason == "error" {
            return Err(Verdict::retry("the provider gave up in the middle of the reply"));
        }
        let silent = self.content.trim().is_empty() && self.calls.is_empty();
        if silent && (finish_reason == "content_filter" || !self.refusal.is_empty()) {
            return Err(refused(&self.refusal));
        }
        self.calls.retain(|call| !(call.name.is_empty() && call.arguments.is_empty()));
        let carried = self.carried();
        let (thought, content) = thoughts::split(&self.content);
        let reasoning = self.thoughts.text().or(thought);
        Ok(Reply {
            content: Some(content).filter(|content| !content.is_empty()),
            reasoning,
            carried,
            tool_calls: with_unique_ids(
                self.calls.into_iter().map(|call| (call.id, call.name, call.arguments)),
            ),
            finish_reason,
            usage: self.usage,
            model: self.model,
            ..Reply::default()
        })
    }
}

impl ReplyBuilder {
    fn add_call(&mut self, fragment: &Value, form: Form) {
        let index = fragment["index"].as_u64();
        let id = fragment["id"].as_str().unwrap_or("");
        let function = &fragment["function"];
        let name = function["name"].as_str().unwrap_or("");
        // Fragments are told apart by index; without one by a new id; without both a name starts a new call.
        let known = match index {
            _ if form == Form::Whole => None,
            Some(_) => self.calls.iter().rposition(|call| {
                call.index == index && (id.is_empty() || call.id.is_empty() || call.id == id)
            }),
            None if !id.is_empty() => self.calls.iter().position(|call| call.id == id),
            None if !name.is_empty() => None,
            None => self.calls.len().checked_sub(1),
        };
        let position = known.unwrap_or_else(|| {
            self.calls.push(PartialCall { index, ..PartialCall::default() });
            self.calls.len() - 1
        });
        let call = &mut self.calls[position];
        if call.id.is_empty() {
            call.id = id.to_owned();
        }
        // Some servers repeat the whole name in every fragment, others cut it in pieces.
        if call.name != name {
            call.name.push_str(name);
        }
        if let Some(extra) = fragment.get("extra_content").filter(|extra| !extra.is_null()) {
            call.extra = Some(extra.clone());
        }
        match &function["arguments"] {
            Value::String(text) => call.arguments.push_str(text),
            Value::Null => {}
            // Ollama and its kin send an object where the API has text.
            object => call.arguments.push_str(&object.to_string()),
        }
    }

    /// What this provider wants back beside the fields that everybody has.
    fn carried(&self) -> Option<Value> {
        let mut carried = Map::new();
        if let Some(details) = self.thoughts.details() {
            carried.insert(CARRIED_FIELDS.to_owned(), json!({"reasoning_details": details}));
        }
        if self.calls.iter().any(|call| call.extra.is_some()) {
            let extras = self.calls.iter().map(|call| match &call.extra {
                Some(extra) => json!({"extra_content": extra}),
                None => json!({}),
            });
            carried.insert(CARRIED_CALLS.to_owned(), extras.collect());
        }
        (!carried.is_empty()).then_some(Value::Object(carried))
    }
}

pub(super) fn refused(words: &str) -> Verdict {
    let words = if words.is_empty() { "finish reason `content_filter`" } else { words };
    Verdict::GiveUp(ModelError::ContentRefused(format!("the provider declined to answer: {words}")))
}

/// Calls from id, name and arguments. Each needs an id that no other call of the turn has: results are matched by it.
pub(super) fn with_unique_ids(calls: impl Iterator<Item = (String, String, String)>) -> Vec<ToolCall> {
    let mut unique: Vec<ToolCall> = Vec::new();
    for (position, (id, name, arguments)) in calls.enumerate() {
        let taken = id.is_empty() || unique.iter().any(|earlier| earlier.id == id);
        let id = if taken { format!("call_{position}_{:08x}", rand::random::<u32>()) } else { id };
        unique.push(ToolCall { id, name, arguments });
    }
    unique
}

/// Text, or the text parts of a list of parts.
fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn built(chunks: &[Value]) -> Result<Reply, Verdict> {
        let mut builder = ReplyBuilder::default();
        for chunk in chunks {
            builder.add(chunk)?;
        }
        builder.finish()
    }

    fn delta(delta: Value) -> Value {
        json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
    }

    fn end(reason: &str) -> Value {
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
    }

    fn calls(chunks: &[Value]) -> Vec<(String, String, String)> {
        let reply = built(chunks).unwrap();
        reply.tool_calls.into_iter().map(|call| (call.id, call.name, call.arguments)).collect()
    }

    #[test]
    fn fragments_of_calls_are_joined_however_they_are_labelled() {
        let fragment = |value: Value| delta(json!({"tool_calls": [value]}));
        let expected = [
            ("a".to_owned(), "bash".to_owned(), r#"{"x":1}"#.to_owned()),
            ("b".to_owned(), "submit".to_owned(), "{}".to_owned()),
        ];
        let by_index = [
            fragment(json!({"index": 0, "id": "a", "function": {"name": "bash", "arguments": "{\"x\""}})),
            fragment(json!({"index": 1, "id": "b", "function": {"name": "submit", "arguments": "{}"}})),
            fragment(json!({"index": 0, "function": {"arguments": ":1}"}})),
            end("tool_calls"),
        ];
        let by_id = [
            fragment(json!({"id": "a", "function": {"name": "bash", "arguments": "{\"x\""}})),
            fragment(json!({"id": "a", "function": {"name": "bash", "arguments": ":1}"}})),
            fragment(json!({"id": "b", "function": {"name": "submit", "arguments": {}}})),
            end("tool_calls"),
        ];
        let same_index = [
            fragment(json!({"index": 0, "id": "a", "function": {"name": "bash", "arguments": "{\"x\":1}"}})),
            fragment(json!({"index": 0, "id": "b", "function": {"name": "submit", "arguments": "{}"}})),
            end("tool_calls"),
        ];
        for chunks in [&by_index, &by_id, &same_index[..]] {
            assert_eq!(calls(chunks), expected);
        }
    }

    #[test]
    fn calls_without_ids_get_their_own() {
        let chunks = [
            delta(json!({"tool_calls": [{"function": {"name": "bash", "arguments": "{"}}]})),
            delta(json!({"tool_calls": [{"function": {"arguments": "}"}}]})),
            delta(json!({"tool_calls": [{"function": {"name": "bash", "arguments": "{}"}}]})),
            end("tool_calls"),
        ];
        let calls = calls(&chunks);
        assert_eq!(calls.len(), 2);
        assert!(
            calls.iter().all(|(id, name, arguments)| !id.is_empty() && name == "bash" && arguments == "{}")
        );
        assert_ne!(calls[0].0, calls[1].0);
    }

    #[test]
    fn whole_calls_under_one_id_stay_two_calls() {
        let call = |arguments: &str| json!({"id": "a", "function": {"name": "bash", "arguments": arguments}});
        let message = json!({"tool_calls": [call("{\"n\":1}"), call("{\"n\":2}")]});
        let calls = calls(&[json!({"choices": [{"message": message, "finish_reason": "tool_calls"}]})]);
        assert_eq!(
            calls.iter().map(|call| call.2.as_str()).collect::<Vec<_>>(),
            [r#"{"n":1}"#, r#"{"n":2}"#]
        );
        assert_ne!(calls[0].0, calls[1].0);
    }

    #[test]
    fn a_whole_reply_is_read_like_a_stream_of_one() {
        let reply = built(&[json!({
            "model": "m-2026",
            "choices": [{"message": {"content": [{"type": "text", "text": "hi"}], "reasoning": "hm"}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 5, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 3},
                      "completion_tokens_details": {"reasoning_tokens": 2}},
        })])
        .unwrap();
        assert_eq!(
            reply,
            Reply {
                content: Some("hi".to_owned()),
                reasoning: Some("hm".to_owned()),
                finish_reason: "stop".to_owned(),
                usage: Usage { input_tokens: 5, output_tokens: 7, cached_tokens: 3, reasoning_tokens: 2 },
                model: Some("m-2026".to_owned()),
                ..Reply::default()
            }
        );
    }

    #[test]
    fn a_reply_that_did_not_end_is_tried_again() {
        for chunks in [
            vec![],
            vec![delta(json!({"content": "half"}))],
            vec![json!({"choices": []})],
            vec![json!({"error": {"message": "overloaded"}})],
            vec![delta(json!({"content": "half"})), end("error")],
        ] {
            assert!(matches!(built(&chunks), Err(Verdict::Retry { .. })), "{chunks:?}");
        }
    }

    #[test]
    fn a_refusal_is_not_an_answer() {
        for chunks in [vec![end("content_filter")], vec![delta(json!({"refusal": "I cannot"})), end("stop")]]
        {
            assert!(
                matches!(built(&chunks), Err(Verdict::GiveUp(ModelError::ContentRefused(_)))),
                "{chunks:?}"
            );
        }
    }

    #[test]
    fn usage_after_the_last_choice_is_kept() {
        let chunks = [
            delta(json!({"content": "a"})),
            end("stop"),
            json!({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}}),
        ];
        assert_eq!(built(&chunks).unwrap().usage.total(), 3);
    }

    /// As the two servers sent them.
    #[test]
    fn replies_of_llama_cpp_and_of_its_python_server_are_read() {
        // llama.cpp: null content first, the opening brace with the id, then arguments only, an empty last delta.
        let llama_cpp = [
            delta(json!({"role": "assistant", "content": null})),
            delta(
                json!({"tool_calls": [{"index": 0, "id": "N2uYb", "type": "function", "function": {"name": "calculator", "arguments": "{"}}]}),
            ),
            delta(json!({"tool_calls": [{"index": 0, "function": {"arguments": "\n  \"a\": 1}"}}]})),
            end("tool_calls"),
            json!({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 5}, "timings": {"predicted_ms": 1.0}}),
        ];
        assert_eq!(
            calls(&llama_cpp),
            [("N2uYb".to_owned(), "calculator".to_owned(), "{\n  \"a\": 1}".to_owned())]
        );
        // Its Python server repeats id, type and name in each chunk, with a null role.
        let id = "call__0_calculator_cmpl-7f";
        let piece = |arguments: &str| {
            delta(json!({"role": null, "content": null, "tool_calls": [
                {"index": 0, "id": id, "type": "function", "function": {"name": "calculator", "arguments": arguments}},
            ]}))
        };
        let python = [piece("{\"a\":"), piece(" 1}"), end("tool_calls")];
        assert_eq!(calls(&python), [(id.to_owned(), "calculator".to_owned(), "{\"a\": 1}".to_owned())]);
        // Text and call in one message, empty text beside a call, and a call cut off by the output limit.
        let call = json!([{"id": "x", "type": "function", "function": {"name": "calculator", "arguments": "{\"expression\":"}}]);
        for (content, reason) in [("The JSON object is:\n", "tool_calls"), ("", "tool_calls"), ("", "length")]
        {
            let message = json!({"role": "assistant", "content": content, "tool_calls": call});
            let reply =
                built(&[json!({"choices": [{"message": message, "finish_reason": reason}]})]).unwrap();
            assert_eq!(
                (reply.content.unwrap_or_default().as_str(), reply.finish_reason.as_str()),
                (content, reason)
            );
            assert_eq!(reply.tool_calls[0].arguments, "{\"expression\":");
        }
        // `stop` although there are calls; the legacy field beside them.
        let message = json!({"content": null, "tool_calls": call, "function_call": {"name": "calculator", "arguments": "{}"}});
        let reply = built(&[json!({"choices": [{"message": message, "finish_reason": "stop"}]})]).unwrap();
        assert_eq!(reply.tool_calls.len(), 1);
        // A stream that is empty with a good status, as its Python server's is for an error.
        assert!(matches!(built(&[]), Err(Verdict::Retry { .. })));
    }
}
