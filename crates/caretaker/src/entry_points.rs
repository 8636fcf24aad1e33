//! The other processes that this program can become: a run's shim, the relay inside a sandbox, the simulated agent.
//! Caretaker starts them, not the user, so it handles them before it parses the command line.

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use admission::host::agent_discovery::SIMULATED_ENTRY;

/// Names the relay's socket. The generated `mcp.json` sets it.
const SOCKET_VARIABLE: &str = "CARETAKER_SOCKET";

/// Runs the entry point that the arguments name, if they name one.
pub(crate) fn enter(arguments: &[OsString]) -> Option<ExitCode> {
    let (first, rest) = arguments.split_first()?;
    match (first.to_str()?, rest) {
        ("shim", [run_dir]) => Some(run_shim::shim_main(Path::new(run_dir))),
        ("gate", [_, ..]) => Some(run_shim::gate_main(rest)),
        (run_shim::BIND_ENTRY, [init, path]) => {
            Some(run_shim::bind_main(init.to_str()?, Path::new(path)))
        }
        ("keeper", [_, _, ..]) => Some(run_shim::keeper_main(rest)),
        (run_shim::RELAY_ENTRY, []) => Some(relay()),
        (SIMULATED_ENTRY, _) => Some(simulated(rest.to_vec())),
        _ => None,
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the agent passes settings to its servers only in variables"
)]
fn relay() -> ExitCode {
    let Some(socket) = std::env::var_os(SOCKET_VARIABLE) else {
        return complain(&format!("`{SOCKET_VARIABLE}` is not set"));
    };
    match run_shim::mcp_relay::relay(Path::new(&socket)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => complain(&error.to_string()),
    }
}

#[cfg(feature = "simulated-agent")]
fn simulated(arguments: Vec<OsString>) -> ExitCode {
    let program = std::env::current_exe().unwrap_or_else(|_| std::path::PathBuf::from("caretaker"));
    let leading_arguments = vec![SIMULATED_ENTRY.into()];
    let reentry = simulated_agent::process::helpers::Reentry { program, leading_arguments };
    simulated_agent::main_with(reentry, arguments)
}

#[cfg(not(feature = "simulated-agent"))]
fn simulated(_: Vec<OsString>) -> ExitCode {
    writeln!(anstream::stderr(), "caretaker: this build has no simulated agent").ok();
    ExitCode::FAILURE
}

fn complain(what: &str) -> ExitCode {
    writeln!(anstream::stderr(), "caretaker mcp-relay: {what}").ok();
    ExitCode::FAILURE
}
