//! `caretaker config`: every setting with its default, as a file to start from.

use admission::command_error::CommandError;
use admission::config::{Config, DEFAULT_FILE};
use admission::words::talk::note;
use run_protocol::ExitCode;

use crate::command_helper::CommandHelper;
use crate::data_out::print_text;

/// Print every setting with its default and what it means, as a file to start from.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(helper: &CommandHelper, _: &Args) -> Result<ExitCode, CommandError> {
    let host = &helper.host;
    print_text(DEFAULT_FILE)?;
    let file = Config::file(&host.environment, &host.places);
    let presence = if file.exists() { "is read from" } else { "would be read from" };
    note(&format!("your configuration {presence} {}", file.display()));
    Ok(ExitCode::Success)
}
