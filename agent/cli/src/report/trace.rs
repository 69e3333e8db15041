use std::fmt::Write;

use crate::store::{RunDirectory, SampleKey, StoreError};
use crate::trajectory::{Call, Trajectory, Turn};

/// Characters of one trace. 301 of them stay well below the size of a file that is known to be taken.
const TRACE_CHARACTERS: usize = 12_000;

/// Characters of what the model thought or said in one turn.
const WORDS_CHARACTERS: usize = 1_000;

/// Characters of the arguments of a call, and of its result.
const CALL_CHARACTERS: usize = 400;

/// How an answer came about, for people: what the model thought and said, and its calls, turn by turn, as text. `None` when
/// nothing was recorded. It is made of the event log, in which no truth ever is.
pub(super) fn trace(run: &RunDirectory, key: &SampleKey) -> Result<Option<String>, StoreError> {
    let trajectory = Trajectory::read(&run.sample(key), None)?;
    Ok(trajectory.map(|trajectory| text(trajectory.turns())).filter(|text| !text.is_empty()))
}

fn text<'a>(turns: impl DoubleEndedIterator<Item = &'a Turn>) -> String {
    let turns: Vec<String> = turns.map(turn_text).filter(|turn| !turn.is_empty()).collect();
    // The last turn is the one that answers: it stays.
    let Some((last, turns)) = turns.split_last() else { return String::new() };
    let mut text = String::new();
    let mut characters = last.chars().count();
    for (index, turn) in turns.iter().enumerate() {
        characters += turn.chars().count();
        if characters > TRACE_CHARACTERS {
            writeln!(text, "[{} more turns]", turns.len() - index).ok();
            break;
        }
        text.push_str(turn);
    }
    text.push_str(last);
    text.truncate(text.trim_end().len());
    text
}

fn turn_text(turn: &Turn) -> String {
    let mut text = String::new();
    let reply = turn.reply.as_ref();
    let words = [
        ("thought", reply.and_then(|reply| reply.reasoning.as_deref())),
        ("said", reply.and_then(|reply| reply.content.as_deref())),
    ];
    for (how, words) in words {
        if let Some(words) = words.map(str::trim).filter(|words| !words.is_empty()) {
            writeln!(text, "{how}: {}", cut(words, WORDS_CHARACTERS)).ok();
        }
    }
    for call in &turn.calls {
        call_text(&mut text, call);
    }
    if text.is_empty() {
        return text;
    }
    let branch = turn.branch.as_deref().map(|branch| format!(" ({branch})")).unwrap_or_default();
    format!("Turn {}{branch}\n{text}", turn.number)
}

fn call_text(text: &mut String, call: &Call) {
    writeln!(text, "called {} {}", call.tool, cut(&call.arguments, CALL_CHARACTERS)).ok();
    let Some(result) = &call.result else { return };
    let how = if result.is_error { "error" } else { "result" };
    let words = result.text();
    match words.trim() {
        "" => writeln!(text, "{how}: no text").ok(),
        words => writeln!(text, "{how}: {}", cut(words, CALL_CHARACTERS)).ok(),
    };
}

fn cut(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use gaia_agent::Part;

    use super::*;
    use crate::trajectory::{CallResult, Reply};

    fn turn(number: u32, reasoning: &str, call: Option<(&str, &str)>) -> Turn {
        let reply = Reply {
            time: None,
            content: None,
            reasoning: Some(reasoning.to_owned()),
            finish_reason: "tool_calls".to_owned(),
            usage: Default::default(),
            cost_usd: None,
            duration_ms: 1,
            queued_ms: 0,
        };
        let calls = call.map(|(arguments, result)| Call {
            id: "1".to_owned(),
            tool: "bash/bash".to_owned(),
            arguments: arguments.to_owned(),
            started: None,
            result: Some(CallResult {
                time: None,
                content: vec![Part::Text { text: result.to_owned() }],
                structured: None,
                is_error: false,
                whole: None,
                duration_ms: 1,
            }),
        });
        Turn { number, reply: Some(reply), calls: calls.into_iter().collect(), ..Turn::default() }
    }

    #[test]
    fn thoughts_and_calls_are_told_turn_by_turn() {
        let turns = [turn(1, "Look.", Some(("{\"command\":\"ls\"}", "a.txt\n"))), turn(2, "It is 42.", None)];
        let expected = "Turn 1\nthought: Look.\ncalled bash/bash {\"command\":\"ls\"}\nresult: a.txt\nTurn 2\nthought: It is 42.";
        assert_eq!(text(turns.iter()), expected);
        assert_eq!(text([].iter()), "");
    }

    #[test]
    fn a_long_one_keeps_its_beginning_and_its_end() {
        let long = "ä".repeat(100_000);
        let turns: Vec<Turn> = (1..=50).map(|number| turn(number, &long, Some((&long, &long)))).collect();
        let text = text(turns.iter());
        assert!(text.chars().count() < TRACE_CHARACTERS + 100, "{}", text.chars().count());
        assert!(text.starts_with("Turn 1\n") && text.contains("more turns]\nTurn 50\n"), "{text}");
    }
}
