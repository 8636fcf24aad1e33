//! `caretaker daemon`: starts, stops and shows the process that runs the queue and the API.

mod logs;
mod serving;

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use admission::budgets;
use admission::budgets::budget::judge;
use admission::command_error::CommandError;
use admission::host::Host;
use admission::words::talk::{note, say};
use admission::words::units;
use caretaker_daemon::{DaemonNote, PROTOCOL, Presence, ServeError, Stopped, stop, token_path};
use clap::Subcommand;
use ground::now_ms;
use run_protocol::ExitCode;
use serde::Serialize;

use self::logs::{LogsArgs, logs};
use self::serving::{ServeArgs, StartReport, serve_here};
use crate::command_helper::CommandHelper;
use crate::commands::group::budget_lines;
use crate::daemon_client::{DaemonClient, daemon_presence, other_protocol};
use crate::data_out::{print_json, print_text};

/// How long a daemon may take to end.
const ENDING: Duration = Duration::from_secs(10);
/// If the log is longer than this, the next daemon renames it and begins a new one.
const LONGEST_LOG: u64 = 8 * 1024 * 1024;
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Manage the daemon, which runs the queue and the API.
///
/// Runs do not depend on the daemon: you can stop, replace or kill it at any time.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  caretaker daemon start
  caretaker daemon status --json | jq -r .socket
  caretaker daemon start --listen 127.0.0.1:7777      HTTP on loopback too, with a token
  caretaker daemon restart                            after an upgrade; runs continue, --listen is kept")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Start the daemon, unless it is running, and return when it answers.
    Start(StartArgs),
    /// Stop the daemon. Live runs continue, and queued runs wait for the next daemon.
    Stop(AsJson),
    /// Show whether the daemon is running, since when, and where it listens.
    Status(AsJson),
    /// Stop the daemon and start it again with this program. It keeps its address, unless you give `--listen`.
    Restart(StartArgs),
    /// Print the daemon's log.
    Logs(LogsArgs),
    /// Run as the daemon. The other commands start this.
    #[command(hide = true)]
    Serve(ServeArgs),
}

