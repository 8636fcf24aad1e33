//! Reading around damaged pages: first by the keys that the index still has, then through the table itself.

use std::collections::HashSet;
use std::ops::ControlFlow;

use super::database::{MAX_VALUE_BYTES, Row, Table, Visit, Vscdb, read_row, row_columns};
use super::keys::KeyRange;
use crate::damaged_rows::{Way, WayEnd, visit_around_damage};
use crate::model::Damage;
use crate::read_only_database::ReadDatabaseError;

/// Names of lost rows that are given one by one.
const MAX_NAMED: usize = 100;
const MAX_KEYS: usize = 10_000_000;

/// Calls `visit` for every row of `range` that can be read, but for `without`, and names those that cannot.
pub(super) fn visit_damaged(
    database: &Vscdb,
    table: Table,
    range: &KeyRange,
    without: Option<&str>,
    visit: &mut Visit<'_>,
) -> Result<Vec<Damage>, ReadDatabaseError> {
    let mut keys = Vec::new();
    let walked = database.visit_keys(table, range, &mut |key| {
        if Some(key) != without {
            keys.push(key.to_owned());
        }
        if keys.len() < MAX_KEYS { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    let is_index_damaged = match walked {
        Ok(()) => false,
        Err(err) if err.is_damage() => true,
        Err(err) => return Err(err),
    };
    let mut lost = Vec::new();
    let mut seen: HashSet<String> = HashSet::new();
    for key in keys {
        match visit_one(database, table, &key, visit) {
            Ok(ControlFlow::Continue(())) => drop(seen.insert(key)),
            Ok(ControlFlow::Break(())) => return Ok(damage_of(lost)),
            Err(err) if err.is_damage() => lost.push(key),
            Err(err) => return Err(err),
        }
    }
    let mut damage = Vec::new();
    if is_index_damaged || !lost.is_empty() {
        // A row that its index leads nowhere for may still stand in the table.
        let mut visit_unseen = |row: Row<'_>| {
            if !range.contains(&row.key.to_owned())
                || Some(row.key) == without
                || seen.contains(row.key)
            {
                return ControlFlow::Continue(());
            }
            seen.insert(row.key.to_owned());
            visit(row)
        };
        walk_table(database, table, range, Loaded::Values, &mut visit_unseen)?;
        lost.retain(|key| !seen.contains(key));
        if is_index_damaged {
            damage.push(Damage::new(
                format!("{}…", range.start.escape_debug()),
                "the index is damaged; rows that only it could name may be missing",
            ));
        }
    }
    damage.extend(damage_of(lost));
    Ok(damage)
}

fn visit_one(
    database: &Vscdb,
    table: Table,
    key: &str,
    visit: &mut Visit<'_>,
) -> Result<ControlFlow<()>, ReadDatabaseError> {
    let sql = format!("SELECT {} FROM {} WHERE key = ?1", row_columns(), table.name());
    database.database.read(|connection| {
        let mut statement = connection.prepare_cached(&sql)?;
        let mut rows = statement.query([key])?;
        match rows.next()? {
            Some(row) => read_row(row, visit),
            None => Ok(ControlFlow::Continue(())),
        }
    })
}

/// Calls `visit` with the keys of a range that stand in the table, whatever its index says.
pub(super) fn visit_keys_of_table(
    database: &Vscdb,
    table: Table,
    range: &KeyRange,
    visit: &mut dyn FnMut(&str),
) -> Result<(), ReadDatabaseError> {
    walk_table(database, table, range, Loaded::Keys, &mut |row| {
        visit(row.key);
        ControlFlow::Continue(())
    })
}

/// What is read of a row of the range. Of others it is nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loaded {
    Keys,
    Values,
}

/// Goes through the table in the order of its rows, around what is damaged.
fn walk_table(
    database: &Vscdb,
    table: Table,
    range: &KeyRange,
    loaded: Loaded,
    visit: &mut Visit<'_>,
) -> Result<(), ReadDatabaseError> {
    if !database.has(table) {
        return Ok(());
    }
    let value = match loaded {
        Loaded::Keys => "NULL, NULL".to_owned(),
        Loaded::Values => format!(
            "octet_length(value), CASE WHEN in_range IS NOT NULL AND octet_length(value) <= {MAX_VALUE_BYTES} THEN value END"
        ),
    };
    let mut is_over = false;
    for island in database.database.islands(table.name())? {
        // A row may still lead to pages that are damaged.
        visit_around_damage(island, &mut |rows, direction| {
            let order = direction.order();
            // The columns of `row_columns`, but with nothing of rows outside the range.
            let sql = format!(
                "SELECT rowid, in_range, {value} FROM (SELECT rowid, CASE WHEN key >= ?3 AND key < ?4 THEN key END AS in_range, \
                 value FROM {} NOT INDEXED WHERE rowid > ?1 AND rowid <= ?2 ORDER BY rowid {order})",
                table.name()
            );
            let mut way = Way { last: None, end: WayEnd::Reached };
            let walked = database.database.read(|connection| {
                let mut statement = connection.prepare_cached(&sql)?;
                let mut found =
                    statement.query((rows.after, rows.until, &range.start, &range.end))?;
                while let Some(row) = found.next()? {
                    let number = row.get(0)?;
                    if read_row(row, visit)?.is_break() {
                        way.end = WayEnd::Stopped;
                        is_over = true;
                        break;
                    }
                    way.last = Some(number);
                }
                Ok(())
            });
            match walked {
                Ok(()) => Ok(way),
                Err(err) if err.is_damage() => Ok(Way { end: WayEnd::Damaged, ..way }),
                Err(err) => Err(err),
            }
        })?;
        if is_over {
            break;
        }
    }
    Ok(())
}

fn damage_of(lost: Vec<String>) -> Vec<Damage> {
    let n_unnamed = lost.len().saturating_sub(MAX_NAMED);
    let mut damage: Vec<Damage> = lost
        .into_iter()
        .take(MAX_NAMED)
        .map(|key| Damage::new(key, "the row is on a damaged page of the database"))
        .collect();
    if n_unnamed > 0 {
        damage.push(Damage::new(
            format!("{n_unnamed} more rows"),
            "they are on damaged pages of the database",
        ));
    }
    damage
}
