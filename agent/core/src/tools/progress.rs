use std::sync::Arc;

/// How far a call has come, in the server's own measure.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    pub done: f64,
    pub total: Option<f64>,
    pub message: Option<String>,
}

/// Takes the progress of one call; called from the task that reads the server, so it must not block.
pub type ProgressSink = Arc<dyn Fn(Progress) + Send + Sync>;
