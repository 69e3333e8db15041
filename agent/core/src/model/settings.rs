use std::fmt;
use std::time::Duration;

use serde_json::{Map, Value};

use super::{SchemaProfile, ToolCalls};
use crate::message::{ToolCall, ToolDefinition};

/// How to reach and ask a model.
#[derive(Clone)]
pub struct ModelSettings {
    pub name: String,
    /// Up to and including `/v1`: the path of the API is added.
    pub base_url: String,
    /// Sent as a bearer token; local servers need none.
    pub api_key: Option<String>,
    pub api: Api,
    pub stream: bool,
    pub tool_calls: ToolCalls,
    /// Left to the provider when `None`.
    pub parallel_tool_calls: Option<bool>,
    /// The field in which earlier thoughts are sent back; `None` goes by the endpoint, and an empty text is none.
    pub reasoning_field: Option<String>,
    /// Sent as they are.
    pub params: Map<String, Value>,
    /// One attempt in all, from the first byte sent to the last received.
    pub request_timeout: Duration,
    /// The longest silence before and inside a stream.
    pub idle_timeout: Duration,
    pub max_retries: u32,
    /// Whose rules the schemas of tools are written for.
    pub schema_profile: SchemaProfile,
}

/// What is spoken at the endpoint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Api {
    /// `POST {base_url}/chat/completions`.
    #[default]
    Chat,
    /// `POST {base_url}/responses`.
    Responses,
}

impl ModelSettings {
    /// For a model at an address, with everything else as a config without more keys has it.
    pub fn new(name: &str, base_url: &str) -> Self {
        Self {
            name: name.to_owned(),
            base_url: base_url.to_owned(),
            api_key: None,
            api: Api::Chat,
            stream: true,
            tool_calls: ToolCalls::default(),
            parallel_tool_calls: None,
            reasoning_field: None,
            params: Map::new(),
            // Reasoning models have been seen to think for several minutes before the first token.
            request_timeout: Duration::from_secs(600),
            idle_timeout: Duration::from_secs(180),
            // With backoff capped at half a minute, about five minutes: longer than the usual rate-limit window.
            max_retries: 10,
            schema_profile: SchemaProfile::Auto,
        }
    }

    pub(super) fn profile(&self) -> SchemaProfile {
        self.schema_profile.resolve(&self.base_url, &self.name)
    }

    /// Where earlier thoughts are sent back.
    pub(super) fn reasoning_field(&self) -> Option<&str> {
        /// Those that think between tool calls and want the thoughts back: DeepSeek answers 400 without them, the
        /// others think anew (their guides on thinking and tools). All others take them for noise, or refuse them.
        const WANTED_BY: [(&str, &str); 6] = [
            ("deepseek.com", "reasoning_content"),
            ("moonshot.ai", "reasoning_content"),
            ("moonshot.cn", "reasoning_content"),
            ("z.ai", "reasoning_content"),
            ("bigmodel.cn", "reasoning_content"),
            ("openrouter.ai", "reasoning"),
        ];
        if let Some(field) = &self.reasoning_field {
            return Some(field.as_str()).filter(|field| !field.is_empty());
        }
        let host = super::catalog::host_of(&self.base_url);
        let is_at =
            |name: &str| host == name || host.strip_suffix(name).is_some_and(|rest| rest.ends_with('.'));
        WANTED_BY.iter().find(|(name, _)| is_at(name)).map(|(_, field)| *field)
    }

    /// Arguments as the published schemas name them.
    pub(super) fn restore(&self, tools: &[ToolDefinition], calls: &mut [ToolCall]) {
        let profile = self.profile();
        for call in calls {
            if let Some(tool) = tools.iter().find(|tool| tool.name == call.name) {
                call.arguments = profile.restore(tool, std::mem::take(&mut call.arguments));
            }
        }
    }
}

impl fmt::Debug for ModelSettings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ModelSettings")
            .field("name", &self.name)
            .field("base_url", &self.base_url)
            .field("api_key", &self.api_key.as_ref().map(|_| "[redacted]"))
            .finish_non_exhaustive()
    }
}
