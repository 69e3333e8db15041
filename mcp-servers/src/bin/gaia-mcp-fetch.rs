//! MCP server that fetches pages and documents of the web.

use std::process::ExitCode;

use gaia_mcp_servers::fetch::{self, FetchArgs, allocator, worker};
use gaia_mcp_servers::serve;

fn main() -> ExitCode {
    // A document is read by a child of this program.
    if let Some(code) = worker::run_if_asked(std::env::args()) {
        return code;
    }
    allocator::set_up();
    serve::main(|args: &FetchArgs| &args.serve, fetch::start)
}
