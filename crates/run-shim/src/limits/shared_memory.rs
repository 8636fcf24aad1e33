//! Counts memory that belongs to no process: files in memory, and shared segments.
//!
//! ```text
//!   descriptors of all processes   unnamed files in memory (memfd, unlinked), each once, by device and inode
//!   directories in memory          all their files, named or not
//!   segments                       all System V segments that the kernel lists, attached or not
//! ```
//!
//! If a process maps such memory, its own numbers include it. To avoid counting it twice, this code subtracts the
//! mapped part, but never more than the total.
//!
//! It does not see descriptors in transit in a socket, or, without root, those of a process that made itself
//! unreadable.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{Read, Seek};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::processes_in;
use super::rooms::Rooms;

/// The unit of `st_blocks`.
const BLOCK: u64 = 512;
/// The types of in-memory file systems, as `statfs` reports them.
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x9584_58f6];

/// The identity of a piece of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Part {
    /// A file without a name: its device and inode.
    File(u64, u64),
    /// An in-memory directory: its device.
    Room(u64),
    /// A segment, by its number.
    Segment(u64),
}

/// The pieces of memory, with their sizes.
#[derive(Debug, Default)]
pub(super) struct SharedMemory {
    parts: HashMap<Part, u64>,
}

impl SharedMemory {
    /// `proc` is the sandbox's own `/proc`.
    pub(super) fn of(proc: &Path, rooms: &Rooms, segments: Option<&File>) -> Self {
        let mut found = Self::default();
        for room in rooms.used() {
            found.parts.insert(Part::Room(room.device), room.bytes);
        }
        found.add_files(proc);
        let mut list = String::new();
        if let Some(mut segments) = segments
            && segments.rewind().is_ok()
            && segments.read_to_string(&mut list).is_ok()
        {
            let segments = list.lines().filter_map(segment);
            found.parts.extend(segments.map(|(id, bytes)| (Part::Segment(id), bytes)));
        }
        found
    }

    fn add_files(&mut self, proc: &Path) {
        let mut devices = HashMap::new();
        let mut seen = HashSet::new();
        for process in processes_in(proc) {
            let files = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
            for file in files {
                // This link leads to the open file itself.
                let Ok(found) = fs::metadata(file.path()) else { continue };
                let (device, inode) = (found.dev(), found.ino());
                let is_nameless = found.is_file() && found.nlink() == 0;
                if !is_nameless || self.parts.contains_key(&Part::Room(device)) {
                    continue;
                }
                let is_new = seen.insert((device, inode));
                if is_new && *devices.entry(device).or_insert_with(|| is_in_memory(&file.path())) {
                    let bytes = found.blocks().saturating_mul(BLOCK);
                    self.parts.insert(Part::File(device, inode), bytes);
                }
            }
        }
    }

    /// The total size.
    pub(super) fn bytes(&self) -> u64 {
        self.parts.values().fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }

    /// Subtracts the memory that processes have mapped, because their own numbers include it. `smaps` has one text per
    /// process.
    pub(super) fn without_mapped(mut self, smaps: impl Iterator<Item = String>) -> Self {
        for text in smaps {
            for (part, bytes) in mappings(&text) {
                let known = match self.parts.contains_key(&part) {
                    true => Some(part),
                    false => match part {
                        Part::File(device, _) => Some(Part::Room(device)),
                        _ => None,
                    },
                };
                if let Some(left) = known.and_then(|part| self.parts.get_mut(&part)) {
                    *left = left.saturating_sub(bytes);
                }
            }
        }
        self
    }
}

fn is_in_memory(file: &Path) -> bool {
    rustix::fs::statfs(file).is_ok_and(|stat| {
        // The field's width and sign differ between machines.
        u64::try_from(stat.f_type).is_ok_and(|kind| IN_MEMORY.contains(&kind))
    })
}

/// Reads a line of `/proc/sysvipc/shm`: the segment's id, and its bytes in memory and in swap.
fn segment(line: &str) -> Option<(u64, u64)> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    Some((number(1)?, number(14)?.saturating_add(number(15)?)))
}

/// Returns every mapping of shared memory, with the bytes that count as the process's own.
///
/// The kernel divides a page among all processes that map it (`Pss`), and so do the sums here. Pages that a process
/// copied (`Anonymous`) are not shared.
fn mappings(smaps: &str) -> impl Iterator<Item = (Part, u64)> {
    let mut current = None;
    let (mut rss, mut pss) = (0, 0);
    smaps.lines().filter_map(move |line| {
        let (first, rest) = line.split_once(' ')?;
        let kib = || rest.split_whitespace().next()?.parse::<u64>().ok();
        match first {
            "Rss:" => rss = kib().unwrap_or(0),
            "Pss:" => pss = kib().unwrap_or(0),
            // This line comes after the other two.
            "Anonymous:" => {
                let shared = pss.min(rss.saturating_sub(kib().unwrap_or(0)));
                return Some((current?, shared.saturating_mul(1024)));
            }
            _ if !first.ends_with(':') => current = mapped(rest),
            _ => {}
        }
        None
    })
}

/// Reads the mapped file from a line `addresses rights offset major:minor inode name`, without its first word.
fn mapped(line: &str) -> Option<Part> {
    let mut fields = line.split_whitespace().skip(2);
    let (major, minor) = fields.next()?.split_once(':')?;
    let number = |text| u32::from_str_radix(text, 16).ok();
    let device = rustix::fs::makedev(number(major)?, number(minor)?);
    let inode = fields.next()?.parse().ok().filter(|inode| *inode > 0 || line.contains("/SYSV"))?;
    match fields.next().is_some_and(|name| name.starts_with("/SYSV")) {
        true => Some(Part::Segment(inode)),
        false => Some(Part::File(device, inode)),
    }
}

#[cfg(test)]
#[path = "shared_memory_tests.rs"]
mod tests;
