//! A model server that plays a script: OpenAI's chat completions and Responses on loopback, strict about what it is sent and,
//! when told so, as badly behaved as real servers are.
//!
//! It keeps no conversation: the place in the script is read from the conversation itself, so a run that was
//! killed and resumed goes on where it stopped. Only the number of attempts at a turn is kept, for faults.

mod check;
mod conversation;
mod dice;
mod fault;
mod ledger;
mod reply;
mod respond;
mod responses;
mod script;
mod server;
mod textual;
mod wire;

pub use fault::{Fault, FaultRate};
pub use ledger::{CapturedRequest, Stats, TaskStats};
pub use script::{Call, Script, ScriptError, TaskScript, Tokens, Turn, turn};
pub use server::{ApiKey, Options, ScriptedModel};
pub use textual::CallForm;
pub use wire::Dialect;
