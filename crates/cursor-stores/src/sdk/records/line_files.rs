//! The store's other form: four NDJSON files. The SDK rewrites a whole file for every change.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value as Json};

use crate::chat::BlobId;
use crate::lenient_json;
use crate::lines::{Line, LineReader};
use crate::model::Damage;
use crate::plain_file::{self, PlainFileError};
use crate::sdk::records::{Agent, Event, Run, row_of};

pub(crate) const AGENTS: &str = "agents.ndjson";
pub(crate) const RUNS: &str = "runs.ndjson";
pub(crate) const RUN_EVENTS: &str = "run_events.ndjson";
pub(crate) const CHECKPOINTS: &str = "checkpoints.ndjson";
pub(crate) const ALL: [&str; 4] = [AGENTS, RUNS, RUN_EVENTS, CHECKPOINTS];

/// The SDK itself cannot read a larger file, because it reads it as one string.
const MAX_FILE_BYTES: u64 = 1024 * 1024 * 1024;
/// A longer line is skipped.
const MAX_LINE_BYTES: usize = 64 * 1024 * 1024;
/// The most bytes of an agent's blobs to keep in memory. Further blobs count as missing.
const MAX_BLOB_BYTES: usize = 256 * 1024 * 1024;

/// The directory of the files.
#[derive(Debug, Clone)]
pub(crate) struct LineFiles {
    pub(crate) directory: PathBuf,
}

impl LineFiles {
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Returns all agents, or one.
    pub(crate) fn agents(
        &self,
        id: Option<&str>,
        damage: &mut Vec<Damage>,
    ) -> Result<Vec<Agent>, PlainFileError> {
        let is_wanted = |agent: &Agent| id.is_none_or(|id| id == agent.id);
        self.latest(AGENTS, id, damage, |document| {
            let agent = Agent::from_document(document).filter(is_wanted)?;
            Some((agent.id.clone(), agent))
        })
    }

    /// Returns all runs, or one agent's runs, unsorted.
    pub(crate) fn runs(
        &self,
        agent_id: Option<&str>,
        damage: &mut Vec<Damage>,
    ) -> Result<Vec<Run>, PlainFileError> {
        let is_wanted = |run: &Run| agent_id.is_none_or(|id| id == run.agent_id);
        self.latest(RUNS, agent_id, damage, |document| {
            let run = Run::from_document(document).filter(is_wanted)?;
            Some((run.id.clone(), run))
        })
    }

    /// Reads the lines that mention an agent, by id. If an id occurs twice, the last line wins.
    fn latest<T>(
        &self,
        name: &str,
        agent_id: Option<&str>,
        damage: &mut Vec<Damage>,
        read: impl Fn(&Map<String, Json>) -> Option<(String, T)>,
    ) -> Result<Vec<T>, PlainFileError> {
        let mut latest = BTreeMap::new();
        self.visit_objects(name, agent_id.as_slice(), damage, &mut |document| {
            latest.extend(read(document));
        })?;
        Ok(latest.into_values().collect())
    }

    /// Returns the events of these runs, sorted, in one pass over the file.
    pub(crate) fn events(
        &self,
        runs: &[&str],
        damage: &mut Vec<Damage>,
    ) -> Result<HashMap<String, Vec<Event>>, PlainFileError> {
        let mut events: HashMap<String, Vec<Event>> =
            runs.iter().map(|run| ((*run).to_owned(), Vec::new())).collect();
        if runs.is_empty() {
            return Ok(events);
        }
        self.visit_objects(RUN_EVENTS, runs, damage, &mut |document| {
            let run = document.get("runId").and_then(Json::as_str).unwrap_or_default();
            let Some(of_run) = events.get_mut(run) else { return };
            of_run.push(Event::from_row(row_of(document)));
        })?;
        for events in events.values_mut() {
            events.sort_by_key(|event| event.seq);
        }
        Ok(events)
    }

    /// Returns an agent's blobs, up to the limit.
    pub(crate) fn blobs(
        &self,
        agent_id: &str,
        damage: &mut Vec<Damage>,
    ) -> Result<HashMap<BlobId, Vec<u8>>, PlainFileError> {
        let mut blobs = HashMap::new();
        let mut room = MAX_BLOB_BYTES;
        self.visit_objects(CHECKPOINTS, &[agent_id], damage, &mut |document| {
            let Some((id, data)) = blob(document, agent_id) else { return };
            if let Some(left) = room.checked_sub(data.len()) {
                room = left;
                blobs.insert(id, data);
            }
        })?;
        Ok(blobs)
    }

    /// Visits the lines that are JSON objects. If ids are given, visits only lines that mention one of them. Reports
    /// lines that are not objects.
    ///
    /// Does not find an escaped id, but ids are plain, and the SDK escapes only what it must.
    fn visit_objects(
        &self,
        name: &str,
        ids: &[&str],
        damage: &mut Vec<Damage>,
        visit: &mut dyn FnMut(&Map<String, Json>),
    ) -> Result<(), PlainFileError> {
        let quoted: Vec<String> = ids.iter().map(|id| format!("\"{id}\"")).collect();
        let is_mentioned = |line: &[u8]| {
            let has = |id: &String| memchr::memmem::find(line, id.as_bytes()).is_some();
            quoted.is_empty() || quoted.iter().any(has)
        };
        let mut unreadable = Vec::new();
        visit_lines(&self.file(name), damage, &mut |number, line| {
            // Searching for many ids takes longer than parsing the line.
            if ids.len() == 1 && !is_mentioned(line) {
                return ControlFlow::Continue(());
            }
            match lenient_json::parse(line) {
                Ok(Json::Object(object)) => visit(&object),
                _ if is_mentioned(line) => {
                    let place = format!("{name} line {number}");
                    unreadable.push(Damage::new(place, "it is not a JSON object"));
                }
                _ => {}
            }
            ControlFlow::Continue(())
        })?;
        damage.append(&mut unreadable);
        Ok(())
    }
}

/// Returns the id and the bytes from a line of `checkpoints.ndjson`, if they belong to this agent.
pub(crate) fn blob(document: &Map<String, Json>, agent_id: &str) -> Option<(BlobId, Vec<u8>)> {
    if document.get("agentId")?.as_str()? != agent_id {
        return None;
    }
    let id = document.get("blobId")?.as_str()?.parse().ok()?;
    Some((id, STANDARD.decode(document.get("dataBase64")?.as_str()?).ok()?))
}

/// Calls `visit` with every non-empty line and its number, counting from 1, until it returns `Break`. A missing file
/// has no lines. Reports lines that are too long.
pub(crate) fn visit_lines(
    path: &Path,
    damage: &mut Vec<Damage>,
    visit: &mut dyn FnMut(usize, &[u8]) -> ControlFlow<()>,
) -> Result<(), PlainFileError> {
    let file = match plain_file::open_at_most(path, MAX_FILE_BYTES) {
        Ok(file) => file,
        Err(PlainFileError::Missing { .. }) => return Ok(()),
        Err(error) => return Err(error),
    };
    let failed = |source| PlainFileError::Read { path: path.to_owned(), source };
    let mut lines = LineReader::with_limit(file, MAX_LINE_BYTES);
    for number in 1.. {
        match lines.next().map_err(failed)? {
            None => break,
            Some(Line::TooLong) => {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                let place = format!("{name} line {number}");
                damage.push(Damage::new(place, "it is too long to read"));
            }
            Some(Line::Whole { bytes, .. }) => {
                let line = bytes.trim_ascii();
                if !line.is_empty() && visit(number, line).is_break() {
                    break;
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "line_files_tests.rs"]
mod tests;
