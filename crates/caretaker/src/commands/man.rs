//! `caretaker man`: our manual pages.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use admission::command_error::CommandError;
use clap::CommandFactory;
use clap_mangen::Man;
use run_protocol::ExitCode;

use crate::cli::Cli;
use crate::data_out::print_text;

/// Print the manual page, or write the pages of all commands into a directory.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  caretaker man | man -l -
  caretaker man ~/.local/share/man/man1")]
pub(crate) struct Args {
    /// The directory; made when it is missing.
    directory: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, CommandError> {
    let cannot = |error: io::Error| {
        CommandError::new(ExitCode::Failed, "the manual pages cannot be written").because(error)
    };
    match &args.directory {
        Some(directory) => write_all(directory).map_err(cannot)?,
        None => {
            let mut page = Vec::new();
            Man::new(Cli::command()).render(&mut page).map_err(cannot)?;
            print_text(&String::from_utf8_lossy(&page))?;
        }
    }
    Ok(ExitCode::Success)
}

fn write_all(directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    clap_mangen::generate_to(Cli::command(), directory)
}
