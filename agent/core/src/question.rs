//! What stands before the first reply: the system prompt and the question with its attachment.

use crate::media;
use crate::message::{Message, Part};
use crate::settings::AgentSettings;
use crate::task::{Attachment, Task};

pub(crate) async fn first_messages(task: &Task, settings: &AgentSettings) -> Vec<Message> {
    let mut question = task.question.clone();
    let mut content = Vec::new();
    if let Some(attachment) = &task.attachment {
        question.push_str(&format!(
            "\n\nThe file that belongs to this question is at {}",
            attachment.sandbox_path
        ));
        let (note, part) = attached(attachment, settings).await;
        if let Some(note) = note {
            question.push('\n');
            question.push_str(&note);
        }
        content.extend(part);
    }
    content.insert(0, Part::Text { text: question });
    vec![Message::System { content: settings.system_prompt.clone() }, Message::User { content }]
}

/// The attachment itself where the model takes its kind, else a line about it where there is something to say. One
/// that cannot be read is left to the tools, which find it under its path all the same.
async fn attached(attachment: &Attachment, settings: &AgentSettings) -> (Option<String>, Option<Part>) {
    let Ok(bytes) = tokio::fs::read(&attachment.host_path).await else { return (None, None) };
    let name = attachment.sandbox_path.rsplit('/').next().unwrap_or_default().to_owned();
    let settings = settings.clone();
    // Decoding takes up to a second: not on a thread that others wait for.
    let work = move || match media::attach(&name, &bytes, &settings) {
        Ok(Some(part)) => (None, Some(part)),
        Ok(None) => (media::attachment_note(&bytes, None), None),
        Err(why) => (media::attachment_note(&bytes, Some(&why)), None),
    };
    tokio::task::spawn_blocking(work).await.unwrap_or_default()
}
