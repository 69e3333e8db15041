use super::*;

fn text(text: impl Into<String>) -> Vec<Part> {
    vec![Part::Text { text: text.into() }]
}

fn call(id: &str) -> ToolCall {
    ToolCall { id: id.to_owned(), name: "look".to_owned(), arguments: "{}".to_owned() }
}

/// A question and so many turns with 10,000 bytes of output each.
fn conversation(turns: u32) -> Conversation {
    let question = Message::User { content: text("q".repeat(5_000)) };
    let mut conversation = Conversation::new(vec![question], "recall");
    for turn in 0..turns {
        let id = format!("c{turn}");
        conversation.push_reply(Some(format!("thought {turn}")), None, None, vec![call(&id)]);
        conversation.push_result(id, text("é".repeat(5_000)), (turn > 0).then_some(turn));
    }
    conversation
}

fn result_bytes(conversation: &Conversation) -> Vec<usize> {
    let sizes = conversation.messages().iter().filter_map(|message| match message {
        Message::Tool { content, .. } => Some(bytes(content)),
        _ => None,
    });
    sizes.collect()
}

#[test]
fn old_output_is_shortened_first_and_the_last_turns_only_under_pressure() {
    let mut conversation = conversation(3);
    let question = conversation.messages()[0].clone();
    let first = conversation.compact(Pressure::OldResults { whole_turns: 2 }).unwrap();
    let sizes = result_bytes(&conversation);
    assert!(sizes[0] < 600 && sizes[1..] == [10_000, 10_000], "{sizes:?}");
    assert_eq!(
        first,
        Compaction { call_ids: vec!["c0".to_owned()], dropped_bytes: 10_000 - sizes[0] as u64 }
    );
    assert_eq!(conversation.compact(Pressure::OldResults { whole_turns: 2 }), None);
    assert_eq!(conversation.compact(Pressure::AllResults).unwrap().call_ids, ["c1", "c2"]);
    assert_eq!(conversation.messages()[0], question);
    assert_eq!(conversation.compact(Pressure::AllResults), None);
    conversation.push_user("answer now".to_owned());
    assert_eq!(conversation.compact(Pressure::AllButQuestion).unwrap().call_ids.len(), 3);
    assert_eq!(conversation.messages().len(), 1);
    let Message::User { content } = &conversation.messages()[0] else { panic!("the question is gone") };
    assert_eq!(content.last(), text("answer now").last());
}

#[test]
fn a_shortened_output_says_how_to_read_the_whole() {
    let mut conversation = conversation(3);
    conversation.compact(Pressure::AllResults).unwrap();
    let shown: Vec<String> = conversation
        .messages()
        .iter()
        .filter_map(|message| match message {
            Message::Tool { content, .. } => Some(joined(content)),
            _ => None,
        })
        .collect();
    assert!(shown[0].contains("run the call again"), "{}", shown[0]);
    assert!(shown[2].contains("call `recall` with call 2"), "{}", shown[2]);
}

#[test]
fn a_summary_takes_the_place_of_old_turns_and_of_the_summary_before() {
    let mut conversation = conversation(4);
    let old = conversation.old_turns(1).unwrap();
    assert!(old.transcript.contains("you: thought 2") && !old.transcript.contains("thought 3"));
    assert!(old.transcript.contains("output (call 2): éé"), "{}", old.transcript);
    let done = conversation.replace(&old, "first summary".to_owned());
    assert_eq!(done.call_ids, ["c0", "c1", "c2"]);
    assert!(done.dropped_bytes > 29_000);
    assert!(
        matches!(&conversation.messages()[1], Message::Assistant { tool_calls, .. } if tool_calls[0].id == "c3")
    );
    assert!(conversation.old_turns(1).is_none(), "only the last turn is left");
    conversation.push_reply(Some("thought 4".to_owned()), None, None, vec![call("c4")]);
    conversation.push_result("c4".to_owned(), text("x"), None);
    let old = conversation.old_turns(1).unwrap();
    assert!(old.transcript.starts_with("first summary\nyou: thought 3"), "{}", old.transcript);
    conversation.replace(&old, "second summary".to_owned());
    let Message::User { content } = &conversation.messages()[0] else { panic!("the question is gone") };
    assert_eq!(content.len(), 2);
    assert_eq!(content[1], text("second summary")[0]);
}

#[test]
fn a_picture_is_not_counted_by_its_bytes() {
    let picture = crate::message::Image { media_type: "image/png".to_owned(), data: "A".repeat(1_000_000) };
    let conversation =
        Conversation::new(vec![Message::User { content: vec![Part::Image(picture)] }], "recall");
    assert!(conversation.text_bytes() < 10_000);
}
