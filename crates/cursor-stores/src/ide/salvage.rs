//! Reading around damaged pages: first by the keys that the index still has, then through the table itself.

use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;

use super::database::{Table, Visit, Vscdb, read_row, row_columns};
use super::keys::KeyRange;
use crate::damaged_rows::{Rows, Way, WayEnd, visit_around_damage};
use crate::model::Damage;
use crate::read_only_database::ReadDatabaseError;

/// Names of lost rows that are given one by one.
const MAX_NAMED: usize = 100;
const MAX_KEYS: usize = 10_000_000;

/// Where the row of each key stands.
pub(super) type RowsByKey = BTreeMap<String, i64>;

/// Calls `visit` for every row of `range` that can be read, but for `without`, and names those that cannot.
pub(super) fn visit_damaged(
    database: &Vscdb,
    table: Table,
    range: &KeyRange,
    without: Option<&str>,
    standing: &RowsByKey,
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
        for (key, rowid) in standing.range(range.clone()) {
            if Some(key.as_str()) == without || seen.contains(key) {
                continue;
            }
            match visit_row(database, table, key, *rowid, visit) {
                Ok(ControlFlow::Continue(())) => drop(seen.insert(key.clone())),
                Ok(ControlFlow::Break(())) => break,
                Err(err) if err.is_damage() => lost.push(key.clone()),
                Err(err) => return Err(err),
            }
        }
        lost.retain(|key| !seen.contains(key));
        lost.sort_unstable();
        lost.dedup();
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

/// As [`visit_one`], by the number of the row, unless another one stands there now.
fn visit_row(
    database: &Vscdb,
    table: Table,
    key: &str,
    rowid: i64,
    visit: &mut Visit<'_>,
) -> Result<ControlFlow<()>, ReadDatabaseError> {
    let sql =
        format!("SELECT {} FROM {} NOT INDEXED WHERE rowid = ?1", row_columns(), table.name());
    database.database.read(|connection| {
        let mut statement = connection.prepare_cached(&sql)?;
        let mut rows = statement.query([rowid])?;
        match rows.next()? {
            Some(row) if row.get_ref(1)?.as_str().ok() == Some(key) => read_row(row, visit),
            _ => Ok(ControlFlow::Continue(())),
        }
    })
}

/// The keys that stand in the table, whatever its index says, with the numbers of their rows. No value is looked at.
pub(super) fn rows_by_key(database: &Vscdb, table: Table) -> Result<RowsByKey, ReadDatabaseError> {
    let mut rows = RowsByKey::new();
    if !database.has(table) {
        return Ok(rows);
    }
    visit_around_damage(Rows::ALL, &mut |range, direction| {
        let sql = format!(
            "SELECT rowid, key FROM {} NOT INDEXED WHERE rowid > ?1 AND rowid <= ?2 ORDER BY rowid {}",
            table.name(),
            direction.order()
        );
        let mut way = Way { last: None, end: WayEnd::Reached };
        let walked = database.database.read(|connection| {
            let mut statement = connection.prepare_cached(&sql)?;
            let mut found = statement.query([range.after, range.until])?;
            while let Some(row) = found.next()? {
                let rowid = row.get(0)?;
                if let Ok(key) = row.get_ref(1)?.as_str() {
                    // The one that was written last is the one that counts.
                    let known = rows.entry(key.to_owned()).or_insert(rowid);
                    *known = rowid.max(*known);
                }
                way.last = Some(rowid);
                if rows.len() >= MAX_KEYS {
                    way.end = WayEnd::Stopped;
                    break;
                }
            }
            Ok(())
        });
        match walked {
            Ok(()) => Ok(way),
            Err(err) if err.is_damage() => Ok(Way { end: WayEnd::Damaged, ..way }),
            Err(err) => Err(err),
        }
    })?;
    Ok(rows)
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
