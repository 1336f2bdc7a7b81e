//! The `aqueduct` program. Everything is in the library, so that tests can call it.

use std::process::ExitCode;

fn main() -> ExitCode {
    aqueduct_gateway::run(std::env::args_os())
}
