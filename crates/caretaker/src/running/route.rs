//! Who starts the shim of a run: this process, or the daemon.

use admission::admit::StartMode;
use admission::command_error::CommandError;
use admission::host::Host;
use caretaker_daemon::QueueGate;
use run_protocol::{ExitCode, RunRequest};

use crate::daemon_client::{DaemonClient, no_queue};
use crate::running::console_options::ConsoleOptions;

/// Who starts the shim.
#[derive(Debug)]
pub(crate) enum Route {
    /// This process, now.
    Direct,
    /// The daemon, when it is the run's turn.
    Queue(DaemonClient),
}

impl Route {
    /// The daemon, if one is running and the user did not ask for `--direct`.
    pub(crate) fn choose(
        host: &Host,
        console: &ConsoleOptions,
        request: &RunRequest,
    ) -> Result<Self, CommandError> {
        if console.direct {
            return Ok(Self::Direct);
        }
        let Some(daemon) = DaemonClient::find(host)? else {
            if console.queue || request.priority.is_some() || waits_for_others(request) {
                return Err(no_queue());
            }
            return Ok(Self::Direct);
        };
        if daemon.queue_gate()? == QueueGate::Draining {
            let what = "the queue is draining and accepts no new runs";
            return Err(CommandError::new(ExitCode::Conflict, what).hint(
                "accept runs again with `caretaker queue resume`, or bypass the queue with --direct",
            ));
        }
        Ok(Self::Queue(daemon))
    }

    /// The start mode of one run, with its own priority and conditions.
    pub(crate) fn way(
        &self,
        host: &Host,
        console: &ConsoleOptions,
        request: &RunRequest,
    ) -> Result<StartMode, CommandError> {
        match self {
            // clap refuses this combination of flags, but a batch line may still ask for it.
            Self::Direct if waits_for_others(request) => {
                let what = "`delay`, `after` and `after_ok` need the daemon's queue";
                Err(CommandError::new(ExitCode::Usage, what)
                    .hint("start it: caretaker daemon start; and leave out --direct"))
            }
            Self::Direct => Ok(StartMode::Direct { waits: console.wait }),
            Self::Queue(_) => StartMode::queue(host, request, console.queue),
        }
    }
}

fn waits_for_others(request: &RunRequest) -> bool {
    request.delay.is_some() || !request.after.is_empty() || !request.after_ok.is_empty()
}
