//! Reading and replacing the files that logins are in.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use ground::plain_file::read_whole;

/// A real login file has a few hundred bytes.
pub(super) const LARGEST: u64 = 256 * 1024;

/// Stands between the name of a file and something that cannot be guessed, while it is written.
const BESIDE: &str = ".caretaker-";

/// Reads a plain file that is no link and no FIFO. Fails with [`io::ErrorKind::FileTooLarge`] where it is larger than
/// `largest`, and with [`io::ErrorKind::InvalidData`] where it is not a plain file.
pub(super) fn read(path: &Path, largest: u64) -> io::Result<Vec<u8>> {
    let flags = nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    read_whole(file, largest)
}

/// Makes a file that only its owner can read.
pub(super) fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(content)?;
    file.sync_all()
}

/// Puts new content in the place of a file, or of nothing, if `may` still agrees once the content is written.
pub(super) fn replace(file: &Path, content: &[u8], may: impl FnOnce() -> bool) -> io::Result<bool> {
    let mut beside = file.to_owned().into_os_string();
    // Not to be guessed: the agent can write beside its own copy.
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

/// Removes what a process that was killed in the middle of [`replace`] left beside a file. The lock must be held.
pub(super) fn remove_left_overs(file: &Path) {
    let (Some(directory), Some(name)) = (file.parent(), file.file_name()) else { return };
    let Some(beginning) = name.to_str().map(|name| format!("{name}{BESIDE}")) else { return };
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(|name| name.starts_with(&beginning)) {
            fs::remove_file(entry.path()).ok();
        }
    }
}