#[derive(Debug, Clone, clap::Args)]
struct StartArgs {
    /// Stay in the foreground, and log to stderr.
    #[arg(long)]
    foreground: bool,
    /// Listen on this loopback address too. Clients need the token in `daemon.token`.
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct AsJson {
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

impl StartArgs {
    /// Uses the earlier daemon's address if the user gives none, because the address is not in the configuration.
    fn or_as(&self, before: Option<&DaemonNote>) -> Self {
        let listened = before.and_then(|note| note.listen.as_ref()?.parse().ok());
        Self { listen: self.listen.or(listened), ..self.clone() }
    }
}

/// The output of `status`, `start` and `stop` with `--json`.
#[derive(Debug, Serialize)]
struct Status {
    v: u32,
    running: bool,
    /// True if this command started or stopped the daemon.
    #[serde(skip_serializing_if = "Option::is_none")]
    changed: Option<bool>,
    #[serde(flatten)]
    note: Option<DaemonNote>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_file: Option<PathBuf>,
    log: PathBuf,
}

pub(crate) fn run(helper: &CommandHelper, args: &Args) -> Result<ExitCode, CommandError> {
    let host = &helper.host;
    match &args.action {
        Action::Start(args) => start(helper, args),
        Action::Stop(args) => {
            let stopped = stop_running(host)?;
            if args.json {
                print_json(&Status { changed: Some(stopped), ..Status::of(host, None) })?;
            } else {
                say(if stopped { "daemon stopped; runs continue" } else { "daemon not running" });
            }
            Ok(ExitCode::Success)
        }
        Action::Status(args) => status(helper, args.json),
        Action::Restart(args) => {
            refuse_older(host)?;
            refuse_unusable(helper, args)?;
            let args = args.or_as(running(host)?.as_ref());
            stop_running(host)?;
            start(helper, &args)
        }
        Action::Logs(args) => logs(host, args),
        Action::Serve(args) => serve_here(helper, args),
    }
}

impl Status {
    fn of(host: &Host, note: Option<DaemonNote>) -> Self {
        let listens = note.as_ref().is_some_and(|note| note.listen.is_some());
        Self {
            v: 1,
            running: note.is_some(),
            changed: None,
            token_file: listens.then(|| token_path(&host.state)),
            log: log_path(host),
            note,
        }
    }
}

fn log_path(host: &Host) -> PathBuf {
    host.state.path().join("daemon.log")
}

/// Returns the note of the running daemon. Waits for the note if a daemon holds the lock but has not written it yet.
fn running(host: &Host) -> Result<Option<DaemonNote>, CommandError> {
    let deadline = Instant::now() + ENDING;
    loop {
        match daemon_presence(host)? {
            Presence::None => return Ok(None),
            // The note of an earlier daemon stays until the current daemon writes its own.
            Presence::Held(Some(note)) if note.is_alive() => return Ok(Some(note)),
            Presence::Held(_) if Instant::now() < deadline => std::thread::sleep(LOOK_AGAIN),
            Presence::Held(_) => {
                let what = "another process holds the daemon's lock, but wrote no note";
                return Err(CommandError::new(ExitCode::DaemonUnavailable, what));
            }
        }
    }
}

/// Refuses to replace a newer daemon with an older program.
fn refuse_older(host: &Host) -> Result<(), CommandError> {
    match running(host)? {
        Some(note) if note.protocol > PROTOCOL => Err(other_protocol(note.protocol, &note.version)),
        _ => Ok(()),
    }
}

/// Fails if the new daemon could not start with these settings. Call it before the running daemon stops.
fn refuse_unusable(helper: &CommandHelper, args: &StartArgs) -> Result<(), CommandError> {
    helper.config()?;
    match args.listen.filter(|address| !address.ip().is_loopback()) {
        Some(address) => Err(not_started().because(ServeError::NotLoopback(address))),
        None => Ok(()),
    }
}

fn not_started() -> CommandError {
    CommandError::new(ExitCode::DaemonUnavailable, "the daemon did not start")
}

fn stop_running(host: &Host) -> Result<bool, CommandError> {
    let Some(note) = running(host)? else { return Ok(false) };
    let cannot = || {
        let what = format!("cannot stop the daemon (pid {})", note.pid);
        CommandError::new(ExitCode::Failed, what)
    };
    match stop(&note, ENDING).map_err(|error| cannot().because(error))? {
        Stopped::Gone => Ok(true),
        Stopped::StillThere => Err(cannot().hint("kill it: runs do not depend on it")),
    }
}

fn start(helper: &CommandHelper, args: &StartArgs) -> Result<ExitCode, CommandError> {
    let host = &helper.host;
    let mut changed = false;
    refuse_older(host)?;
    if let Some(note) = running(host)? {
        // A daemon that does not answer may be about to end.
        if note.protocol == PROTOCOL && DaemonClient::find(host)?.is_some_and(|it| it.answers()) {
            return started(host, args, note, changed);
        }
    }
    refuse_unusable(helper, args)?;
    let mut args = args.clone();
    if let Some(note) = running(host)?.filter(|note| note.protocol != PROTOCOL) {
        say(&format!("replacing the daemon from caretaker {}", note.version));
        args = args.or_as(Some(&note));
        stop_running(host)?;
    }
    let args = &args;
    if args.foreground {
        return serve_here(helper, &ServeArgs { listen: args.listen, ..ServeArgs::default() });
    }
    loop {
        match spawn(helper, args)? {
            StartReport::Ready { note } => {
                changed = true;
                return started(host, args, note, changed);
            }
            StartReport::AlreadyThere => {
                if let Some(note) = running(host)? {
                    return started(host, args, note, changed);
                }
            }
            StartReport::Failed { error } => {
                return Err(not_started()
                    .because(error)
                    .hint(format!("see its log: {}", log_path(host).display())));
            }
        }
    }
}

fn started(
    host: &Host,
    args: &StartArgs,
    note: DaemonNote,
    changed: bool,
) -> Result<ExitCode, CommandError> {
    if let Some(asked) = args.listen.filter(|_| !changed)
        && note.listen != Some(asked.to_string())
    {
        let how = if note.listen.is_some() { "on a different address" } else { "without --listen" };
        self::note(&format!(
            "already running {how}; use `caretaker daemon restart --listen {asked}`"
        ));
    }
    if args.json {
        print_json(&Status { changed: Some(changed), ..Status::of(host, Some(note)) })?;
    } else {
        let how = if changed { "daemon started" } else { "daemon already running" };
        say(&format!("{how} (pid {}), socket {}", note.pid, note.socket.0.display()));
        if let Some(listen) = &note.listen {
            let token = token_path(&host.state);
            say(&format!("listens on http://{listen}, token in {}", token.display()));
        }
    }
    Ok(ExitCode::Success)
}

/// Starts `caretaker daemon serve` as a separate process, and reads its report.
fn spawn(helper: &CommandHelper, args: &StartArgs) -> Result<StartReport, CommandError> {
    let host = &helper.host;
    let failed = |error: io::Error| {
        CommandError::new(ExitCode::DaemonUnavailable, "cannot start the daemon").because(error)
    };
    let log = open_log(host).map_err(failed)?;
    let mut command = Command::new(helper.program()?);
    command.args(["daemon", "serve", "--report"]);
    if let Some(listen) = args.listen {
        command.arg("--listen").arg(listen.to_string());
    }
    // The daemon has a different working directory, so a relative path would mean a different place.
    if host.environment.variable("CARETAKER_HOME").is_some() {
        command.env("CARETAKER_HOME", host.state.path());
    }
    let mut child = command
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .map_err(failed)?;
    let mut said = String::new();
    if let Some(stdout) = child.stdout.take() {
        // An unreadable report counts as missing.
        BufReader::new(stdout).read_line(&mut said).ok();
    }
    Ok(serde_json::from_str(&said).unwrap_or_else(|_| {
        child.wait().ok();
        StartReport::Failed { error: "it ended without a report".to_owned() }
    }))
}

fn open_log(host: &Host) -> io::Result<File> {
    let path = log_path(host);
    run_shim::private_dir(host.state.path()).or_else(|_| fs::create_dir_all(host.state.path()))?;
    if fs::metadata(&path).is_ok_and(|log| log.len() > LONGEST_LOG) {
        fs::rename(&path, path.with_extension("log.1"))?;
    }
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

/// Today's spending, if there is a day budget.
fn budget_of_day(helper: &CommandHelper) -> Result<Option<String>, CommandError> {
    let budget = helper.config()?.budgets.day.budget();
    if !budget.is_set() {
        return Ok(None);
    }
    let spent = budgets::spending(&budgets::all_runs(&helper.host)?, budgets::day(now_ms()).0);
    Ok(Some(budget_lines("today's budget", &budget, &spent, judge(&budget, &spent).as_ref())))
}

fn status(helper: &CommandHelper, as_json: bool) -> Result<ExitCode, CommandError> {
    let host = &helper.host;
    let note = running(host)?;
    let code = if note.is_some() { ExitCode::Success } else { ExitCode::DaemonUnavailable };
    if as_json {
        print_json(&Status::of(host, note))?;
        return Ok(code);
    }
    let Some(note) = note else {
        say("daemon not running; start it with `caretaker daemon start`");
        return Ok(code);
    };
    let age = units::age(now_ms().saturating_sub(note.since_ms));
    let mut text = format!(
        "pid {} for {age}, caretaker {}, protocol {}\nsocket {}\n",
        note.pid,
        note.version,
        note.protocol,
        note.socket.0.display()
    );
    if let Some(listen) = &note.listen {
        let token = token_path(&host.state);
        text.push_str(&format!(
            "http://{listen}, token in {}; `daemon restart` keeps it\n",
            token.display()
        ));
    }
    text.push_str(&format!("log {}\n", log_path(host).display()));
    if note.protocol == PROTOCOL
        && let Some(daemon) = DaemonClient::find(host)?
    {
        let queue: serde_json::Value = daemon.get("/v1/queue")?;
        let n_waiting = queue["waiting"].as_array().map_or(0, Vec::len);
        let gate = queue["gate"].as_str().unwrap_or_default();
        text.push_str(&format!(
            "queue {gate}: {} of at most {} live, {n_waiting} waiting\n",
            queue["running"], queue["caps"]["total"]
        ));
    }
    // Show the daemon's status even if the configuration cannot be read.
    if let Ok(Some(day)) = budget_of_day(helper) {
        text.push_str(&format!("today's budget:\n{day}"));
    }
    print_text(&text)?;
    Ok(code)
}
