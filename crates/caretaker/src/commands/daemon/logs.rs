//! `caretaker daemon logs`: prints and follows the daemon's log.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use admission::command_error::CommandError;
use admission::host::Host;
use run_protocol::ExitCode;

use super::{LONGEST_LOG, LOOK_AGAIN, log_path};
use crate::data_out::print_text;

#[derive(Debug, clap::Args)]
pub(crate) struct LogsArgs {
    /// Follow the log.
    #[arg(long, short)]
    follow: bool,
    /// Begin with the last N lines.
    #[arg(long = "last", short = 'n', value_name = "N", default_value_t = 50)]
    last: usize,
}

pub(super) fn logs(host: &Host, args: &LogsArgs) -> Result<ExitCode, CommandError> {
    let path = log_path(host);
    let cannot = |error: io::Error| {
        let what = format!("cannot read the log `{}`", path.display());
        CommandError::new(ExitCode::NotFound, what).because(error)
    };
    let mut file = File::open(&path).map_err(cannot)?;
    let mut text = String::new();
    let start = file.metadata().map_err(cannot)?.len().saturating_sub(LONGEST_LOG);
    file.seek(SeekFrom::Start(start)).map_err(cannot)?;
    file.read_to_string(&mut text).map_err(cannot)?;
    let lines: Vec<&str> = text.lines().collect();
    let shown = &lines[lines.len().saturating_sub(args.last)..];
    for line in shown {
        print_text(&format!("{line}\n"))?;
    }
    if !args.follow {
        return Ok(ExitCode::Success);
    }
    loop {
        let mut more = String::new();
        file.read_to_string(&mut more).map_err(cannot)?;
        if more.is_empty() {
            std::thread::sleep(LOOK_AGAIN);
            reopen_if_replaced(&mut file, &path).map_err(cannot)?;
            continue;
        }
        print_text(&more)?;
    }
}

/// Opens the new log after the old one was renamed.
fn reopen_if_replaced(file: &mut File, path: &Path) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    let Ok(now) = fs::metadata(path) else { return Ok(()) };
    if now.ino() != file.metadata()?.ino() {
        *file = File::open(path)?;
    }
    Ok(())
}
