//! A store of the databases in one `workspaceStorage`, or of the database in `globalStorage`.

use std::collections::HashMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Component, Path, PathBuf};

use ground::with_causes;
use serde_json::Value as Json;

use super::database::{
    ALL_KEYS, Counts, GENERATIONS, PROMPTS, Place, Row, Rows, count_rows, read_rows,
};
use super::kept::{Kept, KeptRows, Shape, kept_in};
use crate::database::DatabaseFingerprint;
use crate::model::{Conversation, Damage, Head, Moment, Origin, StoreKind};
use crate::parallel;
use crate::raw_record::{RawRecord, VisitRaw};
use crate::search::{Matcher, Search};
use crate::store::{
    Account, Branches, ConversationStore, Extent, Found, Listing, ReadConversationError, Treatment,
};
use crate::workspace_json::read_workspace_json;

/// The old conversations in one directory.
pub(super) struct OldIdeStore {
    path: PathBuf,
    scope: Scope,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// `workspaceStorage`, with one database for each workspace.
    Workspaces,
    /// `globalStorage`, with one database. Only its prompts are old.
    Global,
}

/// A conversation, and its names in this store.
pub(super) struct Named<'a> {
    pub(super) kept: Kept,
    pub(super) key: String,
    id: String,
    /// The database that it was read from.
    path: &'a Path,
}

impl OldIdeStore {
    pub(super) fn new(path: PathBuf, scope: Scope) -> Self {
        Self { path, scope }
    }

    fn keys(&self) -> &'static [&'static str] {
        match self.scope {
            Scope::Workspaces => &ALL_KEYS,
            Scope::Global => &[PROMPTS, GENERATIONS],
        }
    }

    /// Every directory that may hold a database.
    fn places(&self) -> (Vec<Place>, Vec<Damage>) {
        if self.scope == Scope::Global {
            return (vec![self.global_place()], Vec::new());
        }
        let mut damage = Vec::new();
        let mut places = Vec::new();
        let entries = match fs::read_dir(&self.path) {
            Ok(entries) => entries,
            Err(err) if err.kind() == io::ErrorKind::NotFound => return (places, damage),
            Err(err) => {
                let place = self.path.display().to_string();
                return (places, vec![Damage::new(place, format!("cannot be listed: {err}"))]);
            }
        };
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && entry.file_name().to_str().is_some() => {
                    places.push(Place { name, directory: entry.path() });
                }
                Ok(kind) if kind.is_dir() => {
                    damage.push(Damage::new(name, "its name is not text"));
                }
                Ok(kind) if kind.is_symlink() => {
                    damage.push(Damage::new(name, "is a symbolic link, which is not followed"));
                }
                _ => {}
            }
        }
        places.sort_by(|left, right| left.name.cmp(&right.name));
        (places, damage)
    }

    fn global_place(&self) -> Place {
        Place { name: "global".to_owned(), directory: self.path.clone() }
    }

    /// Splits a key into its place, shape and id.
    fn parse_key<'k>(&self, key: &'k str) -> Option<(Place, Shape, &'k str)> {
        let mut parts = key.splitn(3, '/');
        let (name, shape, id) = (parts.next()?, parts.next()?, parts.next()?);
        let shape = Shape::ALL.into_iter().find(|known| known.as_str() == shape)?;
        let place = match self.scope {
            Scope::Global if !matches!(shape, Shape::Prompts | Shape::Damaged) => return None,
            Scope::Global => self.global_place(),
            Scope::Workspaces => {
                let mut components = Path::new(name).components();
                let (Some(Component::Normal(_)), None) = (components.next(), components.next())
                else {
                    return None;
                };
                Place { name: name.to_owned(), directory: self.path.join(name) }
            }
        };
        let is_directory =
            fs::symlink_metadata(&place.directory).is_ok_and(|metadata| metadata.is_dir());
        (is_directory && place.name == name).then_some((place, shape, id))
    }

    /// Prompts have no id. Uses the hash of the workspace, or a hash of the path for the global store.
    fn prompts_id(&self, place: &Place) -> String {
        use sha2::Digest;
        match self.scope {
            Scope::Workspaces => format!("prompts-{}", place.name),
            Scope::Global => {
                let digest = sha2::Sha256::digest(self.path.as_os_str().as_encoded_bytes());
                format!("prompts-{}", hex::encode(&digest[..8]))
            }
        }
    }

    fn head(&self, place: &Place, named: &Named<'_>) -> Head {
        let origin = Origin {
            store: StoreKind::IdeOld,
            path: named.path.into(),
            key: Some(named.key.clone()),
        };
        let mut head = Head::new(named.id.clone(), origin);
        named.kept.describe(&mut head, &named.kept.messages(), file_time(named.path));
        head.workspace = match self.scope {
            Scope::Workspaces => read_workspace_json(&place.directory.join("workspace.json")),
            Scope::Global => None,
        };
        head
    }

    fn list_place(&self, place: &Place) -> Listing {
        let Rows { rows, mut damage } = read_rows(place, self.keys());
        let (named, broken) = self.name(place, &rows);
        damage.extend(broken);
        Listing { heads: named.iter().map(|named| self.head(place, named)).collect(), damage }
    }

    /// Names the conversations in these rows. A row that is not JSON is damage.
    pub(super) fn name<'a>(&self, place: &Place, rows: &'a [Row]) -> (Vec<Named<'a>>, Vec<Damage>) {
        let KeptRows { kept, broken } = kept_in(rows);
        let mut n_same: HashMap<(&'static str, String), usize> = HashMap::new();
        let name = |(kept, row): (Kept, &'a Row)| {
            let shape = kept.shape.as_str();
            let mut id = match (kept.shape, kept.id.as_str()) {
                (Shape::Prompts, _) => self.prompts_id(place),
                (Shape::Damaged, key) => format!("{shape}-{}-{key}", place.name),
                (_, "") => format!("{shape}-{}", place.name),
                (_, id) => id.to_owned(),
            };
            let n_before = n_same.entry((shape, id.clone())).or_default();
            *n_before += 1;
            if *n_before > 1 {
                // Two conversations with the same id need two names.
                id = format!("{id}#{n_before}");
            }
            Named { key: format!("{}/{shape}/{id}", place.name), id, kept, path: &row.path }
        };
        let named = kept.into_iter().map(name).collect();
        let damage = broken.into_iter().map(|(row, err)| {
            Damage::new(format!("{}/{}", place.name, row.key), format!("is not JSON: {err}"))
        });
        (named, damage.collect())
    }
}

