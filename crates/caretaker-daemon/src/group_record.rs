//! What is known of a group beside its runs, each of which says in its spec that it belongs to it: one small file.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;

use run_journal::StateRoot;
use serde::{Deserialize, Serialize};

use crate::budget::Budget;

/// `groups/<name>.json`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupRecord {
    /// The version of the file.
    #[serde(default)]
    pub v: u32,
    /// When somebody last said that no more of it is to start. A batch that began before starts no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_ms: Option<u64>,
    /// What its runs may spend together. `None`: what the configuration says for every group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
}

fn path(state: &StateRoot, group: &str) -> PathBuf {
    state.groups().join(format!("{group}.json"))
}

impl GroupRecord {
    /// What was written last; nothing if nothing was, or if it cannot be understood.
    pub fn read(state: &StateRoot, group: &str) -> Self {
        let text = fs::read(path(state, group)).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    /// Replaces the file whole.
    pub fn write(&self, state: &StateRoot, group: &str) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(state.groups())?;
        let path = path(state, group);
        let draft = path.with_extension(format!("json.{}", std::process::id()));
        let mut file =
            OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&draft)?;
        let record = Self { v: 1, ..self.clone() };
        let written = file.write_all(&serde_json::to_vec(&record)?).and_then(|()| file.sync_data());
        match written.and_then(|()| fs::rename(&draft, &path)) {
            Ok(()) => Ok(()),
            Err(error) => {
                fs::remove_file(&draft).ok();
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_what_is_damaged_says_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let state = StateRoot::new(directory.path().join("state"));
        assert_eq!(GroupRecord::read(&state, "g"), GroupRecord::default());
        let record = GroupRecord {
            v: 1,
            stopped_ms: Some(7),
            budget: Some(Budget { tokens: Some(5), ..Budget::default() }),
        };
        record.write(&state, "g").unwrap();
        assert_eq!(GroupRecord::read(&state, "g"), record);
        assert_eq!(fs::read_dir(state.groups()).unwrap().count(), 1);
        fs::write(path(&state, "g"), "{").unwrap();
        assert_eq!(GroupRecord::read(&state, "g"), GroupRecord::default());
    }
}
