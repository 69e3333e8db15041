//! What a page shows only a part of, and what was kept beside the log.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};

use super::address::{Path, Query};
use super::arguments::SampleQuery;
use super::{Fault, View, read};
use crate::trajectory::Trajectory;

/// The whole of one text of a turn.
pub(super) async fn text(
    State(view): State<Arc<View>>,
    Path((run, task_id, epoch, turn, part)): Path<(String, String, u32, u32, String)>,
    Query(query): Query<SampleQuery>,
) -> Response {
    read(view, move |view| {
        let found = view.sample(&run, &task_id, epoch)?;
        let missing = || Fault::NotFound(format!("there is no `{part}` of turn {turn}"));
        let trajectory = Trajectory::read(&found.directory, query.attempt)?.ok_or_else(missing)?;
        let turn = trajectory.turns().find(|found| found.number == turn).ok_or_else(missing)?;
        let call = || {
            let (_, number) = part.split_once('-')?;
            turn.calls.get(number.parse::<usize>().ok()?)
        };
        let text = match part.split('-').next().unwrap_or_default() {
            "content" => turn.reply.as_ref().and_then(|reply| reply.content.clone()),
            "thoughts" => turn.reply.as_ref().and_then(|reply| reply.reasoning.clone()),
            "arguments" => call().map(|call| call.arguments.clone()),
            "result" => call().and_then(|call| Some(call.result.as_ref()?.text())),
            _ => None,
        };
        Ok(as_text(text.ok_or_else(missing)?.into_bytes()))
    })
    .await
}

/// A kept artefact.
pub(super) async fn artefact(
    State(view): State<Arc<View>>,
    Path((run, task_id, epoch, name)): Path<(String, String, u32, String)>,
) -> Response {
    read(view, move |view| {
        let found = view.sample(&run, &task_id, epoch)?;
        let missing = |_| Fault::NotFound(format!("the sample has no file `{name}`"));
        let bytes = found.directory.artefact(&name).map_err(missing)?;
        let media_type = match name.rsplit('.').next().unwrap_or_default() {
            "png" => "image/png",
            "jpg" => "image/jpeg",
            "gif" => "image/gif",
            "webp" => "image/webp",
            "wav" => "audio/wav",
            "mpeg" => "audio/mpeg",
            "pdf" => "application/pdf",
            // Whatever else it says it is: a page or a drawing of others must not act here.
            _ => return Ok(as_text(bytes)),
        };
        Ok(inert(media_type, bytes))
    })
    .await
}

fn as_text(bytes: Vec<u8>) -> Response {
    inert("text/plain; charset=utf-8", bytes)
}

fn inert(media_type: &'static str, bytes: Vec<u8>) -> Response {
    let headers = [
        (header::CONTENT_TYPE, media_type),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; sandbox"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    (headers, bytes).into_response()
}
