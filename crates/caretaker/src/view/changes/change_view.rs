//! Prints changed files.

use std::io::{self, Write};

use admission::words::safe_text::on_one_line;
use admission::words::units;
use run_protocol::{BytesPath, ChangeCounts};
use serde::Serialize;
use workspace_history::{Change, ChangeKind, TreePath};

use crate::view::styled_line::{BAD, GOOD, ODD};

/// Shows at most this many paths, and counts the rest.
const MOST_PATHS: usize = 200;

/// A changed path, as `--json` prints it.
#[derive(Debug, Serialize)]
pub(crate) struct ChangedPath {
    path: BytesPath,
    change: ChangeKind,
}

impl From<&Change<'_>> for ChangedPath {
    fn from(change: &Change<'_>) -> Self {
        Self { path: change.bytes_path(), change: change.kind }
    }
}

/// A path that stayed and the reason, as `--json` prints it.
#[derive(Debug, Serialize)]
pub(crate) struct PathAndReason<'a> {
    path: BytesPath,
    why: &'a str,
}

impl<'a> PathAndReason<'a> {
    pub(crate) fn new(path: &TreePath, why: &'a str) -> Self {
        Self { path: BytesPath::from(path.as_path()), why }
    }
}

/// One line per path, with a letter for its change.
pub(crate) fn print_paths(out: &mut dyn Write, changes: &[Change<'_>]) -> io::Result<()> {
    let files: Vec<&Change<'_>> =
        changes.iter().filter(|change| !change.is_of_directory()).collect();
    for change in files.iter().take(MOST_PATHS) {
        let (style, letter) = match change.kind {
            ChangeKind::Added => (GOOD, 'A'),
            ChangeKind::Removed => (BAD, 'D'),
            ChangeKind::Changed => (ODD, 'M'),
            ChangeKind::Mode => (ODD, 'X'),
            ChangeKind::Kind => (ODD, 'T'),
        };
        let path = change.path.to_string();
        writeln!(out, "{style}{letter}{style:#} {}", on_one_line(&path))?;
    }
    let more = files.len().saturating_sub(MOST_PATHS) as u64;
    if more > 0 {
        writeln!(out, "… and {}", units::counted(more, "more", "more"))?;
    }
    Ok(())
}

/// `3 files: 1 added, 1 changed, 1 removed`.
pub(crate) fn counts(counts: ChangeCounts) -> String {
    let ChangeCounts { added, changed, removed } = counts;
    let parts: Vec<String> = [(added, "added"), (changed, "changed"), (removed, "removed")]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    match parts.as_slice() {
        [] => "no files".to_owned(),
        parts => {
            let files = units::counted(added + changed + removed, "file", "files");
            format!("{files}: {}", parts.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_counts_are_left_out() {
        let all = ChangeCounts { added: 1, changed: 20, removed: 3 };
        assert_eq!(counts(all), "24 files: 1 added, 20 changed, 3 removed");
        assert_eq!(
            counts(ChangeCounts { removed: 1, ..ChangeCounts::default() }),
            "1 file: 1 removed"
        );
        assert_eq!(counts(ChangeCounts::default()), "no files");
    }
}
