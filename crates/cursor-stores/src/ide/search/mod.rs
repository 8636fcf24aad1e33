//! Searches all rows that belong to conversations, on all cores. Rows that cannot match are not copied.

mod owners;
mod sections;

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Mutex;

use ground::with_causes;
use serde_json::Value as Json;

use self::owners::{BlobHit, find_owners};
use super::agent::blob_content;
use super::conversation::composer;
use super::database::keys::{self, KeyRange};
use super::database::pool::Pool;
use super::database::{Row, Table, Value};
use super::lenient::{items, parse, text};
use super::listing::headers::HEADERS_KEY;
use super::listing::workspaces::{COMPOSERS_KEY, PANES_PREFIX, workspace_directories};
use super::store::IdeStore;
use crate::model::Damage;
use crate::parallel::{self, lock};
use crate::search::{FieldMatch, Matcher, Search, search_bytes, search_json, search_value};
use crate::store::{Found, Hit, IndexableStore};

/// Items that belong to conversations, and to the projects of those conversations.
const ITEM_PREFIXES: [&str; 2] = ["composer.", "glass.localAgentProject"];

#[derive(Debug, Clone)]
pub(crate) enum Task {
    Composers(KeyRange),
    /// A family of rows, each of which belongs to a conversation.
    Rows(&'static str, KeyRange),
    Blobs(KeyRange),
}

/// All rows to search, split into pieces for several threads. The pieces are always the same, so that an index can name
/// them.
pub(crate) fn all_tasks() -> Vec<Task> {
    let slices = |family, n_digits| keys::slices(family, n_digits).into_iter();
    let rows =
        |family, n_digits| slices(family, n_digits).map(move |range| Task::Rows(family, range));
    let mut tasks: Vec<Task> = slices(keys::BLOB, 2).map(Task::Blobs).collect();
    tasks.extend(rows(keys::BUBBLE, 2));
    tasks.extend(slices(keys::COMPOSER, 1).map(Task::Composers));
    tasks.extend(keys::SIDE_FAMILIES.into_iter().flat_map(|family| rows(family, 1)));
    tasks
}

impl Task {
    pub(crate) fn range(&self) -> &KeyRange {
        let (Self::Composers(range) | Self::Rows(_, range) | Self::Blobs(range)) = self;
        range
    }
}

/// Performs some of [`all_tasks`], and also searches the small tables.
pub(crate) fn search(
    store: &IdeStore,
    tasks: &[Task],
    matcher: &Matcher,
    found: Found<'_>,
) -> Vec<Damage> {
    let opened = match store.open() {
        Ok(opened) => opened,
        Err(err) => return vec![Damage::new("state.vscdb", with_causes(&err))],
    };
    let deleted = store.deleted_since();
    let found = |hit: Hit| {
        if deleted.contains(&hit.key) { ControlFlow::Continue(()) } else { found(hit) }
    };
    let search = IdeSearch {
        store,
        pool: &opened.pool,
        search: Search::new(matcher, &found),
        blob_hits: Mutex::default(),
        composers: Mutex::default(),
    };
    let mut damage: Vec<Damage> =
        parallel::map(tasks, |task| search.perform(task)).into_iter().flatten().collect();
    search.report_blobs();
    damage.extend(search.catalogues());
    // Some titles are only in the workspaces.
    let directories = workspace_directories(&store.workspace_storage);
    parallel::map(&directories, |directory| search.workspace(directory));
    // Only after these reads can the pool know that the database is damaged.
    damage.splice(0..0, opened.damage());
    damage
}

struct IdeSearch<'a> {
    store: &'a IdeStore,
    pool: &'a Pool,
    search: Search<'a>,
    /// Matches in blobs whose conversations are not known yet.
    blob_hits: Mutex<Vec<BlobHit>>,
    /// Conversations whose own row matched. Catalogues repeat these rows, which does not count as another match.
    composers: Mutex<HashSet<String>>,
}

