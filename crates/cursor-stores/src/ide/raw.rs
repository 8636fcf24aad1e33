//! A conversation's records, unchanged: its rows from all families, its heads, and its agent's blobs.

use std::collections::HashSet;
use std::ops::ControlFlow;

use serde_json::{Map, Value as Json};

use super::agent::{blob, blob_content, blob_id_of, inline_root_bytes, walk_state};
use super::conversation::composer::header_ids;
use super::database::{Table, Value};
use super::lenient::{items, parse, text};
use crate::chat::BlobId;
use crate::ide::database::keys;
use crate::ide::database::pool::Pool;
use crate::ide::listing::headers::HEADERS_KEY;
use crate::ide::store::IdeStore;
use crate::raw_record::{RawContent, RawRecord, VisitRaw, json_of_sql};
use crate::store::{Branches, ReadConversationError};

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
        // Earlier states of the agent belong to abandoned branches. Apart from those branches, they only repeat the
        // current state.
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

    fn tell_row(&mut self, key: &str, value: &Value<'_>) -> ControlFlow<()> {
        let content = match value {
            Value::Tombstone => RawContent::Deleted(true),
            Value::Bytes(bytes) => RawContent::of_bytes(bytes),
            Value::TooLarge { n_bytes } => {
                RawContent::LeftOut(format!("it has {n_bytes} bytes, too many to read"))
            }
        };
        self.tell(RawRecord::new(format!("cursorDiskKV/{key}"), content))
    }

    /// All columns of its row in the header table.
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
            let mut found = None;
            database.database.visit_rows(&sql, [id], &mut |row| {
                let mut fields = Map::new();
                for (place, name) in names.iter().enumerate() {
                    fields.insert(name.clone(), json_of_sql(row.get_ref(place)?));
                }
                found = Some(Json::Object(fields));
                Ok(ControlFlow::Break(()))
            })?;
            Ok(found)
        });
        if let Ok(Some(row)) = row {
            let _more = self.tell(RawRecord::of_json(format!("composerHeaders/{id}"), row));
        }
    }

    /// Its entry in the global list.
    fn head_item(&mut self) {
        let item = self.pool.bytes(Table::Items, HEADERS_KEY);
        let Some(json) = item.and_then(|bytes| parse(&bytes)) else { return };
        let own = items(&json["allComposers"])
            .iter()
            .find(|head| text(&head["composerId"]) == Some(self.id));
        if let Some(head) = own.filter(|_| !self.is_over) {
            let record = RawRecord::of_json(format!("ItemTable/{HEADERS_KEY}"), head.clone());
            let _more = self.tell(record);
        }
    }

    fn composer(&mut self) -> Json {
        let mut composer = Json::Null;
        let (pool, range) = (self.pool, keys::only(&keys::composer(self.id)));
        let _damage = pool.visit(Table::DiskKv, &range, &mut |row| {
            composer = row.value.bytes().ok().and_then(parse).unwrap_or_default();
            self.tell_row(row.key, &row.value)
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
        let damage = pool.visit_own(family, id, &mut |part, row| match is_meant(part) {
            true => self.tell_row(row.key, &row.value),
            false => ControlFlow::Continue(()),
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
        let root = match self.pool.bytes(Table::DiskKv, &key) {
            Some(value) => {
                let id = blob_id_of(&value);
                if self.tell_row(&key, &Value::Bytes(value.into())).is_break() {
                    return;
                }
                id.and_then(|id| self.blob(id, key))
            }
            None => text(&composer["conversationState"]).and_then(inline_root_bytes),
        };
        let mut seen: HashSet<BlobId> = HashSet::new();
        walk_state(&root.unwrap_or_default(), &mut |visit| {
            let is_new = !self.is_over && seen.insert(visit.id);
            is_new.then(|| self.blob(visit.id, visit.field.clone())).flatten()
        });
    }

    /// Reports a blob, and returns its bytes.
    fn blob(&mut self, id: BlobId, field: String) -> Option<Vec<u8>> {
        let (content, bytes) = match self.pool.with(|database| blob(database, id)) {
            Ok(Some(bytes)) => (RawContent::of_bytes(&blob_content(&bytes)), Some(bytes)),
            Ok(None) => (RawContent::LeftOut("it is missing".to_owned()), None),
            Err(err) => (RawContent::LeftOut(ground::with_causes(&err)), None),
        };
        let record = format!("cursorDiskKV/{}{id}", keys::BLOB);
        let _more = self.tell(RawRecord { record, field: Some(field), content });
        bytes
    }
}
