//! Writes files that appear complete or not at all.

use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use admission::command_error::CommandError;
use run_protocol::ExitCode;

/// The choice if the file already exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Existing {
    Keep,
    Replace,
}

/// Why a file was not written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WriteFileError {
    #[error("the file already exists")]
    Exists,
    #[error("cannot write the file")]
    Write(#[source] io::Error),
}

impl WriteFileError {
    /// The error for a command that wanted to write the file.
    pub(crate) fn into_command_error(self, what: String) -> CommandError {
        match self {
            Self::Exists => CommandError::new(ExitCode::Conflict, what)
                .because(self)
                .hint("replace it with `--force`"),
            Self::Write(_) => CommandError::new(ExitCode::Failed, what).because(self),
        }
    }
}

/// Writes a file under a temporary name, and renames it when it is complete. A failure leaves nothing behind.
pub(crate) fn write_whole(
    path: &Path,
    existing: Existing,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), WriteFileError> {
    // Check before the work. The rename at the end checks again.
    if existing == Existing::Keep && path.symlink_metadata().is_ok() {
        return Err(WriteFileError::Exists);
    }
    let directory = match path.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => directory,
        _ => Path::new("."),
    };
    let mut file = tempfile::Builder::new()
        .prefix(".export-")
        .suffix(".tmp")
        // Like the user's other files: the process's umask applies.
        .permissions(std::fs::Permissions::from_mode(0o666))
        .tempfile_in(directory)
        .map_err(WriteFileError::Write)?;
    let mut out = BufWriter::with_capacity(256 * 1024, file.as_file_mut());
    write(&mut out).and_then(|()| out.flush()).map_err(WriteFileError::Write)?;
    drop(out);
    let named = match existing {
        Existing::Keep => file.persist_noclobber(path),
        Existing::Replace => file.persist(path),
    };
    named.map(drop).map_err(|error| match error.error.kind() {
        io::ErrorKind::AlreadyExists => WriteFileError::Exists,
        _ => WriteFileError::Write(error.error),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use pretty_assertions::assert_eq;

    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_file_appears_whole_and_replaces_another_only_on_request() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.md");
        let write = |text: &'static str, existing| {
            write_whole(&path, existing, move |out| out.write_all(text.as_bytes()))
        };
        write("first", Existing::Keep).unwrap();
        assert!(matches!(write("second", Existing::Keep), Err(WriteFileError::Exists)));
        assert_eq!(fs::read_to_string(&path).unwrap(), "first");
        write("third", Existing::Replace).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "third");
        assert_eq!(names(directory.path()), ["a.md"]);
    }

    #[test]
    fn a_failure_half_way_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.md");
        let outcome = write_whole(&path, Existing::Keep, |out| {
            out.write_all(&[b'x'; 1 << 20])?;
            assert_eq!(names(directory.path()).len(), 1);
            Err(io::Error::other("the disk is full"))
        });
        assert!(matches!(outcome, Err(WriteFileError::Write(_))));
        assert_eq!(names(directory.path()), [] as [&str; 0]);
    }

    #[test]
    fn a_link_in_place_of_the_file_is_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let (target, path) = (directory.path().join("target"), directory.path().join("a.md"));
        fs::write(&target, "untouched").unwrap();
        std::os::unix::fs::symlink(&target, &path).unwrap();
        let write = |existing| write_whole(&path, existing, |out| out.write_all(b"new"));
        assert!(matches!(write(Existing::Keep), Err(WriteFileError::Exists)));
        write(Existing::Replace).unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "untouched");
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    }
}
