//! One client on stdio that calls for many, each with a state of its own: an extension of the protocol that a server
//! announces and a client may use or not.
//!
//! A host that works on many samples at the same time would else need a process of each server for each of them. The
//! other end of this is `tools::many` of gaia-agent.

use serde_json::Value;

use crate::toolset::{Address, Variables};

/// Among the experimental capabilities of a server that keeps states apart.
pub(crate) const CAPABILITY: &str = "gaia-host/many";

/// In the `_meta` of a call: the state that it works on, as an object with `id` and `variables`.
pub(crate) const KEY: &str = "gaia-host/state";

/// Requests with such an object as their parameters: calls will come, no more calls will come.
pub(crate) const BEGIN: &str = "gaia-host/state/begin";
/// See [`BEGIN`].
pub(crate) const END: &str = "gaia-host/state/end";

/// Variable of a server whose client will name a state in every call: nothing need be ready for calls without one.
pub(crate) const VARIABLE: &str = "GAIA_MANY";

/// A state as a client names it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Named {
    pub(crate) address: Address,
    pub(crate) variables: Variables,
}

impl Named {
    pub(crate) fn read(value: &Value) -> Option<Self> {
        let address = Address::parse(value.get("id")?.as_str()?)?;
        let variables = value.get("variables").and_then(Value::as_object).into_iter().flatten();
        let variables =
            variables.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect();
        Some(Self { address, variables })
    }
}
