//! Collects the rows of one conversation.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::ControlFlow;

use serde_json::Value as Json;

use super::composer::headers;
use crate::database::UseDatabaseError;
use crate::ide::database::pool::Pool;
use crate::ide::database::{Row, Table, Value, keys};
use crate::ide::lenient::{parse, parse_object, text};
use crate::ide::listing::Composer;
use crate::model::Damage;
use crate::store::{Branches, Extent};

/// The row of a bubble.
pub(crate) struct BubbleRow {
    pub(crate) rowid: i64,
    pub(crate) value: Value<'static>,
}

pub(crate) struct Gathered {
    /// The row `composerData:<id>`. `None` if it is missing.
    pub(crate) row: Option<Composer>,
    /// The content of that row, or null.
    pub(crate) composer: Json,
    /// By id.
    pub(crate) bubbles: HashMap<String, BubbleRow>,
    pub(crate) damage: Vec<Damage>,
}

/// Reads the rows of a conversation, or only those of its last messages.
pub(crate) fn gather(pool: &Pool, id: &str, extent: Extent) -> Result<Gathered, UseDatabaseError> {
    let (row, composer) = composer_row(pool, id);
    let mut gathered = Gathered { row, composer, bubbles: HashMap::new(), damage: Vec::new() };
    let Gathered { composer, bubbles, damage, .. } = &mut gathered;
    let headers = headers(composer);
    match extent.last {
        Some(last) if extent.branches == Branches::Current && !headers.is_empty() => {
            let last = &headers[headers.len().saturating_sub(last)..];
            for bubble_id in last.iter().filter_map(|header| text(&header["bubbleId"])) {
                let key = format!("{}{id}:{bubble_id}", keys::BUBBLE);
                match pool.with(|database| database.get(Table::DiskKv, &key))? {
                    Some(value) => {
                        bubbles.insert(bubble_id.to_owned(), BubbleRow { rowid: 0, value });
                    }
                    None => damage.extend(pool.lost(&keys::only(&key))),
                }
            }
        }
        _ => damage.extend(pool.visit_own(keys::BUBBLE, id, &mut |bubble_id, row| {
            let bubble = BubbleRow { rowid: row.rowid, value: row.value.into_owned() };
            bubbles.insert(bubble_id.to_owned(), bubble);
            ControlFlow::Continue(())
        })),
    }
    Ok(gathered)
}

fn composer_row(pool: &Pool, id: &str) -> (Option<Composer>, Json) {
    let (mut row, mut json) = (None, Json::Null);
    // Uses a range of one key, because that also tells whether the row is lost.
    let damage = pool.visit(Table::DiskKv, &keys::only(&keys::composer(id)), &mut |found| {
        row = Some(Composer::of(&found.value));
        json = found.value.bytes().ok().and_then(parse).filter(Json::is_object).unwrap_or_default();
        ControlFlow::Break(())
    });
    if row.is_none() && !damage.is_empty() {
        let what: Vec<String> = damage.into_iter().map(|damage| damage.what).collect();
        row = Some(Composer::Damaged(what.join("; ")));
    }
    (row, json)
}

/// Calls `visit` with every row of a conversation: its composer and its bubbles. Returns the number of rows.
pub(crate) fn visit_rows(pool: &Pool, id: &str, visit: &mut dyn FnMut(Row<'_>)) -> u64 {
    let mut n_rows = 0;
    let mut count = |row: Row<'_>| {
        n_rows += 1;
        visit(row);
        ControlFlow::Continue(())
    };
    // The next read finds the same damage.
    let _damage = pool.visit(Table::DiskKv, &keys::only(&keys::composer(id)), &mut count);
    let _damage = pool.visit_own(keys::BUBBLE, id, &mut |_, row| count(row));
    n_rows
}

/// Returns stamps of conversations, from their composers and the row numbers of their bubbles. Cursor gives a row a new
/// number when it writes it again, so this need not read the bubbles.
pub(crate) fn shapes(pool: &Pool, ids: &[&str]) -> Vec<Option<u64>> {
    let mut shapes: HashMap<&str, DefaultHasher> = HashMap::new();
    let places: HashMap<&str, &str> = ids.iter().map(|id| (*id, *id)).collect();
    let _damage = pool.visit(Table::DiskKv, &keys::beginning_with(keys::COMPOSER), &mut |row| {
        if let Some(id) = row.key.strip_prefix(keys::COMPOSER).and_then(|id| places.get(id)) {
            let hasher = shapes.entry(id).or_default();
            row.value.hash(hasher);
            if let Value::TooLarge { .. } = row.value {
                row.rowid.hash(hasher);
            }
        }
        ControlFlow::Continue(())
    });
    let range = keys::beginning_with(keys::BUBBLE);
    // The next read finds the same damage.
    let _read = pool.with(|database| {
        database.visit_keys(Table::DiskKv, &range, &mut |key, rowid| {
            let owner = keys::split(keys::BUBBLE, key).and_then(|(owner, _)| places.get(owner));
            if let Some(id) = owner {
                (key, rowid).hash(shapes.entry(id).or_default());
            }
        })
    });
    ids.iter().map(|id| shapes.get(id).map(Hasher::finish)).collect()
}

/// Returns a conversation's size in the database, from its row headers.
pub(crate) fn n_bytes(pool: &Pool, id: &str) -> Result<u64, UseDatabaseError> {
    let sql = "SELECT coalesce(sum(octet_length(value)), 0) FROM cursorDiskKV \
               WHERE key = ?1 OR key >= ?2 AND key < ?3";
    let range = keys::of_composer(keys::BUBBLE, id);
    pool.with(|database| match database.has(Table::DiskKv) {
        true => database.database.count(sql, (keys::composer(id), &range.start, &range.end)),
        false => Ok(0),
    })
}

/// True if a conversation is known to have lost rows.
pub(crate) fn has_lost_rows(pool: &Pool, id: &str) -> bool {
    let families = [keys::BUBBLE].into_iter().chain(keys::TOLD_FAMILIES);
    let mut ranges = families.map(|family| keys::of_composer(family, id));
    !pool.lost(&keys::only(&keys::composer(id))).is_empty()
        || ranges.any(|range| !pool.lost(&range).is_empty())
}

/// True if there are rows of a sub-agent that only its call names.
pub(crate) fn has_task(pool: &Pool, call_id: &str) -> bool {
    let range = keys::of_composer(keys::BUBBLE, &format!("{}{call_id}", keys::TASK));
    pool.with(|database| database.first_key(Table::DiskKv, &range)).is_ok_and(|key| key.is_some())
}

/// Returns the JSON of a row, or what is wrong with the row.
pub(crate) fn json_of(value: &Value<'_>) -> Result<Json, String> {
    parse_object(value.bytes()?).ok_or_else(|| "is not JSON".to_owned())
}
