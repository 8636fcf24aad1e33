//! Searches all agents of a store, on all cores.

mod finds;
#[cfg(test)]
mod search_tests;

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use ground::with_causes;
use rusqlite::types::ValueRef;
use serde_json::Value as Json;

use self::finds::{Finds, RunSearch};
use crate::chat::ChatMeta;
use crate::database::again::ATTEMPTS;
use crate::database::{OpenDatabaseError, ReadDatabaseError, ReadOnlyDatabase};
use crate::lenient_json;
use crate::model::Damage;
use crate::parallel;
use crate::plain_file::PlainFileError;
use crate::sdk::history::agent_blobs::{agents_with_chats, chat_path};
use crate::sdk::history::run_story::event_id;
use crate::sdk::records::index_db::{Columns, IndexDb, Table, with_index};
use crate::sdk::records::line_files::{self, LineFiles, blob, visit_lines};
use crate::sdk::records::row_query::{RowQuery, bounded, is_length};
use crate::sdk::store::SdkStore;
use crate::search::Search;

/// Agents differ in size, so every core gets several shares.
const SHARES_PER_CORE: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IndexState {
    Readable,
    /// Only the agents' own databases are left.
    Lost,
}

/// Searches `index.db` and the databases of its agents, agent by agent.
pub(crate) fn search_database(store: &SdkStore, search: &Search<'_>) -> Vec<Damage> {
    let mut damage = Vec::new();
    let listed = with_index(&store.path, |index| {
        let mut lost = index.shortcoming();
        let agents = index.agents(None)?.into_iter().map(|agent| agent.id);
        let mut runs: HashMap<String, Vec<String>> = agents.map(|id| (id, Vec::new())).collect();
        let listed = index.runs(None, Columns::Listed, &mut lost)?;
        let known: HashSet<&str> = listed.iter().map(|run| run.id.as_str()).collect();
        // Events of an unknown run belong to the agent that they name, or to no agent. They are searched, too.
        let strays = index.lost_runs(&known)?;
        for run in listed.into_iter().chain(strays) {
            runs.entry(run.agent_id).or_default().push(run.id);
        }
        Ok((runs, lost))
    });
    let (mut runs, index_state) = match listed {
        Ok((runs, mut lost)) => {
            damage.append(&mut lost);
            (runs, IndexState::Readable)
        }
        Err(error) => {
            damage.push(Damage::new("index.db", with_causes(&error)));
            if !error.is_lasting() {
                return damage;
            }
            (HashMap::new(), IndexState::Lost)
        }
    };
    if !damage.is_empty() {
        for agent in agents_with_chats(&store.directory) {
            runs.entry(agent.id).or_default();
        }
    }
    let work: Vec<(String, Vec<String>)> = runs.into_iter().collect();
    // Opening a database with a long log takes time, so a few agents share one.
    let n_shares = parallel::n_cores() * SHARES_PER_CORE;
    let shares: Vec<&[(String, Vec<String>)]> =
        work.chunks(work.len().div_ceil(n_shares).max(1)).collect();
    let lost = parallel::map(&shares, |agents| {
        let mut finds: Vec<Finds<'_>> =
            agents.iter().map(|(id, _)| Finds::new(search, id)).collect();
        let mut lost = match index_state {
            IndexState::Readable => search_index(store, agents, &mut finds),
            IndexState::Lost => Vec::new(),
        };
        for finds in finds.iter_mut().filter(|finds| !finds.key.is_empty()) {
            if !search.is_over() {
                search_chat(store, finds, &mut lost);
            }
        }
        lost
    });
    damage.extend(lost.into_iter().flatten());
    damage
}

