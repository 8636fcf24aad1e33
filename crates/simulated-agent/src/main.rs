//! The simulated agent as a program of its own.

use std::process::ExitCode;

fn main() -> ExitCode {
    simulated_agent::main()
}
