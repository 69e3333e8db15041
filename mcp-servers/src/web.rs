//! What the fetch and the search server share: a guarded way to the network, the block-list and the log of requests.

pub mod block_list;
pub mod body;
pub mod cache;
mod cache_room;
pub mod client;
pub mod contamination;
pub mod error;
pub mod guard;
pub mod integrity;
pub mod polite;
pub mod record;
pub mod retry;
pub mod robots;
