//! The forms in which models are trained to write their calls. A server is to turn them into the API's own, and some
//! do not: no parser was set, the wrong one, or the model strayed from what it looks for.

use serde_json::{Deserializer, Value};

use super::Written;
use super::block::{self, functions_in, is_fence, of_value, parameters, without_fence};

/// Name of the form, the text before the calls, and the calls.
pub(super) type Rescued = (&'static str, String, Vec<Written>);

struct Form {
    name: &'static str,
    /// What the calls begin with, at the start of a line.
    marks: &'static [&'static str],
    read: fn(&str) -> Option<Vec<Written>>,
}

/// By the chat templates that the models are published with.
const FORMS: [Form; 7] = [
    Form { name: "Llama", marks: &["<|python_tag|>", "<function="], read: llama },
    Form { name: "Mistral", marks: &["[TOOL_CALLS]"], read: mistral },
    Form {
        name: "DeepSeek", marks: &["<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>"], read: deepseek
    },
    Form { name: "Kimi", marks: &["<|tool_calls_section_begin|>", "<|tool_call_begin|>"], read: kimi },
    Form { name: "MiniMax", marks: &["<minimax:tool_call>"], read: invokes },
    Form { name: "DeepSeek 3.2", marks: &["<｜DSML｜function_calls>"], read: invokes },
    Form { name: "gpt-oss", marks: &["<|channel|>commentary to=functions."], read: harmony },
];

/// The calls in a text, when it is in one of the known forms from some line to its end.
pub(super) fn find(content: &str) -> Option<Rescued> {
    let content = without_fence(content);
    let hermes = block::find(content);
    if !hermes.calls.is_empty() {
        return Some(("Hermes and Qwen", hermes.prose, hermes.calls));
    }
    let mut in_fence = false;
    let mut at = 0;
    for line in content.split_inclusive('\n') {
        let start = line.trim_start();
        if is_fence(start) {
            in_fence = !in_fence;
        }
        let form = FORMS.iter().find(|form| form.marks.iter().any(|mark| start.starts_with(mark)));
        if let Some(form) = form.filter(|_| !in_fence) {
            let calls = (form.read)(content[at..].trim()).filter(|calls| !calls.is_empty())?;
            return Some((form.name, content[..at].trim().to_owned(), calls));
        }
        at += line.len();
    }
    None
}

/// The first JSON value of a text.
fn first_json(text: &str) -> Option<Value> {
    Deserializer::from_str(text).into_iter().next()?.ok()
}

/// `<|python_tag|>{"name": …, "parameters": {…}}`, several with `;` between them; or `<function=name>{…}</function>`.
fn llama(text: &str) -> Option<Vec<Written>> {
    if text.starts_with("<function=") {
        return Some(functions_in(text));
    }
    let mut calls = Vec::new();
    let mut rest = text.strip_prefix("<|python_tag|>")?;
    loop {
        rest = rest.trim_start_matches([';', ' ', '\n']).trim_start_matches("<|python_tag|>");
        if rest.is_empty() || rest.starts_with("<|e") {
            return Some(calls);
        }
        let mut values = Deserializer::from_str(rest).into_iter::<Value>();
        // Code for an interpreter that nobody offered is no call.
        let value = values.next()?.ok()?;
        calls.push(of_value(&value));
        rest = &rest[values.byte_offset()..];
    }
}

/// `[TOOL_CALLS][{…}]`, and since its eleventh tokenizer `[TOOL_CALLS]name[ARGS]{…}`.
fn mistral(text: &str) -> Option<Vec<Written>> {
    let mut calls = Vec::new();
    for piece in text.split("[TOOL_CALLS]").skip(1) {
        let piece = piece.trim();
        if piece.starts_with('[') {
            calls.extend(first_json(piece)?.as_array()?.iter().map(of_value));
        } else if piece.starts_with('{') {
            calls.push(of_value(&first_json(piece)?));
        } else {
            let (name, arguments) = piece.split_at(piece.find('{')?);
            let name = name.split("[ARGS]").next()?.split("[CALL_ID]").next()?;
            calls.push(Written {
                name: name.trim().to_owned(),
                arguments: first_json(arguments)?.to_string(),
            });
        }
    }
    Some(calls)
}

/// `function<｜tool▁sep｜>name` and fenced JSON; since 3.1 `name<｜tool▁sep｜>{…}`.
fn deepseek(text: &str) -> Option<Vec<Written>> {
    let pieces = text.split("<｜tool▁call▁begin｜>").skip(1);
    let call = |piece: &str| {
        let piece = piece.split("<｜tool▁call▁end｜>").next()?;
        let (kind, rest) = piece.split_once("<｜tool▁sep｜>")?;
        let (head, _) = rest.split_at(rest.find('{')?);
        let name = head.trim().trim_end_matches("```json").trim_end_matches("```").trim();
        let name = if name.is_empty() { kind.trim() } else { name };
        Some(Written { name: name.to_owned(), arguments: first_json(&rest[head.len()..])?.to_string() })
    };
    pieces.map(call).collect()
}

/// `functions.name:0<|tool_call_argument_begin|>{…}`.
fn kimi(text: &str) -> Option<Vec<Written>> {
    let pieces = text.split("<|tool_call_begin|>").skip(1);
    let call = |piece: &str| {
        let (id, arguments) = piece.split_once("<|tool_call_argument_begin|>")?;
        let name = id.trim().trim_start_matches("functions.").split(':').next()?;
        Some(Written { name: name.to_owned(), arguments: first_json(arguments)?.to_string() })
    };
    pieces.map(call).collect()
}

