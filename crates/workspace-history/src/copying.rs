//! Copies single files from one tree to another, without following a link on either side.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::file_tree::{FileTree, OpenDirectory};
use crate::tree_path::TreePath;

/// Copies regular files to the same paths in another tree. Leaves out links and special files, and paths that exist
/// there or lead through a link. Returns the number of copied files. Fails with [`io::ErrorKind::FileTooLarge`] after
/// `most_bytes`.
pub fn copy_files<'p>(
    from: &Path,
    to: &Path,
    paths: impl IntoIterator<Item = &'p TreePath>,
    most_bytes: u64,
) -> io::Result<u64> {
    let (from, to) = (FileTree::open(from)?, FileTree::open(to)?);
    let (mut n_copied, mut bytes_left) = (0, most_bytes);
    for path in paths {
        match copy_file(&from, &to, path, &mut bytes_left) {
            Ok(()) => n_copied += 1,
            Err(error) if is_left_out(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(n_copied)
}

/// True if the source is missing or not a plain file, the target already exists, or a link is in the way.
fn is_left_out(error: &io::Error) -> bool {
    let known = [Errno::LOOP, Errno::NOTDIR, Errno::EXIST, Errno::NOENT, Errno::NXIO, Errno::XDEV];
    error.kind() == io::ErrorKind::InvalidInput
        || known.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

fn copy_file(from: &FileTree, to: &FileTree, path: &TreePath, left: &mut u64) -> io::Result<()> {
    let parent = path.parent().unwrap_or_default();
    let directory = from.directory(&parent)?;
    let mode = match directory.look(path.name())? {
        found if found.file_type.is_file() => found.mode & 0o777,
        _ => return Err(io::ErrorKind::InvalidInput.into()),
    };
    let mut source = directory.open_file(path.name())?.take(left.saturating_add(1));
    let directory = make_directories(to, &parent)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let name = OsStr::from_bytes(path.name());
    let made = rustix::fs::openat(directory.fd(), name, flags, Mode::from_raw_mode(mode | 0o200))?;
    let mut made = File::from(made);
    let length = io::copy(&mut source, &mut made)?;
    made.flush()?;
    *left = left.checked_sub(length).ok_or(io::ErrorKind::FileTooLarge)?;
    Ok(())
}

/// Opens a directory, and makes it and those above it if they are missing.
fn make_directories(tree: &FileTree, path: &TreePath) -> io::Result<OpenDirectory> {
    let mut at = TreePath::default();
    let mut opened = tree.directory(&at)?;
    for name in path.names() {
        let mode = Mode::from_raw_mode(0o755);
        match rustix::fs::mkdirat(opened.fd().as_fd(), OsStr::from_bytes(name), mode) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
        at = at.join(name);
        opened = tree.directory(&at)?;
    }
    Ok(opened)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn only_plain_files_are_copied_and_neither_side_follows_a_link() {
        let place = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(place.path()).unwrap();
        let (from, to, out) = (root.join("from"), root.join("to"), root.join("out"));
        for directory in ["from/a/b", "from/linked", "from/real", "to", "out"] {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        for file in ["from/a/b/.env", "from/here", "from/linked/x", "out/secret"] {
            fs::write(root.join(file), file).unwrap();
        }
        fs::write(to.join("here"), "tracked").unwrap();
        std::os::unix::fs::symlink(&out, to.join("linked")).unwrap();
        std::os::unix::fs::symlink(out.join("secret"), from.join("link")).unwrap();
        std::os::unix::fs::symlink(&out, from.join("through")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            from.join("fifo"),
            rustix::fs::FileType::Fifo,
            Mode::RWXU,
            0,
        )
        .unwrap();
        let names =
            ["a/b/.env", "here", "linked/x", "link", "through/secret", "fifo", "gone", "real"];
        let paths = names.map(TreePath::from);
        assert_eq!(copy_files(&from, &to, &paths, 100).unwrap(), 1);
        assert_eq!(fs::read_to_string(to.join("a/b/.env")).unwrap(), "from/a/b/.env");
        assert_eq!(fs::read_to_string(to.join("here")).unwrap(), "tracked");
        assert_eq!(fs::read_dir(&out).unwrap().count(), 1);
        assert_eq!(fs::read_dir(&to).unwrap().count(), 3, "a, here and linked");

        fs::remove_dir_all(to.join("a")).unwrap();
        let large = copy_files(&from, &to, &paths, 12).unwrap_err();
        assert_eq!(large.kind(), io::ErrorKind::FileTooLarge);
    }
}
