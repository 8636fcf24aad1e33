//! The catalogues of conversations in newer builds: the table `composerHeaders`, the item with the same name, and the
//! projects of the agents' window. No catalogue has all conversations.

use std::collections::HashMap;
use std::ops::ControlFlow;

use rusqlite::types::ValueRef;
use serde_json::Value as Json;

use super::summary::{Summary, summarise};
use crate::database::ReadDatabaseError;
use crate::ide::database::{Table, Value, Vscdb};
use crate::ide::lenient::{is_time, items, parse, text};
use crate::model::Workspace;
use crate::workspace_json::workspace_of_json;

pub(crate) const HEADERS_KEY: &str = "composer.composerHeaders";
const PROJECTS_KEY: &str = "glass.localAgentProjects.v1";
const MEMBERSHIP_KEY: &str = "glass.localAgentProjectMembership.v1";
const MAX_HEADER_BYTES: i64 = 4 * 1024 * 1024;

/// A catalogue's entry for one conversation.
#[derive(Debug, Default, Clone)]
pub(crate) struct Header {
    pub(crate) summary: Summary,
    pub(crate) recency: Option<i64>,
    pub(crate) subagent_type: Option<String>,
}

/// All catalogues, by conversation.
#[derive(Debug, Default)]
pub(crate) struct Headers {
    headers: HashMap<String, Header>,
    projects: HashMap<String, Workspace>,
}

/// All columns of all builds. Each build lacks some.
const COLUMNS: [&str; 9] = [
    "composerId",
    "value",
    "workspaceId",
    "createdAt",
    "lastUpdatedAt",
    "isArchived",
    "isSubagent",
    "recency",
    "subagentTypeName",
];

impl Headers {
    /// Reads the catalogues for all conversations, or for one.
    pub(crate) fn read(database: &Vscdb, only: Option<&str>) -> Result<Self, ReadDatabaseError> {
        let mut headers = Self::default();
        headers.read_item(database, only)?;
        // The table is newer than the item, so its entries replace those of the item.
        headers.read_table(database, only)?;
        headers.read_projects(database)?;
        Ok(headers)
    }

    pub(crate) fn get(&self, composer_id: &str) -> Option<&Header> {
        self.headers.get(composer_id)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.headers.is_empty() && self.projects.is_empty()
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = &String> {
        self.headers.keys()
    }

    pub(crate) fn project(&self, composer_id: &str) -> Option<&Workspace> {
        self.projects.get(composer_id)
    }

    fn read_item(&mut self, database: &Vscdb, only: Option<&str>) -> Result<(), ReadDatabaseError> {
        let json = item(database, HEADERS_KEY)?;
        for head in items(&json["allComposers"]) {
            if let Some(id) =
                text(&head["composerId"]).filter(|id| only.is_none_or(|only| only == *id))
                && let Some(summary) = summarise(head.to_string().as_bytes())
            {
                self.headers.insert(id.to_owned(), Header { summary, ..Header::default() });
            }
        }
        Ok(())
    }

    fn read_table(
        &mut self,
        database: &Vscdb,
        only: Option<&str>,
    ) -> Result<(), ReadDatabaseError> {
        let columns = database.database.columns("composerHeaders", &["composerId", "value"])?;
        if columns.is_empty() {
            return Ok(());
        }
        let selected = COLUMNS.map(|column| match column {
            "value" => {
                format!("CASE WHEN octet_length(value) <= {MAX_HEADER_BYTES} THEN value END")
            }
            column if columns.iter().any(|known| known == column) => column.to_owned(),
            _ => "NULL".to_owned(),
        });
        let filter = if only.is_some() { "composerId = ?1" } else { "?1 IS NULL" };
        let sql = format!("SELECT {} FROM composerHeaders WHERE {filter}", selected.join(", "));
        database.database.visit_rows(&sql, [only], &mut |row| {
            let Ok(id) = row.get_ref(0)?.as_str() else { return Ok(ControlFlow::Continue(())) };
            let mut header = Header::default();
            if let ValueRef::Text(value) | ValueRef::Blob(value) = row.get_ref(1)? {
                header.summary = summarise(value).unwrap_or_default();
            }
            let number = |column: usize| -> Option<i64> { row.get_ref(column).ok()?.as_i64().ok() };
            let owned = |column: usize| -> Option<String> {
                let value = row.get_ref(column).ok()?.as_str().ok()?;
                (!value.is_empty()).then(|| value.to_owned())
            };
            let summary = &mut header.summary;
            summary.workspace_id = owned(2).or(summary.workspace_id.take());
            summary.created = number(3).filter(is_time).or(summary.created);
            summary.last_updated = number(4).filter(is_time).or(summary.last_updated);
            summary.is_archived |= number(5).is_some_and(|flag| flag != 0);
            summary.is_subagent |= number(6).is_some_and(|flag| flag != 0);
            header.recency = number(7).filter(is_time);
            header.subagent_type = owned(8);
            self.headers.insert(id.to_owned(), header);
            Ok(ControlFlow::Continue(()))
        })
    }

    fn read_projects(&mut self, database: &Vscdb) -> Result<(), ReadDatabaseError> {
        let (projects, members) = (item(database, PROJECTS_KEY)?, item(database, MEMBERSHIP_KEY)?);
        let list = if projects.is_array() { &projects } else { &projects["projects"] };
        let places: HashMap<&str, Workspace> = items(list)
            .iter()
            .filter_map(|project| {
                let place = workspace_of_json(&project["workspace"]["uri"])
                    .or_else(|| workspace_of_json(&project["workspace"]))?;
                Some((text(&project["id"])?, place))
            })
            .collect();
        for (composer, project) in members.as_object().into_iter().flatten() {
            let project = text(project).or_else(|| text(&project["projectId"]));
            if let Some(place) = project.and_then(|project| places.get(project)) {
                self.projects.insert(composer.clone(), place.clone());
            }
        }
        Ok(())
    }
}

/// The JSON of an item, or null.
fn item(database: &Vscdb, key: &str) -> Result<Json, ReadDatabaseError> {
    Ok(match database.get(Table::Items, key)? {
        Some(Value::Bytes(bytes)) => parse(&bytes).unwrap_or_default(),
        _ => Json::Null,
    })
}