impl IdeSearch<'_> {
    fn perform(&self, task: &Task) -> Vec<Damage> {
        let mut too_large = Vec::new();
        let mut positions = Positions::default();
        if self.search.is_over() {
            return Vec::new();
        }
        let mut damage = self.pool.visit(Table::DiskKv, task.range(), &mut |row| {
            match &row.value {
                Value::Tombstone => {}
                Value::TooLarge { n_bytes } => too_large
                    .push(Damage::new(row.key, format!("has {n_bytes} bytes, too many to search"))),
                Value::Bytes(bytes) => match task {
                    Task::Composers(_) => self.composer(&row, bytes),
                    Task::Rows(family, _) => self.row(family, &row, bytes, &mut positions),
                    Task::Blobs(_) => self.blob(&row, bytes),
                },
            }
            self.search.flow()
        });
        damage.append(&mut too_large);
        damage
    }

    /// Searches every message inside a composer, and the composer's own fields.
    fn composer(&self, row: &Row<'_>, bytes: &[u8]) {
        let Some(id) = row.key.strip_prefix(keys::COMPOSER) else { return };
        if !self.search.matcher.may_match_json(bytes) {
            return;
        }
        let report = |message_id: Option<String>, position, found| {
            let _flow = self.search.report(id, message_id, position, found);
        };
        let Some(mut composer) = parse(bytes) else {
            if let Some(found) = search_json(self.search.matcher, bytes) {
                report(None, None, found);
            }
            return;
        };
        let has_order = !composer::headers(&composer).is_empty();
        for (number, bubble) in composer::inline_bubbles(&composer).into_iter().enumerate() {
            if let Some(found) = search_value(self.search.matcher, bubble) {
                let message_id = composer::id_of(bubble).map(str::to_owned);
                report(message_id, (!has_order).then_some(number), found);
            }
        }
        composer::remove_inline_bubbles(&mut composer);
        if let Some(found) = search_value(self.search.matcher, &composer) {
            lock(&self.composers).insert(id.to_owned());
            report(None, None, found);
        }
    }

    fn row(&self, family: &str, row: &Row<'_>, bytes: &[u8], positions: &mut Positions) {
        let Some(found) = search_json(self.search.matcher, bytes) else { return };
        let (id, message_id) = match keys::split(family, row.key) {
            Some((id, message_id)) => (id, Some(message_id)),
            None => (row.key.strip_prefix(family).unwrap_or_default(), None),
        };
        let _flow = if family == keys::BUBBLE {
            let position = message_id.and_then(|message| positions.find(self.pool, id, message));
            self.search.report(id, message_id.map(str::to_owned), position, found)
        } else {
            let found = found.below(family.trim_end_matches(':'));
            self.search.report(id, message_id.map(str::to_owned), None, found)
        };
    }

    fn blob(&self, row: &Row<'_>, value: &[u8]) {
        let bytes = &*blob_content(value);
        let is_json = bytes.first() == Some(&b'{');
        let found = if is_json {
            search_json(self.search.matcher, bytes)
        } else {
            search_bytes(self.search.matcher, "", bytes)
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
            found: found.below("agentKv"),
        };
        let n_hits = {
            let mut hits = lock(&self.blob_hits);
            hits.push(hit);
            hits.len()
        };
        if n_hits >= BlobHit::MAX_HELD {
            self.report_blobs();
        }
    }

    fn report_blobs(&self) {
        let hits = std::mem::take(&mut *lock(&self.blob_hits));
        if hits.is_empty() || self.search.is_over() {
            return;
        }
        let prompts = || self.store.prompt_rows.of(self.pool, self.store.fingerprint());
        for (owner, hit) in find_owners(self.pool, &hits, &prompts).into_iter().zip(hits) {
            let key = owner.unwrap_or_default();
            let _flow = self.search.report(&key, Some(hit.blob_id), None, hit.found);
        }
    }

    /// Searches what the catalogues say about conversations, unless the conversations say it themselves.
    fn catalogues(&self) -> Vec<Damage> {
        if self.search.is_over() {
            return Vec::new();
        }
        let table = self.pool.with(|database| {
            let mut matches: Vec<(String, FieldMatch)> = Vec::new();
            if database.database.has_plain_table("composerHeaders", ["composerId", "value"])? {
                let sql = "SELECT composerId, value FROM composerHeaders";
                database.database.visit_rows(sql, [], &mut |row| {
                    if let (Ok(id), Ok(value)) =
                        (row.get_ref(0)?.as_str(), row.get_ref(1)?.as_bytes())
                        && let Some(found) = search_json(self.search.matcher, value)
                    {
                        matches.push((id.to_owned(), found));
                    }
                    Ok(ControlFlow::Continue(()))
                })?;
            }
            Ok(matches)
        });
        let mut damage = Vec::new();
        match table {
            Ok(matches) => matches
                .into_iter()
                .for_each(|(id, found)| self.report_catalogue(&id, "composerHeaders", found)),
            Err(err) => damage.push(Damage::new("composerHeaders", with_causes(&err))),
        }
        for prefix in ITEM_PREFIXES {
            let range = keys::beginning_with(prefix);
            damage.extend(self.pool.visit(Table::Items, &range, &mut |row| {
                if let Value::Bytes(bytes) = &row.value {
                    self.item(row.key, bytes);
                }
                ControlFlow::Continue(())
            }));
        }
        damage
    }

    fn item(&self, key: &str, bytes: &[u8]) {
        if !self.search.matcher.may_match_json(bytes) {
            return;
        }
        let mut json = parse(bytes).unwrap_or_default();
        if !matches!(key, HEADERS_KEY | COMPOSERS_KEY) || !json.is_object() {
            return self.report_unowned(key, search_json(self.search.matcher, bytes));
        }
        let heads = json["allComposers"].take();
        // A head that contains its messages belongs to an older build: the reader of old conversations searches it.
        for head in items(&heads).iter().filter(|head| head.get("conversation").is_none()) {
            if let Some(id) = text(&head["composerId"])
                && let Some(found) = search_value(self.search.matcher, head)
            {
                self.report_catalogue(id, key, found);
            }
        }
        self.report_unowned(key, search_value(self.search.matcher, &json));
    }

    fn report_catalogue(&self, id: &str, catalogue: &str, found: FieldMatch) {
        if lock(&self.composers).insert(id.to_owned()) {
            let _flow = self.search.report(id, None, None, found.below(catalogue));
        }
    }

    /// Reports a match that belongs to no conversation.
    fn report_unowned(&self, key: &str, found: Option<FieldMatch>) {
        if let Some(found) = found {
            let _flow = self.search.report("", None, None, found.below(key));
        }
    }

    /// Searches a workspace's own data about conversations that are in the global database.
    fn workspace(&self, directory: &Path) {
        if self.search.is_over() {
            return;
        }
        let Ok(pool) = Pool::open(&directory.join("state.vscdb")) else { return };
        if let Some(bytes) = pool.bytes(Table::Items, COMPOSERS_KEY) {
            self.item(COMPOSERS_KEY, &bytes);
        }
        // Losing a pane's settings does not matter.
        let _damage = pool.visit(Table::Items, &keys::beginning_with(PANES_PREFIX), &mut |row| {
            if let Value::Bytes(bytes) = &row.value {
                self.report_unowned(row.key, search_json(self.search.matcher, bytes));
            }
            ControlFlow::Continue(())
        });
    }
}

/// The positions of one conversation's messages. Rows come sorted, so one conversation at a time is enough.
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

/// Positions are known only if they depend on the headers alone: an agent's state may add messages in between.
fn places(pool: &Pool, composer: &str) -> Option<HashMap<String, usize>> {
    let json: Json = parse(&pool.bytes(Table::DiskKv, &keys::composer(composer))?)?;
    let checkpoint = format!("{}{composer}", keys::CHECKPOINT);
    let has_checkpoint = pool.with(|database| database.get(Table::DiskKv, &checkpoint)).ok()?;
    if has_checkpoint.is_some() || composer::has_state(&json) {
        return None;
    }
    let ids = composer::header_ids(&json).map(str::to_owned);
    Some(ids.enumerate().map(|(place, id)| (id, place)).collect())
}
