//! `caretaker doctor`: whether this host can do what runs need, and what to change where it cannot.

use std::io::{self, Write};
use std::path::PathBuf;

use admission::command_error::CommandError;
use admission::words::safe_text::{on_lines, on_one_line};
use run_protocol::ExitCode;
use serde::Serialize;

use crate::command_helper::CommandHelper;
use crate::data_out::{print_json, print_view};
use crate::health::{self, Finding, Status};
use crate::view::styled_line::{BAD, DIM, GOOD, ODD};

/// Check bubblewrap, the agent and its login, directories, disk and clock; say what to change.
///
/// Nothing is changed, but for what dead runs left behind. The exit code is 1 where a run could not work.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The agent's program, or `simulated`. Default: the cursor-agent that is installed.
    #[arg(long, value_name = "PATH|simulated")]
    agent: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    v: u32,
    ok: bool,
    checks: Vec<Finding>,
}

pub(crate) fn run(helper: &CommandHelper, args: &Args) -> Result<ExitCode, CommandError> {
    let host = &helper.host;
    host.clean_up_after_the_dead();
    let config = helper.config();
    let report = report(health::examine(host, config, args.agent.as_deref()));
    if args.json {
        print_json(&report)?;
    } else {
        print_view(|out| print(out, &report))?;
    }
    Ok(if report.ok { ExitCode::Success } else { ExitCode::Failed })
}

fn report(checks: Vec<Finding>) -> Report {
    Report { v: 1, ok: checks.iter().all(|check| check.status != Status::Failure), checks }
}

fn print(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    for check in &report.checks {
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
    fn only_a_failure_makes_the_report_bad_and_a_fix_stands_below() {
        let fine = report(vec![
            finding("disk", Status::Ok, None),
            finding("clock", Status::Warning, Some("set it")),
        ]);
        assert!(fine.ok);
        let mut out = Vec::new();
        print(&mut out, &fine).unwrap();
        let text = anstream::adapter::strip_str(std::str::from_utf8(&out).unwrap()).to_string();
        assert_eq!(
            text,
            "✓ disk       about disk\n! clock      about clock\n             set it\n"
        );
        assert!(!report(vec![finding("sandbox", Status::Failure, None)]).ok);
    }
}
