//! How a run gets its supervisor: from this process, or from the daemon.

use admission::admit::Way;
use admission::command_error::CommandError;
use admission::host::Host;
use caretaker_daemon::QueueGate;
use run_protocol::{ExitCode, RunRequest};

use crate::daemon_client::{DaemonClient, no_queue};
use crate::running::console_options::ConsoleOptions;

/// How a run gets its supervisor.
#[derive(Debug)]
pub(crate) enum Route {
    /// From us, now.
    Direct,
    /// From the daemon, when its turn comes.
    Queue(DaemonClient),
}

impl Route {
    /// By the daemon if there is one.
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
            let what = "the queue is drained: no new run is accepted";
            return Err(CommandError::new(ExitCode::Conflict, what).hint(
                "accept runs again with `caretaker queue resume`, or start past it with --direct",
            ));
        }
        Ok(Self::Queue(daemon))
    }

    /// The same for one run.
    pub(crate) fn way(
        &self,
        host: &Host,
        console: &ConsoleOptions,
        request: &RunRequest,
    ) -> Result<Way, CommandError> {
        match self {
            // The flags exclude each other; a line of a batch may still ask for it.
            Self::Direct if waits_for_others(request) => {
                let what = "`delay`, `after` and `after_ok` need the daemon's queue";
                Err(CommandError::new(ExitCode::Usage, what)
                    .hint("start it: caretaker daemon start; and leave out --direct"))
            }
            Self::Direct => Ok(Way::Direct { waits: console.wait }),
            Self::Queue(_) => Way::queue(host, request, console.queue),
        }
    }
}

fn waits_for_others(request: &RunRequest) -> bool {
    request.delay.is_some() || !request.after.is_empty() || !request.after_ok.is_empty()
}
