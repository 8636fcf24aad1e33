//! The rows of one conversation.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::ControlFlow;

use serde_json::Value as Json;

use super::database::{OwnedValue, Row, Table, Value};
use super::keys;
use super::lenient::{items, parse, parse_object, text};
use super::pool::{Pool, UsePoolError};
use crate::model::Damage;
use crate::store::{Branches, Extent};

/// What is at `composerData:<id>`.
pub(super) enum ComposerRow {
    Json(Json),
    Missing,
    Tombstone,
    Damaged(String),
}

/// A bubble as its row has it.
pub(super) struct BubbleRow {
    pub(super) rowid: i64,
    pub(super) value: OwnedValue,
}

pub(super) struct Gathered {
    pub(super) composer: ComposerRow,
    /// By their ids.
    pub(super) bubbles: HashMap<String, BubbleRow>,
    pub(super) damage: Vec<Damage>,
}

/// Reads the rows of a conversation, or only those of its last messages.
pub(super) fn gather(pool: &Pool, id: &str, extent: Extent) -> Result<Gathered, UsePoolError> {
    let key = format!("{}{id}", keys::COMPOSER);
    // As a range of one, so that it is found even if the index is damaged.
    let mut found = None;
    let range = key.clone()..format!("{key}\0");
    let damage = pool.visit(Table::DiskKv, &range, &mut |row| {
        found = Some(row.value.to_owned());
        ControlFlow::Break(())
    });
    let composer = match found {
        None if damage.is_empty() => ComposerRow::Missing,
        None => ComposerRow::Damaged(
            damage.into_iter().map(|damage| damage.what).collect::<Vec<_>>().join("; "),
        ),
        Some(OwnedValue::Tombstone) => ComposerRow::Tombstone,
        Some(OwnedValue::TooLarge { n_bytes }) => {
            ComposerRow::Damaged(format!("has {n_bytes} bytes, too many to read"))
        }
        Some(OwnedValue::Bytes(bytes)) => match parse(&bytes).filter(Json::is_object) {
            Some(json) => ComposerRow::Json(json),
            None => ComposerRow::Damaged("is not JSON".to_owned()),
        },
    };
    let mut gathered = Gathered { composer, bubbles: HashMap::new(), damage: Vec::new() };
    let headers = gathered.headers();
    match extent.last {
        Some(last) if extent.branches == Branches::Current && !headers.is_empty() => {
            let skipped = headers.len().saturating_sub(last);
            let ids: Vec<String> = headers[skipped..]
                .iter()
                .filter_map(|header| text(&header["bubbleId"]))
                .map(str::to_owned)
                .collect();
            for bubble_id in ids {
                let key = format!("{}{id}:{bubble_id}", keys::BUBBLE);
                match pool.with(|database| database.get(Table::DiskKv, &key)) {
                    Ok(Some(value)) => {
                        gathered.bubbles.insert(bubble_id, BubbleRow { rowid: 0, value });
                    }
                    Ok(None) => {
                        gathered.damage.extend(pool.lost(&(key.clone()..format!("{key}\0"))))
                    }
                    Err(err) => return Err(err),
                }
            }
        }
        _ => {
            let range = keys::of_composer(keys::BUBBLE, id);
            let bubbles = &mut gathered.bubbles;
            let damage = pool.visit(Table::DiskKv, &range, &mut |row| {
                if let Some((owner, bubble_id)) = keys::split(keys::BUBBLE, row.key)
                    && owner == id
                {
                    let bubble = BubbleRow { rowid: row.rowid, value: row.value.to_owned() };
                    bubbles.insert(bubble_id.to_owned(), bubble);
                }
                ControlFlow::Continue(())
            });
            gathered.damage.extend(damage);
        }
    }
    Ok(gathered)
}

impl Gathered {
    /// The order of the messages, where the composer has it.
    pub(super) fn headers(&self) -> &[Json] {
        match &self.composer {
            ComposerRow::Json(composer) => items(&composer["fullConversationHeadersOnly"]),
            _ => &[],
        }
    }
}

