//! A snapshot: everything about a workspace except the contents of its files, which git keeps.

pub(crate) mod changes;
pub(crate) mod saving;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use ground::{Durable, replace_with};
use run_protocol::BytesPath;
use serde::{Deserialize, Serialize};

use crate::tree_path::TreePath;
use crate::walk::ignore_rules::DirectoryRules;

/// The version of the file format.
const VERSION: u32 = 1;

/// A workspace at one moment.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Snapshot {
    /// The commit in our repository that has the contents. `None` if the contents were not saved.
    pub commit: Option<String>,
    /// When the walk began, in nanoseconds since 1970. A file that changed shortly before this time, or later, may have
    /// changed again unnoticed.
    pub began_ns: i64,
    /// The HEAD of the user's repository.
    pub head: Option<Head>,
    /// True if the workspace had a `.git`.
    pub has_git: bool,
    /// The ignore rules of each directory.
    pub(crate) rules: BTreeMap<TreePath, DirectoryRules>,
    /// The ignore rules from above the workspace, outermost first.
    pub(crate) rules_above: Vec<DirectoryRules>,
    /// The covered files and directories.
    pub entries: BTreeMap<TreePath, Entry>,
    /// Unreadable paths, and repositories within the workspace, which Caretaker never touches.
    pub left_out: Vec<TreePath>,
}

/// The commit and branch of a repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    pub commit: String,
    /// `None` if HEAD was detached.
    pub branch: Option<String>,
}

/// A file, directory or other thing in a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub kind: EntryKind,
    /// All twelve mode bits.
    pub mode: u32,
    pub stamp: Stamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryKind {
    /// `id` names the content in our repository. Empty if the content was not saved.
    File {
        size: u64,
        id: String,
    },
    Symlink {
        target: PathBuf,
    },
    Directory,
    Fifo,
    Socket,
    Device,
}

/// Metadata that shows, without reading a file, that it is unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stamp {
    pub modified_ns: i64,
    pub changed_ns: i64,
    pub inode: u64,
    pub device: u64,
}

impl Entry {
    /// Returns true if content, kind and mode are equal.
    pub fn is_same_as(&self, other: &Self) -> bool {
        let same_kind = match (&self.kind, &other.kind) {
            (EntryKind::File { id: one, .. }, EntryKind::File { id: two, .. }) => one == two,
            (EntryKind::Symlink { target: one }, EntryKind::Symlink { target: two }) => {
                return one == two;
            }
            (one, two) => one == two,
        };
        same_kind && self.mode == other.mode
    }

    pub fn is_directory(&self) -> bool {
        self.kind == EntryKind::Directory
    }
}

impl Snapshot {
    /// Returns true if all entries are equal.
    pub fn has_same_entries_as(&self, other: &Self) -> bool {
        self.entries.len() == other.entries.len()
            && self.entries.iter().zip(&other.entries).all(
                |((path, entry), (other_path, other))| {
                    path == other_path && entry.is_same_as(other)
                },
            )
    }

    /// Returns the number of files and links, without directories.
    pub fn n_files(&self) -> u64 {
        self.entries.values().filter(|entry| !entry.is_directory()).count() as u64
    }
}

#[derive(Serialize, Deserialize)]
struct Header {
    v: u32,
    commit: Option<String>,
    began_ns: i64,
    head: Option<Head>,
    has_git: bool,
    rules: Vec<(TreePath, DirectoryRules)>,
    rules_above: Vec<DirectoryRules>,
    left_out: Vec<TreePath>,
    n_entries: usize,
}

/// An entry in the file. Flat and short, because there may be many.
#[derive(Serialize, Deserialize)]
struct Line {
    /// Path.
    p: TreePath,
    /// Kind.
    k: LineKind,
    /// Mode.
    o: u32,
    /// Size and content of a file.
    #[serde(default, skip_serializing_if = "is_zero")]
    n: u64,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    id: String,
    /// Target of a link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    t: Option<BytesPath>,
    /// Stamp: modified, changed, inode, device.
    s: (i64, i64, u64, u64),
}

