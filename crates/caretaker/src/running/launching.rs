//! Starts an admitted run, and follows it to its end or leaves it in the background.

use std::io::Write;
use std::path::Path;

use admission::admit::{Admitted, CreatedRun};
use admission::budgets;
use admission::command_error::{CommandError, OrFail};
use admission::config::Config;
use admission::host::Host;
use admission::words::talk::note;
use caretaker_daemon::Waiting;
use run_journal::{JournalReader, Position, RunDirectory};
use run_protocol::{Credentials, ExitCode, RunId, RunOutcome};
use run_shim::Started;
use serde::Deserialize;

use crate::daemon_client::DaemonClient;
use crate::data_out::print_view;
use crate::running::console_options::ConsoleOptions;
use crate::running::following::{Followed, follow, say_how_to_go_on};
use crate::running::interruption::{Seat, SignalPost};
use crate::running::journal_printer::{Form, JournalPrinter};
use crate::running::retries::Retries;
use crate::running::route::Route;
use crate::surroundings::Audience;

/// Starts runs with these options.
#[derive(Clone, Copy)]
pub(crate) struct Launch<'a> {
    pub(crate) host: &'a Host,
    pub(crate) config: &'a Config,
    pub(crate) console: &'a ConsoleOptions,
    /// The path of this program.
    pub(crate) program: &'a Path,
    pub(crate) route: &'a Route,
}

/// A started run, and its outcome if the command stayed until the end.
#[derive(Debug)]
pub(crate) struct Launched {
    pub(crate) run: RunDirectory,
    /// `None` if the run continues without this command.
    pub(crate) outcome: Option<RunOutcome>,
}

impl Launched {
    pub(crate) fn exit_code(&self) -> ExitCode {
        self.outcome.as_ref().map_or(ExitCode::Success, RunOutcome::exit_code)
    }
}

impl Launch<'_> {
    /// Starts the run. With `--detach` it prints the run's id, otherwise it follows the run to its end.
    pub(crate) fn launch(
        &self,
        admitted: Admitted<'_>,
        prompt: &[u8],
        signals: &SignalPost,
    ) -> Result<Launched, CommandError> {
        let group = admitted.spec.group.clone();
        let run = self.start(admitted, prompt)?;
        if self.console.detach {
            print_view(|out| writeln!(out, "{}", run.run_id()))?;
            return Ok(Launched { run, outcome: None });
        }
        let form = if self.console.json { Form::Json } else { Form::ForAPerson };
        let mut printer = JournalPrinter::to_stdout(form);
        match follow(&run, self.host.control_socket(&run), &mut printer, seat(), signals) {
            Ok(Followed::Ended(outcome)) => {
                budgets::note_if_spent(self.host, self.config, group.as_deref());
                Ok(Launched { run, outcome: Some(outcome) })
            }
            Ok(Followed::Detached) => Ok(Launched { run, outcome: None }),
            Err(error) if error.is_reader_gone() => {
                say_how_to_go_on(&run, "");
                Err(error)
            }
            Err(error) => Err(error),
        }
    }

    /// Like `launch`, but tries again as often as `retries` allows. `again` admits the run that replaces the failed
    /// one.
    pub(crate) fn launch_and_retry<'h>(
        &self,
        mut admitted: Admitted<'h>,
        prompt: &[u8],
        signals: &SignalPost,
        mut retries: Retries,
        again: impl Fn(RunId) -> Result<Admitted<'h>, CommandError>,
    ) -> Result<ExitCode, CommandError> {
        loop {
            let launched = self.launch(admitted, prompt, signals)?;
            let Some(pause) = retries.pause_after(&launched)? else {
                return Ok(launched.exit_code());
            };
            note(&pause.to_string());
            if signals.next_within(pause.length).is_some() {
                return Ok(ExitCode::Cancelled);
            }
            admitted = again(launched.run.run_id())?;
        }
    }

    /// Starts the run, and tells the user if it has to wait.
    pub(crate) fn start(
        &self,
        admitted: Admitted<'_>,
        prompt: &[u8],
    ) -> Result<RunDirectory, CommandError> {
        let (run, waits) = self.start_silently(admitted, prompt)?;
        if let Some(waits) = waits {
            note(&waits);
        }
        Ok(run)
    }

    /// Starts the run. The second value is the reason if the run has to wait.
    pub(crate) fn start_silently(
        &self,
        admitted: Admitted<'_>,
        prompt: &[u8],
    ) -> Result<(RunDirectory, Option<String>), CommandError> {
        let Self { console, route, .. } = self;
        let CreatedRun { run, shim, credentials } = admitted.create_run(prompt)?;
        if let Route::Queue(daemon) = route {
            let waits = enqueue(daemon, &run, &credentials);
            return Ok((run, waits));
        }
        let started = shim.supervise(&run);
        if started.is_err() && console.json && !console.detach {
            print_record(&run)?;
        }
        let waits = match started? {
            Started::Waiting { reason } if console.detach => {
                Some(format!("the run is waiting: {reason}"))
            }
            Started::Waiting { .. } | Started::Ready => None,
        };
        Ok((run, waits))
    }
}

/// Prints the journal of a run whose shim died before it could answer. A refused run has no journal.
fn print_record(run: &RunDirectory) -> Result<(), CommandError> {
    let Ok(mut reader) = JournalReader::open(run, Position::Start) else { return Ok(()) };
    let mut printer = JournalPrinter::to_stdout(Form::Json);
    printer.print_all(&mut reader)?;
    printer.finish()
}

/// Gives the run's credentials to the daemon, and returns why the run is waiting. The run stays queued even if this
/// fails: the queue is on disk.
fn enqueue(daemon: &DaemonClient, run: &RunDirectory, credentials: &Credentials) -> Option<String> {
    #[derive(Deserialize)]
    struct Accepted {
        waiting: Option<Waiting>,
    }
    let path = format!("/v1/runs/{}/enqueue", run.run_id());
    match daemon.post::<Accepted>(&path, credentials) {
        Ok(Accepted { waiting: Some(Waiting::Start) | None }) => None,
        Ok(Accepted { waiting: Some(waiting) }) => Some(format!("the run is queued: {waiting}")),
        Err(error) => Some(format!(
            "the run is queued and starts when a daemon runs again: {}",
            error.message_with_causes()
        )),
    }
}

/// From here on the command handles signals itself. An earlier signal ends the process before anything has begun.
pub(crate) fn take_signals() -> Result<SignalPost, CommandError> {
    SignalPost::open().or_fail(|| "cannot wait for signals")
}

/// A user can press Ctrl-C if stdin or stderr is a terminal. stdout may still be a pipe.
pub(crate) fn seat() -> Seat {
    match (Audience::of_stdin(), Audience::of_stderr()) {
        (Audience::Program, Audience::Program) => Seat::Unattended,
        _ => Seat::AtATerminal,
    }
}
