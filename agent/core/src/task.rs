use std::path::PathBuf;

/// One question for the agent. It never holds the truth.
#[derive(Debug, Clone)]
pub struct Task {
    /// Identity in events and in `GAIA_SAMPLE_ID`; for GAIA the task id.
    pub id: String,
    pub question: String,
    pub attachment: Option<Attachment>,
    /// Counts from 1; above that an infrastructure failure ended the attempts before.
    pub attempt: u32,
}

/// The one file that belongs to a question.
#[derive(Debug, Clone)]
pub struct Attachment {
    /// Where the agent's tools find it, such as `/shared_files/plots.xlsx`.
    pub sandbox_path: String,
    /// Where it lies on this machine; read only to put an image into the first message.
    pub host_path: PathBuf,
}
