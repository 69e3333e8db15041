//! What an endpoint teaches about itself by refusing a request.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// Something that the endpoint does not take, or wants, other than most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Quirk {
    /// Refuses `stream_options`; it then counts nothing, and tokens are estimated.
    NoStreamOptions,
    /// Refuses to give encrypted thoughts: "Encrypted content is not supported with this model".
    NoEncryptedThoughts,
    /// Refuses a turn without its `reasoning_content`, as DeepSeek does wherever it is served.
    WantsThoughts,
}

/// What was learnt so far. Only what gaia adds or leaves out of its own accord: what the config says stays as it is,
/// and its error is the user's to read.
#[derive(Debug, Default)]
pub(super) struct Quirks(Mutex<BTreeSet<Quirk>>);

impl Quirks {
    pub(super) fn has(&self, quirk: Quirk) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(&quirk)
    }

    /// Learns from the words of a refusal; `None` when they teach nothing new.
    pub(super) fn learn(&self, words: &str) -> Option<Quirk> {
        let quirk = Quirk::behind(words)?;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(quirk).then_some(quirk)
    }
}

impl Quirk {
    fn behind(words: &str) -> Option<Self> {
        let words = words.to_lowercase();
        let says = |phrases: &[&str]| phrases.iter().any(|phrase| words.contains(phrase));
        if says(&["stream_options"]) {
            Some(Self::NoStreamOptions)
        } else if says(&["encrypted content is not supported", "encrypted_content"]) {
            Some(Self::NoEncryptedThoughts)
        } else if says(&["reasoning_content"]) && says(&["missing", "must be passed back"]) {
            Some(Self::WantsThoughts)
        } else {
            None
        }
    }

    /// For the trajectory.
    pub(super) fn describe(self) -> &'static str {
        match self {
            Self::NoStreamOptions => {
                "the endpoint refuses `stream_options`: asked again without, tokens are estimated"
            }
            Self::NoEncryptedThoughts => {
                "the endpoint gives no encrypted thoughts for this model: asked again without"
            }
            Self::WantsThoughts => "the endpoint wants `reasoning_content` back: asked again with it",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_teaches_once() {
        let quirks = Quirks::default();
        for (words, expected) in [
            ("Encrypted content is not supported with this model.", Some(Quirk::NoEncryptedThoughts)),
            (
                "Missing `reasoning_content` field in the assistant message at message index 2.",
                Some(Quirk::WantsThoughts),
            ),
            ("The reasoning_content in the thinking mode must be passed back to the API.", None),
            ("Extra inputs are not permitted: stream_options", Some(Quirk::NoStreamOptions)),
            ("Unsupported parameter: max_tokens", None),
        ] {
            assert_eq!(quirks.learn(words), expected, "{words}");
        }
        assert!(quirks.has(Quirk::WantsThoughts));
    }
}
