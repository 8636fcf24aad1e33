//! What the queue remembers beside the runs themselves: whether it is paused, caps set at run time, accounts that were
//! told to slow down. One small file, replaced whole.

use std::collections::BTreeMap;
use std::fs::{self};
use std::io::{self};
use std::path::{Path, PathBuf};

use admission::config::caps::Caps;
use ground::{Durable, replace_file};
use serde::{Deserialize, Serialize};

use crate::schedule::Lowered;

/// Whether runs are accepted and started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum QueueGate {
    /// Both.
    #[default]
    Open,
    /// Accepted, and not started.
    Paused,
    /// Not accepted; what waits is started.
    Draining,
}

/// What is in the file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct QueueMemory {
    #[serde(default)]
    pub(crate) gate: QueueGate,
    /// Set at run time; `None`: those of the configuration.
    #[serde(default)]
    pub(crate) caps: Option<Caps>,
    /// By account.
    #[serde(default)]
    pub(crate) lowered: BTreeMap<String, Lowered>,
}

#[derive(Debug)]
pub(crate) struct QueueFile {
    path: PathBuf,
}

impl QueueFile {
    pub(crate) fn new(state: &Path) -> Self {
        Self { path: state.join("queue.json") }
    }

    /// What was written last. A file that cannot be read is as good as none, and is said to be.
    pub(crate) fn read(&self) -> QueueMemory {
        let text = match fs::read(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return QueueMemory::default(),
            Err(error) => {
                tracing::warn!(%error, "what the queue remembered cannot be read");
                return QueueMemory::default();
            }
        };
        serde_json::from_slice(&text).unwrap_or_else(|error| {
            tracing::warn!(%error, "what the queue remembered cannot be understood");
            QueueMemory::default()
        })
    }

    pub(crate) fn write(&self, memory: &QueueMemory) -> io::Result<()> {
        replace_file(&self.path, &serde_json::to_vec_pretty(memory)?, Durable::Yes)
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn what_is_written_is_read_and_damage_is_as_good_as_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let file = QueueFile::new(directory.path());
        assert_eq!(file.read(), QueueMemory::default());
        let lowered = Lowered::after_refusal(None, 8, 1, 2, 3);
        let memory = QueueMemory {
            gate: QueueGate::Paused,
            caps: None,
            lowered: BTreeMap::from([("default".to_owned(), lowered)]),
        };
        file.write(&memory).unwrap();
        assert_eq!(file.read(), memory);
        fs::write(directory.path().join("queue.json"), "{").unwrap();
        assert_eq!(file.read(), QueueMemory::default());
    }
}
