//! Collects the rows of one conversation.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::ControlFlow;

use serde_json::Value as Json;

use super::composer::headers;
use crate::ide::database::keys;
use crate::ide::database::pool::{Pool, UsePoolError};
use crate::ide::database::{OwnedValue, Row, Table, Value};
use crate::ide::lenient::{parse, parse_object, text};
use crate::ide::listing::summary::{Summary, summarise};
use crate::model::Damage;
use crate::store::{Branches, Extent};

/// The row `composerData:<id>`.
pub(crate) enum ComposerRow {
    Json(Json, Box<Summary>),
    Missing,
    Tombstone,
    Damaged(String),
}

/// The row of a bubble.
pub(crate) struct BubbleRow {
    pub(crate) rowid: i64,
    pub(crate) value: OwnedValue,
}

pub(crate) struct Gathered {
    pub(crate) composer: ComposerRow,
    /// By their ids.
    pub(crate) bubbles: HashMap<String, BubbleRow>,
    pub(crate) damage: Vec<Damage>,
}

/// Reads the rows of a conversation, or only those of its last messages.
pub(crate) fn gather(pool: &Pool, id: &str, extent: Extent) -> Result<Gathered, UsePoolError> {
    let composer = composer_row(pool, id);
    let mut gathered = Gathered { composer, bubbles: HashMap::new(), damage: Vec::new() };
    let nothing = Json::Null;
    let headers = match &gathered.composer {
        ComposerRow::Json(composer, _) => headers(composer),
        _ => headers(&nothing),
    };
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

/// Reads the row of the composer.
fn composer_row(pool: &Pool, id: &str) -> ComposerRow {
    let key = format!("{}{id}", keys::COMPOSER);
    // A range of one key, because that works even if the index is damaged.
    let mut found = None;
    let range = key.clone()..format!("{key}\0");
    let damage = pool.visit(Table::DiskKv, &range, &mut |row| {
        found = Some(row.value.to_owned());
        ControlFlow::Break(())
    });
    match found {
        None if damage.is_empty() => ComposerRow::Missing,
        None => ComposerRow::Damaged(
            damage.into_iter().map(|damage| damage.what).collect::<Vec<_>>().join("; "),
        ),
        Some(OwnedValue::Tombstone) => ComposerRow::Tombstone,
        Some(OwnedValue::TooLarge { n_bytes }) => {
            ComposerRow::Damaged(format!("has {n_bytes} bytes, too many to read"))
        }
        Some(OwnedValue::Bytes(bytes)) => match parse(&bytes).filter(Json::is_object) {
            Some(json) => ComposerRow::Json(json, Box::new(summarise(&bytes).unwrap_or_default())),
            None => ComposerRow::Damaged("is not JSON".to_owned()),
        },
    }
}

/// Calls `visit` with every row of a conversation: its composer and its bubbles. Returns the number of rows.
pub(crate) fn visit_rows(pool: &Pool, id: &str, visit: &mut dyn FnMut(&Row<'_>)) -> u64 {
    let mut n_rows = 0;
    let composer = format!("{}{id}", keys::COMPOSER);
    let range_of_composer = composer.clone()..format!("{composer}\0");
    for range in [range_of_composer, keys::of_composer(keys::BUBBLE, id)] {
        // The next look finds the same damage.
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

/// Stamps of conversations, from their composers and the row numbers of their bubbles. Cursor gives a row a new number
/// when it writes it again, so the bubbles need not be read.
pub(crate) fn shapes(pool: &Pool, ids: &[&str]) -> Vec<Option<u64>> {
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
    // The next look finds the same damage.
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

/// The size of a conversation in the database, from the headers of its rows.
pub(crate) fn n_bytes(pool: &Pool, id: &str) -> Result<u64, UsePoolError> {
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

/// True if rows of a conversation are known to be lost.
pub(crate) fn has_lost_rows(pool: &Pool, id: &str) -> bool {
    let composer = format!("{}{id}", keys::COMPOSER);
    let of_composer = composer.clone()..format!("{composer}\0");
    let of_bubbles = keys::of_composer(keys::BUBBLE, id);
    let beside = keys::TOLD_FAMILIES.map(|family| keys::of_composer(family, id));
    let own = [of_composer, of_bubbles].into_iter().chain(beside);
    own.into_iter().any(|range| !pool.lost(&range).is_empty())
}

/// True if there are rows of a sub-agent that is named only by its call.
pub(crate) fn has_task(pool: &Pool, call_id: &str) -> bool {
    let range = keys::of_composer(keys::BUBBLE, &format!("{}{call_id}", keys::TASK));
    pool.with(|database| database.first_key(Table::DiskKv, &range)).is_ok_and(|key| key.is_some())
}

/// The JSON of a row, or what is wrong with the row.
pub(crate) fn json_of(value: &OwnedValue) -> Result<Json, String> {
    match value {
        OwnedValue::Tombstone => Err("was deleted".to_owned()),
        OwnedValue::TooLarge { n_bytes } => Err(format!("has {n_bytes} bytes, too many to read")),
        OwnedValue::Bytes(bytes) => parse_object(bytes).ok_or_else(|| "is not JSON".to_owned()),
    }
}
