//! How a command that starts a run behaves itself. What the run is asked to be is a `RunRequest`.
//!
//! The numbers put each flag where it stands among those of the request in the help; those begin at 100.

use run_protocol::QUEUE;

#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct ConsoleOptions {
    /// Print the run's id and leave it alone.
    #[arg(long, short, conflicts_with = "json", display_order = 103)]
    pub(crate) detach: bool,
    /// Queue behind the run that holds the session or the workspace, instead of failing.
    #[arg(long, display_order = 798)]
    pub(crate) wait: bool,
    /// Try again so often, each time with a run of its own, if the network, a rate limit or the agent's configuration
    /// failed before any tool was called. Only for runs that are followed: nobody is there to try again for others.
    /// Default: `retries` of the configuration.
    #[arg(long, value_name = "N", conflicts_with = "detach", display_order = 799)]
    pub(crate) retries: Option<u32>,
    /// Insist on the queue: fail where no daemon runs, instead of starting at once.
    #[arg(long, help_heading = QUEUE, display_order = 1)]
    pub(crate) queue: bool,
    /// Start at once, past the queue and its caps, though a daemon runs.
    #[arg(long, help_heading = QUEUE, display_order = 2,
          conflicts_with_all = ["queue", "priority", "delay", "after", "after_ok"])]
    pub(crate) direct: bool,
    /// Print one JSON object per event, as `tail --json` does.
    #[arg(long, help_heading = QUEUE, display_order = 820)]
    pub(crate) json: bool,
}
