//! What a request says about the conversation so far.

use serde_json::Value;

/// Marks the ids of calls that count as a step of the script; [`BROKEN_CALL`] those that have to be made again.
pub(crate) const GOOD_CALL: &str = "call_s";
pub(crate) const BROKEN_CALL: &str = "call_x";

const ANSWER_LINE: &str = "ANSWER: ";
const ATTACHMENTS: &str = "/shared_files/";

/// Text of the first user message: the question.
pub(crate) fn question(request: &Value) -> String {
    messages(request).find(|message| message["role"] == "user").map(text).unwrap_or_default()
}

/// Path of the attachment as the question names it: the first path below the folder, not the folder itself.
pub(crate) fn file(question: &str) -> Option<String> {
    question.match_indices(ATTACHMENTS).find_map(|(start, _)| {
        let path = &question[start..];
        let end = path.find(|c: char| c.is_whitespace() || "'\"`<>()".contains(c)).unwrap_or(path.len());
        let path = path[..end].trim_end_matches(['.', ',', ';', ':', '!', '?']);
        (path.len() > ATTACHMENTS.len()).then(|| path.to_owned())
    })
}

/// What follows the last line `ANSWER: ` in the tool outputs.
pub(crate) fn answer(request: &Value) -> Option<String> {
    let outputs = messages(request).filter(|message| message["role"] == "tool").map(text);
    let mut answers = outputs.flat_map(|output| {
        let lines = output.lines().filter_map(|line| line.strip_prefix(ANSWER_LINE));
        lines.map(|answer| answer.trim().to_owned()).collect::<Vec<_>>()
    });
    answers.by_ref().filter(|answer| !answer.is_empty()).last()
}

/// All tool outputs, one after the other.
pub(crate) fn outputs(request: &Value) -> String {
    let outputs = messages(request).filter(|message| message["role"] == "tool").map(text);
    outputs.collect::<Vec<_>>().join("\n")
}

/// Turns of the script that were said: read from our own call ids, and counted where there are none, so that a
/// conversation whose middle was summarised still has its place.
pub(crate) fn step(request: &Value) -> usize {
    let mut step = 0;
    for message in messages(request).filter(|message| message["role"] == "assistant") {
        let ids =
            message["tool_calls"].as_array().into_iter().flatten().filter_map(|call| call["id"].as_str());
        let first = ids.into_iter().next().unwrap_or_default();
        step = match (number_after(first, GOOD_CALL), number_after(first, BROKEN_CALL)) {
            (Some(said), _) => said + 1,
            (None, Some(broken)) => broken,
            (None, None) => step + 1,
        };
    }
    step
}

fn number_after(id: &str, prefix: &str) -> Option<usize> {
    id.strip_prefix(prefix)?.split('_').next()?.parse().ok()
}

fn messages(request: &Value) -> impl Iterator<Item = &Value> {
    request["messages"].as_array().into_iter().flatten()
}

fn text(message: &Value) -> String {
    match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts: Vec<_> = parts.iter().filter_map(|part| part["text"].as_str()).collect();
            texts.join("\n")
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_file_is_found_in_prose() {
        for (question, expected) in [
            ("See /shared_files/a-1.xlsx.", Some("/shared_files/a-1.xlsx")),
            ("(file: `/shared_files/b.tar.gz`)", Some("/shared_files/b.tar.gz")),
            ("in /shared_files/: /shared_files/c.pdb", Some("/shared_files/c.pdb")),
            ("the folder /shared_files/ is empty", None),
            ("no file", None),
        ] {
            assert_eq!(file(question).as_deref(), expected, "{question}");
        }
    }

    #[test]
    fn the_last_answer_line_of_a_tool_counts() {
        let request = json!({"messages": [
            {"role": "user", "content": "ANSWER: no"},
            {"role": "tool", "content": "ANSWER: 1\nFINAL ANSWER: 9\n"},
            {"role": "tool", "content": [{"type": "text", "text": "x\nANSWER:  two words \nANSWER: \n"}]},
        ]});
        assert_eq!(answer(&request).as_deref(), Some("two words"));
        assert_eq!(answer(&json!({"messages": [{"role": "tool", "content": " ANSWER: 1"}]})), None);
    }

    #[test]
    fn the_step_survives_a_dropped_middle_and_broken_calls() {
        let called = |id: &str| json!({"role": "assistant", "tool_calls": [{"id": id}]});
        let said = json!({"role": "assistant", "content": "hm"});
        for (messages, expected) in [
            (vec![], 0),
            (vec![said.clone(), said.clone()], 2),
            (vec![called("call_s0_a"), said.clone()], 2),
            (vec![called("call_s4_0_a")], 5),
            (vec![called("call_s0_a"), called("call_x1_a")], 1),
            (vec![called("foreign"), said], 2),
        ] {
            assert_eq!(step(&json!({ "messages": messages })), expected, "{messages:?}");
        }
    }
}
