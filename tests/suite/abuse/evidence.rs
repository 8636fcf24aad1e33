//! The host's state before and after an attempt.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A file before the attempt: its mode and content.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    mode: u32,
    content: Vec<u8>,
}

/// Parts of a tree before the attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Snapshot(BTreeMap<PathBuf, Seen>);

impl Snapshot {
    /// Records a path and everything below it, if it exists.
    pub(super) fn of(path: &Path) -> Self {
        let mut seen = BTreeMap::new();
        look(path.parent().unwrap(), path, &mut seen);
        Self(seen)
    }

    /// The first difference, if there is one.
    pub(super) fn difference(&self, after: &Self) -> Option<String> {
        let changed = self.0.iter().find(|(path, seen)| after.0.get(*path) != Some(seen));
        let made = || after.0.keys().find(|path| !self.0.contains_key(*path));
        let changed = changed.map(|(path, _)| path).or_else(made)?;
        Some(format!("`{}` changed", changed.display()))
    }
}

fn look(root: &Path, path: &Path, seen: &mut BTreeMap<PathBuf, Seen>) {
    let Ok(found) = fs::symlink_metadata(path) else { return };
    let content = match found.file_type() {
        kind if kind.is_file() => fs::read(path).unwrap(),
        kind if kind.is_symlink() => {
            fs::read_link(path).unwrap().into_os_string().into_encoded_bytes()
        }
        _ => Vec::new(),
    };
    let relative = path.strip_prefix(root).unwrap().to_owned();
    seen.insert(relative, Seen { mode: found.mode(), content });
    if found.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            look(root, &entry.unwrap().path(), seen);
        }
    }
}

/// Finds the first file below a directory that lets others act as its owner, or is a device.
pub(super) fn set_id_or_device(directory: &Path) -> Option<PathBuf> {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let found = fs::symlink_metadata(&path).unwrap();
        let kind = found.file_type();
        if kind.is_dir() {
            if let Some(found) = set_id_or_device(&path) {
                return Some(found);
            }
        } else if found.mode() & 0o6000 != 0 || kind.is_block_device() || kind.is_char_device() {
            return Some(path);
        }
    }
    None
}
