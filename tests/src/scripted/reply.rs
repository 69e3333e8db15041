use serde_json::Value;

use super::conversation::{self, BROKEN_CALL, GOOD_CALL};
use super::dice::Dice;
use super::script::{TaskScript, Tokens, Turn};

const BETWEEN: &str = "${between:";

/// Said instead of a turn whose `${answer}` no tool has printed.
pub(crate) const NO_ANSWER: &str = "I could not find the answer.";
/// Said to a question that is in no script.
pub(crate) const UNKNOWN_TASK: &str = "I know no such task.";
/// Said when the script is over and the conversation is not.
pub(crate) const NO_MORE_TURNS: &str = "I have nothing more to say.";

/// A reply with everything filled in.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reply {
    pub(crate) content: Option<String>,
    pub(crate) reasoning: Option<String>,
    pub(crate) calls: Vec<ToolCall>,
    pub(crate) finish_reason: String,
    pub(crate) usage: Tokens,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ToolCall {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: String,
}

/// Whether the calls of a turn are to be played as they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arguments {
    Whole,
    /// Cut, so that they are not JSON.
    Broken,
}

/// The turn of a task at a step as the reply to this request.
pub(crate) fn compose(
    task: &TaskScript,
    step: usize,
    request: &Value,
    body_bytes: usize,
    arguments: Arguments,
    dice: &mut Dice,
) -> Reply {
    let turn = task.turn(step);
    let offers_tools = request.get("tools").is_some() && request["tool_choice"] != "none";
    let filler = Filler {
        file: conversation::file(&conversation::question(request)),
        answer: conversation::answer(request),
        outputs: conversation::outputs(request),
    };
    let filled = if offers_tools {
        turn.map_or_else(|| Some(plain(NO_MORE_TURNS)), |turn| filler.turn(turn))
    } else {
        let forced = turn.and_then(|turn| turn.without_tools.as_ref()).or(task.forced_answer.as_ref());
        let text_turn = || turn.filter(|turn| forced.is_none() && turn.calls.is_empty());
        let forced = filler.text(forced.map_or("FINAL ANSWER: ${answer}", String::as_str));
        // A turn that calls nothing can be said without tools too.
        forced.map(|text| plain(&text)).or_else(|| filler.turn(text_turn()?))
    };
    let filled = filled.unwrap_or_else(|| plain(NO_ANSWER));
    let prefix = match arguments {
        Arguments::Whole => GOOD_CALL,
        Arguments::Broken => BROKEN_CALL,
    };
    let salt = dice.bits() & 0xffff_ffff;
    let calls = filled.calls.iter().enumerate().map(|(index, call)| {
        let whole = match &call.arguments {
            Value::String(raw) => raw.clone(),
            value => value.to_string(),
        };
        ToolCall {
            id: format!("{prefix}{step}_{index}_{salt:08x}"),
            name: tool_name(request, &call.tool),
            arguments: match arguments {
                Arguments::Whole => whole,
                Arguments::Broken => whole.chars().take(whole.chars().count() * 2 / 3).collect(),
            },
        }
    });
    finish(
        filled.content.clone(),
        filled.reasoning.clone(),
        calls.collect(),
        body_bytes,
        turn.filter(|_| offers_tools),
    )
}

/// A reply that is only text and belongs to no turn.
pub(crate) fn plain_reply(text: &str, body_bytes: usize) -> Reply {
    finish(Some(text.to_owned()), None, Vec::new(), body_bytes, None)
}

fn finish(
    content: Option<String>,
    reasoning: Option<String>,
    calls: Vec<ToolCall>,
    body_bytes: usize,
    turn: Option<&Turn>,
) -> Reply {
    let said: usize = content.iter().chain(&reasoning).map(String::len).sum();
    let called: usize = calls.iter().map(|call| call.name.len() + call.arguments.len() + 16).sum();
    // About four bytes a token, as English in the usual tokenizers.
    let guess = Tokens {
        prompt_tokens: body_bytes as u64 / 4 + 1,
        completion_tokens: (said + called) as u64 / 4 + 1,
    };
    let finish_reason = if calls.is_empty() { "stop" } else { "tool_calls" };
    Reply {
        content,
        reasoning,
        calls,
        finish_reason: turn.and_then(|turn| turn.finish_reason.clone()).unwrap_or(finish_reason.to_owned()),
        usage: turn.and_then(|turn| turn.usage).unwrap_or(guess),
    }
}

fn plain(text: &str) -> Turn {
    super::script::turn::text(text)
}

fn tool_name(request: &Value, wanted: &str) -> String {
    let offered = request["tools"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|tool| tool["function"]["name"].as_str());
    let offered: Vec<_> = offered.collect();
    let suffix = format!("__{wanted}");
    let found = offered
        .iter()
        .find(|name| **name == wanted)
        .or_else(|| offered.iter().find(|name| name.ends_with(&suffix)))
        .or_else(|| offered.iter().find(|name| name.contains(wanted)));
    found.map_or(wanted, |name| name).to_owned()
}

