//! `caretaker man`: prints manual pages.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use admission::command_error::{CommandError, OrFail};
use clap::CommandFactory;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use run_protocol::ExitCode;

use crate::cli::Cli;
use crate::data_out::print_text;

/// Print the manual page, or write the pages of all commands into a directory.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  caretaker man | man -l -
  caretaker man ~/.local/share/man/man1")]
pub(crate) struct Args {
    /// The directory; created if it is missing.
    directory: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, CommandError> {
    let what = || "cannot write the manual pages";
    match &args.directory {
        Some(directory) => write_all(directory).map(|()| ExitCode::Success).or_fail(what),
        None => print_text(&String::from_utf8_lossy(&main_page().or_fail(what)?)),
    }
}

fn write_all(directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    clap_mangen::generate_to(Cli::command(), directory)?;
    fs::write(directory.join("caretaker.1"), main_page()?)
}

/// The page of `caretaker` itself, with the facts that all commands share.
fn main_page() -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    Man::new(Cli::command()).render(&mut page)?;
    let codes = ExitCode::ALL.map(|code| ((code as u8).to_string(), meaning(code)));
    let codes: Vec<(&str, &str)> =
        codes.iter().map(|(code, meaning)| (code.as_str(), *meaning)).collect();
    let mut roff = Roff::new();
    for (title, entries) in
        [("EXIT STATUS", codes.as_slice()), ("ENVIRONMENT", ENVIRONMENT), ("FILES", FILES)]
    {
        roff.control("SH", [title]);
        for (term, meaning) in entries {
            roff.control("TP", None);
            roff.text([bold(*term)]).text([roman(*meaning)]);
        }
    }
    page.extend(roff.to_roff().into_bytes());
    Ok(page)
}

fn meaning(code: ExitCode) -> &'static str {
    match code {
        ExitCode::Success => "success; also a run that was detached",
        ExitCode::Failed => "the agent failed or reported an error, or the command failed",
        ExitCode::Usage => "wrong usage",
        ExitCode::NotFound => "not found: run, session, file, workspace",
        ExitCode::Conflict => {
            "conflict: session or workspace in use, name taken, undo or apply conflicts"
        }
        ExitCode::Unknown => "outcome unknown: no result, or the run was lost",
        ExitCode::NotResumable => "the session cannot be resumed; nothing was started",
        ExitCode::Amnesia => "amnesia: the agent did not remember its session",
        ExitCode::DaemonUnavailable => {
            "the daemon is not running, does not answer, or speaks a different protocol"
        }
        ExitCode::StillRunning => "wait --timeout elapsed; the run continues",
        ExitCode::AuthenticationMissing => "not logged in",
        ExitCode::TimedOut => "a time limit of the run was exceeded, or the agent repeated itself",
        ExitCode::SupervisorFailed => "the sandbox or the supervisor failed",
        ExitCode::AgentNotExecutable => "the agent's program cannot be executed",
        ExitCode::AgentNotFound => "the agent's program does not exist",
        ExitCode::Cancelled => "stopped or suspended on request, or interrupted by a signal",
        ExitCode::QuotaExceeded => "a limit of the run was exceeded, or a budget is spent",
    }
}

const ENVIRONMENT: &[(&str, &str)] = &[
    ("CARETAKER_HOME", "the state directory"),
    ("CARETAKER_CONFIG", "the configuration file"),
    ("CURSOR_API_KEY", "the agent's login, instead of your login file"),
    ("CURSOR_CONFIG_DIR, CURSOR_DATA_DIR", "where your own cursor-agent keeps its files"),
    ("HTTPS_PROXY", "the proxy for all hosts that runs may reach"),
    ("NO_COLOR", "no colours, unless --color always"),
    ("RUST_LOG", "how much the daemon and the supervisors log"),
];

const FILES: &[(&str, &str)] = &[
    ("~/.config/caretaker/config.toml", "your settings; caretaker config prints all of them"),
    ("~/.config/caretaker/profiles/*.toml", "your sandbox profiles"),
    (
        "~/.local/state/caretaker/runs/RUN/",
        "one run: spec.json, prompt, events.jsonl (the journal), logs",
    ),
    ("~/.local/state/caretaker/sessions/UUID/", "Caretaker's record of one session"),
    ("~/.local/state/caretaker/checkpoints/", "saved workspaces, for undo"),
    ("~/.local/state/caretaker/worktrees/", "worktrees of runs"),
    ("~/.local/state/caretaker/backups/", "originals of repaired sessions; yours to delete"),
    ("$XDG_RUNTIME_DIR/caretaker/", "sockets"),
];
