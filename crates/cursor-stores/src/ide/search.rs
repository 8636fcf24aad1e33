//! Looking for a pattern in all rows that belong to conversations, on all cores, without a copy of what does not match.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use ground::with_causes;
use serde_json::Value as Json;

use super::IdeStore;
use super::agent_state::blob_content;
use super::database::{OwnedValue, Row, Table, Value};
use super::headers::HEADERS_KEY;
use super::inline::inline_bubbles;
use super::keys::{self, KeyRange};
use super::lenient::{items, parse, text, text_of};
use super::pool::Pool;
use super::search_owners::{BlobHit, find_owners};
use super::workspaces::{COMPOSERS_KEY, PANES_PREFIX, workspace_directories};
use crate::model::Damage;
use crate::parallel;
use crate::search::{FieldMatch, Matcher, search_bytes, search_json};
use crate::store::Hit;

/// Items of conversations and of the projects that they belong to.
const ITEM_PREFIXES: [&str; 2] = ["composer.", "glass.localAgentProject"];

#[derive(Debug, Clone)]
pub(super) enum Task {
    Composers(KeyRange),
    /// Rows of a family that belong to a conversation each.
    Rows(&'static str, KeyRange),
    Blobs(KeyRange),
}

/// Everything that is searched row by row, cut into pieces that several threads can share. They are always the same, so
/// that an index can name them.
pub(super) fn all_tasks() -> Vec<Task> {
    let mut tasks: Vec<Task> = Vec::new();
    tasks.extend(keys::slices(keys::BLOB, 2).into_iter().map(Task::Blobs));
    tasks.extend(
        keys::slices(keys::BUBBLE, 2).into_iter().map(|range| Task::Rows(keys::BUBBLE, range)),
    );
    tasks.extend(keys::slices(keys::COMPOSER, 1).into_iter().map(Task::Composers));
    for family in keys::SIDE_FAMILIES {
        tasks.extend(keys::slices(family, 1).into_iter().map(|range| Task::Rows(family, range)));
    }
    tasks
}

impl Task {
    pub(super) fn range(&self) -> &KeyRange {
        let (Self::Composers(range) | Self::Rows(_, range) | Self::Blobs(range)) = self;
        range
    }
}

/// Performs some of [`all_tasks`], and looks through what is small besides.
pub(super) fn search(
    store: &IdeStore,
    tasks: &[Task],
    matcher: &Matcher,
    found: &(dyn Fn(Hit) -> ControlFlow<()> + Sync),
) -> Vec<Damage> {
    let opened = match store.open() {
        Ok(opened) => opened,
        Err(err) => return vec![Damage::new("state.vscdb", with_causes(&err))],
    };
    let deleted = store.deleted_since();
    let found = |hit: Hit| {
        if deleted.contains(&hit.key) { ControlFlow::Continue(()) } else { found(hit) }
    };
    let search = Search {
        pool: &opened.pool,
        matcher,
        found: &found,
        is_over: AtomicBool::new(false),
        blob_hits: Mutex::default(),
        composers: Mutex::default(),
    };
    let mut damage: Vec<Damage> =
        parallel::map(tasks, |task| search.perform(task)).into_iter().flatten().collect();
    search.emit_blob_hits();
    damage.extend(search.catalogues());
    // The titles that only a workspace has.
    let directories = workspace_directories(&store.workspace_storage);
    parallel::map(&directories, |directory| search.workspace(directory));
    // It may only have been found out by now.
    damage.splice(0..0, opened.damage());
    damage
}

struct Search<'a> {
    pool: &'a Pool,
    matcher: &'a Matcher,
    found: &'a (dyn Fn(Hit) -> ControlFlow<()> + Sync),
    is_over: AtomicBool,
    /// Of these it has yet to be found out whose they are.
    blob_hits: Mutex<Vec<BlobHit>>,
    /// Conversations whose own row has it; what catalogues repeat of it is not another find.
    composers: Mutex<HashSet<String>>,
}

