//! `index.db`: the tables of agents, runs and events, with any version of their columns.

use std::collections::{BTreeMap, HashSet};
use std::ops::{ControlFlow, Range};
use std::path::Path;

use rusqlite::types::ValueRef;
use rusqlite::{OptionalExtension, Row};
use serde_json::{Map, Value as Json};

use super::fields::{at_ms, words};
use crate::database::{
    ReadDatabaseError, ReadOnlyDatabase, UseDatabaseError, VisitRow, WrittenTable, again,
};
use crate::lenient_json;
use crate::model::Damage;
use crate::sdk::records::{Agent, Event, Payload, Run};

/// How many lost rows to report by name. The second constant sorts after all of their keys.
const MAX_NAMED: usize = 20;
const LAST: &str = "\u{10FFFF}";
/// A larger value is not loaded.
pub(crate) const MAX_VALUE_BYTES: i64 = 64 * 1024 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Table {
    Agents,
    Runs,
    RunEvents,
}

/// The database, open for reading.
pub(crate) struct IndexDb {
    database: ReadOnlyDatabase,
    /// The columns of each table, empty if it does not exist.
    columns: [Vec<String>; Table::ALL.len()],
}

/// Takes the values of a row, by column.
pub(crate) type VisitValues<'a> = dyn FnMut(&[(&str, ValueRef<'_>)]) -> ControlFlow<()> + 'a;

/// The columns to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Columns {
    /// The columns for a list.
    Listed,
    /// The columns that this code knows.
    Known,
    All,
}

/// Opens the database and runs `work`. Tries again if the database changed in the meantime.
pub(crate) fn with_index<T>(
    path: &Path,
    mut work: impl FnMut(&IndexDb) -> Result<T, ReadDatabaseError>,
) -> Result<T, UseDatabaseError> {
    again(|| Ok(work(&IndexDb::open(path)?)?))
}

/// Selects the row's number and its columns. For a value that is too large, selects its negative length.
pub(crate) fn bounded(columns: &[&str]) -> String {
    let mut selected = String::from("rowid");
    for name in columns {
        let name = format!("\"{}\"", name.replace('"', "\"\""));
        selected += &format!(
            ", CASE WHEN octet_length({name}) > {MAX_VALUE_BYTES} THEN -octet_length({name}) ELSE {name} END AS {name}"
        );
    }
    selected
}

/// True for the negative length that [`bounded`] selects instead of a value.
pub(crate) fn is_length(value: &Json) -> bool {
    value.as_i64().is_some_and(|number| number < -MAX_VALUE_BYTES)
}

impl Table {
    pub(crate) const ALL: [Self; 3] = [Self::Agents, Self::Runs, Self::RunEvents];

    pub(crate) fn name(self) -> &'static str {
        self.written().name()
    }

    fn is_wanted(self, column: &str, columns: Columns) -> bool {
        let known = self.written().usual_columns(usize::MAX);
        match columns {
            Columns::All => true,
            Columns::Known => known.contains(&column),
            Columns::Listed => known.contains(&column) && column != "result",
        }
    }

    /// The table as Cursor writes it.
    fn written(self) -> WrittenTable {
        match self {
            Self::Agents => WrittenTable::Agents,
            Self::Runs => WrittenTable::Runs,
            Self::RunEvents => WrittenTable::RunEvents,
        }
    }

    /// A table without these columns is not one of the SDK's.
    fn essential_columns(self) -> [&'static str; 2] {
        match self {
            Self::Agents => ["agent_id", "status"],
            Self::Runs => ["run_id", "agent_id"],
            Self::RunEvents => ["run_id", "seq"],
        }
    }
}

impl IndexDb {
    fn open(path: &Path) -> Result<Self, UseDatabaseError> {
        let database = ReadOnlyDatabase::open(path)?;
        database.check_small()?;
        let columns = |table: Table| database.columns(table.name(), &table.essential_columns());
        let columns = [columns(Table::Agents)?, columns(Table::Runs)?, columns(Table::RunEvents)?];
        if columns.iter().all(Vec::is_empty) {
            // Not a store, or the main file of a new store that was copied without its log.
            return Err(UseDatabaseError::NotAStore(
                "the database has no ordinary table `agents`; it may have been copied without its log",
            ));
        }
        Ok(Self { database, columns })
    }

    fn columns(&self, table: Table) -> &[String] {
        &self.columns[table as usize]
    }

    /// Says why reads may be incomplete, and names lost rows.
    pub(crate) fn shortcoming(&self) -> Vec<Damage> {
        let whole = self.database.shortcoming().map(|what| Damage::new("index.db", what));
        let lost = self.database.lost(""..LAST).take(MAX_NAMED);
        let rows = lost.map(|(key, loss)| Damage::new(format!("index.db {key}"), loss.what()));
        whole.into_iter().chain(rows).collect()
    }

