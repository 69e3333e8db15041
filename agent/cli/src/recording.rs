//! What one sample did, read back: the last attempt of its event log as something that can be played again.

use std::collections::{HashMap, VecDeque};
use std::io::BufRead;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gaia_agent::model::{ModelError, Reply};
use gaia_agent::tools::{RecordedTool, ToolOutput};
use gaia_agent::{AgentEvent, Message, Part, StopReason};
use serde_json::Value;

use crate::store::{RunDirectory, SampleDirectory, StoreError};

/// The events of the attempt that led to the outcome, in order.
#[derive(Debug)]
pub struct Recording {
    pub events: Vec<AgentEvent>,
    sample: SampleDirectory,
}

/// One reply of the model, or how a request failed, with the fingerprint of the request where it was recorded.
#[derive(Debug)]
pub struct RecordedReply {
    pub request: Option<String>,
    pub step: u32,
    pub reply: Result<Reply, ModelError>,
}

/// A call is known by its tool and its arguments; equal ones are answered in order.
pub type CallKey = (String, String);

impl Recording {
    /// `None` when the sample has not been begun.
    pub fn read(sample: &SampleDirectory) -> Result<Option<Self>, StoreError> {
        let path = sample.events_path();
        let file = match fs_err::File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let mut events: Vec<AgentEvent> = Vec::new();
        let mut lines = std::io::BufReader::new(file);
        let mut line = String::new();
        let mut number = 0;
        while lines.read_line(&mut line)? > 0 {
            number += 1;
            let torn = !line.ends_with('\n');
            match serde_json::from_str(&line) {
                Ok(AgentEvent::Started { .. }) => {
                    events.clear();
                    // Parsed twice, and once an attempt.
                    events.extend(serde_json::from_str::<AgentEvent>(&line));
                }
                // What came after the last whole turn was lost, and was done again.
                Ok(AgentEvent::Continued { after_step, .. }) => {
                    events.retain(|event| step(event).is_none_or(|step| step <= after_step));
                }
                Ok(event) => events.push(event),
                Err(_) if torn => break,
                Err(error) => {
                    let reason = format!("line {number}: {error}");
                    return Err(StoreError::Damaged { path, reason });
                }
            }
            line.clear();
        }
        // Notices of servers may come before the start.
        let is_begun = events.iter().any(|event| matches!(event, AgentEvent::Started { .. }));
        Ok(is_begun.then(|| Self { events, sample: sample.clone() }))
    }

    /// What was offered; `None` in recordings of before it was kept.
    pub fn offer(&self, run: &RunDirectory) -> Result<Option<Vec<RecordedTool>>, StoreError> {
        let offer = self.events.iter().find_map(|event| match event {
            AgentEvent::Started { offer, .. } => offer.as_deref(),
            _ => None,
        });
        offer.map(|name| run.offer(name)).transpose()
    }

    /// What the model was told first.
    pub fn messages(&self) -> &[Message] {
        let messages = self.events.iter().find_map(|event| match event {
            AgentEvent::Started { messages, .. } => Some(messages.as_slice()),
            _ => None,
        });
        messages.unwrap_or_default()
    }

    /// Replies and failures of the model in the order in which they came.
    pub fn replies(&self) -> VecDeque<RecordedReply> {
        let mut requests = HashMap::new();
        let mut replies = VecDeque::new();
        for event in &self.events {
            match event {
                AgentEvent::ModelCall { step, request } => {
                    requests.insert(*step, request.clone());
                }
                AgentEvent::ModelReply {
                    step,
                    content,
                    reasoning,
                    carried,
                    tool_calls,
                    finish_reason,
                    usage,
                    ..
                } => {
                    let reply = Reply {
                        content: content.clone(),
                        reasoning: reasoning.clone(),
                        carried: carried.clone(),
                        tool_calls: tool_calls.clone(),
                        finish_reason: finish_reason.clone(),
                        usage: *usage,
                        ..Reply::default()
                    };
                    let request = requests.get(step).cloned().flatten();
                    replies.push_back(RecordedReply { request, step: *step, reply: Ok(reply) });
                }
                AgentEvent::ModelFailed { step, failure } => {
                    let request = requests.get(step).cloned().flatten();
                    let reply = Err(failure.clone().into());
                    replies.push_back(RecordedReply { request, step: *step, reply });
                }
                _ => {}
            }
        }
        replies
    }

