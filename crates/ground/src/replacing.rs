//! Replaces a file so that a reader sees either the old content or the new content.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

/// The prefix of draft names.
const DRAFT: &str = ".new-";
/// No writer needs this long, so the writer of an older draft is dead.
const DEAD_FOR_SURE: Duration = Duration::from_secs(24 * 60 * 60);

/// Whether the new content must survive a crash of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durable {
    /// The content is on disk before the file gets its name: after a crash, the file has the old content or the new.
    Yes,
    /// For content that can be recreated. If only this process is killed, nothing is lost.
    No,
}

/// Creates or replaces a file. Only the owner can read it.
pub fn replace_file(path: &Path, content: &[u8], durable: Durable) -> io::Result<()> {
    replace_with(path, durable, |out| out.write_all(content))
}

/// Like [`replace_file`], but `write` produces the content. If anything fails, the old file stays and no draft is left.
pub fn replace_with(
    path: &Path,
    durable: Durable,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let directory = match path.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => directory,
        _ => Path::new("."),
    };
    let mut draft = tempfile::Builder::new().prefix(DRAFT).tempfile_in(directory)?;
    write(draft.as_file_mut())?;
    if durable == Durable::Yes {
        draft.as_file().sync_all()?;
    }
    draft.persist(path).map(drop).map_err(|error| error.error)
}

/// Creates a file that only its owner can read. Leaves an existing file alone. A reader never sees half of the content.
pub fn create_if_missing(path: &Path, content: &[u8]) -> io::Result<()> {
    if path.exists() {
        return Ok(());
    }
    let directory = path.parent().unwrap_or(path);
    let mut draft = tempfile::Builder::new().prefix(DRAFT).tempfile_in(directory)?;
    draft.write_all(content)?;
    match draft.persist_noclobber(path) {
        Err(error) if error.error.kind() != io::ErrorKind::AlreadyExists => Err(error.error),
        _ => Ok(()),
    }
}

/// Removes the drafts of killed writers from this directory.
pub fn remove_dead_drafts(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let is_draft = entry.file_name().to_str().is_some_and(|name| name.starts_with(DRAFT));
        let age = || entry.metadata().ok()?.modified().ok()?.elapsed().ok();
        if is_draft && age().is_some_and(|age| age > DEAD_FOR_SURE) {
            fs::remove_file(entry.path()).ok();
        }
    }
}

#[cfg(test)]
#[path = "replacing_tests.rs"]
mod tests;
