//! `caretaker mcp`: which MCP servers agents get, and how that is changed.

mod change;
mod show;
mod tools;

use admission::command_error::CommandError;
use clap::Subcommand;
use run_protocol::{ExitCode, RunRequest};

use crate::command_helper::CommandHelper;

/// See and change the MCP servers that an agent gets.
///
/// Every run has an `mcp.json` of its own, which caretaker writes and the agent can only read. Your workspace is not
/// touched.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: McpCommand,
}

/// MCP servers by name, as with `run`.
#[derive(Debug, Clone, clap::Args)]
struct ServerOptions {
    /// Give the agent only the MCP servers that you name, from ~/.cursor/mcp.json. Repeat it for each. They run inside the
    /// sandbox. If one has a `url`, the run may reach its host.
    #[arg(long = "mcp", value_name = "NAME", conflicts_with = "user_mcp")]
    mcp: Vec<String>,
    /// Give the agent this MCP server of the repository's own .cursor/mcp.json; may be given several times. See first what
    /// it would run, with `caretaker mcp show --mcp-from-repo NAME`. You allow it as it is now: should its definition
    /// change, the session's next run is refused until you allow it again.
    #[arg(long = "mcp-from-repo", value_name = "NAME")]
    mcp_from_repo: Vec<String>,
}

impl ServerOptions {
    fn is_empty(&self) -> bool {
        self.mcp.is_empty() && self.mcp_from_repo.is_empty()
    }

    /// A request for these servers.
    fn request(&self, user_mcp: bool) -> RunRequest {
        let Self { mcp, mcp_from_repo } = self.clone();
        RunRequest { user_mcp, mcp, mcp_from_repo, ..RunRequest::default() }
    }
}

#[derive(Debug, Subcommand)]
enum McpCommand {
    Show(show::Args),
    Enable(change::EnableArgs),
    Disable(change::DisableArgs),
    Tools(tools::Args),
}

pub(crate) fn run(helper: &CommandHelper, args: &Args) -> Result<ExitCode, CommandError> {
    match &args.command {
        McpCommand::Show(args) => show::run(helper, args),
        McpCommand::Enable(args) => change::enable(helper, args),
        McpCommand::Disable(args) => change::disable(helper, args),
        McpCommand::Tools(args) => tools::run(helper, args),
    }
}
