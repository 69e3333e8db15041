//! `gaia view`: the runs of a folder as pages of a local web server. It reads and never writes; a run that is being
//! worked on is read like any other.

mod address;
mod arguments;
mod file;
mod filter;
mod guard;
mod index;
mod page;
mod run;
mod runs;
mod sample;
mod search;
mod text;
mod turn;
mod waterfall;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use maud::html;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::serving::serve_until;
use crate::store::{RunDirectory, RunRecord, SampleDirectory, SampleKey, StoreError};
pub use guard::{Visitors, VisitorsError};
use index::Index;
use page::{Liveness, Page, home};

/// A folder of runs, and what was read of it so far.
#[derive(Debug)]
pub struct View {
    runs: PathBuf,
    index: Arc<Index>,
}

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
enum Fault {
    /// The address names nothing.
    #[error("{0}")]
    NotFound(String),
    /// A value in the address is not one.
    #[error("{0}")]
    NotUnderstood(String),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Io(#[from] io::Error),
}

type Answer = Result<Response, Fault>;

impl View {
    pub fn new(runs: PathBuf) -> Self {
        Self { runs, index: Arc::default() }
    }

    /// Serves until `stop` is cancelled.
    pub async fn serve(
        self,
        listener: TcpListener,
        visitors: Visitors,
        stop: &CancellationToken,
    ) -> io::Result<()> {
        let router = Router::new()
            .route("/", get(runs::show))
            .route("/search", get(search::show_all))
            .route("/run/{run}", get(run::show))
            .route("/run/{run}/search", get(search::show))
            .route("/run/{run}/{task}/{epoch}", get(sample::show))
            .route("/run/{run}/{task}/{epoch}/text/{turn}/{part}", get(file::text))
            .route("/run/{run}/{task}/{epoch}/file/{name}", get(file::artefact))
            .fallback(nothing_here)
            .with_state(Arc::new(self))
            .layer(axum::middleware::from_fn_with_state(Arc::new(visitors), guard::admit));
        serve_until(listener, router, stop).await
    }

    fn run(&self, id: &str) -> Result<(RunDirectory, RunRecord), Fault> {
        // Ids come out of addresses: none may lead out of the folder.
        let is_name = !id.is_empty() && !id.starts_with('.') && !id.contains(['/', '\\', '\0']);
        let path = self.runs.join(id);
        if !is_name || !path.is_dir() {
            return Err(Fault::NotFound(format!("there is no run `{id}` in `{}`", self.runs.display())));
        }
        let run = RunDirectory::open(&path);
        let record = run.record()?;
        Ok((run, record))
    }

    fn sample(&self, run: &str, task_id: &str, epoch: u32) -> Result<Found, Fault> {
        let (run, record) = self.run(run)?;
        let key = SampleKey { task_id: task_id.to_owned(), epoch };
        let Some(place) = record.dataset.samples.iter().position(|planned| planned.task_id == task_id) else {
            return Err(Fault::NotFound(format!("run `{}` has no sample `{task_id}`", record.id)));
        };
        if !(1..=record.epochs).contains(&epoch) {
            return Err(Fault::NotFound(format!("run `{}` has no epoch {epoch}", record.id)));
        }
        let directory = run.sample(&key);
        Ok(Found { run, record, key, place, directory })
    }
}

/// A sample that an address names.
struct Found {
    run: RunDirectory,
    record: RunRecord,
    key: SampleKey,
    /// Among those that were asked for.
    place: usize,
    directory: SampleDirectory,
}

/// Does the reading away from the threads that answer.
async fn read(view: Arc<View>, make: impl FnOnce(&View) -> Answer + Send + 'static) -> Response {
    let answer = tokio::task::spawn_blocking(move || make(&view)).await;
    match answer {
        Ok(Ok(response)) => response,
        Ok(Err(fault)) => fault.into_response(),
        Err(error) => {
            tracing::error!("a page was not made: {error}");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

async fn nothing_here(State(_): State<Arc<View>>) -> Response {
    Fault::NotFound("there is no such page".to_owned()).into_response()
}

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        let (status, title) = match &self {
            Self::NotFound(_) => (StatusCode::NOT_FOUND, "Not found"),
            Self::NotUnderstood(_) => (StatusCode::BAD_REQUEST, "Not understood"),
            Self::Store(_) | Self::Io(_) => (StatusCode::INTERNAL_SERVER_ERROR, "Could not be read"),
        };
        let body = html! {
            h1 { (title) }
            p { (crate::page::shown(&self.to_string(), 2_000)) }
        };
        let page =
            Page { title: "gaia view", crumbs: vec![home()], search: None, liveness: Liveness::Still, body };
        (status, page.into_response()).into_response()
    }
}