/// Calls `visit` with every row of a conversation: its composer and its bubbles. Returns how many there are.
pub(super) fn visit_rows(pool: &Pool, id: &str, visit: &mut dyn FnMut(&Row<'_>)) -> u64 {
    let mut n_rows = 0;
    let composer = format!("{}{id}", keys::COMPOSER);
    let range_of_composer = composer.clone()..format!("{composer}\0");
    for range in [range_of_composer, keys::of_composer(keys::BUBBLE, id)] {
        // What is damaged now is damaged the next time.
        let _damage = pool.visit(Table::DiskKv, &range, &mut |row| {
            let is_own = row.key == composer
                || keys::split(keys::BUBBLE, row.key).is_some_and(|(owner, _)| owner == id);
            if is_own {
                n_rows += 1;
                visit(&row);
            }
            ControlFlow::Continue(())
        });
    }
    n_rows
}

/// Tells apart states of conversations by their composers and by which rows their bubbles are in: a row that is written
/// anew gets a new number. The bubbles themselves are not read.
pub(super) fn shapes(pool: &Pool, ids: &[&str]) -> Vec<Option<u64>> {
    let mut shapes: HashMap<&str, DefaultHasher> = HashMap::new();
    let places: HashMap<&str, &str> = ids.iter().map(|id| (*id, *id)).collect();
    let _damage = pool.visit(Table::DiskKv, &keys::beginning_with(keys::COMPOSER), &mut |row| {
        if let Some(id) = row.key.strip_prefix(keys::COMPOSER).and_then(|id| places.get(id)) {
            let hasher = shapes.entry(id).or_default();
            match row.value {
                Value::Bytes(bytes) => bytes.hash(hasher),
                Value::Tombstone => 0.hash(hasher),
                Value::TooLarge { n_bytes } => (n_bytes, row.rowid).hash(hasher),
            }
        }
        ControlFlow::Continue(())
    });
    let range = keys::beginning_with(keys::BUBBLE);
    // What is damaged now is damaged the next time.
    let _read = pool.with(|database| {
        database.visit_row_numbers(Table::DiskKv, &range, &mut |key, rowid| {
            let owner = keys::split(keys::BUBBLE, key).and_then(|(owner, _)| places.get(owner));
            if let Some(id) = owner {
                (key, rowid).hash(shapes.entry(id).or_default());
            }
        })
    });
    ids.iter().map(|id| shapes.get(id).map(Hasher::finish)).collect()
}

/// What a conversation takes in the database, by the lengths in the heads of its rows.
pub(super) fn n_bytes(pool: &Pool, id: &str) -> Result<u64, UsePoolError> {
    let sql = "SELECT coalesce(sum(octet_length(value)), 0) FROM cursorDiskKV \
               WHERE key = ?1 OR key >= ?2 AND key < ?3";
    let range = keys::of_composer(keys::BUBBLE, id);
    let composer = format!("{}{id}", keys::COMPOSER);
    let sum = pool.with(|database| {
        if !database.has(Table::DiskKv) {
            return Ok(0);
        }
        database.database.read(|connection| {
            connection
                .query_row(sql, (&composer, &range.start, &range.end), |row| row.get::<_, i64>(0))
        })
    });
    sum.map(|sum| u64::try_from(sum).unwrap_or(0))
}

/// Tells whether rows of a conversation are known to be missing.
pub(super) fn has_lost_rows(pool: &Pool, id: &str) -> bool {
    let composer = format!("{}{id}", keys::COMPOSER);
    let of_composer = composer.clone()..format!("{composer}\0");
    let of_bubbles = keys::of_composer(keys::BUBBLE, id);
    let beside = keys::TOLD_FAMILIES.map(|family| keys::of_composer(family, id));
    let own = [of_composer, of_bubbles].into_iter().chain(beside);
    own.into_iter().any(|range| !pool.lost(&range).is_empty())
}

/// Tells whether there are rows of a sub-agent that has no name but its call's.
pub(super) fn has_task(pool: &Pool, call_id: &str) -> bool {
    let range = keys::of_composer(keys::BUBBLE, &format!("{}{call_id}", keys::TASK));
    pool.with(|database| database.first_key(Table::DiskKv, &range)).is_ok_and(|key| key.is_some())
}

/// The JSON of a row, or what is wrong with it.
pub(super) fn json_of(value: &OwnedValue) -> Result<Json, String> {
    match value {
        OwnedValue::Tombstone => Err("was deleted".to_owned()),
        OwnedValue::TooLarge { n_bytes } => Err(format!("has {n_bytes} bytes, too many to read")),
        OwnedValue::Bytes(bytes) => parse_object(bytes).ok_or_else(|| "is not JSON".to_owned()),
    }
}
