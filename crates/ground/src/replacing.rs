//! Replacing a file so that a reader sees the old content or the new, never half of one.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

/// What the names of drafts begin with.
const DRAFT: &str = ".new-";
/// No draft is written for that long, so its writer is dead.
const DEAD_FOR_SURE: Duration = Duration::from_secs(24 * 60 * 60);

/// Whether a crash of the machine may leave half of the new content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durable {
    /// The content is on the disk before the file gets its name: there is the old content or the new.
    Yes,
    /// Enough for what can be made again. A kill of this process still loses nothing.
    No,
}

/// Puts these bytes in the place of a file, or of nothing. Only the owner can read the file.
pub fn replace_file(path: &Path, content: &[u8], durable: Durable) -> io::Result<()> {
    replace_with(path, durable, |out| out.write_all(content))
}

/// As [`replace_file`], with content that `write` produces. If anything fails, the old file stays and nothing is left
/// beside it.
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

/// Removes drafts from this directory whose writers were killed.
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
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_file_is_private_and_has_the_new_content() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("record.json");
        for durable in [Durable::No, Durable::Yes] {
            replace_file(&path, b"one", Durable::Yes).unwrap();
            replace_file(&path, b"two", durable).unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"two");
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn a_failure_keeps_the_old_file_and_leaves_nothing_beside_it() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("record.json");
        replace_file(&path, b"one", Durable::No).unwrap();
        let failed = replace_with(&path, Durable::No, |out| {
            out.write_all(b"half")?;
            Err(io::Error::other("it broke"))
        });
        assert_eq!(failed.unwrap_err().to_string(), "it broke");
        assert_eq!(fs::read(&path).unwrap(), b"one");
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
    }

    #[test]
    fn only_drafts_of_the_dead_are_removed() {
        let place = tempfile::tempdir().unwrap();
        let make = |name: &str| fs::File::create(place.path().join(name)).unwrap();
        let long_ago = std::time::SystemTime::now() - 2 * DEAD_FOR_SURE;
        make(".new-young");
        for name in [".new-old", "record.json"] {
            make(name).set_modified(long_ago).unwrap();
        }
        remove_dead_drafts(place.path());
        let mut left: Vec<_> =
            fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, [".new-young", "record.json"]);
    }

    #[test]
    fn a_link_is_replaced_and_not_followed() {
        let place = tempfile::tempdir().unwrap();
        let (target, link) = (place.path().join("target"), place.path().join("link"));
        fs::write(&target, "kept").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        replace_file(&link, b"new", Durable::No).unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"kept");
        assert!(fs::symlink_metadata(&link).unwrap().is_file());
    }
}
