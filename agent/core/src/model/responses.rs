//! The Responses API, without memory at the provider: nothing is stored there, and every request carries the output of
//! earlier turns as it came, encrypted thoughts included.

mod input;
mod output;

use std::sync::Arc;

use async_openai::Client;
use async_openai::config::OpenAIConfig;
use async_trait::async_trait;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::endpoint::Endpoint;
use super::quirks::{Quirk, Quirks};
use super::transport::{self, Transport};
use super::{ChatModel, ModelError, ModelRequest, ModelSettings, Reply, RetryObserver};
use crate::message::ToolDefinition;
use output::ResponseBuilder;

/// A model behind `POST {base_url}/responses`.
pub(super) struct Responses {
    client: Client<OpenAIConfig>,
    settings: ModelSettings,
    endpoint: Arc<Endpoint>,
    quirks: Quirks,
}

/// What thoughts come back in when nothing is stored.
const ENCRYPTED_THOUGHTS: &str = "reasoning.encrypted_content";

impl Responses {
    pub(super) fn new(settings: ModelSettings, endpoint: Arc<Endpoint>) -> Result<Self, ModelError> {
        Ok(Self { client: transport::client(&settings)?, settings, endpoint, quirks: Quirks::default() })
    }
}

#[async_trait]
impl ChatModel for Responses {
    async fn reply(
        &self,
        request: ModelRequest<'_>,
        observer: &dyn RetryObserver,
        cancel: &CancellationToken,
    ) -> Result<Reply, ModelError> {
        let transport = Transport::new(&self.client, &self.settings, &self.endpoint);
        let body = || body(&self.settings, &self.quirks, request);
        let mut reply = transport.ask::<ResponseBuilder>(&self.quirks, body, observer, cancel).await?;
        self.settings.restore(request.tools, &mut reply.tool_calls);
        Ok(reply)
    }
}

/// One request body. The settings' `params` are the user's; they replace nothing the loop depends on.
fn body(settings: &ModelSettings, quirks: &Quirks, request: ModelRequest<'_>) -> Value {
    let mut body = Map::new();
    body.insert("model".to_owned(), json!(settings.name));
    for (key, value) in &settings.params {
        body.insert(key.clone(), value.clone());
    }
    let (instructions, items) = input::of(request.messages);
    if let Some(instructions) = instructions {
        body.insert("instructions".to_owned(), json!(instructions));
    }
    body.insert("input".to_owned(), Value::Array(items));
    if request.tools.is_empty() {
        for key in ["tools", "tool_choice", "parallel_tool_calls"] {
            body.remove(key);
        }
    } else {
        body.insert("tools".to_owned(), request.tools.iter().map(|tool| offer(settings, tool)).collect());
        if let Some(parallel) = settings.parallel_tool_calls {
            body.insert("parallel_tool_calls".to_owned(), json!(parallel));
        }
    }
    body.insert("store".to_owned(), json!(false));
    if !quirks.has(Quirk::NoEncryptedThoughts) {
        let include = body.entry("include").or_insert_with(|| json!([]));
        if let Some(include) =
            include.as_array_mut().filter(|list| !list.iter().any(|it| it == ENCRYPTED_THOUGHTS))
        {
            include.push(json!(ENCRYPTED_THOUGHTS));
        }
    }
    body.insert("stream".to_owned(), json!(settings.stream));
    Value::Object(body)
}

fn offer(settings: &ModelSettings, definition: &ToolDefinition) -> Value {
    let adapted = settings.profile().adapt(definition);
    json!({
        "type": "function",
        "name": definition.name,
        "description": adapted.description,
        "parameters": adapted.parameters,
        // Here it is on by default, and most schemas of MCP servers are not written for it.
        "strict": adapted.strict,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Message;

    fn sent(params: Value, quirks: &Quirks) -> Value {
        let mut settings = ModelSettings::new("m", "http://127.0.0.1/v1");
        settings.params = params.as_object().unwrap().clone();
        let messages = [Message::System { content: "s".to_owned() }];
        body(&settings, quirks, ModelRequest { messages: &messages, tools: &[] })
    }

    #[test]
    fn nothing_is_stored_and_thoughts_are_asked_for_until_they_are_refused() {
        let quirks = Quirks::default();
        let wanted =
            json!({"include": ["message.output_text.logprobs"], "store": true, "tool_choice": "required"});
        let body = sent(wanted.clone(), &quirks);
        assert_eq!((&body["store"], &body["instructions"]), (&json!(false), &json!("s")));
        assert_eq!(body["include"], json!(["message.output_text.logprobs", ENCRYPTED_THOUGHTS]));
        assert!(body.get("tool_choice").is_none());
        quirks.learn("Encrypted content is not supported with this model.").unwrap();
        assert_eq!(sent(wanted, &quirks)["include"], json!(["message.output_text.logprobs"]));
    }

    #[test]
    fn strict_is_off_unless_the_schema_is_written_for_it() {
        let tool = ToolDefinition {
            name: "look".to_owned(),
            description: "Looks.".to_owned(),
            parameters: json!({"type": "object", "properties": {}}),
        };
        let offered = offer(&ModelSettings::new("m", "http://127.0.0.1/v1"), &tool);
        assert_eq!((&offered["strict"], &offered["name"]), (&json!(false), &json!("look")));
    }
}
