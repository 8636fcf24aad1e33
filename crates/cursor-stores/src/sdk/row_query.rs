//! Reading rows of somebody else's table: bounded, and as many as possible where the file is damaged.

use std::collections::HashSet;
use std::ops::ControlFlow;

use rusqlite::{Params, Row};
use serde_json::Value as Json;

use crate::damaged_rows::{Direction, Rows, Way, WayEnd, visit_around_damage};
use crate::model::Damage;
use crate::read_only_database::{ReadDatabaseError, ReadOnlyDatabase};

/// A larger value is not loaded.
pub(super) const MAX_VALUE_BYTES: i64 = 64 * 1024 * 1024;

/// Called with a row, whose first column is its number.
pub(super) type VisitRow<'a> = dyn FnMut(&Row<'_>) -> rusqlite::Result<ControlFlow<()>> + 'a;

/// Rows of a table that has numbers of rows.
pub(super) struct RowQuery<'a> {
    pub(super) table: &'static str,
    /// As [`bounded`] makes it.
    pub(super) selected: String,
    pub(super) condition: &'a str,
    pub(super) order: &'a str,
}

/// The row's number and its columns, each with a bound: of a value that is too large only the length is read, negative.
pub(super) fn bounded(columns: &[&str]) -> String {
    let mut selected = String::from("rowid");
    for name in columns {
        let name = format!("\"{}\"", name.replace('"', "\"\""));
        selected += &format!(
            ", CASE WHEN octet_length({name}) > {MAX_VALUE_BYTES} THEN -octet_length({name}) ELSE {name} END AS {name}"
        );
    }
    selected
}

/// Tells the length that [`bounded`] puts in the place of a value.
pub(super) fn is_length(value: &Json) -> bool {
    value.as_i64().is_some_and(|number| number < -MAX_VALUE_BYTES)
}

impl RowQuery<'_> {
    /// Visits rows in their order. Where a part of the file is damaged, the rows that can be reached one by one are
    /// visited all the same, in any order, and the others are named.
    pub(super) fn visit<P: Params + Copy>(
        &self,
        database: &ReadOnlyDatabase,
        params: P,
        damage: &mut Vec<Damage>,
        visit: &mut VisitRow<'_>,
    ) -> Result<(), ReadDatabaseError> {
        let mut seen = HashSet::new();
        let whole = database.read(|connection| {
            let mut statement = connection.prepare_cached(&self.sql(&self.selected))?;
            let mut rows = statement.query(params)?;
            while let Some(row) = rows.next()? {
                seen.insert(row.get::<_, i64>(0)?);
                if visit(row)?.is_break() {
                    break;
                }
            }
            Ok(())
        });
        match whole {
            Err(error) if error.is_damage() => {}
            other => return other,
        }
        let (rowids, by_index) = self.rowids(database, params)?;
        for rowid in rowids {
            if !seen.insert(rowid) {
                continue;
            }
            let one = database.read(|connection| {
                let sql = format!("SELECT {} FROM {} WHERE rowid = ?1", self.selected, self.table);
                connection.prepare_cached(&sql)?.query_row([rowid], |row| visit(row))
            });
            match one {
                Ok(ControlFlow::Continue(())) => {}
                Ok(ControlFlow::Break(())) => return Ok(()),
                Err(ReadDatabaseError::Changed) => return Err(ReadDatabaseError::Changed),
                Err(_) => damage.push(Damage::new(
                    format!("{} row {rowid}", self.table),
                    "the part of the file that holds it is damaged",
                )),
            }
        }
        if by_index.is_break() {
            damage.push(Damage::new(self.table, "some rows cannot be listed"));
            self.visit_table(database, params, &mut seen, visit)?;
        }
        Ok(())
    }

    /// Visits the rows that stand in the table and were not seen, whatever its index says.
    fn visit_table<P: Params + Copy>(
        &self,
        database: &ReadOnlyDatabase,
        params: P,
        seen: &mut HashSet<i64>,
        visit: &mut VisitRow<'_>,
    ) -> Result<(), ReadDatabaseError> {
        let mut is_over = false;
        for island in database.islands(self.table)? {
            // A row may still lead to pages that are damaged.
            visit_around_damage(island, &mut |rows, direction| {
                let sql = self.sql_of_table(rows, direction);
                let mut way = Way { last: None, end: WayEnd::Reached };
                let walked = database.read(|connection| {
                    let mut statement = connection.prepare(&sql)?;
                    let mut found = statement.query(params)?;
                    while let Some(row) = found.next()? {
                        let rowid = row.get(0)?;
                        if !seen.contains(&rowid) && visit(row)?.is_break() {
                            way.end = WayEnd::Stopped;
                            is_over = true;
                            break;
                        }
                        seen.insert(rowid);
                        way.last = Some(rowid);
                    }
                    Ok(())
                });
                match walked {
                    Ok(()) => Ok(way),
                    Err(error) if error.is_damage() => Ok(Way { end: WayEnd::Damaged, ..way }),
                    Err(error) => Err(error),
                }
            })?;
            if is_over {
                break;
            }
        }
        Ok(())
    }

    /// The numbers of the rows, as far as they can be listed; breaks if that was not to the end.
    fn rowids<P: Params>(
        &self,
        database: &ReadOnlyDatabase,
        params: P,
    ) -> Result<(Vec<i64>, ControlFlow<()>), ReadDatabaseError> {
        let mut rowids = Vec::new();
        let listed = database.read(|connection| {
            let mut statement = connection.prepare(&self.sql("rowid"))?;
            let mut rows = statement.query(params)?;
            while let Some(row) = rows.next()? {
                rowids.push(row.get(0)?);
            }
            Ok(())
        });
        match listed {
            Ok(()) => Ok((rowids, ControlFlow::Continue(()))),
            Err(error) if error.is_damage() => Ok((rowids, ControlFlow::Break(()))),
            Err(error) => Err(error),
        }
    }

    fn sql(&self, selected: &str) -> String {
        let Self { table, condition, order, .. } = self;
        format!("SELECT {selected} FROM {table} WHERE {condition} ORDER BY {order}")
    }

    /// In the order of the rows: any other would need all of them before the first.
    fn sql_of_table(&self, rows: Rows, direction: Direction) -> String {
        let Self { table, selected, condition, .. } = self;
        // The least number of all would be taken for a fraction.
        let (after, until, order) = (rows.after.max(i64::MIN + 1), rows.until, direction.order());
        format!(
            "SELECT {selected} FROM {table} NOT INDEXED WHERE ({condition}) AND rowid > {after} AND rowid <= {until} \
             ORDER BY rowid {order}"
        )
    }
}
