//! `view_image`: shows the model a picture out of the container.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::{CallToolResult, ContentBlock, JsonObject};
use tokio::sync::Semaphore;

use super::picture::{self, DEFAULT_MAX_SIDE, LARGEST_SIDE, Picture, SMALLEST_SIDE};
use super::slot::Place;
use super::{ToolError, files};
use crate::arguments::Arguments;

/// Above every picture worth showing: an uncompressed scan of 10 million pixels fits.
const MAX_FILE_BYTES: u64 = 32 << 20;

/// Lets one picture be decoded at a time: what each may take then bounds what all take.
#[derive(Debug, Clone)]
pub(super) struct Viewer(Arc<Semaphore>);

impl Default for Viewer {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(1)))
    }
}

/// The arguments, checked.
pub(super) struct View {
    path: String,
    max_side: u32,
}

impl View {
    pub(super) fn new(arguments: JsonObject) -> Result<Self, ToolError> {
        let arguments = Arguments::new(arguments, &["path", "max_side"])?;
        let range = u64::from(SMALLEST_SIDE)..=u64::from(LARGEST_SIDE);
        let max_side = arguments.integer("max_side", range)?;
        Ok(Self {
            path: files::path(&arguments)?,
            max_side: max_side.and_then(|side| u32::try_from(side).ok()).unwrap_or(DEFAULT_MAX_SIDE),
        })
    }

    /// No structured content: hosts that have it show a model nothing else, and the picture would be lost.
    pub(super) async fn run(self, place: &Place, viewer: &Viewer) -> Result<CallToolResult, ToolError> {
        let Self { path, max_side } = self;
        // One byte tells the size, so that no more of a file is fetched than can be used.
        let file_bytes = place.sandbox().read_file(&path, 0, 1).await?.file_bytes;
        if file_bytes > MAX_FILE_BYTES {
            return Err(ToolError::Text(format!(
                "`{path}` has {file_bytes} bytes, and at most {} MiB can be shown; scale it down in bash first",
                MAX_FILE_BYTES >> 20
            )));
        }
        let permit = Arc::clone(&viewer.0).acquire_owned().await;
        let file = place.sandbox().read_file(&path, 0, MAX_FILE_BYTES).await?.bytes;
        let prepared = tokio::task::spawn_blocking(move || {
            // Held until the memory is free again, also when nobody waits for the result any more.
            let _permit = permit;
            picture::prepare(&file, max_side)
        });
        let Picture { bytes, media_type, format, original, shown } = match prepared.await {
            Ok(Ok(picture)) => picture,
            Ok(Err(error)) => return Err(ToolError::Text(format!("`{path}` {error}"))),
            Err(_crash) => {
                return Err(ToolError::Text(format!(
                    "`{path}` crashed the decoder; convert it to PNG in bash first"
                )));
            }
        };
        let scaled = if shown == original { String::new() } else { format!(", shown at {shown}") };
        Ok(CallToolResult::success(vec![
            ContentBlock::image(STANDARD.encode(bytes), media_type),
            ContentBlock::text(format!("[{path}: {format}, {original}{scaled}]")),
        ]))
    }
}
