//! Reads and replaces login files.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use ground::plain_file;
pub(super) use ground::plain_file::read_at_most as read;

/// The largest login file. Real ones are a few hundred bytes long.
pub(super) const LARGEST: u64 = 256 * 1024;

/// Separates a file's name from the random part of its temporary name.
const BESIDE: &str = ".caretaker-";

/// Creates a file that only its owner can read.
pub(super) fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = plain_file::create_new(path)?;
    file.write_all(content)?;
    file.sync_all()
}

/// Creates or replaces a file, if `may` still agrees after the content is on disk.
pub(super) fn replace(file: &Path, content: &[u8], may: impl FnOnce() -> bool) -> io::Result<bool> {
    let mut beside = file.to_owned().into_os_string();
    // The agent can write in the directory of its copy, so it must not guess the name.
    beside.push(format!("{BESIDE}{}", uuid::Uuid::new_v4()));
    let beside = PathBuf::from(beside);
    let replaced = write_private(&beside, content).and_then(|()| match may() {
        true => fs::rename(&beside, file).map(|()| true),
        false => Ok(false),
    });
    if !matches!(replaced, Ok(true)) {
        fs::remove_file(&beside).ok();
    }
    replaced
}

/// Removes the temporary files of processes that were killed inside [`replace`]. The caller holds the lock.
pub(super) fn remove_left_overs(file: &Path) {
    let (Some(directory), Some(name)) = (file.parent(), file.file_name()) else { return };
    let Some(beginning) = name.to_str().map(|name| format!("{name}{BESIDE}")) else { return };
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(|name| name.starts_with(&beginning)) {
            fs::remove_file(entry.path()).ok();
        }
    }
}
