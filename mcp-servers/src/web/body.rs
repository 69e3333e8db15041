//! Reads a body without ever holding more than is allowed.

use bytes::{Bytes, BytesMut};

/// A body that was too long or broke off.
#[derive(Debug)]
pub(super) enum BodyError {
    TooLong,
    Broken(reqwest::Error),
}

/// The body, decompressed. The limit counts decompressed bytes, so that a bomb is met while it unfolds.
pub(super) async fn read(mut response: reqwest::Response, limit_bytes: u64) -> Result<Bytes, BodyError> {
    if response.content_length().is_some_and(|declared| declared > limit_bytes) {
        return Err(BodyError::TooLong);
    }
    let mut body = BytesMut::new();
    while let Some(chunk) = response.chunk().await.map_err(BodyError::Broken)? {
        if (body.len() + chunk.len()) as u64 > limit_bytes {
            return Err(BodyError::TooLong);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.freeze())
}