impl ConversationStore for OldIdeStore {
    fn kind(&self) -> StoreKind {
        StoreKind::IdeOld
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn list(&self) -> Listing {
        let (places, damage) = self.places();
        let mut listing = Listing { heads: Vec::new(), damage };
        for of_place in parallel::map(&places, |place| self.list_place(place)) {
            listing.heads.extend(of_place.heads);
            listing.damage.extend(of_place.damage);
        }
        listing
    }

    fn read(&self, key: &str, extent: Extent) -> Result<Conversation, ReadConversationError> {
        let missing = || ReadConversationError::Missing(self.path.join(key));
        let (place, shape, _) = self.parse_key(key).ok_or_else(missing)?;
        let Rows { rows, mut damage } = read_rows(&place, shape.keys());
        let (named, broken) = self.name(&place, &rows);
        damage.extend(broken);
        let Some(named) = named.into_iter().find(|named| named.key == key) else {
            return Err(match damage.into_iter().next() {
                None => missing(),
                Some(Damage { place: of, what }) => {
                    ReadConversationError::unreadable(place.main(), format!("{of}: {what}"))
                }
            });
        };
        let mut conversation = Conversation::new(self.head(&place, &named));
        let mut messages = named.kept.messages();
        let turns = named.kept.turns(&mut messages);
        extent.cut(&mut messages);
        conversation.messages = messages;
        conversation.turns = turns;
        conversation.damage = damage;
        Ok(conversation)
    }

    fn search(&self, matcher: &Matcher, found: Found<'_>) -> Vec<Damage> {
        let (places, mut damage) = self.places();
        let search = Search::new(matcher, found);
        let lost = parallel::map(&places, |place| {
            if search.is_over() {
                return Vec::new();
            }
            let Rows { rows, mut damage } = read_rows(place, self.keys());
            damage.extend(self.search_rows(&search, place, rows));
            damage
        });
        damage.extend(lost.into_iter().flatten());
        damage
    }

    /// The conversation's part of its row: a row holds many conversations.
    fn visit_raw(
        &self,
        key: &str,
        _branches: Branches,
        visit: &mut VisitRaw<'_>,
    ) -> Result<(), ReadConversationError> {
        let missing = || ReadConversationError::Missing(self.path.join(key));
        let (place, shape, _) = self.parse_key(key).ok_or_else(missing)?;
        let Rows { rows, .. } = read_rows(&place, shape.keys());
        let (named, _) = self.name(&place, &rows);
        let named = named.into_iter().find(|named| named.key == key).ok_or_else(missing)?;
        let mut tell = |name: &str, value: Json| {
            visit(RawRecord::of_json(format!("{}/ItemTable/{name}", place.name), value))
        };
        match (shape, named.kept.value) {
            (Shape::Prompts, Json::Object(fields)) => {
                for (name, value) in fields {
                    if tell(&format!("aiService.{name}"), value).is_break() {
                        break;
                    }
                }
            }
            (shape, value) => {
                let key = match shape {
                    Shape::Damaged => named.kept.id.as_str(),
                    shape => shape.keys().first().copied().unwrap_or_default(),
                };
                let _only = tell(key, value);
            }
        }
        Ok(())
    }

    fn stamp(&self, key: &str) -> Option<u64> {
        let (place, _, _) = self.parse_key(key)?;
        let stamps = [place.main(), place.backup()].map(|path| DatabaseFingerprint::of(&path).ok());
        let mut hasher = DefaultHasher::new();
        stamps.hash(&mut hasher);
        stamps.iter().any(Option::is_some).then(|| hasher.finish())
    }

    fn watched(&self, key: Option<&str>) -> Vec<PathBuf> {
        match key {
            Some(key) => {
                self.parse_key(key).into_iter().map(|(place, _, _)| place.directory).collect()
            }
            None => {
                let places = self.places().0.into_iter().map(|place| place.directory);
                let mut directories = vec![self.path.clone()];
                directories.extend(places.filter(|directory| *directory != self.path));
                directories
            }
        }
    }

    fn account(&self) -> Account {
        let (places, _) = self.places();
        let Listing { heads, damage } = self.list();
        let mut account = Account { damage, ..Account::default() };
        account.count(&heads);
        let has_database =
            |place: &&Place| fs::symlink_metadata(place.main()).is_ok() || place.has_backup();
        let with_database: Vec<Place> = places.iter().filter(has_database).cloned().collect();
        let counted = parallel::map(&with_database, count_rows);
        let mut counts = Counts::default();
        for (place, counted) in with_database.iter().zip(counted) {
            match counted {
                Ok(more) => counts.add(more),
                Err(err) => {
                    if account.backup.is_none() && place.has_backup() {
                        account.backup = Some(place.backup().as_path().into());
                    }
                    let place = format!("{}/state.vscdb", place.name);
                    if account.damage.iter().all(|damage| damage.place != place) {
                        account.damage.push(Damage::new(place, with_causes(&err)));
                    }
                }
            }
        }
        let n_backups = places.iter().filter(|place| place.has_backup()).count() as u64;
        let mut add = |name, n_rows, treatment| account.add_family(name, n_rows, treatment);
        for (name, n_rows) in ALL_KEYS.into_iter().zip(counts.n_by_key) {
            let is_read = self.keys().contains(&name);
            add(name, n_rows, if is_read { Treatment::Read } else { Treatment::Counted });
        }
        add("cursorAuth/ and secret://", counts.n_credentials, Treatment::NeverRead);
        add("other rows of ItemTable", counts.n_others, Treatment::NeverRead);
        add("state.vscdb.backup", n_backups, Treatment::Counted);
        add("chatSessions/*", n_files_in(&places, "chatSessions"), Treatment::Counted);
        if self.scope == Scope::Global {
            let n_oldest = super::very_old_databases(&self.path).len() as u64;
            add("cursor.cursor/*.sqlite", n_oldest, Treatment::Counted);
        }
        account
    }
}

fn n_files_in(places: &[Place], name: &str) -> u64 {
    let count = |place: &Place| {
        let directory = place.directory.join(name);
        let is_directory = fs::symlink_metadata(&directory).is_ok_and(|metadata| metadata.is_dir());
        let entries = is_directory.then(|| fs::read_dir(directory).ok()).flatten();
        entries.map_or(0, |entries| entries.count() as u64)
    };
    places.iter().map(count).sum()
}

fn file_time(path: &Path) -> Option<Moment> {
    let modified = fs::symlink_metadata(path).and_then(|metadata| metadata.modified()).ok()?;
    Some(Moment::of_file_time(modified))
}
