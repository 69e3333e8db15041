use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One entry of a conversation, in the order in which the model sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    System {
        content: String,
    },
    User {
        content: Vec<Part>,
    },
    Assistant {
        content: Option<String>,
        /// What the model thought aloud (`reasoning_content` or `reasoning` on the wire).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reasoning: Option<String>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCall>,
    },
    /// The one answer to one tool call.
    Tool {
        call_id: String,
        content: Vec<Part>,
    },
}

/// A piece of a user or tool message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    Text { text: String },
    Image(Image),
}

/// A picture, base64 as MCP and the chat API both carry it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Image {
    /// Such as `image/png`.
    pub media_type: String,
    /// Standard base64, no line breaks.
    pub data: String,
}

/// A call as the model wrote it: `arguments` is its text, valid JSON or not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    pub id: String,
    pub name: String,
    pub arguments: String,
}

/// A tool as it is offered to the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolDefinition {
    /// At most 64 characters of `[a-zA-Z0-9_-]`.
    pub name: String,
    pub description: String,
    /// JSON Schema with an object at its root.
    pub parameters: Value,
}
