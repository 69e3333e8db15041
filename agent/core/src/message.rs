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
        /// What the provider wants back as it was and nobody else reads: encrypted thoughts, signatures. Only the
        /// API that made it knows its form.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        carried: Option<Value>,
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
    Sound(Sound),
    Document(Document),
}

impl Part {
    /// Media type and base64 of what is not text.
    pub fn media(&self) -> Option<(&str, &str)> {
        match self {
            Self::Text { .. } => None,
            Self::Image(Image { media_type, data })
            | Self::Sound(Sound { media_type, data })
            | Self::Document(Document { media_type, data, .. }) => Some((media_type, data)),
        }
    }

    /// The base64 of what is not text, for whoever keeps it elsewhere.
    pub fn media_data_mut(&mut self) -> Option<&mut String> {
        match self {
            Self::Text { .. } => None,
            Self::Image(Image { data, .. })
            | Self::Sound(Sound { data, .. })
            | Self::Document(Document { data, .. }) => Some(data),
        }
    }

    /// The text, if that is what it is.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text { text } => Some(text),
            _ => None,
        }
    }

    /// What stands in a text for something that is none.
    pub(crate) fn placeholder(&self) -> &'static str {
        match self {
            Self::Text { .. } => "",
            Self::Image(_) => "[image]",
            Self::Sound(_) => "[sound]",
            Self::Document(_) => "[document]",
        }
    }
}

/// A recording, base64: WAV or MP3, which is what providers take.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sound {
    /// `audio/wav` or `audio/mpeg`.
    pub media_type: String,
    pub data: String,
}

/// A PDF, base64.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Document {
    pub name: String,
    /// Such as `application/pdf`.
    pub media_type: String,
    pub data: String,
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
