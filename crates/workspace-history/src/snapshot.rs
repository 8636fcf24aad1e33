//! A snapshot: everything about a workspace but the contents of its files, which git keeps.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use ground::{Durable, replace_with};
use run_protocol::BytesPath;
use serde::{Deserialize, Serialize};

use crate::ignore_rules::DirectoryRules;
use crate::tree_path::TreePath;

/// The version of the file's format.
const VERSION: u32 = 1;

/// What a workspace was at one moment.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Snapshot {
    /// The commit in our own repository that holds the contents. `None`: only looked at, not saved.
    pub commit: Option<String>,
    /// When the walk began, in nanoseconds since 1970: what changed later than shortly before may have changed since.
    pub began_ns: i64,
    /// Where the user's repository stood.
    pub head: Option<Head>,
    /// Whether the workspace had a `.git`.
    pub has_git: bool,
    /// Which files are passed over, directory by directory.
    pub(crate) rules: BTreeMap<TreePath, DirectoryRules>,
    /// And by rules from above the workspace, the outermost first.
    pub(crate) rules_above: Vec<DirectoryRules>,
    /// What is covered.
    pub entries: BTreeMap<TreePath, Entry>,
    /// What could not be read, and what is left alone in any case: repositories within the workspace.
    pub left_out: Vec<TreePath>,
}

/// Where a repository stood.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    pub commit: String,
    /// `None` where no branch was checked out.
    pub branch: Option<String>,
}

/// One thing in a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub kind: EntryKind,
    /// All twelve bits.
    pub mode: u32,
    pub stamp: Stamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryKind {
    /// `id` names the content in our repository; empty where it was not saved.
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

/// What tells without reading that a file is still the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stamp {
    pub modified_ns: i64,
    pub changed_ns: i64,
    pub inode: u64,
    pub device: u64,
}

impl Entry {
    /// Whether both are the same for a person: content, kind and mode.
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
    /// Whether nothing of the workspace itself differs.
    pub fn has_same_entries_as(&self, other: &Self) -> bool {
        self.entries.len() == other.entries.len()
            && self.entries.iter().zip(&other.entries).all(
                |((path, entry), (other_path, other))| {
                    path == other_path && entry.is_same_as(other)
                },
            )
    }

    /// Files and links; directories are not counted.
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

/// One entry as it is written: flat and short, for there may be many.
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
    /// Writes it whole, or not at all.
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
        let bad = || io::Error::new(io::ErrorKind::InvalidData, "the snapshot is not whole");
        let header: Header = serde_json::from_slice(&lines.next().ok_or_else(bad)??)?;
        if header.v != VERSION {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("the snapshot is of version {}, and {VERSION} is known", header.v),
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
