//! Behaves as cursor-agent does, and misbehaves on request: the stand-in for the real agent in tests and demonstrations.
//!
//! A prompt is not understood but played: a script in it (or in a file) says what the agent says and does, see [`script`].
//! Tools, files, MCP servers, the session's `store.db` and the transcript are real; model and network are not.
//!
//! ```text
//!  argv ──► command_line ──► subcommands                                    status, models, mcp, create-chat …
//!                │
//!                ▼
//!            preflight        login ► format ► prompt ► model ► trust ► session; a failure is text on stderr and exit 1
//!                │ Plan
//!                ▼
//!              turn           script orders ──► tools ──► session_store, transcript
//!                │                 └── misbehaviour at its moment
//!                ▼
//!             events ──► output ──► stdout                                  signals cut between two lines
//! ```
//!
//! **Invariant:** stdout carries whole lines, unless a misbehaviour that says otherwise was asked for.
//!
//! **Invariant:** nothing that waits, hangs, lingers or is left behind on purpose does so for longer than ten minutes. A
//! command that a script runs takes as long as it takes.
//!
//! **Invariant:** the environment is read in [`environment`] alone and the network is never touched.
//!
//! # What is mirrored
//!
//! Confidence: D documented by Cursor, C captured from a real binary, V read from the vendor's package, R reported by
//! somebody who measured it, G inferred.
//!
//! | behaviour | confidence |
//! |---|---|
//! | order of checks, their texts and exit codes; auth first; stdout stays empty | C |
//! | bad key is yellow on stderr even where `TERM=dumb` | C |
//! | trust gate, its text, its marker; `--trust` writes it, `--force` passes by | C |
//! | stdin to EOF is the prompt when there are no words | C |
//! | words as prompt and stdin left open: `result`, then no exit | C |
//! | `--resume` of an unknown UUID begins a new session under it; of no UUID, fails | C |
//! | `--new-session-id` works once | C |
//! | sessions are found by workspace: another directory remembers nothing | C |
//! | key sets and order of `init`, `user`, `thinking`, `assistant`, `tool_call`, `interaction_query`, `result`, for the generations 2026.01 and 2026.09 | C |
//! | `assistant` in four forms; partial deltas repeated by a flush; `result` joins segments without separator | C |
//! | call ids with a newline inside; calls of a step share a `model_call_id` and complete in their own order | C |
//! | `connection`, `retry` events and their notices on stderr; three attempts, each of which reconnects | C |
//! | a rejected call completes without its arguments, a skipped question with them | C |
//! | an MCP server that is not approved is absent, whatever its tools are allowed to do | R |
//! | a plan is asked about, accepted and written nowhere | C |
//! | the arguments of a plan | R |
//! | a plan is asked about before its call starts | G |
//! | SIGINT: 130 and a word on stderr; SIGTERM: 143 and silence; the stream ends at a line, tools are gone | C |
//! | `text` and `json` print nothing until the end | C |
//! | `cli-config.json` is written through a fixed temporary name, so that parallel runs can lose a race | C |
//! | `--model` is remembered for later runs | C |
//! | `system/background_shell_timeout`, and no `result` while a background shell lives | R |
//! | fields of `system/task_notification` | G |
//! | texts for a bad output format, a missing prompt, a missing workspace, a `--new-session-id` that is no UUIDv4 | G |
//! | `--resume` without an id means the latest session; `--continue` where there is none begins one | G |
//! | `--single-turn` ends background shells with the process, without an event | G |
//! | usage numbers: counted from the session, in the right shape but of no meaning | G |
//! | texts of `mcp`, `models`, `status` in text form | G |
//!
//! # What is not
//!
//! Interactive use, `acp`, cloud agents, worktrees, plugins, hooks, rules, login, self-update, the worker process (unless
//! asked for as a misbehaviour), Cursor's own sandbox, `--allowed-tools`, live MCP over HTTP, subagents of substance.
//! What is refused says so; what is accepted and ignored says so in `--help`. Of the options that `--help` does not show,
//! these are ignored: `--disable-project-configs`, `--allowed-tools`, `--exclude-tools`, `--printenv`, `--harness`,
//! `--computer-use-coords`, `--dev-raw-model-slug`, `--repo-http-version`, `--insecure`, `--conversation-history-file`.

pub mod children;
pub mod cli_config;
pub mod command_line;
pub mod demonstration;
pub mod ending;
pub mod environment;
pub mod events;
pub mod failures;
pub mod help;
pub mod mcp_client;
pub mod misbehaviour;
pub mod models;
pub mod output;
pub mod permissions;
pub mod preflight;
pub mod script;
pub mod session_store;
pub mod signals;
pub mod subcommands;
pub mod tools;
pub mod transcript;
pub mod turn;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use children::Reentry;
use command_line::{Invocation, NothingToDo};
use ending::Ending;
use environment::Environment;

/// Well-formed, and nobody else's: a real build has seven hex digits after the date.
pub const VERSION: &str = "2026.10.01-51m0000";

/// The whole program.
pub fn main() -> ExitCode {
    let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("simulated-agent"));
    let reentry = Reentry { program, leading_arguments: Vec::new() };
    main_with(reentry, std::env::args_os().skip(1).collect())
}

/// The whole program as a part of another one, which says how it is started again for its helpers.
pub fn main_with(reentry: Reentry, arguments: Vec<OsString>) -> ExitCode {
    // Node decodes its arguments in the same way.
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
    let invocation = match command_line::parse(arguments) {
        Ok(invocation) => invocation,
        Err(NothingToDo::Version) => return say(&format!("{VERSION}\n")),
        Err(NothingToDo::Help(topic)) => return say(&help::help(&topic)),
        Err(NothingToDo::HelpInstead(topic)) => {
            return Err(Ending { exit_code: 1, stderr: help::help(&topic) });
        }
        Err(NothingToDo::Mistake(text)) => return Err(Ending::failure(text)),
    };
    let Invocation { command, options, words } = invocation;
    match (command.as_slice(), words.as_slice()) {
        // Helpers live by rules of their own, so they come before the signals are taken over.
        (["worker-server"], [socket]) => Ok(children::serve_as_worker(Path::new(socket))?),
        (["deaf-child"], [log]) => Ok(children::live_deaf(Path::new(log))?),
        _ if options.has("help-scenarios") => say(&misbehaviour::list()),
        _ if options.has("help-script") => say(script::LANGUAGE),
        _ => subcommands::run(environment, &command, &options, &words),
    }
}

fn say(text: &str) -> Result<(), Ending> {
    Ok(io::stdout().write_all(text.as_bytes())?)
}
