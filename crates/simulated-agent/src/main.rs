//! The simulated agent as a separate program.

use std::process::ExitCode;

fn main() -> ExitCode {
    simulated_agent::main()
}
