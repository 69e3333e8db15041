//! The tool host against real processes and real HTTP.
//!
//! This binary is the test run and, with `mcp-server` as its first argument, the server that the tests talk to: only
//! a process can die, be silent or leave children behind.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, clippy::print_stderr)]

mod calls;
mod eras;
mod hostile;
mod http;
mod lifecycle;
mod login;
mod map;
mod peer;
mod resources;
mod secrets;
mod sse;
mod start;
mod support;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.split_first() {
        Some((first, rest)) if first == "mcp-server" => peer::serve(rest),
        Some((first, _)) if first == "measure-gigabyte" => {
            support::block_on(hostile::measure_gigabyte);
            ExitCode::SUCCESS
        }
        Some((first, _)) if first == "measure-starts" => {
            support::block_on(lifecycle::measure_starts);
            ExitCode::SUCCESS
        }
        _ => {
            let trials = [
                start::trials(),
                eras::trials(),
                calls::trials(),
                resources::trials(),
                secrets::trials(),
                lifecycle::trials(),
                hostile::trials(),
                http::trials(),
                sse::trials(),
                login::trials(),
                map::trials(),
            ];
            libtest_mimic::run(&Arguments::from_args(), trials.into_iter().flatten().collect::<Vec<Trial>>())
                .exit_code()
        }
    }
}
