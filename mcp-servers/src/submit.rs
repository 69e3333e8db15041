//! The answer tool: takes the final answer of a question, and once warns of what an exact scorer trips over.

mod advice;

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, PoisonError};

use rmcp::model::{CallToolResult, JsonObject, Tool, ToolAnnotations};
use serde_json::json;

use crate::arguments::Arguments;
use crate::schema::{self, Kind, Presence, Property};
use crate::toolset::{
    Address, Call, Caller, Identity, Removal, SessionId, Sharing, Toolset, failure, success,
};

/// Warnings remembered at most. One entry is a few dozen bytes; a forgotten one costs a model one more call.
const MAX_REMEMBERED: usize = 4096;

/// The submit server.
pub struct Submit {
    tools: Vec<Tool>,
    warned: Mutex<Warned>,
}

impl Default for Submit {
    fn default() -> Self {
        Self { tools: vec![tool()], warned: Mutex::default() }
    }
}

/// Who has had the warning. It lives here and not in the handler, because rmcp makes a new handler for every request
/// of a client without sessions.
///
/// A client on stdio, a session and a URL are warned once, whatever they submit next. Requests of an anonymous client
/// are tied together by nothing but the answer itself, so for them the answer is remembered until it comes again. The
/// worst that two such clients can do to each other is to miss one warning.
#[derive(Debug, Default)]
struct Warned {
    keys: HashSet<Key>,
    /// Oldest first, to bound the set.
    order: VecDeque<Key>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    Caller(Caller),
    Answer(String),
}

impl Key {
    fn new(caller: &Caller, answer: &str) -> Self {
        match caller {
            Caller::Anonymous => Self::Answer(answer.to_owned()),
            known => Self::Caller(known.clone()),
        }
    }
}

impl Warned {
    /// Whether this is the first warning, which is then remembered.
    fn first(&mut self, key: Key) -> bool {
        if !self.keys.insert(key.clone()) {
            return false;
        }
        self.order.push_back(key);
        if self.order.len() > MAX_REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.keys.remove(&oldest);
        }
        true
    }

    fn forget(&mut self, key: &Key) {
        if self.keys.remove(key) {
            self.order.retain(|kept| kept != key);
        }
    }
}

impl Submit {
    fn submit(&self, arguments: JsonObject, caller: &Caller) -> CallToolResult {
        let answer = match Arguments::new(arguments, &["answer"])
            .and_then(|arguments| arguments.required_text("answer"))
        {
            Ok(answer) => answer,
            Err(error) => return failure(error.to_string()),
        };
        let answer = answer.trim();
        if answer.is_empty() {
            return failure(
                "the answer is empty and was not taken; submit your best answer, a guess if need be: nothing is \
                 lost by a wrong one",
            );
        }
        let advice = advice::advise(answer);
        let key = Key::new(caller, answer);
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        if !advice.is_empty() && warned.first(key.clone()) {
            return failure(warning(answer, &advice));
        }
        // What an anonymous client insisted on must not silence the warning for the next one.
        if matches!(key, Key::Answer(_)) {
            warned.forget(&key);
        }
        success(format!("answer taken: {answer}"), json!({ "answer": answer }))
    }
}

impl Submit {
    fn forget(&self, caller: Caller) {
        self.warned.lock().unwrap_or_else(PoisonError::into_inner).forget(&Key::Caller(caller));
    }
}

fn warning(answer: &str, advice: &[String]) -> String {
    let mut text =
        format!("not taken yet: the scorer compares exactly, and `{answer}` may fail on its form\n");
    for line in advice {
        text.push_str("- ");
        text.push_str(line);
        text.push('\n');
    }
    text.push_str("Submit the changed answer, or the same again if it is right as it stands: the next call is taken as it is.");
    text
}

impl Toolset for Submit {
    fn identity(&self) -> Identity {
        Identity {
            name: "gaia-mcp-submit",
            title: "Submit the answer",
            instructions: "Call submit once, with the final answer of the question.".to_owned(),
        }
    }

    fn tools(&self) -> &[Tool] {
        &self.tools
    }

    async fn call(&self, _tool: &str, arguments: JsonObject, call: Call) -> CallToolResult {
        self.submit(arguments, &call.caller)
    }

    fn sharing(&self) -> Sharing {
        Sharing::ByCall
    }

    fn session_ended(&self, session: SessionId) {
        self.forget(Caller::Session(session));
    }

    async fn remove(&self, address: &Address) -> Removal {
        self.forget(Caller::Address(address.clone()));
        Removal::Removed
    }
}

fn tool() -> Tool {
    let input = schema::object(&[Property {
        name: "answer",
        kind: Kind::Text,
        presence: Presence::Required,
        description: "The answer alone: a number, as few words as possible, or a comma separated list of these",
    }]);
    let output = schema::object(&[Property {
        name: "answer",
        kind: Kind::Text,
        presence: Presence::Required,
        description: "The answer that was taken",
    }]);
    Tool::new(
        "submit",
        "Submits the final answer and ends the task. The answer is compared exactly: give a number without unit, \
         without thousands commas and without explanation; a string without articles and abbreviations; a list \
         with commas, each element by these rules.",
        input,
    )
    .with_title("Submit the answer")
    .with_raw_output_schema(output)
    .with_annotations(
        ToolAnnotations::new().read_only(false).destructive(false).idempotent(true).open_world(false),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toolset::Address;

    fn submit(server: &Submit, caller: &Caller, answer: &str) -> bool {
        let arguments = json!({ "answer": answer }).as_object().unwrap().clone();
        let result = server.submit(arguments, caller);
        result.is_error != Some(true)
    }

    #[test]
    fn one_warning_for_each_client() {
        let server = Submit::default();
        let address = Address::parse("0b7f2d5e-6f0f-4a58-9a38-5a1c5ad8b9a1").unwrap();
        for caller in [
            Caller::Process,
            Caller::Session(SessionId(1)),
            Caller::Session(SessionId(2)),
            Caller::Address(address),
        ] {
            assert!(!submit(&server, &caller, "17 km"), "{caller:?}");
            assert!(submit(&server, &caller, "18 km"), "{caller:?}");
        }
        server.session_ended(SessionId(1));
        assert!(!submit(&server, &Caller::Session(SessionId(1)), "17 km"));
    }

    #[test]
    fn an_anonymous_client_is_known_by_its_answer() {
        let server = Submit::default();
        assert!(!submit(&server, &Caller::Anonymous, "17 km"));
        assert!(!submit(&server, &Caller::Anonymous, "18 km"));
        assert!(submit(&server, &Caller::Anonymous, "17 km"));
        assert!(!submit(&server, &Caller::Anonymous, "17 km"), "the next client is warned again");
        assert!(submit(&server, &Caller::Anonymous, "17"));
    }

    #[test]
    fn empty_is_never_taken() {
        let server = Submit::default();
        for _ in 0..3 {
            assert!(!submit(&server, &Caller::Process, " \n"));
        }
        assert!(!submit(&server, &Caller::Process, "17 km"), "refusing an empty answer is not the warning");
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut warned = Warned::default();
        for number in 0..MAX_REMEMBERED + 10 {
            assert!(warned.first(Key::Answer(number.to_string())));
        }
        assert_eq!(warned.keys.len(), MAX_REMEMBERED);
        assert_eq!(warned.order.len(), MAX_REMEMBERED);
        assert!(warned.first(Key::Answer("0".to_owned())), "the oldest was forgotten");
    }
}
