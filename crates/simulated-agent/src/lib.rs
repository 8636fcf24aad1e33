//! Behaves like cursor-agent, and misbehaves on request. It replaces the real agent in tests and demonstrations.
//!
//! The agent does not understand a prompt but plays it: a script in the prompt (or in a file) decides what the agent
//! says and does, see [`script`]. Tools, files, MCP servers, the session's `store.db` and the transcript are real.
//! Model and network are not.
//!
//! ```text
//!  argv ──► command_line ──► subcommands                                    status, models, mcp, create-chat …
//!                │
//!                ▼
//!             startup         login ► format ► prompt ► model ► trust ► session; a failure is text on stderr and exit 1
//!                │ Plan
//!                ▼
//!              turn           script orders ──► tools (permissions) ──► session_store, transcript
//!                │                 └── misbehaviour at its moment
//!                ▼
//!             events ──► process::stdout                                    signals cut between two lines
//! ```
//!
//! **Invariant:** stdout carries whole lines, unless the script asks for a misbehaviour that breaks them.
//!
//! **Invariant:** nothing waits, hangs or lingers on purpose for longer than ten minutes. A script's command may take
//! any amount of time.
//!
//! **Invariant:** only [`process::environment`] reads the environment, and only an MCP server with a `url` is reached
//! over the network.
//!
//! # What is mirrored
//!
//! Confidence: D documented by Cursor, C captured from a real binary, V read from the vendor's package, R reported by
//! a third party who measured it, G inferred.
//!
//! | behaviour | confidence |
//! |---|---|
//! | order of checks, their texts and exit codes; login first; stdout stays empty | C |
//! | a bad key is yellow on stderr even where `TERM=dumb` | C |
//! | trust gate, its text, its marker; `--trust` writes the marker, `--force` skips the gate | C |
//! | without words, stdin up to its end is the prompt | C |
//! | words as prompt and an open stdin: `result`, then no exit | C |
//! | `--resume` with an unknown UUID begins a new session under it; with any other text, it fails | C |
//! | `--new-session-id` works once | C |
//! | a session belongs to its workspace: in another directory the agent remembers nothing | C |
//! | key sets and order of `init`, `user`, `thinking`, `assistant`, `tool_call`, `interaction_query`, `result`, for the generations 2026.01 and 2026.09 | C |
//! | `assistant` in four forms; a flush repeats partial deltas; `result` joins segments without separator | C |
//! | call ids with a newline inside; calls of a step share a `model_call_id` and may complete in any order | C |
//! | `connection`, `retry` events and their notices on stderr; three attempts, each of which reconnects | C |
//! | a rejected call completes without its arguments, a skipped question with them | C |
//! | an MCP server without approval is absent, even if its tools are allowed | R |
//! | the agent asks about a plan, the command line accepts it, and no file is written | C |
//! | the arguments of a plan | R |
//! | the question about a plan comes before its call starts | G |
//! | SIGINT: 130 and one line on stderr; SIGTERM: 143 and silence; the stream ends at a line, tools are gone | C |
//! | `text` and `json` print nothing until the end | C |
//! | `cli-config.json` is written through a fixed temporary name, so that parallel runs can lose a race | C |
//! | later runs keep the model of `--model` | C |
//! | `system/background_shell_timeout`, and no `result` while a background shell is running | R |
//! | the commands in `parsingResult`: tree-sitter's grammar for bash, whose node names the captures show | C |
//! | fields of `system/task_notification` | G |
//! | texts for a bad output format, a missing prompt or workspace, a `--new-session-id` that is not a UUIDv4 | G |
//! | `--resume` without an id means the latest session; `--continue` without any session begins one | G |
//! | `--single-turn` ends background shells with the process, without an event | G |
//! | usage numbers: counted from the session, in the right shape but without meaning | G |
//! | texts of `mcp`, `models`, `status` in text form | G |
//!
//! # What is not mirrored
//!
//! Interactive use, `acp`, cloud agents, worktrees, plugins, hooks, rules, login, self-update, the worker process (except
//! as a misbehaviour), Cursor's own sandbox, `--allowed-tools`, subagents with a model. The agent refuses these or ignores
//! them; `--help` and [`command_line::Ignored`] say which options it ignores.

pub mod command_line;
pub mod mcp_client;
pub mod misbehaviour;
pub mod permissions;
pub mod process;
pub mod script;
pub mod session_store;
pub mod startup;
pub mod subcommands;
pub mod tools;
pub mod turn;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use command_line::{CommandLine, Parsed, Verb};
use process::ending::Ending;
use process::environment::Environment;
use process::helpers::{self, Reentry};

pub use cursor_home::SIMULATED_VERSION as VERSION;

/// The whole program.
pub fn main() -> ExitCode {
    let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("simulated-agent"));
    let reentry = Reentry { program, leading_arguments: Vec::new() };
    main_with(reentry, std::env::args_os().skip(1).collect())
}

/// The main function, for a program that includes the simulated agent. `reentry` says how to start that program again
/// as one of the agent's helper processes.
pub fn main_with(reentry: Reentry, arguments: Vec<OsString>) -> ExitCode {
    // Node decodes arguments in the same way.
    let arguments: Vec<String> =
        arguments.iter().map(|argument| argument.to_string_lossy().into_owned()).collect();
    let outcome = Environment::of_process(reentry)
        .map_err(Ending::from)
        .and_then(|environment| run(&environment, &arguments));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(ending) => {
            io::stderr().write_all(ending.stderr.as_bytes()).ok();
            ExitCode::from(ending.exit_code)
        }
    }
}

fn run(environment: &Environment, arguments: &[String]) -> Result<(), Ending> {
    // Like commander, check this first, because the rest of the line may be wrong.
    if arguments.first().is_some_and(|first| first == "-v" || first == "--version") {
        return say(&format!("{VERSION}\n"));
    }
    let line = match command_line::parse(arguments)? {
        Parsed::Print(text) => return say(&text),
        Parsed::Run(line) => *line,
    };
    let CommandLine { options, command, words, .. } = line;
    match command {
        Some(Verb::WorkerServer { socket }) => Ok(helpers::serve_as_worker(&socket)?),
        Some(Verb::DeafChild { log }) => Ok(helpers::live_deaf(&log)?),
        _ if options.version => say(&format!("{VERSION}\n")),
        _ if options.help_scenarios => say(&misbehaviour::list()),
        _ if options.help_script => say(script::LANGUAGE),
        command => subcommands::run(environment, &options, command, words),
    }
}

fn say(text: &str) -> Result<(), Ending> {
    Ok(io::stdout().write_all(text.as_bytes())?)
}
