//! Notices a model that goes in circles.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::Value;

use crate::message::{Part, ToolCall};

/// Counts calls that were made before with the same result.
#[derive(Debug, Default)]
pub(crate) struct Habits {
    seen: HashMap<u64, u32>,
}

/// Two of a kind may be meant, as when something is waited for; from the third on the model is told, each third time.
const TOLD_EVERY: u32 = 3;

impl Habits {
    /// What to tell the model, if this call with this result was made too often. A tool whose output changes, such as
    /// one that is asked for news, is no repetition.
    pub(crate) fn note(&mut self, call: &ToolCall, result: &[Part]) -> Option<String> {
        let mut hasher = DefaultHasher::new();
        call.name.hash(&mut hasher);
        canonical(&call.arguments).hash(&mut hasher);
        for part in result {
            match part {
                Part::Text { text } => without_durations(text).hash(&mut hasher),
                media => media.media().hash(&mut hasher),
            }
        }
        let count = self.seen.entry(hasher.finish()).or_default();
        *count += 1;
        count.is_multiple_of(TOLD_EVERY).then(|| {
            format!(
                "You called `{}` with the same arguments {count} times and got the same result each time. It will not \
                 change: try something else, or answer with what you have.",
                call.name
            )
        })
    }
}

/// The same arguments whatever their blanks.
fn canonical(arguments: &str) -> String {
    serde_json::from_str::<Value>(arguments).map_or_else(|_| arguments.to_owned(), |value| value.to_string())
}

/// The words of a text but for durations, which change from call to call when nothing else does.
fn without_durations(text: &str) -> Vec<&str> {
    let unit = |word: &str| matches!(word.trim_end_matches([',', ';', ')', ']', '.']), "s" | "ms");
    let bare = |word: &str| word.trim_start_matches(['(', '[']).parse::<f64>().is_ok();
    let glued = |word: &str| {
        let word = word.trim_end_matches([',', ';', ')', ']', '.']);
        word.strip_suffix("ms").or_else(|| word.strip_suffix('s')).is_some_and(bare)
    };
    let words: Vec<&str> = text.split_whitespace().collect();
    let is_duration =
        |at: usize| glued(words[at]) || (bare(words[at]) && words.get(at + 1).is_some_and(|next| unit(next)));
    (0..words.len()).filter(|at| !is_duration(*at)).map(|at| words[at]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_third_equal_call_with_an_equal_result_is_told() {
        let mut habits = Habits::default();
        let mut note = |arguments: &str, result: &str| {
            let call =
                ToolCall { id: "x".to_owned(), name: "look".to_owned(), arguments: arguments.to_owned() };
            habits.note(&call, &[Part::Text { text: result.to_owned() }])
        };
        assert_eq!(note(r#"{"a":1}"#, "same (0.11 s)"), None);
        assert_eq!(note(r#"{"a":1}"#, "same 10 (0.11 s)"), None);
        assert_eq!(note(r#"{"a":2}"#, "same"), None);
        assert_eq!(note(r#"{ "a": 1 }"#, "same (0.12 s)"), None);
        assert_eq!(note(r#"{"a":1}"#, "news"), None);
        let told = note(r#"{"a":1}"#, "same (0.13 s)").unwrap();
        assert!(told.contains("`look`") && told.contains("3 times"), "{told}");
        assert_eq!(note(r#"{"a":1}"#, "same (0.11 s)"), None);
    }
}
