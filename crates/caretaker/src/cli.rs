//! The command line.

use admission::command_error::CommandError;
use clap::builder::styling::{AnsiColor, Styles};
use clap::error::{ContextKind, ContextValue};
use clap::{Parser, Subcommand, ValueEnum};
use run_protocol::ExitCode;

use crate::command_helper::CommandHelper;
use crate::commands;

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Yellow.on_default().bold())
    .usage(AnsiColor::Yellow.on_default().bold())
    .literal(AnsiColor::Cyan.on_default())
    .placeholder(AnsiColor::Green.on_default());

/// Run Cursor's headless agent: sandboxed, supervised, resumable, readable.
#[derive(Debug, Parser)]
#[command(name = "caretaker", version, styles = STYLES, max_term_width = 100)]
pub(crate) struct Cli {
    /// When to use colours. `auto` respects `NO_COLOR`.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: Color,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(Box<commands::run::Args>),
    Resume(Box<commands::resume::Args>),
    Suspend(commands::suspend::Args),
    Ps(commands::ps::Args),
    Tail(commands::tail::Args),
    Show(commands::show::Args),
    Wait(commands::wait::Args),
    Kill(commands::kill::Args),
    Undo(commands::undo::Args),
    Why(commands::why::Args),
    Inbox(commands::inbox::Args),
    Answer(commands::inbox::AnswerArgs),
    Send(commands::inbox::SendArgs),
    Queue(commands::queue::Args),
    Group(commands::group::Args),
    Daemon(commands::daemon::Args),
    Diff(commands::diff::Args),
    Apply(commands::apply::Args),
    Discard(commands::discard::Args),
    Gc(commands::gc::Args),
    /// Keep runs: `caretaker gc` never removes a pinned run.
    ///
    /// RUN is a run's id, a unique prefix or suffix of it, its name, or `-` for the latest run.
    Pin(commands::pin::Args),
    /// Allow `caretaker gc` to remove runs that were pinned.
    Unpin(commands::pin::Args),
    Sessions(commands::sessions::Args),
    Parse(commands::parse::Args),
    Sandbox(commands::sandbox::Args),
    Login(commands::login::Args),
    Mcp(commands::mcp::Args),
    Doctor(commands::doctor::Args),
    Config(commands::config::Args),
    Completions(commands::completions::Args),
    Man(commands::man::Args),
}

impl Cli {
    /// Reads the command line, or ends the process with an error.
    pub(crate) fn read() -> Self {
        Self::try_parse().unwrap_or_else(|error| without_value(error).exit())
    }
}

/// A refused `NAME=VALUE` may contain a secret that the user put in the wrong place, so the error names only NAME.
fn without_value(mut error: clap::Error) -> clap::Error {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    if text(ContextKind::InvalidArg).is_some_and(|argument| argument.starts_with("--env "))
        && let Some((name, _)) = text(ContextKind::InvalidValue).and_then(|it| it.split_once('='))
    {
        let shown = format!("{name}=…");
        error.insert(ContextKind::InvalidValue, ContextValue::String(shown));
    }
    error
}

impl Command {
    pub(crate) fn run(&self) -> Result<ExitCode, CommandError> {
        // A command that needs neither a home nor a working directory gets no helper.
        let helper = CommandHelper::of_process;
        match self {
            Self::Run(args) => commands::run::run(&helper()?, args),
            Self::Resume(args) => commands::resume::run(&helper()?, args),
            Self::Suspend(args) => commands::suspend::run(&helper()?, args),
            Self::Ps(args) => commands::ps::run(&helper()?, args),
            Self::Tail(args) => commands::tail::run(&helper()?, args),
            Self::Show(args) => commands::show::run(&helper()?, args),
            Self::Wait(args) => commands::wait::run(&helper()?, args),
            Self::Kill(args) => commands::kill::run(&helper()?, args),
            Self::Undo(args) => commands::undo::run(&helper()?, args),
            Self::Why(args) => commands::why::run(&helper()?, args),
            Self::Inbox(args) => commands::inbox::run(&helper()?, args),
            Self::Answer(args) => commands::inbox::answer(&helper()?, args),
            Self::Send(args) => commands::inbox::send(&helper()?, args),
            Self::Queue(args) => commands::queue::run(&helper()?, args),
            Self::Group(args) => commands::group::run(&helper()?, args),
            Self::Daemon(args) => commands::daemon::run(&helper()?, args),
            Self::Diff(args) => commands::diff::run(&helper()?, args),
            Self::Apply(args) => commands::apply::run(&helper()?, args),
            Self::Discard(args) => commands::discard::run(&helper()?, args),
            Self::Gc(args) => commands::gc::run(&helper()?, args),
            Self::Pin(args) => commands::pin::pin(&helper()?, args),
            Self::Unpin(args) => commands::pin::unpin(&helper()?, args),
            Self::Sessions(args) => commands::sessions::run(&helper()?, args),
            Self::Parse(args) => commands::parse::run(args),
            Self::Sandbox(args) => commands::sandbox::run(&helper()?, args),
            Self::Login(args) => commands::login::run(&helper()?, args),
            Self::Mcp(args) => commands::mcp::run(&helper()?, args),
            Self::Doctor(args) => commands::doctor::run(&helper()?, args),
            Self::Config(args) => commands::config::run(&helper()?, args),
            Self::Completions(args) => commands::completions::run(args),
            Self::Man(args) => commands::man::run(args),
        }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Color {
    Auto,
    Always,
    Never,
}

impl Color {
    pub(crate) fn write_global(self) {
        match self {
            Self::Auto => anstream::ColorChoice::Auto,
            Self::Always => anstream::ColorChoice::Always,
            Self::Never => anstream::ColorChoice::Never,
        }
        .write_global();
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_of_the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_and_argument_is_explained() {
        for command in Cli::command().get_subcommands() {
            assert!(command.get_about().is_some(), "{}", command.get_name());
            for argument in command.get_arguments() {
                assert!(
                    argument.get_help().is_some(),
                    "{} of {}",
                    argument.get_id(),
                    command.get_name()
                );
            }
        }
    }
}
