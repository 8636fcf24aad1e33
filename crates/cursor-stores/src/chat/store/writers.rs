//! The processes that have a chat's files open for writing.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Device and inode: sandboxes see the same file under other paths.
pub(crate) type FileIdentity = (u64, u64);

/// A process that may write to a store at any moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreWriter {
    pub pid: u32,
    /// The process's name in `/proc`.
    pub program: String,
}

/// Finds the processes that have a store or its log open for writing, except this process. A child that inherited the
/// files does not count if its parent does: the user has to end the parent. A child that is about to start another
/// program closes the files a moment later.
#[must_use]
pub fn writers_of(store_db: &Path) -> Vec<StoreWriter> {
    let files: HashSet<FileIdentity> = NAMES
        .iter()
        .filter_map(|name| fs::symlink_metadata(store_db.with_file_name(name)).ok())
        .map(|file| (file.dev(), file.ino()))
        .collect();
    let mut found: Vec<(StoreWriter, u32)> = Vec::new();
    for process in other_processes() {
        let mut open = HashSet::new();
        add_files_of(&process, &mut open);
        if !open.is_disjoint(&files) {
            // A process may have ended since it was listed.
            found.extend(writer_and_parent(&process));
        }
    }
    let pids: HashSet<u32> = found.iter().map(|(writer, _)| writer.pid).collect();
    found.retain(|(_, parent)| !pids.contains(parent));
    found.into_iter().map(|(writer, _)| writer).collect()
}

/// Reads a process's name, and the number of its parent.
fn writer_and_parent(process: &Path) -> Option<(StoreWriter, u32)> {
    let pid = process.file_name()?.to_str()?.parse().ok()?;
    // `12 (a name) S 11 …`: the name may contain anything, even brackets.
    let stat = fs::read(process.join("stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    let (before, after) = stat.rsplit_once(')')?;
    let (_, name) = before.split_once('(')?;
    let mut fields = after.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let program = name.trim().replace(char::is_control, " ");
    (state != "Z").then_some((StoreWriter { pid, program }, parent))
}

/// Finds the writers of all chats at once, and keeps the result for a moment.
#[derive(Debug, Default)]
pub(crate) struct Writers {
    seen: Mutex<Option<(Instant, Arc<HashSet<FileIdentity>>)>>,
}

/// A list checks many chats at once. Half a second is not noticeable.
const KEPT_FOR: Duration = Duration::from_millis(500);
/// Databases of chats, and their logs.
const NAMES: [&str; 2] = [DATABASE, "store.db-wal"];
const DATABASE: &str = "store.db";

impl Writers {
    /// Tells whether another process has one of these files open for writing.
    pub(crate) fn has_any(&self, files: impl IntoIterator<Item = FileIdentity>) -> bool {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let open = match &*seen {
            Some((at, open)) if at.elapsed() < KEPT_FOR => Arc::clone(open),
            _ => {
                let open = Arc::new(open_for_writing());
                *seen = Some((Instant::now(), Arc::clone(&open)));
                open
            }
        };
        drop(seen);
        files.into_iter().any(|file| open.contains(&file))
    }
}

/// Skips processes that it may not inspect, such as those of other users. Finds nothing where there is no `/proc`.
fn open_for_writing() -> HashSet<FileIdentity> {
    let mut found = HashSet::new();
    for process in other_processes() {
        add_files_of(&process, &mut found);
    }
    found
}

fn other_processes() -> impl Iterator<Item = PathBuf> {
    let own = std::process::id().to_string();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter(move |process| {
            let name = process.file_name();
            name.as_encoded_bytes().first().is_some_and(u8::is_ascii_digit) && name != *own
        })
        .map(|process| process.path())
}

/// Adds the files that a process has open for writing.
///
/// SQLite opens the log for writing even in a process that only reads. So a log does not count if the process has its
/// database open only for reading.
fn add_files_of(process: &Path, found: &mut HashSet<FileIdentity>) {
    let mut only_read: HashSet<PathBuf> = HashSet::new();
    let mut logs: Vec<(PathBuf, FileIdentity)> = Vec::new();
    for descriptor in fs::read_dir(process.join("fd")).into_iter().flatten().flatten() {
        let path = descriptor.path();
        let Ok(target) = fs::read_link(&path) else { continue };
        let is_named = |name: &str| target.file_name().is_some_and(|file| file == name);
        if !NAMES.iter().any(|name| is_named(name)) {
            continue;
        }
        let is_log = !is_named(DATABASE);
        let Ok(metadata) = fs::metadata(&path) else { continue };
        let identity = (metadata.dev(), metadata.ino());
        match is_writing(process, &descriptor.file_name().to_string_lossy()) {
            true if is_log => logs.push((target.with_file_name(DATABASE), identity)),
            true => drop(found.insert(identity)),
            false if is_log => {}
            false => drop(only_read.insert(target)),
        }
    }
    let written = logs.into_iter().filter(|(database, _)| !only_read.contains(database));
    found.extend(written.map(|(_, identity)| identity));
}

fn is_writing(process: &Path, descriptor: &str) -> bool {
    const ACCESS_MODE: u32 = 0o3;
    let Ok(about) = fs::read_to_string(process.join("fdinfo").join(descriptor)) else {
        return false;
    };
    let flags = about.lines().find_map(|line| line.strip_prefix("flags:")).map(str::trim);
    flags
        .and_then(|flags| u32::from_str_radix(flags, 8).ok())
        .is_some_and(|flags| flags & ACCESS_MODE != 0)
}

#[cfg(test)]
#[path = "writers_tests.rs"]
mod tests;
