//! What a run of the loop is to its task: the whole of it, the head of helpers, or one of those.

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::limits::{Left, Spent};
use crate::message::ToolDefinition;
use crate::settings::AgentSettings;
use crate::tools::{OfferedTool, ToolHost};

/// Whose run this is.
#[derive(Clone, Copy)]
pub(crate) enum Duty<'a> {
    /// Answers the question of the task.
    Alone,
    /// As `Alone`, and may hand on questions with a tool of the loop's own.
    Manager(&'a dyn Helpers),
    /// Works on a question of a manager's: it reports, and the answer tool is not for it.
    Helper,
}

/// Takes questions of a manager.
#[async_trait]
pub(crate) trait Helpers: Send + Sync {
    /// Always comes back, with at most `left` used up.
    async fn ask(&self, question: &str, left: Left, cancel: &CancellationToken) -> Asked;
}

/// What came of a question that was handed on.
#[derive(Debug)]
pub(crate) struct Asked {
    /// The report, or why there is none.
    pub(crate) text: String,
    pub(crate) failed: bool,
    pub(crate) spent: Spent,
}

/// As events name them.
const ASK: &str = "gaia/ask";
const REPORT: &str = "gaia/report";

/// The tool that a duty brings along: a single text goes in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnTool {
    pub(crate) canonical: &'static str,
    /// How the model calls it: another name when a server has a tool of the usual one.
    pub(crate) name: &'static str,
    pub(crate) argument: &'static str,
    description: &'static str,
    argument_description: &'static str,
}

impl Duty<'_> {
    pub(crate) fn tool(&self, tools: &ToolHost) -> Option<OwnTool> {
        let free = |name: &'static str, other: &'static str| match tools.find(name) {
            None => name,
            Some(_) => other,
        };
        match self {
            Self::Alone => None,
            Self::Manager(_) => Some(OwnTool {
                canonical: ASK,
                name: free("ask", "gaia_ask_helper"),
                argument: "question",
                description: "Hands a part of the work to a helper, who has the same tools and files but has seen \
                              nothing of this conversation, and gives back the helper's report. Helpers draw on the \
                              same limits as you do.",
                argument_description: "What to find out or do, with everything the helper has to know for it, and \
                                       what to report.",
            }),
            Self::Helper => Some(OwnTool {
                canonical: REPORT,
                name: free("report", "gaia_report_back"),
                argument: "report",
                description: "Reports what was found to whoever asked, and ends the work.",
                argument_description: "The result, how sure it is, and where it comes from.",
            }),
        }
    }

    pub(crate) fn is_offered(&self, tool: &OfferedTool, settings: &AgentSettings) -> bool {
        !matches!(self, Self::Helper) || tool.canonical != settings.answer_tool
    }
}

impl OwnTool {
    pub(crate) fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            name: self.name.to_owned(),
            description: self.description.to_owned(),
            parameters: json!({
                "type": "object",
                "properties": { self.argument: { "type": "string", "description": self.argument_description } },
                "required": [self.argument],
            }),
        }
    }

    /// The text that was handed in, or in words what is wrong with the arguments.
    pub(crate) fn read(&self, arguments: &str) -> Result<String, String> {
        let value: Value =
            serde_json::from_str(arguments).map_err(|error| format!("not valid JSON: {error}"))?;
        match value.get(self.argument).and_then(Value::as_str) {
            Some(text) if !text.trim().is_empty() => Ok(text.to_owned()),
            _ => Err(format!("it takes `{}`, a text that is not empty", self.argument)),
        }
    }
}
