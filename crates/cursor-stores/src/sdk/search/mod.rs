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
use crate::database::{ReadDatabaseError, ReadOnlyDatabase, again};
use crate::lenient_json;
use crate::model::Damage;
use crate::parallel;
use crate::plain_file::{PlainFileError, inspect};
use crate::sdk::history::agent_blobs::{agents_with_chats, chat_path};
use crate::sdk::history::run_story::event_id;
use crate::sdk::records::index_db::{Columns, IndexDb, Table, bounded, is_length, with_index};
use crate::sdk::records::line_files::{self, LineFiles, blob, visit_lines};
use crate::sdk::store::SdkStore;
use crate::search::Search;

/// Agents differ in size, so every core gets several batches.
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
    let lost = parallel::map(&shares, |agents| search_share(store, agents, index_state, search));
    damage.extend(lost.into_iter().flatten());
    damage
}

/// Searches some agents, one after the other. If the database changes meanwhile, repeats only the unfinished agents.
fn search_share(
    store: &SdkStore,
    agents: &[(String, Vec<String>)],
    index_state: IndexState,
    search: &Search<'_>,
) -> Vec<Damage> {
    let mut damage = Vec::new();
    let mut rest = agents;
    while index_state == IndexState::Readable && !rest.is_empty() {
        let searched = with_index(&store.path, |index| {
            while let Some(((agent_id, runs), others)) = rest.split_first() {
                let mut finds = Finds::new(search.matcher, agent_id);
                let mut lost = Vec::new();
                search_rows(index, agent_id, runs, &mut finds, &mut lost)?;
                damage.append(&mut lost);
                rest = others;
                search_chat(store, agent_id, &mut finds, &mut damage);
                if finds.report(search).is_break() {
                    rest = &[];
                }
            }
            Ok(())
        });
        if let Err(error) = searched {
            damage.push(Damage::new("index.db", with_causes(&error)));
            break;
        }
    }
    // Without the index, only the agents' own databases are left.
    for (agent_id, _) in rest {
        let mut finds = Finds::new(search.matcher, agent_id);
        search_chat(store, agent_id, &mut finds, &mut damage);
        if finds.report(search).is_break() {
            break;
        }
    }
    damage
}

fn search_rows(
    index: &IndexDb,
    agent_id: &str,
    runs: &[String],
    finds: &mut Finds<'_>,
    damage: &mut Vec<Damage>,
) -> Result<(), ReadDatabaseError> {
    for (table, id_column) in [(Table::Agents, "agent_id"), (Table::Runs, "run_id")] {
        index.visit_values(table, "agent_id", agent_id, damage, &mut |values| {
            let id = values.iter().find(|(name, _)| *name == id_column);
            for (name, value) in values {
                finds.value(text_of(*value).as_bytes(), || {
                    let id = id.map(|(_, id)| text_of(*id).into_owned());
                    (id, format!("{}.{name}", table.name()))
                });
            }
            ControlFlow::Continue(())
        })?;
    }
    for run in runs {
        let mut of_run = RunSearch::new(run);
        index.visit_values(Table::RunEvents, "run_id", run, damage, &mut |values| {
            search_event(&mut of_run, run, values, finds);
            ControlFlow::Continue(())
        })?;
        of_run.finish(finds);
    }
    Ok(())
}