    /// Returns the damage of some runs if it is known, or else of the whole index.
    pub(crate) fn damage_of_all(&self, runs: &[Run]) -> Vec<Damage> {
        let mut damage: Vec<Damage> =
            runs.iter().flat_map(|run| self.damage_of(run)).take(MAX_NAMED).collect();
        damage.dedup();
        damage
    }

    pub(crate) fn damage_of(&self, run: &Run) -> Vec<Damage> {
        if !self.database.is_all_lost_known() || self.database.missing_log().is_some() {
            return self
                .database
                .shortcoming()
                .map(|what| Damage::new("index.db", what))
                .into_iter()
                .collect();
        }
        let lost = |keys: Range<&str>, table: &'static str| {
            let lost = self.database.lost(keys);
            lost.map(move |(key, loss)| Damage::new(format!("{table} {key}"), loss.what()))
                .collect::<Vec<_>>()
        };
        let (own, first, end) =
            (format!("{}\0", run.id), format!("{}/", run.id), format!("{}0", run.id));
        [lost(&run.id..&own, "runs"), lost(&first..&end, "run_events")].concat()
    }

    pub(crate) fn has(&self, table: Table) -> bool {
        !self.columns(table).is_empty()
    }

    /// Returns all agents, or one.
    pub(crate) fn agents(&self, id: Option<&str>) -> Result<Vec<Agent>, ReadDatabaseError> {
        let condition = if id.is_some() { "agent_id = ?1" } else { "?1 IS NULL" };
        let mut agents = Vec::new();
        self.visit(Table::Agents, Columns::Listed, condition, "agent_id", id, &mut |row| {
            agents.extend(Agent::from_row(&fields(row)?));
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(agents)
    }

    /// Returns all runs, or one agent's runs, unsorted.
    pub(crate) fn runs(
        &self,
        agent_id: Option<&str>,
        columns: Columns,
        damage: &mut Vec<Damage>,
    ) -> Result<Vec<Run>, ReadDatabaseError> {
        let condition = if agent_id.is_some() { "agent_id = ?1" } else { "?1 IS NULL" };
        let mut runs = Vec::new();
        let mut too_large = Vec::new();
        self.visit(Table::Runs, columns, condition, "agent_id", agent_id, &mut |row| {
            let row = fields(row)?;
            let run = Run::from_row(&row);
            if let (Some(run), Some(result)) = (&run, row.get("result"))
                && is_length(result)
            {
                let place = format!("runs {}", run.id);
                too_large.push(Damage::new(place, "its result is too large to read"));
            }
            runs.extend(run);
            Ok(ControlFlow::Continue(()))
        })?;
        damage.append(&mut too_large);
        // The SDK does not update the row while events come in.
        for run in runs.iter_mut().filter(|run| !run.status.is_over()) {
            run.updated = run.updated.max(self.last_event_at(&run.id)?);
        }
        Ok(runs)
    }

    /// Returns a run's events, sorted.
    pub(crate) fn events(&self, run_id: &str) -> Result<Vec<Event>, ReadDatabaseError> {
        let mut events = Vec::new();
        self.visit_events(run_id, &mut |row| {
            events.push(Event::from_row(fields(row)?));
            Ok(ControlFlow::Continue(()))
        })?;
        events.sort_by_key(|event| event.seq);
        Ok(events)
    }

    /// Returns the time of a run's latest event.
    fn last_event_at(&self, run_id: &str) -> Result<Option<i64>, ReadDatabaseError> {
        if !self.columns(Table::RunEvents).iter().any(|name| name == "created_at") {
            return Ok(None);
        }
        self.database.read(|connection| {
            let sql =
                "SELECT created_at FROM run_events WHERE run_id = ?1 ORDER BY seq DESC LIMIT 1";
            let at = |row: &Row<'_>| Ok(row.get::<_, String>(0).ok());
            let latest = connection.prepare_cached(sql)?.query_row([run_id], at).optional();
            Ok(latest?.flatten().and_then(|at| at_ms(Some(&at.into()))))
        })
    }

    /// Returns a run's highest event number.
    pub(crate) fn last_seq(&self, run_id: &str) -> Result<Option<i64>, ReadDatabaseError> {
        if !self.has(Table::RunEvents) {
            return Ok(None);
        }
        self.database.read(|connection| {
            let sql = "SELECT max(seq) FROM run_events WHERE run_id = ?1";
            connection
                .prepare_cached(sql)?
                .query_row([run_id], |row| Ok(row.get(0).unwrap_or_default()))
        })
    }

    /// Calls `visit` with the values of each row whose `column` is `equals`, by column. Skips and reports values that
    /// are too large.
    pub(crate) fn visit_values(
        &self,
        table: Table,
        column: &str,
        equals: &str,
        damage: &mut Vec<Damage>,
        visit: &mut VisitValues<'_>,
    ) -> Result<(), ReadDatabaseError> {
        let order = if table == Table::RunEvents { "seq" } else { "rowid" };
        let condition = format!("{column} = ?1");
        let names = self.columns(table);
        let mut too_large = Vec::new();
        self.visit(table, Columns::All, &condition, order, Some(equals), &mut |row| {
            let mut values = Vec::with_capacity(names.len());
            for (place, name) in names.iter().enumerate() {
                match row.get_ref(place + 1)? {
                    ValueRef::Integer(number) if is_length(&number.into()) => {
                        let place = format!("{}.{name} of {equals}", table.name());
                        too_large.push(Damage::new(place, "it is too large to search"));
                    }
                    value => values.push((name.as_str(), value)),
                }
            }
            Ok(visit(&values))
        })?;
        damage.append(&mut too_large);
        Ok(())
    }

    /// Returns the runs whose rows are lost but whose events exist, except the known ones. The events name their agent.
    pub(crate) fn lost_runs(&self, known: &HashSet<&str>) -> Result<Vec<Run>, ReadDatabaseError> {
        let mut lost = Vec::new();
        for id in self.runs_of_events()? {
            if known.contains(id.as_str()) {
                continue;
            }
            let mut run = Run { updated: self.last_event_at(&id)?, id, ..Run::default() };
            let id = run.id.clone();
            self.visit_events(&id, &mut |row| {
                let event = Event::from_row(fields(row)?);
                run.created = run.created.or(event.at);
                if let Payload::Json(json) = event.payload
                    && let Ok(envelope) = lenient_json::parse(&json)
                    && let Some(agent) = words(envelope.get("agentId"))
                {
                    run.agent_id = agent;
                    return Ok(ControlFlow::Break(()));
                }
                Ok(ControlFlow::Continue(()))
            })?;
            lost.push(run);
        }
        Ok(lost)
    }

    /// Returns the runs that events name, each once. Reads only keys.
    pub(crate) fn runs_of_events(&self) -> Result<Vec<String>, ReadDatabaseError> {
        if !self.has(Table::RunEvents) {
            return Ok(Vec::new());
        }
        // Skips from key to key, so that a run with many events costs no more than one with few.
        let sql = "SELECT run_id FROM run_events WHERE run_id > ?1 ORDER BY run_id LIMIT 1";
        let mut runs: Vec<String> = Vec::new();
        loop {
            let last = runs.last().map(String::as_str).unwrap_or_default();
            let mut next = None;
            self.database.visit_rows(sql, [last], &mut |row| {
                // Values that are not text sort after all texts.
                next = row.get_ref(0)?.as_str().ok().map(str::to_owned);
                Ok(ControlFlow::Break(()))
            })?;
            // A key that does not increase would make the loop endless.
            match next.filter(|next| next.as_str() > last) {
                Some(next) => runs.push(next),
                None => return Ok(runs),
            }
        }
    }

    /// Returns the number of rows in every ordinary table.
    pub(crate) fn counts(&self) -> Result<BTreeMap<String, u64>, ReadDatabaseError> {
        self.database.read(|connection| {
            let sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0 AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'";
            let names: Vec<String> = connection
                .prepare(sql)?
                .query_map([], |row| row.get(0))?
                .collect::<rusqlite::Result<_>>()?;
            names
                .into_iter()
                .map(|name| {
                    let sql = format!("SELECT count(*) FROM \"{}\"", name.replace('"', "\"\""));
                    let count: i64 = connection.query_row(&sql, [], |row| row.get(0))?;
                    Ok((name, count.unsigned_abs()))
                })
                .collect()
        })
    }

    fn visit_events(
        &self,
        run_id: &str,
        visit: &mut VisitRow<'_>,
    ) -> Result<(), ReadDatabaseError> {
        let condition = "run_id = ?1";
        self.visit(Table::RunEvents, Columns::Known, condition, "seq", Some(run_id), visit)
    }

    /// Calls `visit` for each row. The first column is the row's number.
    fn visit(
        &self,
        table: Table,
        columns: Columns,
        condition: &str,
        order: &str,
        equals: Option<&str>,
        visit: &mut VisitRow<'_>,
    ) -> Result<(), ReadDatabaseError> {
        let names = self.columns(table).iter().map(String::as_str);
        let wanted: Vec<&str> = names.filter(|name| table.is_wanted(name, columns)).collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let (selected, table) = (bounded(&wanted), table.name());
        let sql = format!("SELECT {selected} FROM {table} WHERE {condition} ORDER BY {order}");
        self.database.visit_rows(&sql, [equals], visit)
    }
}

/// Converts a row to JSON, by column.
fn fields(row: &Row<'_>) -> rusqlite::Result<Map<String, Json>> {
    let statement = row.as_ref();
    let mut fields = Map::new();
    for place in 1..statement.column_count() {
        let value = match row.get_ref(place)? {
            ValueRef::Null => continue,
            ValueRef::Integer(number) => number.into(),
            ValueRef::Real(number) => number.into(),
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
                String::from_utf8_lossy(bytes).into_owned().into()
            }
        };
        fields.insert(statement.column_name(place)?.to_owned(), value);
    }
    Ok(fields)
}

#[cfg(test)]
#[path = "index_db_tests.rs"]
mod tests;
