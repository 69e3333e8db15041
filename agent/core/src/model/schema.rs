//! Tool schemas as each provider takes them. A published schema goes out unchanged where it can; where a provider
//! is known to refuse a request for it, the schema is repaired, and the arguments that come back are put right again
//! for the published one, which is what they are checked against.

mod arguments;
mod composition;
mod references;
mod repair;
mod strict;

use serde_json::Value;

use crate::message::ToolDefinition;
use repair::Repair;

/// Whose rules tool schemas are written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SchemaProfile {
    /// By the address of the endpoint and the name of the model.
    #[default]
    Auto,
    /// As the servers published them.
    Published,
    Openai,
    /// OpenAI's strict mode: the model is held to the schema. Tools that it cannot express go without.
    OpenaiStrict,
    Anthropic,
    Gemini,
    /// Kimi.
    Moonshot,
    /// Only what every provider takes: for an endpoint that refuses schemas and is none of the others.
    Strict,
}

/// A tool as one provider takes it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Adapted {
    pub(super) description: String,
    pub(super) parameters: Value,
    /// Sent with the tool when the provider is to hold the model to the schema.
    pub(super) strict: bool,
}

impl SchemaProfile {
    /// What `Auto` stands for at this endpoint.
    pub fn resolve(self, base_url: &str, model: &str) -> Self {
        if self != Self::Auto {
            return self;
        }
        let host = base_url.split_once("://").map_or(base_url, |(_, rest)| rest);
        let host = host.split(['/', ':']).next().unwrap_or_default().to_ascii_lowercase();
        let model = model.to_ascii_lowercase();
        // Of `openai/gpt-5`, as routers write it.
        let (vendor, model) = model.rsplit_once('/').unwrap_or(("", &model));
        let hosted =
            |names: &[&str]| names.iter().any(|name| host == *name || host.ends_with(&format!(".{name}")));
        let named = |starts: &[&str]| starts.iter().any(|start| model.starts_with(start));
        if hosted(&["anthropic.com"]) || vendor == "anthropic" || named(&["claude"]) {
            Self::Anthropic
        } else if hosted(&["googleapis.com"]) || vendor == "google" || named(&["gemini"]) {
            Self::Gemini
        } else if hosted(&["moonshot.ai", "moonshot.cn", "kimi.com"])
            || vendor == "moonshotai"
            || named(&["kimi", "moonshot"])
        {
            Self::Moonshot
        } else if hosted(&["openai.com", "openai.azure.com"])
            || vendor == "openai"
            || named(&["gpt-4", "gpt-5", "gpt-6", "o1", "o3", "o4", "chatgpt"])
        {
            Self::Openai
        } else {
            Self::Published
        }
    }

    fn repairs(self) -> &'static [Repair] {
        match self {
            Self::Auto | Self::Published => &[],
            Self::Openai | Self::OpenaiStrict => &repair::OPENAI,
            Self::Anthropic => &repair::ANTHROPIC,
            Self::Gemini => &repair::GEMINI,
            Self::Moonshot => &repair::MOONSHOT,
            Self::Strict => &repair::STRICT,
        }
    }

    /// Characters of one description that the provider takes.
    fn description_chars(self) -> usize {
        match self {
            // "Expected a string with maximum length 1024".
            Self::Openai | Self::OpenaiStrict | Self::Strict => 1_024,
            _ => usize::MAX,
        }
    }

    pub(super) fn adapt(self, tool: &ToolDefinition) -> Adapted {
        let mut parameters = tool.parameters.clone();
        let mut notes = Vec::new();
        for repair in self.repairs() {
            repair.apply(&mut parameters, &mut notes);
        }
        let strict = self == Self::OpenaiStrict && strict::close(&mut parameters);
        let description = with_notes(&tool.description, &notes, self.description_chars());
        Adapted { description, parameters, strict }
    }

    /// Arguments as the published schema names them. What is no JSON is left as it is: the loop says what is wrong.
    pub(super) fn restore(self, tool: &ToolDefinition, arguments: String) -> String {
        match self {
            Self::Auto | Self::Published | Self::Moonshot => arguments,
            _ => arguments::restore(&tool.parameters, arguments, self == Self::OpenaiStrict),
        }
    }
}

/// The description with what the schema no longer says. The notes are kept whole, the description is cut.
fn with_notes(description: &str, notes: &[String], limit_chars: usize) -> String {
    let notes = notes.join(" ");
    let room = limit_chars.saturating_sub(notes.chars().count() + usize::from(!notes.is_empty()));
    let mut text = match description.char_indices().nth(room) {
        None => description.to_owned(),
        Some(_) => {
            let kept: String = description.chars().take(room.saturating_sub(1)).collect();
            format!("{kept}…")
        }
    };
    if !notes.is_empty() {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&notes);
    }
    text.chars().take(limit_chars).collect()
}

#[cfg(test)]
#[path = "schema_tests.rs"]
mod tests;
