//! Why a run stopped, and in which words.

use crate::model::ModelError;
use crate::outcome::{Failure, FailureKind, StopReason};

/// Why the loop stopped, with what it has to show for it.
pub(super) enum Ending {
    Answered { stop: StopReason, answer: String, raw: String },
    NoAnswer { stop: StopReason, raw: Option<String> },
    Failed { stop: StopReason, failure: Failure },
}

pub(super) fn explain(reason: StopReason) -> &'static str {
    match reason {
        StopReason::StepLimit => "The step limit of this task is reached.",
        StopReason::TokenLimit => "The token budget of this task is used up.",
        StopReason::CostLimit => "The money budget of this task is used up.",
        StopReason::TimeLimit => "The time for this task is over.",
        StopReason::RunLimit => "The budget of the whole run is used up.",
        StopReason::ContextLimit => "The conversation no longer fits the context window.",
        _ => "This is the last turn of this task.",
    }
}

pub(super) fn cancelled() -> Ending {
    Ending::Failed {
        stop: StopReason::Cancelled,
        failure: Failure {
            kind: FailureKind::Cancelled,
            message: "cancelled before there was an answer".to_owned(),
        },
    }
}

pub(super) fn failed(error: ModelError) -> Ending {
    let kind = match &error {
        ModelError::Refused(_) => FailureKind::ModelRefused,
        ModelError::Request(_) | ModelError::ContextOverflow { .. } | ModelError::Garbled(_) => {
            FailureKind::RequestRejected
        }
        ModelError::ContentRefused(_) => FailureKind::ContentRefused,
        ModelError::Unavailable(_) => FailureKind::ModelUnavailable,
        ModelError::Cancelled => return cancelled(),
    };
    Ending::Failed { stop: StopReason::Error, failure: Failure { kind, message: error.to_string() } }
}
