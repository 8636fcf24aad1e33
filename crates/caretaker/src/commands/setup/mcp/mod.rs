//! `caretaker mcp`: shows and changes the MCP servers of agents.

mod change;
mod show;
mod tools;

use admission::command_error::CommandError;
use clap::Subcommand;
use run_protocol::{ExitCode, RunRequest};

use crate::command_helper::CommandHelper;

/// Show and change an agent's MCP servers.
///
/// Every run has its own `mcp.json`. Caretaker writes it, and the agent can only read it. Your workspace stays
/// untouched.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: McpCommand,
}

/// MCP servers by name, as with `run`.
#[derive(Debug, Clone, clap::Args)]
struct ServerOptions {
    /// Give the agent only this MCP server from ~/.cursor/mcp.json. Can be given several times. The servers run inside the
    /// sandbox. If a server has a `url`, the run may reach its host.
    #[arg(long = "mcp", value_name = "NAME", conflicts_with = "user_mcp")]
    mcp: Vec<String>,
    /// Give the agent this MCP server from the repository's .cursor/mcp.json. Can be given several times. First see
    /// what it would run, with `caretaker mcp show --mcp-from-repo NAME`. You allow the current definition: if it
    /// changes, the session's next run is refused until you allow it again.
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
    /// Switch on MCP servers for a session: servers that were off, or more of your own.
    ///
    /// Caretaker takes your own servers from ~/.cursor/mcp.json. It changes a running agent's file immediately, but the
    /// agent may read the file only at its next turn. The session's next run starts with the change.
    Enable(change::Args),
    /// Switch off MCP servers for a session.
    ///
    /// They stay off for every later run of the session, until `caretaker mcp enable`. Caretaker changes a running
    /// agent's file immediately, but the agent may read the file only at its next turn, and a server that it has
    /// started may run until then.
    Disable(change::Args),
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
