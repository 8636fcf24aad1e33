//! The hook records on disk: which hooks the daemon called for which run, and when the user first configured hooks.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use ground::{Durable, make_private_dir, replace_file};
use run_journal::StateRoot;
use run_protocol::RunId;

use super::{Claimer, HookOutcome, HookRecord, Transition};
use crate::server::instance::{Presence, presence};

/// A claim on disk.
#[derive(Debug)]
pub(super) struct Marker {
    path: PathBuf,
    record: HookRecord,
}

fn directory(state: &StateRoot, run: RunId) -> PathBuf {
    state.hooks().join(run.to_string())
}

fn open_new(path: &Path) -> io::Result<File> {
    OpenOptions::new().create_new(true).write(true).mode(0o600).open(path)
}

impl Marker {
    /// Claims an occasion; `None` if it is already claimed. `key` distinguishes occasions that can happen more than
    /// once.
    pub(super) fn claim(
        state: &StateRoot,
        run: RunId,
        transition: Transition,
        key: Option<&str>,
        at_ms: u64,
        n_hooks: usize,
    ) -> io::Result<Option<Self>> {
        let directory = directory(state, run);
        make_private_dir(&directory)?;
        let name = match key {
            Some(key) => format!("{}-{}.json", transition.name(), plain(key)),
            None => format!("{}.json", transition.name()),
        };
        let path = directory.join(name);
        let mut file = match open_new(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
            Err(error) => return Err(error),
        };
        let record = HookRecord {
            v: 1,
            transition,
            at_ms,
            n_hooks,
            claimed_by: Some(Claimer::of_this_process()),
            outcomes: Vec::new(),
            standing: None,
        };
        file.write_all(&serde_json::to_vec(&record)?)?;
        // The claim must be durable before any hook is called.
        file.sync_all()?;
        File::open(&directory)?.sync_all()?;
        Ok(Some(Self { path, record }))
    }

    /// Records the result of the next hook.
    pub(super) fn note(&mut self, outcome: HookOutcome) -> io::Result<()> {
        self.record.outcomes.push(outcome);
        replace_file(&self.path, &serde_json::to_vec(&self.record)?, Durable::No)
    }
}

/// Makes a question's id safe for a file name.
fn plain(key: &str) -> String {
    key.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(64).collect()
}

/// The records of a run, earliest first.
pub fn records_of(state: &StateRoot, run: RunId) -> Vec<HookRecord> {
    let entries = fs::read_dir(directory(state, run)).into_iter().flatten().flatten();
    let presence = presence(state).unwrap_or(Presence::None);
    let mut records: Vec<HookRecord> = entries
        .filter(|entry| entry.path().extension().is_some_and(|it| it == "json"))
        .filter_map(|entry| {
            let record: HookRecord = serde_json::from_slice(&fs::read(entry.path()).ok()?).ok()?;
            Some(HookRecord { standing: Some(record.standing_with(&presence)), ..record })
        })
        .collect();
    records.sort_by_key(|record| (record.at_ms, record.transition));
    records
}

/// When the user first configured hooks. The daemon does not call hooks for earlier runs. The first call saves the
/// time.
pub(super) fn since(state: &StateRoot, now_ms: u64) -> io::Result<u64> {
    let path = state.hooks().join("since");
    make_private_dir(state.hooks())?;
    match open_new(&path) {
        Ok(mut file) => {
            file.write_all(now_ms.to_string().as_bytes())?;
            file.sync_all()?;
            Ok(now_ms)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Ok(fs::read_to_string(&path)?.trim().parse().unwrap_or(now_ms))
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
#[path = "marker_tests.rs"]
mod tests;
