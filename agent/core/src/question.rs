//! What stands before the first reply: the system prompt and the question with its attachment.

use base64::Engine as _;

use crate::message::{Image, Message, Part};
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
        content.extend(attached_image(attachment, settings).await.map(Part::Image));
    }
    content.insert(0, Part::Text { text: question });
    vec![Message::System { content: settings.system_prompt.clone() }, Message::User { content }]
}

/// The attachment itself when it is a picture and the model takes pictures. One that cannot be read is left to
/// the tools, which find it under its path all the same.
async fn attached_image(attachment: &Attachment, settings: &AgentSettings) -> Option<Image> {
    let extension = attachment.host_path.extension()?.to_str()?.to_ascii_lowercase();
    let media_type = match extension.as_str() {
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        _ => return None,
    };
    if !settings.takes(media_type) {
        return None;
    }
    let bytes = tokio::fs::read(&attachment.host_path).await.ok()?;
    let data = base64::engine::general_purpose::STANDARD.encode(bytes);
    Some(Image { media_type: media_type.to_owned(), data })
}
