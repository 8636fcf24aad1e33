//! What is on disk of hooks: who was called for what, and since when they are called at all.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use ground::{Durable, replace_file};
use run_journal::StateRoot;
use run_protocol::RunId;

use super::{Claimer, HookOutcome, HookRecord, Transition};
use crate::instance::{Presence, presence};

/// A claim that was made on disk.
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
    /// Claims what happened; `None` if somebody did already. `key` tells things apart that happen more than once.
    pub(super) fn claim(
        state: &StateRoot,
        run: RunId,
        transition: Transition,
        key: Option<&str>,
        at_ms: u64,
        n_hooks: usize,
    ) -> io::Result<Option<Self>> {
        let directory = directory(state, run);
        DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
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
        // It has to be there before anything is called.
        file.sync_all()?;
        File::open(&directory)?.sync_all()?;
        Ok(Some(Self { path, record }))
    }

    /// Writes down what came of the next hook.
    pub(super) fn note(&mut self, outcome: HookOutcome) -> io::Result<()> {
        self.record.outcomes.push(outcome);
        replace_file(&self.path, &serde_json::to_vec(&self.record)?, Durable::No)
    }
}

/// The id of a question is the agent's supervisor's; a file's name is ours.
fn plain(key: &str) -> String {
    key.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(64).collect()
}

/// What was called for a run, the earliest first.
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

/// Since when there are hooks: runs from before are nobody's news. Remembered the first time.
pub(super) fn since(state: &StateRoot, now_ms: u64) -> io::Result<u64> {
    let path = state.hooks().join("since");
    DirBuilder::new().recursive(true).mode(0o700).create(state.hooks())?;
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
mod tests {
    use pretty_assertions::assert_eq;

    use super::super::HookStanding;
    use super::*;
    use crate::instance::{Claim, DaemonNote};

    #[test]
    fn what_happened_is_claimed_once_and_what_came_of_it_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        let state = StateRoot::new(directory.path().to_owned());
        let run = RunId::generate();
        let daemon = Claim::new(&state).unwrap().unwrap();
        daemon.announce(&DaemonNote::of_this_process(1, "1", 1)).unwrap();
        let claim = |key| Marker::claim(&state, run, Transition::NeedsHuman, key, 7, 2).unwrap();
        let mut marker = claim(Some("q-1/../x")).unwrap();
        assert!(claim(Some("q-1/../x")).is_none());
        assert!(claim(Some("q-2")).is_some());
        let outcome = HookOutcome {
            hook: "x".to_owned(),
            is_ok: false,
            problem: Some("no".to_owned()),
            ms: 1,
        };
        let standing = || {
            let records = records_of(&state, run);
            assert_eq!(records.len(), 2);
            let first = records.into_iter().max_by_key(|record| record.outcomes.len()).unwrap();
            (first.outcomes.len(), first.standing.unwrap())
        };
        marker.note(outcome.clone()).unwrap();
        assert_eq!(standing(), (1, HookStanding::UnderWay));
        marker.note(outcome).unwrap();
        assert_eq!(standing(), (2, HookStanding::Done));
        assert!(claim(Some("q-1/../x")).is_none());
        // Of one whose claimer is gone it is known that it is not done, and no more.
        drop(daemon);
        let of = |n_outcomes: usize| {
            let records = records_of(&state, run);
            let record = records.into_iter().find(|record| record.outcomes.len() == n_outcomes);
            record.unwrap().standing.unwrap()
        };
        assert_eq!((of(0), of(2)), (HookStanding::Interrupted, HookStanding::Done));
        assert_eq!(since(&state, 5).unwrap(), 5);
        assert_eq!(since(&state, 9).unwrap(), 5);
    }
}