/// `<invoke name="name"><parameter name="key">value</parameter></invoke>`.
fn invokes(text: &str) -> Option<Vec<Written>> {
    let text = text.replace("｜DSML｜", "");
    let quoted = |head: &str| {
        let rest = head.split_once("name=\"").map_or(head, |(_, rest)| rest);
        rest.split('"').next().unwrap_or_default().to_owned()
    };
    let pieces = text.split("<invoke ").skip(1);
    let call = |piece: &str| {
        let (head, inside) = piece.split_once('>')?;
        let inside = inside.split("</invoke>").next()?;
        Some(Written {
            name: quoted(head),
            arguments: parameters(inside, "<parameter ", "</parameter>", quoted),
        })
    };
    pieces.map(call).collect()
}

/// `<|channel|>commentary to=functions.name <|constrain|>json<|message|>{…}<|call|>`.
fn harmony(text: &str) -> Option<Vec<Written>> {
    let pieces = text.split("<|channel|>commentary to=functions.").skip(1);
    let call = |piece: &str| {
        let (head, body) = piece.split_once("<|message|>")?;
        let name = head.split(|character: char| character.is_whitespace() || character == '<').next()?;
        Some(Written { name: name.to_owned(), arguments: first_json(body)?.to_string() })
    };
    pieces.map(call).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_of_every_family_is_read() {
        for (form, text) in [
            (
                "Hermes and Qwen",
                "I look.\n<tool_call>\n{\"name\": \"bash\", \"arguments\": {\"command\": \"ls\"}}\n</tool_call>",
            ),
            (
                "Hermes and Qwen",
                "I look.\n<tool_call>\n<function=bash>\n<parameter=command>\nls\n</parameter>\n</function>\n</tool_call>",
            ),
            (
                "Llama",
                "I look.\n<|python_tag|>{\"name\": \"bash\", \"parameters\": {\"command\": \"ls\"}}<|eom_id|>",
            ),
            ("Llama", "I look.\n<function=bash>{\"command\": \"ls\"}</function>"),
            ("Mistral", "I look.\n[TOOL_CALLS][{\"name\": \"bash\", \"arguments\": {\"command\": \"ls\"}}]"),
            ("Mistral", "I look.\n[TOOL_CALLS]bash[ARGS]{\"command\": \"ls\"}"),
            ("Mistral", "I look.\n[TOOL_CALLS]bash{\"command\": \"ls\"}"),
            (
                "DeepSeek",
                "I look.\n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>bash\n```json\n{\"command\": \"ls\"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
            ),
            (
                "DeepSeek",
                "I look.\n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>bash<｜tool▁sep｜>{\"command\": \"ls\"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
            ),
            (
                "Kimi",
                "I look.\n<|tool_calls_section_begin|><|tool_call_begin|>functions.bash:0<|tool_call_argument_begin|>{\"command\": \"ls\"}<|tool_call_end|><|tool_calls_section_end|>",
            ),
            (
                "MiniMax",
                "I look.\n<minimax:tool_call>\n<invoke name=\"bash\">\n<parameter name=\"command\">ls</parameter>\n</invoke>\n</minimax:tool_call>",
            ),
            (
                "DeepSeek 3.2",
                "I look.\n<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"bash\">\n<｜DSML｜parameter name=\"command\" string=\"true\">ls</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
            ),
            (
                "gpt-oss",
                "I look.\n<|channel|>commentary to=functions.bash <|constrain|>json<|message|>{\"command\": \"ls\"}<|call|>",
            ),
        ] {
            let expected = Written { name: "bash".to_owned(), arguments: "{\"command\":\"ls\"}".to_owned() };
            let mut found = find(text).unwrap_or_else(|| panic!("not found: {text}"));
            // Arguments that are JSON already stay as they were written.
            for call in &mut found.2 {
                call.arguments = serde_json::from_str::<Value>(&call.arguments).unwrap().to_string();
            }
            assert_eq!(found, (form, "I look.".to_owned(), vec![expected]), "{text}");
        }
    }

    #[test]
    fn several_calls_are_several() {
        for text in [
            "<|python_tag|>{\"name\": \"a\", \"parameters\": {}}; {\"name\": \"b\", \"parameters\": {}}",
            "[TOOL_CALLS]a[ARGS]{}[TOOL_CALLS]b[ARGS]{}",
            "[TOOL_CALLS][{\"name\": \"a\", \"arguments\": {}}, {\"name\": \"b\", \"arguments\": {}}]",
            "<｜tool▁call▁begin｜>a<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁call▁begin｜>b<｜tool▁sep｜>{}<｜tool▁call▁end｜>",
            "<|tool_call_begin|>functions.a:0<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_call_begin|>functions.b:1<|tool_call_argument_begin|>{}<|tool_call_end|>",
        ] {
            let (_, _, calls) = find(text).unwrap_or_else(|| panic!("not found: {text}"));
            let names: Vec<&str> = calls.iter().map(|call| call.name.as_str()).collect();
            assert_eq!(names, ["a", "b"], "{text}");
        }
    }

    #[test]
    fn what_is_talked_about_or_cut_off_is_left_alone() {
        for text in [
            "Mistral writes [TOOL_CALLS]a[ARGS]{} for a call.",
            "```\n[TOOL_CALLS]a[ARGS]{}\n```\nis how Mistral calls.",
            "<|python_tag|>print(1)",
            "[TOOL_CALLS]a[ARGS]{\"x\":",
            "[TOOL_CALLS]",
            "<|tool_call_begin|>functions.a:0<|tool_call_argument_begin|>",
            "plain text",
            "",
        ] {
            assert_eq!(find(text), None, "{text}");
        }
    }
}
