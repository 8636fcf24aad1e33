//! The record of a group: one small file, separate from its runs.
//!
//! A run's journal has its usage and outcome. When Caretaker removes a run, it adds both to this record, so that a
//! budget and a group's history outlive the runs. It counts the run by its id before the removal, so that a process
//! that is killed in between counts no run twice.

use std::path::PathBuf;
use std::{fs, io};

use ground::{Durable, make_private_dir, replace_file};
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
    /// When a user last stopped the group. A batch that began earlier starts no more runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_ms: Option<u64>,
    /// The group's budget. `None`: the configuration's budget for every group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// The removed runs of the group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gone: Option<GoneRuns>,
}

/// The totals of the removed runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GoneRuns {
    /// The number of runs.
    pub n_runs: u64,
    /// Their usage.
    pub spent: Spending,
    /// How many of them succeeded.
    #[serde(default)]
    pub n_succeeded: u64,
    /// How many of them ended with another outcome. Older versions kept neither count.
    #[serde(default)]
    pub n_failed: u64,
    /// When the first of them was created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_ms: Option<u64>,
    /// Runs that the record counted just before their removal. They may still exist.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    counted: Vec<RunId>,
}

fn path(state: &StateRoot, group: &str) -> PathBuf {
    state.groups().join(format!("{group}.json"))
}

impl GroupRecord {
    /// Reads the record; the default if it does not exist or is invalid.
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

    /// Changes the record under a lock. Does not overwrite an invalid record.
    pub fn update(
        state: &StateRoot,
        group: &str,
        change: impl FnOnce(&mut Self),
    ) -> io::Result<Self> {
        make_private_dir(state.groups())?;
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

    /// Counts a run that is about to be removed. A second call for the same run changes nothing.
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

    /// True if the record counts the run, even if the run still exists.
    pub fn has_counted(&self, run: RunId) -> bool {
        self.gone.as_ref().is_some_and(|gone| gone.counted.contains(&run))
    }

    /// The usage of the group: its removed runs and its runs in `runs`. Read the record after listing the runs, so that
    /// a run that is removed in between still counts.
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

    /// The group's runs by state: its removed runs and its runs in `runs`. Read the record after listing the runs.
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

    /// The groups with removed runs, and their records.
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
#[path = "group_record_tests.rs"]
mod tests;