    /// Results of calls as their servers gave them.
    pub fn results(&self) -> Result<HashMap<CallKey, VecDeque<ToolOutput>>, StoreError> {
        let mut arguments: HashMap<&str, String> = HashMap::new();
        let mut results: HashMap<CallKey, VecDeque<ToolOutput>> = HashMap::new();
        for event in &self.events {
            match event {
                // As the model wrote them; what was made of them, where it was called, stands in the start of the call.
                AgentEvent::ModelReply { tool_calls, .. } => {
                    for call in tool_calls {
                        let text = serde_json::from_str::<Value>(&call.arguments)
                            .map_or_else(|_| call.arguments.clone(), |value| value.to_string());
                        arguments.insert(&call.id, text);
                    }
                }
                AgentEvent::ToolStarted { call_id, arguments: taken, .. } => {
                    arguments.insert(call_id, taken.to_string());
                }
                AgentEvent::ToolResult { call_id, tool, .. } => {
                    let key = (tool.clone(), arguments.get(call_id.as_str()).cloned().unwrap_or_default());
                    results.entry(key).or_default().extend(self.output(event)?);
                }
                _ => {}
            }
        }
        Ok(results)
    }

    /// The result of a call before the loop made it fit the model.
    fn output(&self, event: &AgentEvent) -> Result<Option<ToolOutput>, StoreError> {
        let AgentEvent::ToolResult { content, is_error, structured, whole, duration_ms, .. } = event else {
            return Ok(None);
        };
        let mut parts = content.clone();
        for part in &mut parts {
            match part {
                Part::Text { text } => {
                    if let Some(name) = whole.as_deref().filter(|name| name.contains(".txt")) {
                        *text = String::from_utf8_lossy(&self.sample.artefact(name)?).into_owned();
                    }
                }
                media => self.put_back(media)?,
            }
        }
        Ok(Some(ToolOutput {
            content: parts,
            structured: structured.clone(),
            is_error: *is_error,
            failure: None,
            whole: None,
            duration: std::time::Duration::from_millis(*duration_ms),
        }))
    }

    /// The bytes of a picture or the like, which are kept beside the log.
    fn put_back(&self, part: &mut Part) -> Result<(), StoreError> {
        if let Some(data) = part.media_data_mut()
            && let Some(name) = data.strip_prefix("file:")
        {
            *data = STANDARD.encode(self.sample.artefact(name)?);
        }
        Ok(())
    }

    /// Tokens up to the point where the budget of the run ended the sample, if it did.
    pub fn tokens_at_run_limit(&self) -> Option<u64> {
        let mut tokens = 0;
        for event in &self.events {
            match event {
                AgentEvent::ModelReply { usage, .. } => tokens += usage.total(),
                AgentEvent::LimitReached { reason: StopReason::RunLimit, .. } => return Some(tokens),
                _ => {}
            }
        }
        None
    }
}

/// Whether an event is the loop's, which tells these in the same order each time; the others tell of circumstances.
pub fn is_of_the_loop(event: &AgentEvent) -> bool {
    !matches!(
        event,
        AgentEvent::ModelRetry { .. }
            | AgentEvent::ModelNotice { .. }
            | AgentEvent::ServerNotice { .. }
            | AgentEvent::Continued { .. }
    )
}

/// The step that an event belongs to; the first and the last belong to none.
pub fn step(event: &AgentEvent) -> Option<u32> {
    match event {
        AgentEvent::ModelCall { step, .. }
        | AgentEvent::ModelRetry { step, .. }
        | AgentEvent::ModelNotice { step, .. }
        | AgentEvent::ModelReply { step, .. }
        | AgentEvent::ModelFailed { step, .. }
        | AgentEvent::ToolStarted { step, .. }
        | AgentEvent::ToolResult { step, .. }
        | AgentEvent::Prompted { step, .. }
        | AgentEvent::Compacted { step, .. }
        | AgentEvent::LimitReached { step, .. } => Some(*step),
        _ => None,
    }
}
