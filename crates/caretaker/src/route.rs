//! How a run gets its supervisor: from this process, or from the daemon.

use admission::command_error::CommandError;
use admission::host::Host;
use admission::request::queue_options::QueueOptions;
use caretaker_daemon::QueueGate;
use run_protocol::{ExitCode, QueueTerms};

use crate::daemon_client::{DaemonClient, no_queue};

/// How a run gets its supervisor.
#[derive(Debug)]
pub(crate) enum Route {
    /// From us, now.
    Direct,
    /// From the daemon, when its turn comes.
    Queue { daemon: DaemonClient, terms: QueueTerms },
}

impl Route {
    /// By the daemon if there is one.
    pub(crate) fn choose(host: &Host, options: &QueueOptions) -> Result<Self, CommandError> {
        if options.direct {
            return Ok(Self::Direct);
        }
        let Some(daemon) = DaemonClient::find(host)? else {
            if options.need_the_queue() {
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
        Ok(Self::Queue { daemon, terms: options.terms(host)? })
    }
}
