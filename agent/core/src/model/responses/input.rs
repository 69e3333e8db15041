//! A conversation as the Responses API wants it.

use serde_json::{Value, json};

use crate::message::{Message, Part, ToolCall};
use crate::model::wire::{data_url, origin, sound_part, valid_arguments, valid_name};

/// The key of `Message::Assistant::carried` as this API makes and reads it: all items of one output, in order.
pub(super) const CARRIED_OUTPUT: &str = "output";

/// The instructions, and the items of the input.
pub(super) fn of(messages: &[Message]) -> (Option<&str>, Vec<Value>) {
    let mut instructions = None;
    let mut items = Vec::with_capacity(messages.len());
    // A picture belongs to the output of its call, yet only some servers take it there: it follows the last of them.
    let mut media: Vec<(&str, &Part)> = Vec::new();
    for message in messages {
        if !matches!(message, Message::Tool { .. }) {
            flush_media(&mut items, &mut media);
        }
        match message {
            Message::System { content } if instructions.is_none() => instructions = Some(content.as_str()),
            Message::System { content } => items.push(user(vec![text(content)])),
            Message::User { content } => items.push(user(content.iter().map(part).collect())),
            Message::Assistant { content, carried, tool_calls, .. } => {
                match carried.as_ref().and_then(|carried| carried[CARRIED_OUTPUT].as_array()) {
                    Some(output) => items.extend(as_it_came(output, tool_calls)),
                    None => {
                        if let Some(content) = content.as_deref().filter(|content| !content.is_empty()) {
                            items.push(json!({"type": "message", "role": "assistant",
                                "content": [{"type": "output_text", "text": content, "annotations": []}]}));
                        }
                        items.extend(tool_calls.iter().map(call_item));
                    }
                }
            }
            Message::Tool { call_id, content } => {
                let mut texts = Vec::new();
                for part in content {
                    match part {
                        Part::Text { text } => texts.push(text.as_str()),
                        other => media.push((call_id, other)),
                    }
                }
                items.push(
                    json!({"type": "function_call_output", "call_id": call_id, "output": texts.join("\n")}),
                );
            }
        }
    }
    flush_media(&mut items, &mut media);
    (instructions, items)
}

/// The items of an earlier output. Calls are those that were answered: their ids and arguments may have been put right.
fn as_it_came(output: &[Value], tool_calls: &[ToolCall]) -> Vec<Value> {
    let mut calls = tool_calls.iter();
    let mut items: Vec<Value> = Vec::with_capacity(output.len());
    let mut dropped_thoughts = false;
    for item in output {
        match item["type"].as_str() {
            Some("function_call") => {
                let Some(call) = calls.next() else { continue };
                let mut item = item.clone();
                item["call_id"] = json!(call.id);
                item["name"] = json!(valid_name(&call.name));
                item["arguments"] = json!(valid_arguments(&call.arguments));
                items.push(item);
            }
            // Only a name in a store that nothing was put into: the provider would look there in vain.
            Some("reasoning") if is_hollow(item) => dropped_thoughts = true,
            _ => items.push(item.clone()),
        }
    }
    if dropped_thoughts {
        // By their ids these items are looked up with the thought before them, which is not there.
        for item in items.iter_mut().filter_map(Value::as_object_mut) {
            item.shift_remove("id");
        }
    }
    items
}

fn is_hollow(reasoning: &Value) -> bool {
    let encrypted = reasoning["encrypted_content"].as_str().is_some_and(|text| !text.is_empty());
    let open = reasoning["content"].as_array().is_some_and(|parts| !parts.is_empty());
    !encrypted && !open
}

fn call_item(call: &ToolCall) -> Value {
    json!({"type": "function_call", "call_id": call.id, "name": valid_name(&call.name),
        "arguments": valid_arguments(&call.arguments)})
}

