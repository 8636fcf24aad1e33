//! Reading around damaged pages: first by the keys that the index still has, then through the table itself.

use std::collections::HashSet;
use std::ops::ControlFlow;

use rusqlite::Connection;

use super::database::{Row, Table, Visit, Vscdb, read_row, row_columns};
use super::keys::KeyRange;
use crate::model::Damage;
use crate::read_only_database::ReadDatabaseError;

/// A table has a few damaged pages, or is beyond repair.
const MAX_GAPS: usize = 1_000;
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
        walk_table(database, table, range, &mut visit_unseen)?;
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

/// Goes through the table in the order of its rows and jumps over what is damaged, farther each time. Only rows of the
/// range have their value read.
fn walk_table(
    database: &Vscdb,
    table: Table,
    range: &KeyRange,
    visit: &mut Visit<'_>,
) -> Result<(), ReadDatabaseError> {
    // The columns of `row_columns`, but with nothing of rows outside the range.
    let sql = format!(
        "SELECT rowid, in_range, octet_length(value), CASE WHEN in_range IS NOT NULL AND octet_length(value) <= {} \
         THEN value END FROM (SELECT rowid, CASE WHEN key >= ?2 AND key < ?3 THEN key END AS in_range, value \
         FROM {} NOT INDEXED WHERE rowid > ?1)",
        super::database::MAX_VALUE_BYTES,
        table.name()
    );
    let (mut after, mut gap) = (i64::MIN, 1_i64);
    for _ in 0..MAX_GAPS {
        let before = after;
        let walked = database.database.read(|connection: &Connection| {
            let mut statement = connection.prepare_cached(&sql)?;
            let mut rows = statement.query((after, &range.start, &range.end))?;
            while let Some(row) = rows.next()? {
                after = row.get(0)?;
                if read_row(row, visit)?.is_break() {
                    break;
                }
            }
            Ok(())
        });
        match walked {
            Ok(()) => return Ok(()),
            Err(err) if err.is_damage() => {
                gap = if after == before { gap.saturating_mul(2) } else { 1 };
                match after.max(0).checked_add(gap) {
                    Some(next) => after = next,
                    None => return Ok(()),
                }
            }
            Err(err) => return Err(err),
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
