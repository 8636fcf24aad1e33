//! What this program is when it is not a command: the supervisor of a run, the relay inside a sandbox, the stand-in for
//! the agent. They are started by ourselves, not by people, and come before the command line is parsed.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use admission::host::agent_discovery::SIMULATED_ENTRY;
use simulated_agent::children::Reentry;

/// Where the relay finds its socket; set in the generated `mcp.json`.
const SOCKET_VARIABLE: &str = "CARETAKER_SOCKET";

/// Becomes what the arguments name, if they name an entry point.
pub(crate) fn enter(arguments: &[OsString]) -> Option<ExitCode> {
    let (first, rest) = arguments.split_first()?;
    match (first.to_str()?, rest) {
        ("shim", [run_dir]) => Some(run_shim::shim_main(Path::new(run_dir))),
        ("gate", [_, ..]) => Some(run_shim::gate_main(rest)),
        ("keeper", [_, _, ..]) => Some(run_shim::keeper_main(rest)),
        ("launch-guard", [_]) => Some(run_shim::launch_guard_main(rest)),
        ("enter-sandbox", []) => Some(run_shim::enter_sandbox_main()),
        (run_shim::RELAY_ENTRY, []) => Some(relay()),
        (SIMULATED_ENTRY, _) => Some(simulated(rest.to_vec())),
        _ => None,
    }
}

#[expect(clippy::disallowed_methods, reason = "the agent hands its servers nothing but variables")]
fn relay() -> ExitCode {
    let Some(socket) = std::env::var_os(SOCKET_VARIABLE) else {
        return complain(&format!("`{SOCKET_VARIABLE}` does not name a socket"));
    };
    match run_shim::mcp_relay::relay(Path::new(&socket)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => complain(&error.to_string()),
    }
}

fn simulated(arguments: Vec<OsString>) -> ExitCode {
    let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("caretaker"));
    let reentry = Reentry { program, leading_arguments: vec![SIMULATED_ENTRY.into()] };
    simulated_agent::main_with(reentry, arguments)
}

fn complain(what: &str) -> ExitCode {
    writeln!(anstream::stderr(), "caretaker mcp-relay: {what}").ok();
    ExitCode::FAILURE
}
