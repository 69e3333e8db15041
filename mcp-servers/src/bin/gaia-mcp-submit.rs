//! MCP server that takes the final answer of a question.

use std::process::ExitCode;

use clap::Parser;
use gaia_mcp_servers::serve::{self, ServeArgs, Start};
use gaia_mcp_servers::submit::Submit;

/// MCP server with one tool, `submit`, that takes the final answer of a question
#[derive(Debug, Parser)]
#[command(version)]
struct SubmitArgs {
    #[command(flatten)]
    serve: ServeArgs,
}

fn main() -> ExitCode {
    serve::main(|args: &SubmitArgs| &args.serve, |_args| async { Ok(Start::Serve(Submit::default())) })
}
