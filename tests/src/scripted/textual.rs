//! Tool calls as text: what a client of a model without native calls sends, and how such a model answers.

use serde_json::{Value, json};

use super::reply::Reply;

/// How the model says its calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum CallForm {
    /// In the API's own field, or as text where the tools are described in the system prompt.
    #[default]
    Native,
    /// As text although the API has a field for them, as a server without a parser does.
    Text,
}

/// The request with tools and results where chat completions has them, when the system prompt describes tools.
pub(crate) fn as_native(request: &Value) -> Option<Value> {
    let messages = request["messages"].as_array()?;
    let system = messages.first().filter(|message| message["role"] == "system")?["content"].as_str()?;
    let (_, described) = system.split_once("\n<tools>\n")?;
    let tools: Vec<Value> = described
        .split("\n</tools>")
        .next()?
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .map(|function| json!({"type": "function", "function": function}))
        .collect();
    let mut native = request.clone();
    native["tools"] = json!(tools);
    native["messages"] = messages.iter().flat_map(results).collect();
    Some(native)
}

/// A user message that holds results, as one tool message each.
fn results(message: &Value) -> Vec<Value> {
    let text = match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n\n")
        }
        _ => String::new(),
    };
    if message["role"] != "user" || !text.starts_with("<tool_response") {
        return vec![message.clone()];
    }
    let pieces = text.split("<tool_response").skip(1).filter_map(|piece| piece.split_once(">\n"));
    let outputs = pieces.filter_map(|(_, rest)| rest.split("\n</tool_response>").next());
    outputs.map(|output| json!({"role": "tool", "content": output})).collect()
}

/// The reply with its calls in the text.
pub(crate) fn said(mut reply: Reply) -> Reply {
    let blocks = reply.calls.drain(..).map(|call| {
        format!(
            "<tool_call>\n{{\"name\": {}, \"arguments\": {}}}\n</tool_call>",
            json!(call.name),
            call.arguments
        )
    });
    let text: Vec<String> = reply.content.take().into_iter().chain(blocks).collect();
    reply.content = (!text.is_empty()).then(|| text.join("\n"));
    if reply.finish_reason == "tool_calls" {
        reply.finish_reason = "stop".to_owned();
    }
    reply
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_and_results_are_found_in_the_text() {
        let request = json!({"messages": [
            {"role": "system", "content": "s\n\n# Tools\n<tools>\n{\"name\":\"bash\"}\n</tools>"},
            {"role": "user", "content": "q"},
            {"role": "assistant", "content": "<tool_call>…"},
            {"role": "user", "content": "<tool_response name=\"bash\">\none\ntwo\n</tool_response>\n\n<tool_response>\nthree\n</tool_response>"},
        ]});
        let native = as_native(&request).unwrap();
        assert_eq!(native["tools"][0]["function"]["name"], "bash");
        assert_eq!(native["messages"][3], json!({"role": "tool", "content": "one\ntwo"}));
        assert_eq!(native["messages"][4]["content"], "three");
        assert_eq!(as_native(&json!({"messages": [{"role": "system", "content": "s"}]})), None);
    }
}
