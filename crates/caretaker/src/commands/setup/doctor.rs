//! `caretaker doctor`: checks whether runs can work on this host, and says what to change.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use admission::command_error::CommandError;
use admission::host::agent_discovery::SIMULATED;
use admission::words::safe_text::{on_lines, on_one_line};
use run_protocol::{ExitCode, RunRequest};
use run_shim::plan_run;
use sandbox_plan::SandboxPlan;
use serde_json::json;

use crate::command_helper::CommandHelper;
use crate::commands::setup::sandbox::hypothetical_spec;
use crate::data_out::{print_json, print_view};
use crate::health::{self, Finding, Status};
use crate::view::styled_line::{BAD, DIM, GOOD, ODD};

/// Check bubblewrap, the agent and its login, directories, disk and clock, and say what to change.
///
/// Changes nothing, except that it cleans up after dead runs. The exit code is 1 if runs cannot work.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The agent's program, or `simulated`. Default: the installed cursor-agent.
    #[arg(long, value_name = "PATH|simulated")]
    agent: Option<PathBuf>,
    /// Also check the project in this directory: will its tools and dependencies be visible inside?
    #[arg(long, short = 'C', value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(helper: &CommandHelper, args: &Args) -> Result<ExitCode, CommandError> {
    let host = &helper.host;
    host.clean_up_after_the_dead();
    let config = helper.config();
    let mut checks = health::examine(host, config, args.agent.as_deref());
    if let Some(workspace) = &args.workspace {
        let workspace = host.environment.absolute(workspace);
        checks.extend(health::project::of(&host.environment, &workspace, plan(helper, &workspace)));
    }
    let is_ok = is_ok(&checks);
    if args.json {
        print_json(&json!({ "v": 1, "ok": is_ok, "checks": checks }))?;
    } else {
        print_view(|out| print(out, &checks))?;
    }
    Ok(if is_ok { ExitCode::Success } else { ExitCode::Failed })
}

/// The sandbox that a run would have there. The agent does not matter, because every agent has the same tools.
fn plan(helper: &CommandHelper, workspace: &Path) -> Result<SandboxPlan, CommandError> {
    let request = RunRequest { agent: Some(SIMULATED.into()), ..RunRequest::default() };
    let spec = hypothetical_spec(helper, Some(workspace.to_owned()), &request)?;
    Ok(plan_run(&helper.host.state, &spec)?)
}

fn is_ok(checks: &[Finding]) -> bool {
    checks.iter().all(|check| check.status != Status::Failure)
}

fn print(out: &mut dyn Write, checks: &[Finding]) -> io::Result<()> {
    for check in checks {
        let (style, mark) = match check.status {
            Status::Ok => (GOOD, "✓"),
            Status::Warning => (ODD, "!"),
            Status::Failure => (BAD, "✗"),
        };
        let summary = on_one_line(&check.summary);
        writeln!(out, "{style}{mark}{style:#} {DIM}{:<10}{DIM:#} {summary}", check.id)?;
        for line in on_lines(check.fix.as_deref().unwrap_or_default()).lines() {
            writeln!(out, "             {line}")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(id: &'static str, status: Status, fix: Option<&str>) -> Finding {
        Finding { id, status, summary: format!("about {id}"), fix: fix.map(ToOwned::to_owned) }
    }

    #[test]
    fn only_a_failure_fails_the_report_and_a_fix_is_printed_below_its_check() {
        let fine =
            [finding("disk", Status::Ok, None), finding("clock", Status::Warning, Some("set it"))];
        assert!(is_ok(&fine));
        let mut out = Vec::new();
        print(&mut out, &fine).unwrap();
        let text = anstream::adapter::strip_str(std::str::from_utf8(&out).unwrap()).to_string();
        assert_eq!(
            text,
            "✓ disk       about disk\n! clock      about clock\n             set it\n"
        );
        assert!(!is_ok(&[finding("sandbox", Status::Failure, None)]));
    }
}
