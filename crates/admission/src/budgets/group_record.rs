//! What is known of a group beside its runs, each of which says in its spec that it belongs to it: one small file.
//!
//! What runs took and how they ended is in their journals. When one is removed both are added up here, so that a budget and
//! a group's history outlive the runs. A run is counted before it goes, and by its id, so that a process that is killed in between counts none twice.

use std::fs::{self, DirBuilder};
use std::io::{self};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use ground::{Durable, replace_file};
use run_journal::{KernelLock, RunOverview, StateRoot};
use run_protocol::{Budget, RunId, RunOutcome, Spend};
use serde::{Deserialize, Serialize};

use super::budget::Spending;
use super::tally::Tally;

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
    /// The runs of it that were removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gone: Option<GoneRuns>,
}

/// Runs that are not there any more.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GoneRuns {
    /// How many.
    pub n_runs: u64,
    /// What they took.
    pub spent: Spending,
    /// How many of them succeeded.
    #[serde(default)]
    pub n_succeeded: u64,
    /// How many of them ended in another way. Older versions kept neither number.
    #[serde(default)]
    pub n_failed: u64,
    /// When the first of them was created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_ms: Option<u64>,
    /// Those of them that were about to go when they were counted, and may be there still.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    counted: Vec<RunId>,
}

fn path(state: &StateRoot, group: &str) -> PathBuf {
    state.groups().join(format!("{group}.json"))
}

impl GroupRecord {
    /// What was written last; nothing if nothing was, or if it cannot be understood.
    pub fn read(state: &StateRoot, group: &str) -> Self {
        Self::try_read(state, group).unwrap_or_default()
    }

    fn try_read(state: &StateRoot, group: &str) -> io::Result<Self> {
        match fs::read(path(state, group)) {
            Ok(text) => Ok(serde_json::from_slice(&text)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error),
        }
    }

    /// Changes the record, one after the other. One that cannot be understood is not written over.
    pub fn update(
        state: &StateRoot,
        group: &str,
        change: impl FnOnce(&mut Self),
    ) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(state.groups())?;
        let _one = KernelLock::take_waiting(&state.groups().join(".lock"))?;
        let mut record = Self::try_read(state, group)?;
        let before = record.clone();
        change(&mut record);
        if record != before {
            record.v = 1;
            record.write(state, group)?;
        }
        Ok(record)
    }

    /// Counts a run that is about to be removed; once, however often it is said.
    pub fn count_gone(
        state: &StateRoot,
        group: &str,
        run: RunId,
        spend: Spend,
        outcome: Option<&RunOutcome>,
    ) -> io::Result<()> {
        let counted = Self::update(state, group, |record| {
            let gone = record.gone.get_or_insert_default();
            if gone.counted.contains(&run) {
                return;
            }
            gone.counted.retain(|run| state.run_dir(run).exists());
            gone.counted.push(run);
            gone.n_runs += 1;
            gone.spent.add(spend);
            match outcome {
                Some(RunOutcome::Succeeded) => gone.n_succeeded += 1,
                _ => gone.n_failed += 1,
            }
            let created_ms = run.created_ms();
            gone.since_ms = Some(gone.since_ms.map_or(created_ms, |since| since.min(created_ms)));
        });
        counted.map(drop)
    }

    /// Whether what a run took is counted here, though the run may be there still.
    pub fn has_counted(&self, run: RunId) -> bool {
        self.gone.as_ref().is_some_and(|gone| gone.counted.contains(&run))
    }

    /// What the group has spent: what is gone, and of these runs those that are its own. The record has to be read after
    /// the runs were listed, so that none is missed that went in between.
    pub fn spending<'a>(
        &self,
        group: &str,
        runs: impl IntoIterator<Item = &'a RunOverview>,
        now_ms: u64,
    ) -> Spending {
        let mut spending = self.gone.as_ref().map_or_else(Spending::default, |gone| gone.spent);
        runs.into_iter()
            .filter(|run| run.group.as_deref() == Some(group) && !self.has_counted(run.run))
            .for_each(|run| spending.add_run(run, 0, now_ms));
        spending
    }

    /// How the group's runs stand: those that are gone, and of these runs those that are its own. The record has to be
    /// read after the runs were listed.
    pub fn tally<'a>(&self, group: &str, runs: impl IntoIterator<Item = &'a RunOverview>) -> Tally {
        let mut tally = Tally::of(
            runs.into_iter()
                .filter(|run| run.group.as_deref() == Some(group) && !self.has_counted(run.run)),
        );
        if let Some(gone) = &self.gone {
            tally.succeeded += gone.n_succeeded;
            tally.failed += gone.n_failed;
            tally.unknown += gone.n_runs.saturating_sub(gone.n_succeeded + gone.n_failed);
        }
        tally
    }

    /// The groups of which runs were removed, and their records.
    pub fn with_gone_runs(state: &StateRoot) -> Vec<(String, Self)> {
        let entries = fs::read_dir(state.groups()).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            name.strip_suffix(".json").map(ToOwned::to_owned)
        });
        names
            .map(|name| (Self::read(state, &name), name))
            .filter(|(record, _)| record.gone.is_some())
            .map(|(record, name)| (name, record))
            .collect()
    }

    fn write(&self, state: &StateRoot, group: &str) -> io::Result<()> {
        replace_file(&path(state, group), &serde_json::to_vec(self)?, Durable::Yes)
    }
}

