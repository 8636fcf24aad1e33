//! The records of a conversation as they are: its rows of all families, its heads, and the blobs of its agent.

use std::collections::HashSet;
use std::ops::ControlFlow;

use serde_json::{Map, Value as Json};

use super::agent::{blob, blob_content, blob_id_of, inline_root_bytes};
use super::conversation::composer::header_ids;
use super::database::{OwnedValue, Table, Value};
use super::lenient::{items, parse, text};
use crate::chat::BlobId;
use crate::chat::references::{BlobKind, visit_references};
use crate::ide::database::keys;
use crate::ide::database::pool::Pool;
use crate::ide::listing::headers::HEADERS_KEY;
use crate::ide::store::IdeStore;
use crate::raw_record::{RawContent, RawRecord, VisitRaw};
use crate::store::{Branches, ReadConversationError};

/// Real states have a few thousand blobs.
const MAX_BLOBS: usize = 500_000;

pub(super) fn visit_raw(
    store: &IdeStore,
    id: &str,
    branches: Branches,
    visit: &mut VisitRaw<'_>,
) -> Result<(), ReadConversationError> {
    let opened = store.open()?;
    let mut raw = Raw { pool: &opened.pool, id, branches, visit, is_over: false, n_records: 0 };
    raw.header_row();
    raw.head_item();
    let composer = raw.composer();
    raw.bubbles(&composer);
    for family in keys::SIDE_FAMILIES.into_iter().chain([keys::BUBBLE_CHECKPOINT]) {
        // Earlier states of the agent belong to abandoned branches. They repeat everything else.
        if family != keys::BUBBLE_CHECKPOINT || branches == Branches::WithOrphans {
            raw.family(family);
        }
    }
    raw.agent(&composer);
    if raw.n_records == 0 {
        return Err(ReadConversationError::Missing(store.path.clone()));
    }
    Ok(())
}

struct Raw<'a, 'v> {
    pool: &'a Pool,
    id: &'a str,
    branches: Branches,
    visit: &'a mut VisitRaw<'v>,
    is_over: bool,
    n_records: usize,
}

