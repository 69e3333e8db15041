//! Labels on every container of ours.

use std::collections::HashMap;
use std::time::SystemTime;

use crate::options::Labels;
use crate::owner::Owner;

/// `<boot id>:<pid>:<start time>` of the process that made it. Its presence marks a container as ours.
pub(crate) const OWNER: &str = "gaia.owner";
/// Pid namespace the owner's pid is to be read in.
pub(crate) const OWNER_NAMESPACE: &str = "gaia.owner.namespace";
/// Run it belongs to.
pub(crate) const RUN: &str = "gaia.run";
/// Sample it belongs to.
pub(crate) const SAMPLE: &str = "gaia.sample";
/// When it was made, in seconds since 1970.
const CREATED: &str = "gaia.created";
/// Version of this library.
const VERSION: &str = "gaia.version";

pub(crate) fn all(labels: &Labels) -> HashMap<String, String> {
    let owner = Owner::this_process();
    let created = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let mut all = HashMap::from([
        (OWNER.to_owned(), owner.label()),
        (OWNER_NAMESPACE.to_owned(), owner.namespace_label().to_owned()),
        (CREATED.to_owned(), created.to_string()),
        (VERSION.to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
    ]);
    all.extend(labels.run.iter().map(|run| (RUN.to_owned(), run.clone())));
    all.extend(labels.sample.iter().map(|sample| (SAMPLE.to_owned(), sample.clone())));
    all
}
