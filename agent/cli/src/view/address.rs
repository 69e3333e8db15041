use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use super::Fault;

/// The parts of an address, as axum reads them; where one is not what it should be, a page says so.
pub(super) struct Path<T>(pub(super) T);

/// What follows the question mark of an address, in the same way.
pub(super) struct Query<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Fault> {
        let read = axum::extract::Path::<T>::from_request_parts(parts, state).await;
        read.map(|axum::extract::Path(read)| Self(read)).map_err(|_| {
            Fault::NotFound(format!(
                "`{}` names nothing: the epoch of a sample, and the number of a turn, are whole numbers from 1",
                parts.uri.path()
            ))
        })
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Fault> {
        let read = axum::extract::Query::<T>::from_request_parts(parts, state).await;
        read.map(|axum::extract::Query(read)| Self(read)).map_err(|_| {
            Fault::NotUnderstood(format!(
                "`?{}` is not understood: attempts, turns and pages are whole numbers, such as `?turn=3`",
                parts.uri.query().unwrap_or_default()
            ))
        })
    }
}
