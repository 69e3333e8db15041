//! One exchange with the model: asked, timed, counted, recorded.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::event::{AgentEvent, EventSink};
use crate::limits::Meter;
use crate::message::{Message, Part, ToolCall, ToolDefinition};
use crate::model::{ChatModel, ModelError, ModelRequest, Reply, RetryObserver, fingerprint};
use crate::settings::Price;
use crate::turn::millis;

pub(crate) struct Exchange<'a> {
    pub(crate) model: &'a dyn ChatModel,
    pub(crate) price: Option<Price>,
    pub(crate) sink: &'a dyn EventSink,
    pub(crate) step: u32,
    pub(crate) messages: &'a [Message],
    pub(crate) tools: &'a [ToolDefinition],
}

impl Exchange<'_> {
    pub(crate) async fn run(
        self,
        meter: &mut Meter,
        ids: &mut CallIds,
        cancel: &CancellationToken,
    ) -> Result<Reply, ModelError> {
        let request = ModelRequest { messages: self.messages, tools: self.tools };
        self.sink.emit(AgentEvent::ModelCall { step: self.step, request: Some(fingerprint(request)) });
        let retries = RetryEvents { step: self.step, sink: self.sink };
        let started = Instant::now();
        let result = self.model.reply(request, &retries, cancel).await;
        let took = started.elapsed();
        meter.model_time += took;
        let mut reply = result.inspect_err(|error| {
            self.sink.emit(AgentEvent::ModelFailed { step: self.step, failure: error.into() });
        })?;
        ids.claim(&mut reply.tool_calls);
        let received = reply.content.as_ref().map_or(0, String::len);
        let cost_usd = meter.count_reply(reply.usage, self.price, || text_bytes(self.messages) + received);
        self.sink.emit(AgentEvent::ModelReply {
            step: self.step,
            content: reply.content.clone(),
            reasoning: reply.reasoning.clone(),
            carried: reply.carried.clone(),
            tool_calls: reply.tool_calls.clone(),
            finish_reason: reply.finish_reason.clone(),
            usage: reply.usage,
            cost_usd,
            duration_ms: millis(took),
            queued_ms: millis(reply.queued),
        });
        Ok(reply)
    }
}

/// The ids of all calls so far. Some servers number the calls of each reply anew; results are matched by id, and an id
/// that comes again is made another.
#[derive(Debug, Default)]
pub(crate) struct CallIds(BTreeSet<String>);

impl CallIds {
    fn claim(&mut self, calls: &mut [ToolCall]) {
        for call in calls {
            let mut id = call.id.clone();
            let mut copy = 1;
            while !self.0.insert(id.clone()) {
                copy += 1;
                id = format!("{}_{copy}", call.id);
            }
            call.id = id;
        }
    }
}

/// For providers that count nothing.
fn text_bytes(messages: &[Message]) -> usize {
    let of_parts = |parts: &[Part]| parts.iter().filter_map(Part::text).map(str::len).sum::<usize>();
    let sizes = messages.iter().map(|message| match message {
        Message::System { content } => content.len(),
        Message::User { content } | Message::Tool { content, .. } => of_parts(content),
        Message::Assistant { content, .. } => content.as_ref().map_or(0, String::len),
    });
    sizes.sum()
}

struct RetryEvents<'a> {
    step: u32,
    sink: &'a dyn EventSink,
}

impl RetryObserver for RetryEvents<'_> {
    fn retrying(&self, attempt: u32, reason: &str, wait: Duration) {
        self.sink.emit(AgentEvent::ModelRetry {
            step: self.step,
            attempt,
            reason: reason.to_owned(),
            wait_ms: millis(wait),
        });
    }

    fn noticed(&self, text: &str) {
        self.sink.emit(AgentEvent::ModelNotice { step: self.step, text: text.to_owned() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_was_used_before_becomes_another() {
        let call =
            |id: &str| ToolCall { id: id.to_owned(), name: "look".to_owned(), arguments: "{}".to_owned() };
        let (mut ids, mut seen) = (CallIds::default(), Vec::new());
        for _ in 0..3 {
            let mut calls = [call("functions.look:0"), call("b")];
            ids.claim(&mut calls);
            seen.extend(calls.map(|call| call.id));
        }
        assert_eq!(seen[..2], ["functions.look:0", "b"]);
        assert_eq!(seen.iter().collect::<BTreeSet<_>>().len(), 6, "{seen:?}");
    }
}