fn flush_media(items: &mut Vec<Value>, media: &mut Vec<(&str, &Part)>) {
    if media.is_empty() {
        return;
    }
    let shown = media.drain(..).flat_map(|(call_id, it)| [text(&origin(call_id, it)), part(it)]);
    let content = shown.collect();
    items.push(user(content));
}

fn user(content: Vec<Value>) -> Value {
    json!({"type": "message", "role": "user", "content": content})
}

fn text(text: &str) -> Value {
    json!({"type": "input_text", "text": text})
}

fn part(part: &Part) -> Value {
    match part {
        Part::Text { text: words } => text(words),
        Part::Image(image) => {
            json!({"type": "input_image", "image_url": data_url(&image.media_type, &image.data)})
        }
        Part::Sound(sound) => sound_part(sound),
        Part::Document(document) => {
            let data = data_url(&document.media_type, &document.data);
            json!({"type": "input_file", "filename": document.name, "file_data": data})
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Image;

    fn turn(output: Value, calls: &[(&str, &str)]) -> Vec<Value> {
        let tool_calls = calls.iter().map(|(id, arguments)| ToolCall {
            id: (*id).to_owned(),
            name: "look".to_owned(),
            arguments: (*arguments).to_owned(),
        });
        let message = Message::Assistant {
            content: Some("hm".to_owned()),
            reasoning: None,
            carried: (!output.is_null()).then(|| json!({ "output": output })),
            tool_calls: tool_calls.collect(),
        };
        of(&[message]).1
    }

    #[test]
    fn an_output_goes_back_as_it_came_with_its_calls_put_right() {
        let thought = json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"});
        let call = |id: &str, arguments: &str| {
            json!({"type": "function_call", "id": "fc_1", "call_id": id, "name": "look", "arguments": arguments,
                   "status": "completed"})
        };
        let said = json!({"type": "message", "id": "msg_1", "role": "assistant", "content": []});
        let output = json!([thought, said, call("a", "{"), thought, call("a", "{}")]);
        let items = turn(output, &[("a", "{"), ("a_2", "{}")]);
        assert_eq!(items[..2], [thought.clone(), said]);
        assert_eq!(items[2], call("a", r#"{"invalid_arguments":"{"}"#));
        assert_eq!(items[3..], [thought, call("a_2", "{}")]);
    }

    #[test]
    fn a_thought_that_was_not_given_away_is_left_out_and_nobody_refers_to_it() {
        let output = json!([
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": null},
            {"type": "function_call", "id": "fc_1", "call_id": "a", "name": "look", "arguments": "{}"},
        ]);
        assert_eq!(
            turn(output, &[("a", "{}")]),
            [json!({"type": "function_call", "call_id": "a", "name": "look", "arguments": "{}"})]
        );
        // gpt-oss, as vLLM and llama.cpp serve it, thinks in the open.
        let open = json!([{"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "t"}]}]);
        assert_eq!(json!(turn(open.clone(), &[])), open);
    }

    #[test]
    fn a_turn_of_another_api_is_told_in_this_ones_words() {
        let items = turn(Value::Null, &[("a", "{}")]);
        assert_eq!(items[0]["content"][0]["text"], "hm");
        assert_eq!((&items[1]["type"], &items[1]["call_id"]), (&json!("function_call"), &json!("a")));
    }

    #[test]
    fn a_picture_of_a_tool_follows_the_outputs() {
        let picture = Part::Image(Image { media_type: "image/png".to_owned(), data: "AAAA".to_owned() });
        let output = |id: &str, content: Vec<Part>| Message::Tool { call_id: id.to_owned(), content };
        let text = |text: &str| Part::Text { text: text.to_owned() };
        let messages = [output("a", vec![text("one"), picture]), output("b", vec![text("two")])];
        let (_, items) = of(&messages);
        assert_eq!(items[0], json!({"type": "function_call_output", "call_id": "a", "output": "one"}));
        assert_eq!(items[1]["output"], "two");
        assert_eq!(items[2]["content"][1]["image_url"], "data:image/png;base64,AAAA");
    }
}
