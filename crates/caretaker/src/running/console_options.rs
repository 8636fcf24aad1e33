//! Flags for the command that starts a run. The flags for the run itself are in `RunRequest`.
//!
//! `display_order` puts each flag among those of the request in the help. The request's numbers begin at 100.

use run_protocol::QUEUE;

#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct ConsoleOptions {
    /// Print the run's id and leave the run in the background.
    #[arg(long, short, conflicts_with = "json", display_order = 103)]
    pub(crate) detach: bool,
    /// Wait for the run that holds the session or the workspace, instead of failing.
    #[arg(long, display_order = 798)]
    pub(crate) wait: bool,
    /// Try again up to N times if the network, a rate limit or the agent's configuration failed before the agent called
    /// a tool. Each try is a separate run. Not with `--detach`: the command must keep running to try again. Default:
    /// `retries` in the configuration.
    #[arg(long, value_name = "N", conflicts_with = "detach", display_order = 799)]
    pub(crate) retries: Option<u32>,
    /// Use the queue: fail if no daemon is running, instead of starting immediately.
    #[arg(long, help_heading = QUEUE, display_order = 1)]
    pub(crate) queue: bool,
    /// Start immediately, bypassing the queue and its caps, even if a daemon is running.
    #[arg(long, help_heading = QUEUE, display_order = 2,
          conflicts_with_all = ["queue", "priority", "delay", "after", "after_ok"])]
    pub(crate) direct: bool,
    /// Print one JSON object per event, as `tail --json` does.
    #[arg(long, help_heading = QUEUE, display_order = 820)]
    pub(crate) json: bool,
}