impl Search<'_> {
    fn perform(&self, task: &Task) -> Vec<Damage> {
        let mut too_large = Vec::new();
        let mut positions = Positions::default();
        if self.is_over() {
            return Vec::new();
        }
        let mut damage = self.pool.visit(Table::DiskKv, task.range(), &mut |row| {
            match row.value {
                Value::Tombstone => {}
                Value::TooLarge { n_bytes } => too_large
                    .push(Damage::new(row.key, format!("has {n_bytes} bytes, too many to search"))),
                Value::Bytes(bytes) => match task {
                    Task::Composers(_) => self.composer(&row, bytes),
                    Task::Rows(family, _) => self.row(family, &row, bytes, &mut positions),
                    Task::Blobs(_) => self.blob(&row, bytes),
                },
            }
            if self.is_over() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        damage.append(&mut too_large);
        damage
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    fn emit(&self, hit: Hit) {
        if !self.is_over() && (self.found)(hit).is_break() {
            self.is_over.store(true, Ordering::Relaxed);
        }
    }

    /// A composer's own fields, and every message that stands in it.
    fn composer(&self, row: &Row<'_>, bytes: &[u8]) {
        let Some(id) = row.key.strip_prefix(keys::COMPOSER) else { return };
        if !self.matcher.may_match_json(bytes) {
            return;
        }
        let hit = |message_id: Option<String>, position, found: FieldMatch| Hit {
            key: id.to_owned(),
            message_id,
            position,
            field: found.field,
            snippet: found.snippet,
        };
        let Some(mut composer) = parse(bytes) else {
            if let Some(found) = search_json(self.matcher, bytes) {
                self.emit(hit(None, None, found));
            }
            return;
        };
        let has_order = !items(&composer["fullConversationHeadersOnly"]).is_empty();
        for (number, bubble) in inline_bubbles(&composer).iter().enumerate() {
            if let Some(found) = search_json(self.matcher, bubble.to_string().as_bytes()) {
                let message_id = text_of(bubble, &["bubbleId", "id"]).map(str::to_owned);
                self.emit(hit(message_id, (!has_order).then_some(number), found));
            }
        }
        if let Json::Object(fields) = &mut composer {
            fields.remove("conversation");
            if fields.get("conversationMap").is_some_and(has_bubbles) {
                fields.remove("conversationMap");
            }
            if fields.get("tabs").is_some_and(has_bubbles) {
                fields.remove("tabs");
            }
        }
        if let Some(found) = search_json(self.matcher, composer.to_string().as_bytes()) {
            self.composers.lock().unwrap_or_else(PoisonError::into_inner).insert(id.to_owned());
            self.emit(hit(None, None, found));
        }
    }

    fn row(&self, family: &str, row: &Row<'_>, bytes: &[u8], positions: &mut Positions) {
        let Some(found) = search_json(self.matcher, bytes) else { return };
        let (id, message_id) = match keys::split(family, row.key) {
            Some((id, message_id)) => (id, Some(message_id.to_owned())),
            None => (row.key.strip_prefix(family).unwrap_or_default(), None),
        };
        let is_bubble = family == keys::BUBBLE;
        let position = message_id
            .as_deref()
            .filter(|_| is_bubble)
            .and_then(|message| positions.find(self.pool, id, message));
        let field =
            if is_bubble { found.field } else { join(family.trim_end_matches(':'), &found.field) };
        self.emit(Hit { key: id.to_owned(), message_id, position, field, snippet: found.snippet });
    }

    fn blob(&self, row: &Row<'_>, value: &[u8]) {
        let bytes = &*blob_content(value);
        let is_json = bytes.first() == Some(&b'{');
        let found = if is_json {
            search_json(self.matcher, bytes)
        } else {
            search_bytes(self.matcher, "", bytes)
        };
        let Some(found) = found else { return };
        let Some(id) = row.key.strip_prefix(keys::BLOB) else { return };
        let request_id = is_json.then(|| parse(bytes)).flatten().and_then(|json| {
            text(&json["providerOptions"]["cursor"]["requestId"]).map(str::to_owned)
        });
        let hit = BlobHit {
            blob_id: id.to_owned(),
            rowid: row.rowid,
            is_json,
            request_id,
            field: join("agentKv", &found.field),
            snippet: found.snippet,
        };
        let n_hits = {
            let mut hits = self.blob_hits.lock().unwrap_or_else(PoisonError::into_inner);
            hits.push(hit);
            hits.len()
        };
        if n_hits >= BlobHit::MAX_HELD {
            self.emit_blob_hits();
        }
    }

    fn emit_blob_hits(&self) {
        let hits =
            std::mem::take(&mut *self.blob_hits.lock().unwrap_or_else(PoisonError::into_inner));
        if hits.is_empty() || self.is_over() {
            return;
        }
        let owners = find_owners(self.pool, &hits);
        for (number, hit) in hits.into_iter().enumerate() {
            let key = owners.get(number).cloned().flatten().unwrap_or_default();
            let BlobHit { blob_id, field, snippet, .. } = hit;
            self.emit(Hit { key, message_id: Some(blob_id), position: None, field, snippet });
        }
    }

    /// What the catalogues say of conversations that do not say it themselves.
    fn catalogues(&self) -> Vec<Damage> {
        if self.is_over() {
            return Vec::new();
        }
        let table = self.pool.with(|database| {
            let mut finds: Vec<(String, FieldMatch)> = Vec::new();
            if !database.database.has_plain_table("composerHeaders", ["composerId", "value"])? {
                return Ok(finds);
            }
            database.database.read(|connection| {
                let mut statement =
                    connection.prepare("SELECT composerId, value FROM composerHeaders")?;
                let mut rows = statement.query([])?;
                while let Some(row) = rows.next()? {
                    let (Ok(id), Ok(value)) =
                        (row.get_ref(0)?.as_str(), row.get_ref(1)?.as_bytes())
                    else {
                        continue;
                    };
                    finds.extend(
                        search_json(self.matcher, value).map(|found| (id.to_owned(), found)),
                    );
                }
                Ok(())
            })?;
            Ok(finds)
        });
        let mut damage = Vec::new();
        match table {
            Ok(finds) => finds
                .into_iter()
                .for_each(|(id, found)| self.emit_of_catalogue(id, "composerHeaders", found)),
            Err(err) => damage.push(Damage::new("composerHeaders", with_causes(&err))),
        }
        for prefix in ITEM_PREFIXES {
            damage.extend(self.pool.visit(
                Table::Items,
                &keys::beginning_with(prefix),
                &mut |row| {
                    if let Value::Bytes(bytes) = row.value {
                        self.item(row.key, bytes);
                    }
                    ControlFlow::Continue(())
                },
            ));
        }
        damage
    }

    fn item(&self, key: &str, bytes: &[u8]) {
        if !self.matcher.may_match_json(bytes) {
            return;
        }
        let mut json = parse(bytes).unwrap_or_default();
        if matches!(key, HEADERS_KEY | COMPOSERS_KEY) && json.is_object() {
            let heads = json["allComposers"].take();
            for head in items(&heads) {
                // A head with its messages in it is of an older build, and another reader's.
                if let Some(id) =
                    text(&head["composerId"]).filter(|_| head.get("conversation").is_none())
                    && let Some(found) = search_json(self.matcher, head.to_string().as_bytes())
                {
                    self.emit_of_catalogue(id.to_owned(), key, found);
                }
            }
            if let Some(found) = search_json(self.matcher, json.to_string().as_bytes()) {
                self.emit_of_nobody(key, found);
            }
        } else if let Some(found) = search_json(self.matcher, bytes) {
            self.emit_of_nobody(key, found);
        }
    }

    fn emit_of_catalogue(&self, id: String, catalogue: &str, found: FieldMatch) {
        let is_new =
            self.composers.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone());
        if is_new {
            let field = join(catalogue, &found.field);
            self.emit(Hit {
                key: id,
                message_id: None,
                position: None,
                field,
                snippet: found.snippet,
            });
        }
    }

    fn emit_of_nobody(&self, key: &str, found: FieldMatch) {
        let field = join(key, &found.field);
        self.emit(Hit {
            key: String::new(),
            message_id: None,
            position: None,
            field,
            snippet: found.snippet,
        });
    }

    /// What a workspace says of conversations that the global database has.
    fn workspace(&self, directory: &Path) {
        if self.is_over() {
            return;
        }
        let Ok(pool) = Pool::open(&directory.join("state.vscdb")) else { return };
        if let Ok(Some(OwnedValue::Bytes(bytes))) =
            pool.with(|database| database.get(Table::Items, COMPOSERS_KEY))
        {
            self.item(COMPOSERS_KEY, &bytes);
        }
        // Nobody misses the look of a pane.
        let _damage = pool.visit(Table::Items, &keys::beginning_with(PANES_PREFIX), &mut |row| {
            if let Value::Bytes(bytes) = row.value
                && let Some(found) = search_json(self.matcher, bytes)
            {
                self.emit_of_nobody(row.key, found);
            }
            ControlFlow::Continue(())
        });
    }
}

fn has_bubbles(map: &Json) -> bool {
    super::inline::bubbles_of_map(map).next().is_some()
}

fn join(holder: &str, field: &str) -> String {
    if field.is_empty() { holder.to_owned() } else { format!("{holder}.{field}") }
}

/// Where the messages of one conversation stand, as long as rows of it come one after the other.
#[derive(Default)]
struct Positions {
    composer: String,
    places: HashMap<String, usize>,
}

impl Positions {
    fn find(&mut self, pool: &Pool, composer: &str, message: &str) -> Option<usize> {
        if self.composer != composer {
            composer.clone_into(&mut self.composer);
            self.places = places(pool, composer).unwrap_or_default();
        }
        self.places.get(message).copied()
    }
}

/// Only where nothing but the headers decides: what the model was given may add messages between.
fn places(pool: &Pool, composer: &str) -> Option<HashMap<String, usize>> {
    let checkpoint = format!("{}{composer}", keys::CHECKPOINT);
    let key = format!("{}{composer}", keys::COMPOSER);
    let (value, checkpoint) = pool
        .with(|database| {
            Ok((database.get(Table::DiskKv, &key)?, database.get(Table::DiskKv, &checkpoint)?))
        })
        .ok()?;
    let Some(OwnedValue::Bytes(bytes)) = value else { return None };
    let json = parse(&bytes)?;
    let has_state = text(&json["conversationState"]).is_some_and(|state| state.len() > 1);
    if checkpoint.is_some() || has_state {
        return None;
    }
    let headers = items(&json["fullConversationHeadersOnly"]).iter();
    let ids = headers.filter_map(|header| text(&header["bubbleId"]).map(str::to_owned));
    Some(ids.enumerate().map(|(place, id)| (id, place)).collect())
}