#[derive(Serialize, Deserialize)]
enum LineKind {
    #[serde(rename = "f")]
    File,
    #[serde(rename = "l")]
    Symlink,
    #[serde(rename = "d")]
    Directory,
    #[serde(rename = "p")]
    Fifo,
    #[serde(rename = "s")]
    Socket,
    #[serde(rename = "b")]
    Device,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Line {
    fn of(path: &TreePath, entry: &Entry) -> Self {
        let Stamp { modified_ns, changed_ns, inode, device } = entry.stamp;
        let mut line = Self {
            p: path.clone(),
            k: LineKind::Directory,
            o: entry.mode,
            n: 0,
            id: String::new(),
            t: None,
            s: (modified_ns, changed_ns, inode, device),
        };
        match &entry.kind {
            EntryKind::File { size, id } => {
                line.k = LineKind::File;
                line.n = *size;
                line.id.clone_from(id);
            }
            EntryKind::Symlink { target } => {
                line.k = LineKind::Symlink;
                line.t = Some(BytesPath::from(target.as_path()));
            }
            EntryKind::Directory => {}
            EntryKind::Fifo => line.k = LineKind::Fifo,
            EntryKind::Socket => line.k = LineKind::Socket,
            EntryKind::Device => line.k = LineKind::Device,
        }
        line
    }

    fn into_entry(self) -> (TreePath, Entry) {
        let kind = match self.k {
            LineKind::File => EntryKind::File { size: self.n, id: self.id },
            LineKind::Symlink => {
                EntryKind::Symlink { target: self.t.map(|target| target.0).unwrap_or_default() }
            }
            LineKind::Directory => EntryKind::Directory,
            LineKind::Fifo => EntryKind::Fifo,
            LineKind::Socket => EntryKind::Socket,
            LineKind::Device => EntryKind::Device,
        };
        let (modified_ns, changed_ns, inode, device) = self.s;
        let stamp = Stamp { modified_ns, changed_ns, inode, device };
        (self.p, Entry { kind, mode: self.o, stamp })
    }
}

impl Snapshot {
    /// Writes the whole file, or nothing.
    pub(crate) fn write(&self, path: &Path) -> io::Result<()> {
        replace_with(path, Durable::No, |file| self.write_to(BufWriter::new(file)))
    }

    fn write_to(&self, mut out: impl Write) -> io::Result<()> {
        let header = Header {
            v: VERSION,
            commit: self.commit.clone(),
            began_ns: self.began_ns,
            head: self.head.clone(),
            has_git: self.has_git,
            rules: self.rules.iter().map(|(path, rules)| (path.clone(), rules.clone())).collect(),
            rules_above: self.rules_above.clone(),
            left_out: self.left_out.clone(),
            n_entries: self.entries.len(),
        };
        serde_json::to_writer(&mut out, &header)?;
        out.write_all(b"\n")?;
        for (path, entry) in &self.entries {
            serde_json::to_writer(&mut out, &Line::of(path, entry))?;
            out.write_all(b"\n")?;
        }
        out.flush()
    }

    pub(crate) fn read(path: &Path) -> io::Result<Self> {
        let mut lines = BufReader::new(File::open(path)?).split(b'\n');
        let bad = || io::Error::new(io::ErrorKind::InvalidData, "the snapshot is incomplete");
        let header: Header = serde_json::from_slice(&lines.next().ok_or_else(bad)??)?;
        if header.v != VERSION {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("the snapshot has version {}, but this build reads {VERSION}", header.v),
            ));
        }
        let mut entries = BTreeMap::new();
        for line in lines {
            let line: Line = serde_json::from_slice(&line?)?;
            let (path, entry) = line.into_entry();
            entries.insert(path, entry);
        }
        if entries.len() != header.n_entries {
            return Err(bad());
        }
        Ok(Self {
            commit: header.commit,
            began_ns: header.began_ns,
            head: header.head,
            has_git: header.has_git,
            rules: header.rules.into_iter().collect(),
            rules_above: header.rules_above,
            entries,
            left_out: header.left_out,
        })
    }
}
