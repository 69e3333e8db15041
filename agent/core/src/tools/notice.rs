use std::sync::Arc;

use crate::event::NoticeLevel;

/// Something that a server did outside of its answers: a line on its stderr, a log message, its death.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// Name of the server in the config.
    pub server: String,
    pub level: NoticeLevel,
    pub text: String,
}

/// Takes the notices of one server or host; called from the tasks that read the server, so it must not block.
pub type NoticeSink = Arc<dyn Fn(Notice) + Send + Sync>;
