//! Reading rows of somebody else's table, bounded.

use std::ops::ControlFlow;

use rusqlite::{Params, Row};
use serde_json::Value as Json;

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
    /// Visits rows in their order.
    pub(super) fn visit<P: Params + Copy>(
        &self,
        database: &ReadOnlyDatabase,
        params: P,
        visit: &mut VisitRow<'_>,
    ) -> Result<(), ReadDatabaseError> {
        let Self { table, selected, condition, order } = self;
        let sql = format!("SELECT {selected} FROM {table} WHERE {condition} ORDER BY {order}");
        database.read(|connection| {
            let mut statement = connection.prepare_cached(&sql)?;
            let mut rows = statement.query(params)?;
            while let Some(row) = rows.next()? {
                if visit(row)?.is_break() {
                    break;
                }
            }
            Ok(())
        })
    }
}
