//! Reads rows of a table, with a limit for each value.

use std::ops::ControlFlow;

use rusqlite::{Params, Row};
use serde_json::Value as Json;

use crate::database::{ReadDatabaseError, ReadOnlyDatabase};

/// A larger value is not loaded.
pub(crate) const MAX_VALUE_BYTES: i64 = 64 * 1024 * 1024;

/// Takes a row. Its first column is its number.
pub(crate) type VisitRow<'a> = dyn FnMut(&Row<'_>) -> rusqlite::Result<ControlFlow<()>> + 'a;

/// A query for rows of a table with row numbers.
pub(crate) struct RowQuery<'a> {
    pub(crate) table: &'static str,
    /// Made by [`bounded`].
    pub(crate) selected: String,
    pub(crate) condition: &'a str,
    pub(crate) order: &'a str,
}

/// The row's number and its columns. For a value that is too large, selects its negative length.
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

impl RowQuery<'_> {
    /// Visits the rows in order.
    pub(crate) fn visit<P: Params + Copy>(
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
