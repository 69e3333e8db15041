//! Runs of older formats, read as if they were of today's. Their files are not touched: a session that works on one writes
//! `run.json` in today's format, and what older files lack stays absent.

use serde_json::Value;

use super::RUN_FORMAT_VERSION;

/// What each version lacks that the next one has:
///
/// 1. No list of the tools as they were offered, no fingerprints of requests and no failures of models: such a run cannot
///    be replayed. No fingerprint of the prompt: a resume takes today's for the same. No endpoint and images of a session,
///    no way in which answers came about (it was always one run of the loop), no list of the rows that were not asked. Kept
///    text is not compressed; the name of each artefact says so.
///
/// All of that is absent rather than different, so the fields of [`RunRecord`](super::RunRecord), of its parts and of the
/// events have defaults, and the version is all that is put right here.
pub(super) fn of_today(found: u64, mut record: Value) -> Value {
    if found < u64::from(RUN_FORMAT_VERSION)
        && let Some(version) = record.get_mut("format_version")
    {
        *version = RUN_FORMAT_VERSION.into();
    }
    record
}
