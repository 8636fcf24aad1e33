//! `caretaker sessions`: every conversation that Cursor keeps on this machine.

pub(crate) mod at;
mod bundle;
pub(crate) mod chat_place;
mod export;
mod finding;
mod fork;
mod gc;
mod journal;
pub(crate) mod ls;
mod new;
mod resumable;
mod search;
pub(crate) mod selection;
mod show;
mod stats;
mod stores;
mod tail;
mod tail_all;
mod unread;
mod verify;
pub(crate) mod verify_view;

use clap::Subcommand;
use run_protocol::ExitCode;

use crate::command_error::CommandError;

/// Read the conversations that Cursor keeps on this machine: of the command line, the IDE, the SDK.
///
/// Nothing of Cursor's is ever changed, but by `fork` and `import`, which add a session, and by `repair` and `gc` with
/// `--yes`. SESSION is an id, a beginning of one that is unique, or `-` for the one that
/// changed last.
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

pub(crate) fn run(args: &Args) -> Result<ExitCode, CommandError> {
    match &args.command {
        SessionsCommand::Ls(args) => ls::run(args),
        SessionsCommand::New(args) => new::run(args),
        SessionsCommand::Show(args) => show::run(args),
        SessionsCommand::Tail(args) => tail::run(args),
        SessionsCommand::Search(args) => search::run(args),
        SessionsCommand::Stores(args) => stores::run(args),
        SessionsCommand::Export(args) => export::run(args),
        SessionsCommand::Stats(args) => stats::run(args),
        SessionsCommand::At(args) => at::run_at(args),
        SessionsCommand::Between(args) => at::run_between(args),
        SessionsCommand::Fork(args) => fork::run(args),
        SessionsCommand::Bundle(args) => bundle::run_bundle(args),
        SessionsCommand::Import(args) => bundle::run_import(args),
        SessionsCommand::Verify(args) => verify::run_verify(args),
        SessionsCommand::Repair(args) => verify::run_repair(args),
        SessionsCommand::Gc(args) => gc::run(args),
    }
}
