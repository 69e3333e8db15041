//! One process of a server for many tasks, each with a state of its own: an extension of the protocol that servers may
//! announce. A process for each task is what every other server gets.

use std::collections::BTreeMap;

use rmcp::model::{ClientRequest, CustomRequest, ServerCapabilities};
use serde_json::{Map, Value, json};

/// Among the experimental capabilities of a server that keeps states apart.
const CAPABILITY: &str = "gaia-host/many";

/// In the `_meta` of a call: the state that it works on.
const KEY: &str = "gaia-host/state";

const BEGIN: &str = "gaia-host/state/begin";
const END: &str = "gaia-host/state/end";

/// What goes with every call must be small; a longer variable (a question) is nothing that such a server asks for.
const VARIABLE_BYTES: usize = 4 * 1024;

/// The state of one task in a server that keeps many.
#[derive(Debug, Clone)]
pub(super) struct State(Value);

impl State {
    /// With what a process of the task's own would have found in its environment. Nobody else can guess its name.
    pub(super) fn new(environment: &BTreeMap<String, String>) -> Self {
        let variables: BTreeMap<_, _> =
            environment.iter().filter(|(_, value)| value.len() <= VARIABLE_BYTES).collect();
        Self(json!({ "id": format!("{:032x}", rand::random::<u128>()), "variables": variables }))
    }

    /// To be put into a call.
    pub(super) fn meta(&self) -> Map<String, Value> {
        Map::from_iter([(KEY.to_owned(), self.0.clone())])
    }

    /// Says that calls will come, so that what they need can be made ready.
    pub(super) fn begin(&self) -> ClientRequest {
        self.request(BEGIN)
    }

    /// Says that none will come any more; answered when nothing of it is left.
    pub(super) fn end(&self) -> ClientRequest {
        self.request(END)
    }

    fn request(&self, method: &str) -> ClientRequest {
        ClientRequest::CustomRequest(CustomRequest::new(method, Some(self.0.clone())))
    }
}

pub(super) fn is_announced(capabilities: &ServerCapabilities) -> bool {
    capabilities.experimental.as_ref().is_some_and(|experimental| experimental.contains_key(CAPABILITY))
}
