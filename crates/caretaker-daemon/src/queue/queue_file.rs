//! The queue's own memory: whether it is paused, the caps that users set at run time, and the rate-limited accounts.
//! It is one small file, which every change replaces.

use std::collections::BTreeMap;
use std::fs::{self};
use std::io::{self};
use std::path::{Path, PathBuf};

use admission::config::caps::Caps;
use ground::{Durable, replace_file};
use serde::{Deserialize, Serialize};

use crate::schedule::Lowered;

/// Whether the daemon accepts and starts runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum QueueGate {
    /// It accepts and starts runs.
    #[default]
    Open,
    /// It accepts runs, but starts none.
    Paused,
    /// It accepts no runs, but starts those that are waiting.
    Draining,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct QueueMemory {
    #[serde(default)]
    pub(crate) gate: QueueGate,
    /// The caps that a user set at run time; `None` for the configured caps.
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

    /// Reads the file. An unreadable file counts as missing, with a warning in the log.
    pub(crate) fn read(&self) -> QueueMemory {
        let text = match fs::read(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return QueueMemory::default(),
            Err(error) => {
                tracing::warn!(%error, "cannot read the queue's file");
                return QueueMemory::default();
            }
        };
        serde_json::from_slice(&text).unwrap_or_else(|error| {
            tracing::warn!(%error, "the queue's file is not valid");
            QueueMemory::default()
        })
    }

    pub(crate) fn write(&self, memory: &QueueMemory) -> io::Result<()> {
        replace_file(&self.path, &serde_json::to_vec_pretty(memory)?, Durable::Yes)
    }
}

#[cfg(test)]
#[path = "queue_file_tests.rs"]
mod tests;
