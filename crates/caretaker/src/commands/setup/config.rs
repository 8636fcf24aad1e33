//! `caretaker config`: prints the default configuration.

use admission::command_error::CommandError;
use admission::config::{Config, DEFAULT_FILE};
use admission::words::talk::note;
use run_protocol::ExitCode;

use crate::command_helper::CommandHelper;
use crate::data_out::print_text;

/// Print a configuration file with every setting, its default and its meaning.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(helper: &CommandHelper, _: &Args) -> Result<ExitCode, CommandError> {
    let host = &helper.host;
    print_text(DEFAULT_FILE)?;
    let file = Config::file(&host.environment, &host.places);
    let presence =
        if file.exists() { "your configuration is" } else { "put your configuration into" };
    note(&format!("{presence} {}", file.display()));
    Ok(ExitCode::Success)
}