#[cfg(test)]
mod tests {
    use format_fixtures::{Layout, check};

    use super::*;

    fn place() -> (tempfile::TempDir, StateRoot) {
        let directory = tempfile::tempdir().unwrap();
        let state = StateRoot::new(directory.path().join("state"));
        (directory, state)
    }

    #[test]
    fn what_is_written_is_read_and_what_is_damaged_says_nothing_and_is_not_written_over() {
        let (_directory, state) = place();
        assert_eq!(GroupRecord::read(&state, "g"), GroupRecord::default());
        let budget = Some(Budget { tokens: Some(5), ..Budget::default() });
        let stopped = GroupRecord::update(&state, "g", |record| record.stopped_ms = Some(7));
        assert_eq!(stopped.unwrap().stopped_ms, Some(7));
        let record = GroupRecord::update(&state, "g", |record| record.budget = budget).unwrap();
        assert_eq!((record.stopped_ms, record.budget), (Some(7), budget));
        assert_eq!(GroupRecord::read(&state, "g"), record);
        let names = fs::read_dir(state.groups()).unwrap();
        assert_eq!(names.count(), 2, "the record and the lock");
        fs::write(state.groups().join("g.json"), b"{").unwrap();
        assert_eq!(GroupRecord::read(&state, "g"), GroupRecord::default());
        assert!(GroupRecord::update(&state, "g", |record| record.budget = None).is_err());
        assert_eq!(fs::read(state.groups().join("g.json")).unwrap(), b"{");
    }

    #[test]
    fn a_run_that_goes_is_counted_once_whoever_is_killed_over_it() {
        let (_directory, state) = place();
        let (first, second) = (RunId::generate(), RunId::generate());
        let spend = Spend { tool_calls: Some(3), time_ms: None, tokens: Some(10) };
        fs::create_dir_all(state.run_dir(&first)).unwrap();
        // Counted, killed, counted again: the run is still there.
        for _ in 0..2 {
            let succeeded = Some(&RunOutcome::Succeeded);
            GroupRecord::count_gone(&state, "g", first, spend, succeeded).unwrap();
        }
        let record = GroupRecord::read(&state, "g");
        assert!(record.has_counted(first));
        assert_eq!(record.gone.as_ref().unwrap().spent.tool_calls.known, 3);
        fs::remove_dir_all(state.run_dir(&first)).unwrap();
        let failed = Some(&RunOutcome::AgentError);
        GroupRecord::count_gone(&state, "g", second, Spend::default(), failed).unwrap();
        let gone = GroupRecord::read(&state, "g").gone.unwrap();
        assert_eq!((gone.n_runs, gone.counted), (2, vec![second]));
        assert_eq!((gone.spent.tokens.known, gone.spent.tokens.n_unknown), (10, 1));
        assert_eq!(gone.spent.tokens.each_unknown(), Some(10));
        assert_eq!((gone.spent.time_ms.known, gone.spent.time_ms.n_unknown), (0, 2));
        assert_eq!((gone.n_succeeded, gone.n_failed), (1, 1));
        assert_eq!(gone.since_ms, Some(first.created_ms()));
    }

    #[test]
    fn records_of_groups_are_read_whole() {
        check::<GroupRecord>(&["v1/state/groups/*.json"], Layout::Compact);
    }
}
