//! The links from a private cache to its seed.
//!
//! An agent has written to the private cache and may be writing to it now. So the shim opens only directories in it,
//! follows no link, and never leaves it. It makes directories and links, and removes only links. A link's text is a
//! path that exists only inside a sandbox.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use sandbox_plan::{Links, SEEDS_INSIDE, Seed, ToolCache};

/// The most entries in a seed, and in its private counterpart.
const MOST_ENTRIES: usize = 200_000;
/// The greatest depth. Maven's directories are about fifteen levels deep.
const DEEPEST: usize = 32;

const LIST: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const INSIDE: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);

/// Removes links whose target is gone, and makes those that are missing. Skips anything that it cannot use: the agent
/// that put it there has spoilt only its own cache.
pub(super) fn refresh(home: &Path, cache: &ToolCache) {
    for seed in &cache.seeds {
        let part = cache.private.iter().filter(|part| part.is_directory);
        let Some((part, below)) = part
            .filter_map(|part| Some((part, seed.relative.strip_prefix(&part.relative).ok()?)))
            .next()
        else {
            continue;
        };
        if let Err(error) = refresh_seed(&home.join(&part.relative), below, seed, cache) {
            tracing::warn!(%error, tool = cache.tool, "links to the host's cache are missing");
        }
    }
}

fn refresh_seed(root: &Path, below: &Path, seed: &Seed, cache: &ToolCache) -> io::Result<()> {
    let host = rustix::fs::openat(CWD, &seed.source, LIST, Mode::empty())?;
    let mut private = rustix::fs::openat(CWD, root, LIST, Mode::empty())?;
    for name in below.components().filter(|name| matches!(name, Component::Normal(_))) {
        private = directory_in(private.as_fd(), &c_name(name.as_os_str().as_bytes())?)?;
    }
    let prefix = Path::new(SEEDS_INSIDE).join(&cache.tool);
    let mut n_left = MOST_ENTRIES;
    prune(private.as_fd(), host.as_fd(), &prefix, &seed.inside, &mut n_left, 0)?;
    let mut n_left = MOST_ENTRIES;
    match cache.links {
        Links::None => Ok(()),
        Links::Files => link_files(host.as_fd(), private.as_fd(), &seed.inside, &mut n_left, 0),
        Links::Directories => link_entries(host.as_fd(), private.as_fd(), &seed.inside),
    }
}

/// Removes links to files that the seed no longer has.
fn prune(
    private: BorrowedFd<'_>,
    host: BorrowedFd<'_>,
    prefix: &Path,
    seed: &Path,
    n_left: &mut usize,
    depth: usize,
) -> io::Result<()> {
    for (name, kind) in entries(private, n_left)? {
        match kind {
            FileType::Directory if depth < DEEPEST => {
                let Ok(below) = rustix::fs::openat2(private, &*name, LIST, Mode::empty(), INSIDE)
                else {
                    continue;
                };
                prune(below.as_fd(), host, prefix, seed, n_left, depth + 1)?;
            }
            FileType::Symlink => {
                let Ok(text) = rustix::fs::readlinkat(private, &*name, Vec::new()) else {
                    continue;
                };
                let target = Path::new(std::ffi::OsStr::from_bytes(text.to_bytes()));
                let is_ours = target.starts_with(prefix);
                let is_there = target.strip_prefix(seed).is_ok_and(|below| {
                    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                    rustix::fs::openat2(host, below, flags, Mode::empty(), INSIDE).is_ok()
                });
                if is_ours && !is_there {
                    rustix::fs::unlinkat(private, &*name, AtFlags::empty()).ok();
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn link_files(
    host: BorrowedFd<'_>,
    private: BorrowedFd<'_>,
    inside: &Path,
    n_left: &mut usize,
    depth: usize,
) -> io::Result<()> {
    for (name, kind) in entries(host, n_left)? {
        let bytes = name.to_bytes();
        match kind {
            FileType::Directory if depth < DEEPEST => {
                let Ok(from) = rustix::fs::openat(host, &*name, LIST, Mode::empty()) else {
                    continue;
                };
                let Ok(to) = directory_in(private, &name) else { continue };
                let inside = inside.join(std::ffi::OsStr::from_bytes(bytes));
                link_files(from.as_fd(), to.as_fd(), &inside, n_left, depth + 1)?;
            }
            // A lock is for the host's own tools.
            FileType::RegularFile if !bytes.ends_with(b".lock") => link(private, &name, inside)?,
            // uv links its archives to each other.
            FileType::Symlink => {
                let Ok(text) = rustix::fs::readlinkat(host, &*name, Vec::new()) else { continue };
                if !text.to_bytes().starts_with(b"/") {
                    ignore_existing(rustix::fs::symlinkat(&*text, private, &*name))?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn link_entries(host: BorrowedFd<'_>, private: BorrowedFd<'_>, inside: &Path) -> io::Result<()> {
    for (name, _) in entries(host, &mut { MOST_ENTRIES })? {
        // Hidden entries are the tool's temporary files.
        if !name.to_bytes().starts_with(b".") {
            link(private, &name, inside)?;
        }
    }
    Ok(())
}

fn link(private: BorrowedFd<'_>, name: &CStr, inside: &Path) -> io::Result<()> {
    let target = inside.join(std::ffi::OsStr::from_bytes(name.to_bytes()));
    ignore_existing(rustix::fs::symlinkat(&target, private, name))
}

/// Opens a directory in the private cache, and makes it if it is missing.
fn directory_in(private: BorrowedFd<'_>, name: &CStr) -> io::Result<OwnedFd> {
    ignore_existing(rustix::fs::mkdirat(private, name, Mode::RWXU))?;
    Ok(rustix::fs::openat2(private, name, LIST, Mode::empty(), INSIDE)?)
}

fn ignore_existing(done: Result<(), Errno>) -> io::Result<()> {
    match done {
        Ok(()) | Err(Errno::EXIST | Errno::ACCESS) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Lists a directory, at most `n_left` entries.
fn entries(
    directory: BorrowedFd<'_>,
    n_left: &mut usize,
) -> io::Result<Vec<(Box<CStr>, FileType)>> {
    let mut found = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        if matches!(entry.file_name().to_bytes(), b"." | b"..") {
            continue;
        }
        *n_left =
            n_left.checked_sub(1).ok_or_else(|| io::Error::other("it has too many entries"))?;
        found.push((entry.file_name().into(), entry.file_type()));
    }
    Ok(found)
}

fn c_name(name: &[u8]) -> io::Result<std::ffi::CString> {
    std::ffi::CString::new(name).map_err(io::Error::other)
}