fn search_event(
    of_run: &mut RunSearch,
    run: &str,
    values: &[(&str, ValueRef<'_>)],
    finds: &mut Finds<'_>,
) {
    let seq = values.iter().find_map(|(name, value)| match value {
        ValueRef::Integer(seq) if *name == "seq" => Some(*seq),
        _ => None,
    });
    let seq = seq.unwrap_or_default();
    for (name, value) in values {
        match (*name, value) {
            ("run_id", _) => {}
            ("payload_json", ValueRef::Text(payload) | ValueRef::Blob(payload)) => {
                of_run.event(finds, seq, payload);
            }
            (_, ValueRef::Text(value) | ValueRef::Blob(value)) => {
                finds.value(value, || (Some(event_id(run, seq)), format!("run_events.{name}")));
            }
            _ => {}
        }
    }
}

fn text_of(value: ValueRef<'_>) -> std::borrow::Cow<'_, str> {
    match value {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => String::from_utf8_lossy(bytes),
        ValueRef::Integer(number) => number.to_string().into(),
        ValueRef::Real(number) => number.to_string().into(),
        ValueRef::Null => "".into(),
    }
}

/// Searches an agent's own database. Events without an agent have none.
fn search_chat(store: &SdkStore, agent_id: &str, finds: &mut Finds<'_>, damage: &mut Vec<Damage>) {
    let path = chat_path(&store.directory, agent_id);
    if agent_id.is_empty() || matches!(inspect(&path), Err(PlainFileError::Missing { .. })) {
        return;
    }
    let searched = again(|| {
        let database = ReadOnlyDatabase::open(&path)?;
        let n_too_large = search_tables(&database, finds)?;
        Ok((n_too_large, database.shortcoming().map(str::to_owned)))
    });
    let lost = match searched {
        Ok((0, lost)) => lost.into_iter().collect(),
        Ok((n, lost)) => {
            lost.into_iter().chain([format!("{n} blobs are too large to search")]).collect()
        }
        Err(error) => vec![with_causes(&error)],
    };
    damage
        .extend(lost.into_iter().map(|what| Damage::new(format!("store.db of {agent_id}"), what)));
}

/// Searches the meta row and all readable blobs. A second attempt recognises earlier matches by the text around them.
/// Returns the number of blobs that are too large.
fn search_tables(
    database: &ReadOnlyDatabase,
    finds: &mut Finds<'_>,
) -> Result<u64, ReadDatabaseError> {
    if database.has_plain_table("meta", ["key", "value"])? {
        let selected = bounded(&["value"]);
        // There is one row. The query avoids the index, which may be damaged without an error.
        let sql = format!("SELECT {selected} FROM meta WHERE +key = '0' ORDER BY rowid");
        database.visit_rows(&sql, [], &mut |row| {
            if let Ok(meta) = ChatMeta::from_row(text_of(row.get_ref(1)?).as_bytes()) {
                // The fields hold a marker in place of the encryption key.
                finds.blob("meta", Json::Object(meta.fields().clone()).to_string().as_bytes());
            }
            Ok(ControlFlow::Continue(()))
        })?;
    }
    let mut n_too_large = 0;
    if database.has_plain_table("blobs", ["id", "data"])? {
        let sql = format!("SELECT {} FROM blobs ORDER BY rowid", bounded(&["id", "data"]));
        database.visit_rows(&sql, [], &mut |row| {
            match row.get_ref(2)? {
                ValueRef::Text(data) | ValueRef::Blob(data) => {
                    finds.blob(&text_of(row.get_ref(1)?), data);
                }
                ValueRef::Integer(length) => n_too_large += u64::from(is_length(&length.into())),
                ValueRef::Null | ValueRef::Real(_) => {}
            }
            Ok(ControlFlow::Continue(()))
        })?;
    }
    Ok(n_too_large)
}

/// Searches the NDJSON files one after the other: every line has to be parsed anyway.
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
            let mut finds = Finds::new(search.matcher, &key);
            let line_id = format!("{name}:{number}");
            match name {
                line_files::RUN_EVENTS => search_event_line(document, &mut runs, &mut finds, &key),
                line_files::CHECKPOINTS => {
                    let data = document.as_object().and_then(|document| blob(document, &key));
                    match data {
                        Some((id, data)) => finds.blob(&id.to_string(), &data),
                        None => finds.value(line, || (Some(line_id), name.to_owned())),
                    }
                }
                _ => finds.value(line, || (Some(line_id), name.to_owned())),
            }
            finds.report(search)
        };
        let visited = visit_lines(&files.file(name), &mut damage, &mut visit_line);
        if let Err(error) = visited {
            damage.push(Damage::new(name, with_causes(&error)));
        }
    }
    for (key, mut run) in runs.into_values() {
        let mut finds = Finds::new(search.matcher, &key);
        run.finish(&mut finds);
        if finds.report(search).is_break() {
            break;
        }
    }
    damage
}

fn search_event_line(
    mut document: Json,
    runs: &mut HashMap<String, (String, RunSearch)>,
    finds: &mut Finds<'_>,
    key: &str,
) {
    let run_id = document["runId"].as_str().unwrap_or_default().to_owned();
    let seq = document["seq"].as_i64().unwrap_or_default();
    let payload = document.get_mut("payload").map(Json::take).unwrap_or_default();
    let (_, of_run) =
        runs.entry(run_id.clone()).or_insert_with(|| (key.to_owned(), RunSearch::new(&run_id)));
    of_run.event(finds, seq, payload.to_string().as_bytes());
    if let Some(fields) = document.as_object_mut() {
        fields.remove("runId");
    }
    finds.value(document.to_string().as_bytes(), || {
        (Some(event_id(&run_id, seq)), line_files::RUN_EVENTS.to_owned())
    });
}
