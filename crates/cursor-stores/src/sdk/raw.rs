//! An agent's records, unchanged: its rows in the index and its own database, or its lines.

use std::collections::HashSet;
use std::error::Error;
use std::ops::ControlFlow;
use std::path::Path;

use ground::with_causes;
use serde_json::{Map, Value as Json};

use crate::chat::visit_raw_store;
use crate::lenient_json;
use crate::plain_file::{self, PlainFileError};
use crate::raw_record::{RawContent, RawRecord, VisitRaw, json_of_sql};
use crate::sdk::history::agent_blobs::chat_path;
use crate::sdk::records::index_db::{Table, with_index};
use crate::sdk::records::line_files::{self, LineFiles, visit_lines};
use crate::store::Branches;

/// Visits an agent's row, its runs and their events, then its own database. Returns false if there is nothing.
pub(super) fn visit_database(
    index: &Path,
    directory: &Path,
    agent: &str,
    branches: Branches,
    visit: &mut VisitRaw<'_>,
) -> Result<bool, Box<dyn Error + Send + Sync>> {
    // Remembers names, so that a second read does not repeat a record. The first read may have found damage.
    let (mut told, mut is_over) = (HashSet::new(), false);
    let indexed = with_index(index, |index| {
        let mut damage = Vec::new();
        let mut runs: Vec<String> = Vec::new();
        let mut row = |table: Table, column: &str, equals: &str, runs: &mut Vec<String>| {
            index.visit_values(table, column, equals, &mut damage, &mut |values| {
                let fields: Map<String, Json> = values
                    .iter()
                    .map(|(name, value)| ((*name).to_owned(), json_of_sql(*value)))
                    .collect();
                let text = |name: &str| match fields.get(name) {
                    Some(Json::String(text)) => text.clone(),
                    Some(value) => value.to_string(),
                    None => String::new(),
                };
                let record = match table {
                    Table::Agents => format!("agents/{}", text("agent_id")),
                    Table::Runs => {
                        runs.push(text("run_id"));
                        format!("runs/{}", text("run_id"))
                    }
                    Table::RunEvents => format!("run_events/{}/{}", text("run_id"), text("seq")),
                };
                if !is_over && told.insert(record.clone()) {
                    is_over = visit(RawRecord::of_json(record, Json::Object(fields))).is_break();
                }
                if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })
        };
        row(Table::Agents, "agent_id", agent, &mut runs)?;
        row(Table::Runs, "agent_id", agent, &mut runs)?;
        for run in std::mem::take(&mut runs) {
            row(Table::RunEvents, "run_id", &run, &mut runs)?;
        }
        Ok(())
    });
    let mut n_told = told.len();
    let chat = chat_path(directory, agent);
    if let Err(error) = indexed {
        // The agent's own database is a separate file.
        if !chat.exists() {
            return Err(error.into());
        }
        n_told += 1;
        is_over =
            visit(RawRecord::new("index.db", RawContent::LeftOut(with_causes(&error)))).is_break();
    }
    match plain_file::inspect(&chat) {
        Err(PlainFileError::Missing { .. }) => {}
        _ if is_over => {}
        Err(error) => {
            let content = RawContent::LeftOut(error.to_string());
            let _last = visit(RawRecord::new("store.db", content));
        }
        Ok(_) => {
            if let Err(error) = visit_raw_store(&chat, "store.db/", None, branches, visit) {
                let content = RawContent::LeftOut(with_causes(&error));
                let _last = visit(RawRecord::new("store.db", content));
            }
        }
    }
    Ok(n_told > 0)
}

/// Visits an agent's lines, its runs, their events and its blobs. Returns false if there is nothing.
pub(super) fn visit_line_files(
    files: &LineFiles,
    agent: &str,
    visit: &mut VisitRaw<'_>,
) -> Result<bool, PlainFileError> {
    let mut runs: HashSet<String> = HashSet::new();
    let (mut n_told, mut is_over) = (0_usize, false);
    for name in line_files::ALL {
        visit_lines(&files.file(name), &mut Vec::new(), &mut |number, line| {
            let Ok(Json::Object(document)) = lenient_json::parse(line) else {
                return ControlFlow::Continue(());
            };
            let text = |name: &str| document.get(name).and_then(Json::as_str);
            let is_own = match name {
                line_files::RUN_EVENTS => text("runId").is_some_and(|run| runs.contains(run)),
                _ => text("agentId") == Some(agent),
            };
            if !is_own {
                return ControlFlow::Continue(());
            }
            if name == line_files::RUNS {
                runs.extend(text("runId").map(str::to_owned));
            }
            n_told += 1;
            is_over = visit(RawRecord::of_bytes(format!("{name}:{number}"), line)).is_break();
            if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        if is_over {
            break;
        }
    }
    Ok(n_told > 0)
}
