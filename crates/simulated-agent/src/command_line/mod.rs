//! cursor-agent's command line, including hidden options.
//!
//! clap parses it. [`mistakes`] reports errors in the words of commander, the library that cursor-agent uses.

mod mistakes;

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::error::ErrorKind;
use clap::{Args, Command, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::process::ending::Ending;

/// Start the Cursor Agent (simulated: no model, no network, a script instead)
#[derive(Debug, Parser)]
#[command(name = "agent", disable_version_flag = true, args_override_self = true)]
pub struct CommandLine {
    #[command(flatten)]
    pub options: Options,
    #[command(flatten)]
    pub ignored: Ignored,
    #[command(subcommand)]
    pub command: Option<Verb>,
    /// The prompt; without one, it is read from stdin
    #[arg(value_name = "prompt")]
    pub words: Vec<String>,
}

/// The options that the simulated agent supports.
#[derive(Debug, Default, Args)]
pub struct Options {
    /// Print the version number
    #[arg(short, long)]
    pub version: bool,
    /// API key (or CURSOR_API_KEY)
    #[arg(long, value_name = "key")]
    pub api_key: Option<String>,
    /// Print to the console without a terminal interface
    #[arg(short, long)]
    pub print: bool,
    /// With --print: text, json or stream-json
    #[arg(long, value_name = "format")]
    pub output_format: Option<String>,
    /// With --print and stream-json: stream text as it comes
    #[arg(long)]
    pub stream_partial_output: bool,
    /// Read-only mode: plan or ask
    #[arg(long, value_name = "mode", value_parser = PossibleValuesParser::new(["plan", "ask"]))]
    pub mode: Option<String>,
    /// Shorthand for --mode plan
    #[arg(long)]
    pub plan: bool,
    /// Resume a session by id, or the Nth latest with =-N
    #[arg(long, value_name = "chatId", num_args = 0..=1)]
    pub resume: Option<Option<String>>,
    /// Resume the latest session of this workspace
    #[arg(long)]
    pub r#continue: bool,
    /// Model to use
    #[arg(long, value_name = "id")]
    pub model: Option<String>,
    /// List the models and exit
    #[arg(long)]
    pub list_models: bool,
    /// Run everything that is not denied
    #[arg(short, long, visible_alias = "yolo")]
    pub force: bool,
    /// Approve all MCP servers
    #[arg(long)]
    pub approve_mcps: bool,
    /// Trust this workspace
    #[arg(long)]
    pub trust: bool,
    /// Workspace directory instead of the current one
    #[arg(long, value_name = "path")]
    pub workspace: Option<String>,
    /// Run in a new git worktree (not simulated)
    #[arg(short, long, value_name = "name", num_args = 0..=1)]
    pub worktree: Option<Option<String>>,
    /// Simulated agent only: list the ways it can misbehave
    #[arg(long)]
    pub help_scenarios: bool,
    /// Simulated agent only: how to write a script
    #[arg(long)]
    pub help_script: bool,
    #[arg(long, hide = true, value_name = "uuid")]
    pub new_session_id: Option<String>,
    #[arg(long, hide = true)]
    pub single_turn: bool,
    #[arg(long, hide = true, value_name = "seconds")]
    pub background_shell_timeout: Option<String>,
    #[arg(long, hide = true, value_name = "path")]
    pub data_dir: Option<String>,
    #[arg(long, hide = true)]
    pub show_thinking: bool,
    #[arg(long, hide = true, value_name = "token")]
    pub auth_token: Option<String>,
    #[arg(short, long, hide = true)]
    pub cloud: bool,
    #[arg(short, long, hide = true)]
    pub background: bool,
    #[arg(long, hide = true, value_name = "file")]
    pub system_prompt: Option<String>,
    #[arg(long, hide = true)]
    pub exclude_workspace_context: bool,
}

/// The options that the simulated agent accepts and ignores.
#[derive(Debug, Default, Args)]
pub struct Ignored {
    /// Extra request header 'Name: Value', repeatable (accepted, never sent)
    #[arg(short = 'H', long, value_name = "header")]
    pub header: Vec<String>,
    /// API endpoint (accepted, never contacted)
    #[arg(short, long, value_name = "url")]
    pub endpoint: Option<String>,
    /// Let a classifier review tool calls (accepted, not simulated)
    #[arg(long)]
    pub auto_review: bool,
    /// Sandbox of shell commands (accepted, not simulated)
    #[arg(long, value_name = "mode", value_parser = PossibleValuesParser::new(["enabled", "disabled"]))]
    pub sandbox: Option<String>,
    /// Another root directory, repeatable (accepted, not simulated)
    #[arg(long, value_name = "path")]
    pub add_dir: Vec<String>,
    /// Load a local plugin, repeatable (accepted, not simulated)
    #[arg(long, value_name = "path")]
    pub plugin_dir: Vec<String>,
    /// Where the worktree starts (accepted, not simulated)
    #[arg(long, value_name = "ref")]
    pub worktree_base: Option<String>,
    /// Run no worktree set-up scripts (accepted, not simulated)
    #[arg(long)]
    pub skip_worktree_setup: bool,
    #[arg(long, hide = true)]
    pub disable_project_configs: bool,
    #[arg(long, hide = true, value_name = "tools")]
    pub allowed_tools: Option<String>,
    #[arg(long, hide = true, value_name = "tools")]
    pub exclude_tools: Option<String>,
    #[arg(long, hide = true)]
    pub printenv: bool,
    #[arg(long, hide = true, value_name = "name")]
    pub harness: Option<String>,
    #[arg(long, hide = true, value_name = "coords")]
    pub computer_use_coords: Option<String>,
    #[arg(long, hide = true, value_name = "slug")]
    pub dev_raw_model_slug: Option<String>,
    #[arg(long, hide = true, value_name = "version")]
    pub repo_http_version: Option<String>,
    #[arg(long, hide = true)]
    pub insecure: bool,
    #[arg(long, hide = true, value_name = "file")]
    pub conversation_history_file: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Manage MCP servers
    #[command(subcommand, arg_required_else_help = true)]
    Mcp(McpVerb),
    /// Show whether the user is logged in
    #[command(visible_alias = "whoami")]
    Status(Format),
    /// List the models
    Models,
    /// Show version, system and account
    About(Format),
    /// Create an empty chat and print its id
    CreateChat,
    /// Start the agent
    Agent {
        #[arg(value_name = "prompt")]
        words: Vec<String>,
    },
    /// Choose a session to resume (needs a terminal)
    Ls,
    /// Resume the latest session (needs a terminal)
    Resume,
    #[command(hide = true)]
    WorkerServer { socket: PathBuf },
    #[command(hide = true)]
    DeafChild { log: PathBuf },
}

#[derive(Debug, Subcommand)]
pub enum McpVerb {
    /// Not simulated
    Login { server: String },
    /// List the MCP servers and their state
    List,
    /// List the tools of one server
    ListTools { server: String },
    /// Approve a server for this workspace
    Enable { server: String },
    /// Disable a server for this workspace
    Disable { server: String },
}

#[derive(Debug, Args)]
pub struct Format {
    /// Output format: text or json
    #[arg(long, value_name = "format", value_parser = PossibleValuesParser::new(["text", "json"]))]
    format: Option<String>,
}

impl Format {
    pub fn is_json(&self) -> bool {
        self.format.as_deref() == Some("json")
    }
}

/// Subcommands that the simulated agent refuses.
const NOT_SIMULATED: [&str; 13] = [
    "persist",
    "install-shell-integration",
    "uninstall-shell-integration",
    "login",
    "logout",
    "plugin",
    "worker",
    "team",
    "bedrock",
    "update",
    "generate-rule",
    "acp",
    "sandbox",
];

/// The meaning of a command line.
#[derive(Debug)]
pub enum Parsed {
    Run(Box<CommandLine>),
    /// Text for stdout: the help.
    Print(String),
}

/// Parses the arguments after the program's name.
pub fn parse(arguments: &[String]) -> Result<Parsed, Ending> {
    let arguments = std::iter::once("agent").chain(arguments.iter().map(String::as_str));
    let read = definition().try_get_matches_from(arguments).and_then(|matches| {
        match matches.subcommand_name().filter(|name| NOT_SIMULATED.contains(name)) {
            Some(name) => Ok(Err(not_simulated(name))),
            None => CommandLine::from_arg_matches(&matches).map(Ok),
        }
    });
    match read {
        Ok(Ok(command_line)) => Ok(Parsed::Run(Box::new(command_line))),
        Ok(Err(refusal)) => Err(refusal),
        Err(error) if error.kind() == ErrorKind::DisplayHelp => {
            Ok(Parsed::Print(error.to_string()))
        }
        // clap reports a missing subcommand as help.
        Err(error) if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            Err(Ending { exit_code: 1, stderr: error.to_string() })
        }
        Err(error) => Err(Ending::failure(mistakes::in_words(&error))),
    }
}

pub fn not_simulated(name: &str) -> Ending {
    Ending::failure(format!("simulated agent: `{name}` is not simulated"))
}

fn definition() -> Command {
    let refused = |name: &&'static str| {
        let words = clap::arg!([words] ...).trailing_var_arg(true).allow_hyphen_values(true);
        Command::new(*name).about("Not simulated").arg(words).disable_help_flag(true)
    };
    CommandLine::command()
        .subcommands(NOT_SIMULATED.iter().map(refused))
        // Like commander, accept options before and after a subcommand, and values that look like options.
        .mut_args(|arg| {
            let needs_a_value = arg.get_action().takes_values()
                && arg.get_num_args().is_none_or(|n_values| n_values.min_values() > 0);
            match arg.is_positional() {
                true => arg,
                false => arg.global(true).allow_hyphen_values(needs_a_value),
            }
        })
}

#[cfg(test)]
#[path = "command_line_tests.rs"]
mod tests;
