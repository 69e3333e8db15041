use gaia_agent::{AgentEvent, Part, Usage};
use serde_json::Value;
use time::{Duration, OffsetDateTime};

/// A request to the model and what came of it.
#[derive(Debug, Default)]
pub struct Turn {
    /// Place among the turns of the attempt, from 1: what a link to a turn says.
    pub number: u32,
    /// The role of a strategy.
    pub branch: Option<String>,
    pub step: u32,
    pub asked: Option<OffsetDateTime>,
    /// Absent while the model works, when it failed, and where an agent of others made the calls.
    pub reply: Option<Reply>,
    /// Why there is no reply.
    pub failure: Option<String>,
    /// In the order of the reply.
    pub calls: Vec<Call>,
    /// Requests that were tried again or changed.
    pub notices: Vec<String>,
}

#[derive(Debug)]
pub struct Reply {
    pub time: Option<OffsetDateTime>,
    pub content: Option<String>,
    pub reasoning: Option<String>,
    pub finish_reason: String,
    pub usage: Usage,
    /// US dollars.
    pub cost_usd: Option<f64>,
    pub duration_ms: u64,
    /// The part of it spent waiting for a turn at the endpoint.
    pub queued_ms: u64,
}

#[derive(Debug)]
pub struct Call {
    pub id: String,
    /// `server/tool` where the log has it, else what the model called it.
    pub tool: String,
    /// JSON as a rule; as the model wrote it.
    pub arguments: String,
    pub started: Option<OffsetDateTime>,
    /// Absent while it runs or when it was lost.
    pub result: Option<CallResult>,
}

#[derive(Debug)]
pub struct CallResult {
    pub time: Option<OffsetDateTime>,
    /// As the model saw it. The data of media is `file:` and the name of an artefact.
    pub content: Vec<Part>,
    pub structured: Option<Value>,
    pub is_error: bool,
    /// The artefact with the whole text, when the model saw a part of it.
    pub whole: Option<String>,
    pub duration_ms: u64,
}

impl CallResult {
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self.content.iter().filter_map(Part::text).collect();
        texts.join("\n")
    }
}

impl Call {
    /// When it began, from the event or else from the end and the duration.
    pub fn begun(&self) -> Option<OffsetDateTime> {
        self.started.or_else(|| {
            let result = self.result.as_ref()?;
            Some(result.time? - milliseconds(result.duration_ms))
        })
    }

    pub fn is_error(&self) -> bool {
        self.result.as_ref().is_some_and(|result| result.is_error)
    }

    pub fn duration_ms(&self) -> u64 {
        self.result.as_ref().map_or(0, |result| result.duration_ms)
    }
}

impl Turn {
    /// When it began.
    pub fn begun(&self) -> Option<OffsetDateTime> {
        self.asked
            .or_else(|| {
                let reply = self.reply.as_ref()?;
                Some(reply.time? - milliseconds(reply.duration_ms))
            })
            .or_else(|| self.calls.iter().filter_map(Call::begun).min())
    }

    /// When the last of it was over, as far as it is.
    pub fn ended(&self) -> Option<OffsetDateTime> {
        let results = self.calls.iter().filter_map(|call| call.result.as_ref()?.time);
        results.chain(self.reply.as_ref().and_then(|reply| reply.time)).max()
    }

    pub(super) fn reply(&mut self, time: Option<OffsetDateTime>, event: AgentEvent) {
        let AgentEvent::ModelReply {
            content,
            reasoning,
            tool_calls,
            finish_reason,
            usage,
            cost_usd,
            duration_ms,
            queued_ms,
            ..
        } = event
        else {
            return;
        };
        self.calls.extend(tool_calls.into_iter().map(|call| Call {
            id: call.id,
            tool: call.name,
            arguments: call.arguments,
            started: None,
            result: None,
        }));
        self.reply =
            Some(Reply { time, content, reasoning, finish_reason, usage, cost_usd, duration_ms, queued_ms });
    }

    /// The start or the result of a call.
    pub(super) fn call(&mut self, time: Option<OffsetDateTime>, event: AgentEvent) {
        match event {
            AgentEvent::ToolStarted { call_id, tool, arguments, .. } => {
                let call = self.of_id(call_id);
                if call.arguments.is_empty() {
                    call.arguments = arguments.to_string();
                }
                call.tool = tool;
                call.started = time;
            }
            AgentEvent::ToolResult {
                call_id,
                tool,
                content,
                is_error,
                structured,
                whole,
                duration_ms,
                ..
            } => {
                let call = self.of_id(call_id);
                call.tool = tool;
                call.result = Some(CallResult { time, content, structured, is_error, whole, duration_ms });
            }
            _ => {}
        }
    }

    fn of_id(&mut self, id: String) -> &mut Call {
        let index = self.calls.iter().position(|call| call.id == id).unwrap_or_else(|| {
            let call =
                Call { id, tool: String::new(), arguments: String::new(), started: None, result: None };
            self.calls.push(call);
            self.calls.len() - 1
        });
        &mut self.calls[index]
    }
}

pub(crate) fn milliseconds(number: u64) -> Duration {
    Duration::milliseconds(number.try_into().unwrap_or(i64::MAX))
}
