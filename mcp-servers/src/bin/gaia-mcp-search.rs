//! MCP server that searches the web.

use std::process::ExitCode;

use gaia_mcp_servers::search::{self, SearchArgs};
use gaia_mcp_servers::serve;

fn main() -> ExitCode {
    serve::main(|args: &SearchArgs| &args.serve, search::start)
}
