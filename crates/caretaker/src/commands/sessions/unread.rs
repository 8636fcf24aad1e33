//! Conversations that a command could not read.

use std::error::Error;

use admission::command_error::CommandError;
use admission::words::talk::note;
use admission::words::units::grouped;
use cursor_stores::model::Head;
use run_protocol::ExitCode;

/// More names than this do not help.
const MOST_NAMED: usize = 20;

/// Prints the ids and the reasons on stderr. `what` follows the id: `was not exported`.
pub(super) fn name_failures<'a>(
    failures: impl IntoIterator<Item = (&'a Head, impl Error + Send + Sync + 'static)>,
    what: &str,
) -> usize {
    let mut n_failures = 0;
    for (head, error) in failures {
        n_failures += 1;
        if n_failures <= MOST_NAMED {
            let failure = CommandError::new(ExitCode::Failed, format!("{} {what}", head.id));
            note(&failure.because(error).message_with_causes());
        }
    }
    if n_failures > MOST_NAMED {
        note(&format!("{} more {what}", grouped((n_failures - MOST_NAMED) as u64)));
    }
    n_failures
}
