use std::collections::VecDeque;
use std::sync::Arc;

use rmcp::RoleClient;
use rmcp::model::{ErrorCode, ErrorData, JsonRpcMessage, RequestId};
use rmcp::service::RxJsonRpcMessage;

use super::lines::{Decoded, LINE_BYTES, Line, answered_id, decode};
use super::report::Reporter;
use super::spill::Spills;
use crate::event::NoticeLevel;

/// What a server wrote, one line at a time, as the messages that rmcp takes. What is no message is told; an answer
/// that cannot be read becomes an error for whoever waits for it.
pub(super) struct Inbox {
    received: VecDeque<RxJsonRpcMessage<RoleClient>>,
    reporter: Arc<Reporter>,
    spills: Arc<Spills>,
}

impl Inbox {
    pub(super) fn new(reporter: Arc<Reporter>, spills: Arc<Spills>) -> Self {
        Self { received: VecDeque::new(), reporter, spills }
    }

    pub(super) fn pop(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        self.received.pop_front()
    }

    pub(super) fn take(&mut self, line: Line) {
        match line {
            Line::Whole(line) => match decode(&line) {
                Decoded::Messages(messages) => self.received.extend(messages),
                Decoded::BadAnswer { id, reason } => {
                    self.reporter.relay(NoticeLevel::Warning, &reason);
                    self.received.push_back(broken_answer(id, reason));
                }
                Decoded::Noise(text) => self.reporter.relay(
                    NoticeLevel::Warning,
                    &format!("wrote to stdout what is not a message of the protocol: {text}"),
                ),
                Decoded::Empty => {}
            },
            Line::TooLong { bytes, head, tail, whole } => {
                let reason = format!(
                    "the answer has {bytes} bytes, over the limit of {LINE_BYTES}; ask for less at a time"
                );
                self.reporter.relay(NoticeLevel::Warning, &reason);
                if let Some(id) = answered_id(&head, &tail) {
                    if let Some(whole) = whole {
                        self.spills.put(id, whole);
                    }
                    self.received.push_back(broken_answer(id, reason));
                }
            }
        }
    }
}

fn broken_answer(id: i64, reason: String) -> RxJsonRpcMessage<RoleClient> {
    JsonRpcMessage::error(ErrorData::new(ErrorCode::PARSE_ERROR, reason, None), Some(RequestId::Number(id)))
}