/// Searches the rows of some agents. Agents that are done are not searched again if the database changes.
fn search_index(
    store: &SdkStore,
    agents: &[(String, Vec<String>)],
    finds: &mut [Finds<'_>],
) -> Vec<Damage> {
    let mut damage = Vec::new();
    let mut rest = agents.iter().zip(finds).peekable();
    let searched = with_index(&store.path, |index| {
        while let Some(((agent_id, runs), finds)) = rest.peek_mut() {
            finds.restart();
            let mut lost = Vec::new();
            if search_rows(index, agent_id, runs, finds, &mut lost)?.is_break() {
                break;
            }
            damage.append(&mut lost);
            rest.next();
        }
        Ok(())
    });
    if let Err(error) = searched {
        damage.push(Damage::new("index.db", with_causes(&error)));
    }
    damage
}

fn search_rows(
    index: &IndexDb,
    agent_id: &str,
    runs: &[String],
    finds: &mut Finds<'_>,
    damage: &mut Vec<Damage>,
) -> Result<ControlFlow<()>, ReadDatabaseError> {
    let mut flow = ControlFlow::Continue(());
    for (table, id_column) in [(Table::Agents, "agent_id"), (Table::Runs, "run_id")] {
        index.visit_values(table, "agent_id", agent_id, damage, &mut |values| {
            let id = || {
                values
                    .iter()
                    .find(|(name, _)| *name == id_column)
                    .map(|(_, id)| text_of(*id).into_owned())
            };
            flow = values.iter().try_for_each(|(name, value)| {
                finds.value(text_of(*value).as_bytes(), || {
                    (id(), format!("{}.{name}", table.name()))
                })
            });
            flow
        })?;
        if flow.is_break() {
            return Ok(flow);
        }
    }
    for run in runs {
        let mut of_run = RunSearch::new(run);
        index.visit_values(Table::RunEvents, "run_id", run, damage, &mut |values| {
            flow = search_event(&mut of_run, run, values, finds);
            flow
        })?;
        if flow.is_break() || of_run.finish(finds).is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(flow)
}

fn search_event(
    of_run: &mut RunSearch,
    run: &str,
    values: &[(&str, ValueRef<'_>)],
    finds: &mut Finds<'_>,
) -> ControlFlow<()> {
    let seq = values.iter().find_map(|(name, value)| match value {
        ValueRef::Integer(seq) if *name == "seq" => Some(*seq),
        _ => None,
    });
    let seq = seq.unwrap_or_default();
    for (name, value) in values {
        match (*name, value) {
            ("run_id", _) => {}
            ("payload_json", ValueRef::Text(payload) | ValueRef::Blob(payload)) => {
                of_run.event(finds, seq, payload)?;
            }
            (_, ValueRef::Text(value) | ValueRef::Blob(value)) => {
                finds.value(value, || (Some(event_id(run, seq)), format!("run_events.{name}")))?;
            }
            _ => {}
        }
    }
    ControlFlow::Continue(())
}

fn text_of(value: ValueRef<'_>) -> std::borrow::Cow<'_, str> {
    match value {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => String::from_utf8_lossy(bytes),
        ValueRef::Integer(number) => number.to_string().into(),
        ValueRef::Real(number) => number.to_string().into(),
        ValueRef::Null => "".into(),
    }
}

/// Searches an agent's own database.
fn search_chat(store: &SdkStore, finds: &mut Finds<'_>, damage: &mut Vec<Damage>) {
    let path = chat_path(&store.directory, finds.key);
    let place = format!("store.db of {}", finds.key);
    for attempt in 1..=ATTEMPTS {
        let database = match ReadOnlyDatabase::open(&path) {
            Ok(database) => database,
            Err(OpenDatabaseError::File(PlainFileError::Missing { .. })) => return,
            Err(error) => return damage.push(Damage::new(place, with_causes(&error))),
        };
        let mut lost = Vec::new();
        lost.extend(database.shortcoming().map(str::to_owned));
        match search_tables(&database, finds, &mut lost) {
            Err(ReadDatabaseError::Changed) if attempt < ATTEMPTS => continue,
            Err(error) => lost.push(with_causes(&error)),
            Ok(()) => {}
        }
        return damage.extend(lost.into_iter().map(|what| Damage::new(&place, what)));
    }
}

/// Searches the meta row and all blobs that can be read. A second attempt recognises earlier matches by the text around
/// them.
fn search_tables(
    database: &ReadOnlyDatabase,
    finds: &mut Finds<'_>,
    lost: &mut Vec<String>,
) -> Result<(), ReadDatabaseError> {
    if database.has_plain_table("meta", ["key", "value"])? {
        let sought = search_meta(database, finds)?;
        if sought.is_break() {
            return Ok(());
        }
    }
    let mut n_too_large = 0;
    if database.has_plain_table("blobs", ["id", "data"])? {
        let blobs = RowQuery {
            table: "blobs",
            selected: bounded(&["id", "data"]),
            condition: "true",
            order: "rowid",
        };
        blobs.visit(database, (), &mut |row| {
            Ok(match row.get_ref(2)? {
                ValueRef::Text(data) | ValueRef::Blob(data) => {
                    finds.blob(&text_of(row.get_ref(1)?), data)
                }
                ValueRef::Integer(length) => {
                    n_too_large += u64::from(is_length(&length.into()));
                    ControlFlow::Continue(())
                }
                ValueRef::Null | ValueRef::Real(_) => ControlFlow::Continue(()),
            })
        })?;
    }
    if n_too_large > 0 {
        lost.push(format!("{n_too_large} blobs are too large to search"));
    }
    Ok(())
}

fn search_meta(
    database: &ReadOnlyDatabase,
    finds: &mut Finds<'_>,
) -> Result<ControlFlow<()>, ReadDatabaseError> {
    let row = RowQuery {
        table: "meta",
        selected: bounded(&["value"]),
        // There is one row. The query avoids the index, which may be damaged without an error.
        condition: "+key = '0'",
        order: "rowid",
    };
    let mut flow = ControlFlow::Continue(());
    row.visit(database, (), &mut |row| {
        if let Ok(meta) = ChatMeta::from_row(text_of(row.get_ref(1)?).as_bytes()) {
            // The fields hold a marker in place of the encryption key.
            let fields = Json::Object(meta.fields().clone()).to_string();
            flow = finds.blob("meta", fields.as_bytes());
        }
        Ok(flow)
    })?;
    Ok(flow)
}

/// Searches the files of lines one after the other: every line has to be parsed anyway.
pub(crate) fn search_lines(files: &LineFiles, search: &Search<'_>) -> Vec<Damage> {
    let mut damage = Vec::new();
    let agent_of: HashMap<String, String> = match files.runs(None, &mut damage) {
        Ok(runs) => runs.into_iter().map(|run| (run.id, run.agent_id)).collect(),
        Err(error) => {
            damage.push(Damage::new(line_files::RUNS, with_causes(&error)));
            HashMap::new()
        }
    };
    damage.clear();
    let key = |document: &Json| {
        let run = document["runId"].as_str().unwrap_or_default();
        let agent = document["agentId"].as_str().or_else(|| agent_of.get(run).map(String::as_str));
        agent.unwrap_or_default().to_owned()
    };
    let mut runs: HashMap<String, (String, RunSearch)> = HashMap::new();
    for name in line_files::ALL {
        let mut visit_line = |number: usize, line: &[u8]| {
            let document = lenient_json::parse(line).unwrap_or_default();
            let key = key(&document);
            let mut finds = Finds::new(search, &key);
            let line_id = format!("{name}:{number}");
            match name {
                line_files::RUN_EVENTS => search_event_line(document, &mut runs, &mut finds),
                line_files::CHECKPOINTS => {
                    let data = document.as_object().and_then(|document| blob(document, &key));
                    match data {
                        Some((id, data)) => finds.blob(&id.to_string(), &data),
                        None => finds.value(line, || (Some(line_id), name.to_owned())),
                    }
                }
                _ => finds.value(line, || (Some(line_id), name.to_owned())),
            }
        };
        let visited = visit_lines(&files.file(name), &mut damage, &mut visit_line);
        if let Err(error) = visited {
            damage.push(Damage::new(name, with_causes(&error)));
        }
    }
    for (key, mut run) in runs.into_values() {
        if run.finish(&mut Finds::new(search, &key)).is_break() {
            break;
        }
    }
    damage
}

fn search_event_line(
    mut document: Json,
    runs: &mut HashMap<String, (String, RunSearch)>,
    finds: &mut Finds<'_>,
) -> ControlFlow<()> {
    let run_id = document["runId"].as_str().unwrap_or_default().to_owned();
    let seq = document["seq"].as_i64().unwrap_or_default();
    let payload = document.get_mut("payload").map(Json::take).unwrap_or_default();
    let (_, of_run) = runs
        .entry(run_id.clone())
        .or_insert_with(|| (finds.key.to_owned(), RunSearch::new(&run_id)));
    of_run.event(finds, seq, payload.to_string().as_bytes())?;
    if let Some(fields) = document.as_object_mut() {
        fields.remove("runId");
    }
    finds.value(document.to_string().as_bytes(), || {
        (Some(event_id(&run_id, seq)), line_files::RUN_EVENTS.to_owned())
    })
}
