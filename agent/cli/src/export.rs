//! A run for other programs: tables, one JSON document, a log of Inspect, traces. Only the last is allowed to hold the
//! truth whose format has a place for it, which is Inspect's.

mod csv;
mod inspect;
mod json;
mod otel;
mod parquet;
mod table;

use std::io;

pub use csv::write_csv;
pub use inspect::write_inspect;
pub use json::write_json;
pub use otel::write_otel;
pub use parquet::write_parquet;
pub use table::Table;

use crate::store::StoreError;

/// Said wherever questions or answers leave the run.
pub const SHARING_NOTE: &str = "this file holds the questions as they are; whoever took part in GAIA agreed not to \
make them public in a form that a crawler reads";

/// What a caller can do about it decides the variant.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// No sample was begun, so there is nothing that the format could hold.
    #[error("run `{0}` has nothing to export: no sample was begun")]
    Empty(String),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("failed to write the export: {0}")]
    Write(#[source] io::Error),
}

impl From<io::Error> for ExportError {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

impl From<::parquet::errors::ParquetError> for ExportError {
    fn from(error: ::parquet::errors::ParquetError) -> Self {
        Self::Write(io::Error::other(error))
    }
}

impl From<zip::result::ZipError> for ExportError {
    fn from(error: zip::result::ZipError) -> Self {
        Self::Write(error.into())
    }
}

impl From<serde_json::Error> for ExportError {
    fn from(error: serde_json::Error) -> Self {
        Self::Write(error.into())
    }
}