/// Fills in `${file}`, `${answer}` and `${between:ONE…OTHER}`. `None` where something is wanted that no tool has printed.
struct Filler {
    file: Option<String>,
    answer: Option<String>,
    outputs: String,
}

impl Filler {
    fn turn(&self, turn: &Turn) -> Option<Turn> {
        let mut filled = turn.clone();
        for text in filled.content.iter_mut().chain(&mut filled.reasoning) {
            *text = self.text(text)?;
        }
        for call in &mut filled.calls {
            self.value(&mut call.arguments)?;
        }
        Some(filled)
    }

    fn value(&self, value: &mut Value) -> Option<()> {
        match value {
            Value::String(text) => *text = self.text(text)?,
            Value::Array(values) => values.iter_mut().try_for_each(|value| self.value(value))?,
            Value::Object(fields) => fields.values_mut().try_for_each(|value| self.value(value))?,
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
        Some(())
    }

    fn text(&self, text: &str) -> Option<String> {
        // A path that does not exist: the tool then says so, as it would to a model that guessed.
        let text = text.replace("${file}", self.file.as_deref().unwrap_or("/shared_files/no-attachment"));
        let text = self.between(text)?;
        match &self.answer {
            Some(answer) => Some(text.replace("${answer}", answer)),
            None => (!text.contains("${answer}")).then_some(text),
        }
    }
}

impl Filler {
    /// What tools have printed last between two texts.
    fn between(&self, text: String) -> Option<String> {
        let Some(start) = text.find(BETWEEN) else { return Some(text) };
        let end = start + text[start..].find('}')?;
        let (before, after) = text[start + BETWEEN.len()..end].split_once('…')?;
        let (_, rest) = self.outputs.rsplit_once(before)?;
        let found = rest.split(after).next()?.trim();
        self.between(format!("{}{found}{}", &text[..start], &text[end + 1..]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::script::turn;
    use serde_json::json;

    fn request(tools: &[&str], output: &str) -> Value {
        let tools: Vec<_> = tools.iter().map(|name| json!({"function": {"name": name}})).collect();
        let mut request = json!({"messages": [
            {"role": "user", "content": "q /shared_files/a.txt"},
            {"role": "tool", "content": output},
        ]});
        if !tools.is_empty() {
            request["tools"] = json!(tools);
        }
        request
    }

    fn reply(turns: Vec<Turn>, step: usize, request: &Value) -> Reply {
        let task = TaskScript::new("q", turns);
        compose(&task, step, request, 400, Arguments::Whole, &mut Dice::new(1, "q", step, 1))
    }

    #[test]
    fn placeholders_and_tool_names_are_filled_in() {
        let request = request(&["x__other", "sandbox__bash", "submit"], "ANSWER: 4 \"big\" boats");
        let turns = vec![turn::bash("wc ${file}").and_call("submit", json!({"answer": "${answer}"}))];
        let found = reply(turns, 0, &request);
        assert_eq!(found.calls[0].name, "sandbox__bash");
        assert_eq!(found.calls[0].arguments, r#"{"command":"wc /shared_files/a.txt"}"#);
        assert_eq!(found.calls[1].arguments, r#"{"answer":"4 \"big\" boats"}"#);
        assert_eq!((found.finish_reason.as_str(), found.usage.prompt_tokens), ("tool_calls", 101));
        assert!(found.calls[0].id.starts_with("call_s0_0_") && found.calls[1].id.starts_with("call_s0_1_"));
    }

    #[test]
    fn an_answer_that_no_tool_printed_is_not_made_up() {
        let found = reply(vec![turn::submit("${answer}")], 0, &request(&["submit"], "nothing"));
        assert_eq!((found.content.as_deref(), found.calls.len()), (Some(NO_ANSWER), 0));
        let found = reply(vec![turn::submit("${answer}")], 0, &request(&[], "nothing"));
        assert_eq!(found.content.as_deref(), Some(NO_ANSWER));
    }

    #[test]
    fn a_request_without_tools_gets_a_final_answer() {
        let found = reply(vec![turn::bash("ls")], 0, &request(&[], "ANSWER: 5"));
        assert_eq!(found.content.as_deref(), Some("FINAL ANSWER: 5"));
        let found =
            reply(vec![turn::bash("ls").without_tools("it is ${answer}")], 0, &request(&[], "ANSWER: 5"));
        assert_eq!(found.content.as_deref(), Some("it is 5"));
        let found = reply(vec![turn::text("hello")], 0, &request(&[], "nothing"));
        assert_eq!(found.content.as_deref(), Some("hello"));
        let found = reply(vec![turn::bash("ls")], 1, &request(&["bash"], ""));
        assert_eq!(found.content.as_deref(), Some(NO_MORE_TURNS));
    }
}
