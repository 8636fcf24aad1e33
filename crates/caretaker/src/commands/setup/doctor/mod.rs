//! `caretaker doctor`: checks whether runs can work on this host, and says what to change.

mod scratch;
mod trial;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use admission::command_error::CommandError;
use admission::host::Host;
use admission::host::agent_discovery::SIMULATED;
use admission::sandbox::bubblewrap::Bubblewrap;
use admission::words::safe_text::{on_lines, on_one_line};
use admission::words::talk::say;
use run_protocol::{AgentKind, AgentProgram, ExitCode, RunRequest};
use run_shim::plan_run;
use sandbox_plan::SandboxPlan;
use serde_json::json;

use crate::command_helper::CommandHelper;
use crate::commands::setup::sandbox::hypothetical_spec;
use crate::data_out::{print_json, print_view};
use crate::export::output_file::{Existing, WriteFileError, write_whole};
use crate::health::trial::report::{Programs, Report};
use crate::health::{self, Finding, Status};
use crate::view::styled_line::{BAD, DIM, GOOD, ODD};

/// Check bubblewrap, the agent and its login, directories, disk and clock, and say what to change.
///
/// Changes nothing, except that it cleans up after dead runs. The exit code is 1 if runs cannot work.
///
/// With `--trial` it then gives the agent two short prompts, in the sandbox, and checks one by one what Caretaker relies
/// on. The exit code is 0 only if every check succeeds.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  caretaker doctor
  caretaker doctor -C ~/src/app                   also look at a project
  caretaker doctor --trial                        two short prompts for the installed agent
  caretaker doctor --trial --agent simulated      shows what a trial is, and costs nothing
  caretaker doctor --trial --report trial.json    also writes a file that you can post")]
pub(crate) struct Args {
    /// The agent's program, or `simulated`. Default: the installed cursor-agent.
    #[arg(long, value_name = "PATH|simulated")]
    agent: Option<PathBuf>,
    /// Also check the project in this directory: will its tools and dependencies be visible inside?
    #[arg(long, short = 'C', value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// Try the agent: two runs with a short prompt each, in a scratch repository. Everything is removed at the end.
    #[arg(long)]
    trial: bool,
    /// Start the trial without asking.
    #[arg(long, requires = "trial")]
    yes: bool,
    /// Write the checks' marks and five versions to this new file, and nothing else: you can post it.
    #[arg(long, value_name = "FILE", requires = "trial")]
    report: Option<PathBuf>,
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
    if args.trial {
        return try_agent(helper, args, &checks, is_ok);
    }
    if args.json {
        print_json(&json!({ "v": 1, "ok": is_ok, "checks": checks }))?;
    } else {
        print_view(|out| print(out, &checks))?;
    }
    Ok(if is_ok { ExitCode::Success } else { ExitCode::Failed })
}

/// Holds a trial, if the other checks found nothing that would make its runs fail.
fn try_agent(
    helper: &CommandHelper,
    args: &Args,
    checks: &[Finding],
    is_ok: bool,
) -> Result<ExitCode, CommandError> {
    if let Some(report) = &args.report {
        must_be_new(report)?;
    }
    if !args.json {
        print_view(|out| print(out, checks))?;
    }
    if !is_ok {
        if args.json {
            print_json(&json!({ "v": 1, "ok": false, "checks": checks, "trial": null }))?;
        }
        let what = "the trial did not start, because its runs would fail";
        return Err(CommandError::new(ExitCode::Failed, what).hint("first mend what is marked ✗"));
    }
    let trial::Held { agent, findings } = trial::hold(helper, args.agent.as_deref(), args.yes)?;
    let is_ok = findings.iter().all(|check| check.status == Status::Ok);
    if args.json {
        let trial = json!({ "agent": agent.kind, "version": agent.version, "checks": findings });
        print_json(&json!({ "v": 1, "ok": is_ok, "checks": checks, "trial": trial }))?;
    } else {
        print_view(|out| {
            writeln!(out, "\ntrial with {}", name(&agent))?;
            print(out, &findings)
        })?;
    }
    match &args.report {
        Some(path) => write_report(&helper.host, path, &agent, &findings)?,
        None if is_ok => {}
        None => {
            say("to report this without anything private: caretaker doctor --trial --report FILE")
        }
    }
    Ok(if is_ok { ExitCode::Success } else { ExitCode::Failed })
}

fn name(agent: &AgentProgram) -> String {
    let version = on_one_line(agent.version.as_deref().unwrap_or("(unknown version)"));
    match agent.kind {
        AgentKind::Cursor => format!("cursor-agent {version}"),
        AgentKind::Simulated => format!("the simulated agent {version}"),
    }
}

/// Refuses a report that could not be written after the trial.
fn must_be_new(report: &Path) -> Result<(), CommandError> {
    if report.symlink_metadata().is_ok() {
        return Err(not_written(report, WriteFileError::Exists));
    }
    let directory = report.parent().filter(|directory| !directory.as_os_str().is_empty());
    match directory.is_none_or(Path::is_dir) {
        true => Ok(()),
        false => Err(not_written(report, WriteFileError::Write(io::ErrorKind::NotFound.into()))),
    }
}

fn not_written(report: &Path, error: WriteFileError) -> CommandError {
    let what = format!("cannot write the report to `{}`", report.display());
    CommandError::new(ExitCode::Usage, what)
        .because(error)
        .hint("name a new file in a directory that exists")
}

fn write_report(
    host: &Host,
    path: &Path,
    agent: &AgentProgram,
    findings: &[Finding],
) -> Result<(), CommandError> {
    let bubblewrap = Bubblewrap::find(&host.environment, None).and_then(|found| found.version());
    let bubblewrap = bubblewrap.ok().flatten().map(|version| version.to_string());
    let report = Report::new(&Programs::of_host(agent, bubblewrap), findings);
    write_whole(path, Existing::Keep, |out| {
        serde_json::to_writer_pretty(&mut *out, &report)?;
        writeln!(out)
    })
    .map_err(|error| not_written(path, error))
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
        let style = match check.status {
            Status::Ok => GOOD,
            Status::Warning => ODD,
            Status::Failure => BAD,
            Status::NotReached => DIM,
        };
        let mark = check.status.mark();
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