impl Raw<'_, '_> {
    fn tell(&mut self, record: RawRecord) -> ControlFlow<()> {
        self.n_records += 1;
        self.is_over = self.is_over || (self.visit)(record).is_break();
        if self.is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn tell_row(&mut self, key: &str, value: Value<'_>) -> ControlFlow<()> {
        let content = match value {
            Value::Bytes(bytes) => RawContent::of_bytes(bytes),
            Value::Tombstone => RawContent::Deleted(true),
            Value::TooLarge { n_bytes } => {
                RawContent::LeftOut(format!("it has {n_bytes} bytes, too many to read"))
            }
        };
        self.tell(RawRecord::new(format!("cursorDiskKV/{key}"), content))
    }

    /// All columns of its row in the table of headers.
    fn header_row(&mut self) {
        let id = self.id;
        let row = self.pool.with(|database| {
            let names = database.database.columns("composerHeaders", &["composerId", "value"])?;
            if names.is_empty() {
                return Ok(None);
            }
            let quoted: Vec<String> =
                names.iter().map(|name| format!("\"{}\"", name.replace('"', "\"\""))).collect();
            let sql =
                format!("SELECT {} FROM composerHeaders WHERE composerId = ?1", quoted.join(", "));
            database.database.read(|connection| {
                let mut statement = connection.prepare(&sql)?;
                let mut rows = statement.query([id])?;
                let Some(row) = rows.next()? else { return Ok(None) };
                let mut fields = Map::new();
                for (place, name) in names.iter().enumerate() {
                    fields
                        .insert(name.clone(), crate::raw_record::json_of_sql(row.get_ref(place)?));
                }
                Ok(Some(Json::Object(fields)))
            })
        });
        if let Ok(Some(row)) = row {
            let _more = self.tell(RawRecord::of_json(format!("composerHeaders/{id}"), row));
        }
    }

    /// Its entry in the global list.
    fn head_item(&mut self) {
        let item = self.pool.with(|database| database.get(Table::Items, HEADERS_KEY));
        let Ok(Some(OwnedValue::Bytes(bytes))) = item else { return };
        let Some(json) = parse(&bytes) else { return };
        let own = items(&json["allComposers"])
            .iter()
            .find(|head| text(&head["composerId"]) == Some(self.id));
        if let Some(head) = own.filter(|_| !self.is_over) {
            let record = RawRecord::of_json(format!("ItemTable/{HEADERS_KEY}"), head.clone());
            let _more = self.tell(record);
        }
    }

    fn composer(&mut self) -> Json {
        let key = format!("{}{}", keys::COMPOSER, self.id);
        let range = key.clone()..format!("{key}\0");
        let mut composer = Json::Null;
        let pool = self.pool;
        let _damage = pool.visit(Table::DiskKv, &range, &mut |row| {
            if let Value::Bytes(bytes) = row.value {
                composer = parse(bytes).unwrap_or_default();
            }
            self.tell_row(row.key, row.value)
        });
        composer
    }

    /// The messages that the headers name, sorted by key. On request, also those that they no longer name.
    fn bubbles(&mut self, composer: &Json) {
        let named: HashSet<&str> = header_ids(composer).collect();
        let is_all = named.is_empty() || self.branches == Branches::WithOrphans;
        self.rows(keys::BUBBLE, &|bubble| is_all || named.contains(bubble));
    }

    fn family(&mut self, family: &str) {
        self.rows(family, &|_| true);
    }

    fn rows(&mut self, family: &str, is_meant: &dyn Fn(&str) -> bool) {
        if self.is_over {
            return;
        }
        let (pool, id) = (self.pool, self.id);
        let range = keys::of_composer(family, id);
        let damage =
            pool.visit(Table::DiskKv, &range, &mut |row| match keys::split(family, row.key) {
                Some((owner, part)) if owner == id && is_meant(part) => {
                    self.tell_row(row.key, row.value)
                }
                _ => ControlFlow::Continue(()),
            });
        for lost in damage {
            let content = RawContent::LeftOut(lost.what);
            if self.tell(RawRecord::new(format!("cursorDiskKV/{}", lost.place), content)).is_break()
            {
                return;
            }
        }
    }

    /// The checkpoint, and each blob that its state leads to.
    fn agent(&mut self, composer: &Json) {
        if self.is_over {
            return;
        }
        let key = format!("{}{}", keys::CHECKPOINT, self.id);
        let checkpoint = self.pool.with(|database| database.get(Table::DiskKv, &key));
        let mut pending: Vec<(BlobKind, BlobId, String)> = Vec::new();
        if let Ok(Some(OwnedValue::Bytes(value))) = &checkpoint {
            if self.tell_row(&key, Value::Bytes(value)).is_break() {
                return;
            }
            pending.extend(blob_id_of(value).map(|id| (BlobKind::Root, id, key.clone())));
        } else if let Some(root) = text(&composer["conversationState"]).and_then(inline_root_bytes)
        {
            pending.extend(referred(BlobKind::Root, &root));
        }
        let mut seen: HashSet<BlobId> = HashSet::new();
        let mut next = 0;
        while let Some((kind, id, field)) = pending.get(next).cloned() {
            next += 1;
            if !seen.insert(id) {
                continue;
            }
            let key = format!("{}{id}", keys::BLOB);
            let content = match self.pool.with(|database| blob(database, id)) {
                Ok(Some(bytes)) => {
                    if pending.len() < MAX_BLOBS {
                        pending.extend(referred(kind, &bytes));
                    }
                    RawContent::of_bytes(&blob_content(&bytes))
                }
                Ok(None) => RawContent::LeftOut("it is missing".to_owned()),
                Err(err) => RawContent::LeftOut(ground::with_causes(&err)),
            };
            let record = format!("cursorDiskKV/{key}");
            if self.tell(RawRecord { record, field: Some(field), content }).is_break() {
                return;
            }
        }
    }
}

/// The blobs that a blob refers to, except earlier states of the conversation.
fn referred(kind: BlobKind, bytes: &[u8]) -> Vec<(BlobKind, BlobId, String)> {
    let mut found = Vec::new();
    // A blob that does not decode refers to nothing.
    let _decoded = visit_references(kind, bytes, &mut |reference| {
        if reference.kind != BlobKind::Root
            && let Ok(id) = BlobId::try_from(reference.id)
        {
            found.push((reference.kind, id, reference.field.to_string()));
        }
    });
    found
}
