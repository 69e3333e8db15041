//! MCP server that runs shell commands in a Docker container.

use std::process::ExitCode;

use gaia_mcp_servers::bash::{self, BashArgs};
use gaia_mcp_servers::serve;

fn main() -> ExitCode {
    serve::main(|args: &BashArgs| &args.serve, bash::start)
}
