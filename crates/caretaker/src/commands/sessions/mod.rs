//! `caretaker sessions`: every conversation that Cursor keeps on this machine.

pub(crate) mod at;
mod bundle;
pub(crate) mod chat_place;
mod export;
mod finding;
mod fork;
mod gc;
pub(crate) mod ls;
mod new;
mod search;
pub(crate) mod selection;
mod show;
mod stats;
mod stores;
mod tail;
mod unread;
pub(crate) mod verify;

use admission::command_error::CommandError;
use clap::Subcommand;
use run_protocol::ExitCode;

use crate::command_helper::CommandHelper;

/// Read the conversations that Cursor keeps on this machine: command line, IDE and SDK.
///
/// Only four commands change Cursor's files: `fork` and `import` add a session; `repair` and `gc` change stores, with
/// `--yes`.
///
/// SESSION is a session's id, a unique prefix of it, or `-` for the session that changed last.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: SessionsCommand,
}

#[derive(Debug, Subcommand)]
enum SessionsCommand {
    Ls(ls::Args),
    New(new::Args),
    Show(show::Args),
    Tail(tail::Args),
    Search(search::Args),
    Stores(stores::Args),
    Export(Box<export::Args>),
    Stats(stats::Args),
    At(at::AtArgs),
    Between(at::BetweenArgs),
    Fork(fork::Args),
    Bundle(bundle::BundleArgs),
    Import(bundle::ImportArgs),
    Verify(verify::VerifyArgs),
    Repair(verify::RepairArgs),
    Gc(gc::Args),
}

pub(crate) fn run(helper: &CommandHelper, args: &Args) -> Result<ExitCode, CommandError> {
    match &args.command {
        SessionsCommand::Ls(args) => ls::run(helper, args),
        SessionsCommand::New(args) => new::run(helper, args),
        SessionsCommand::Show(args) => show::run(helper, args),
        SessionsCommand::Tail(args) => tail::run(helper, args),
        SessionsCommand::Search(args) => search::run(helper, args),
        SessionsCommand::Stores(args) => stores::run(helper, args),
        SessionsCommand::Export(args) => export::run(helper, args),
        SessionsCommand::Stats(args) => stats::run(helper, args),
        SessionsCommand::At(args) => at::run_at(helper, args),
        SessionsCommand::Between(args) => at::run_between(helper, args),
        SessionsCommand::Fork(args) => fork::run(helper, args),
        SessionsCommand::Bundle(args) => bundle::run_bundle(helper, args),
        SessionsCommand::Import(args) => bundle::run_import(helper, args),
        SessionsCommand::Verify(args) => verify::run_verify(helper, args),
        SessionsCommand::Repair(args) => verify::run_repair(helper, args),
        SessionsCommand::Gc(args) => gc::run(helper, args),
    }
}
