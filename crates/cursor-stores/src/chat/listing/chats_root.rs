//! All chats below one directory: `chats` of the command line agent, or `acp-sessions`.
//!
//! A chat's key is `<bucket>/<uuid>` in `chats`, where the bucket is the hash of a workspace, and `<uuid>` in
//! `acp-sessions`. A suffix `#<name>` names a sub-agent whose state the chat itself keeps.
//!
//! **One id in several buckets** means several conversations: Cursor begins an empty one when a user resumes a chat
//! from another directory. The newest one with content keeps the id. Lists show the others as `<uuid>@<bucket>`, with
//! a short bucket. The exception is a copy: a workspace has several buckets if its agents name them by different
//! hashes. If one of two chats there continues the other, only that one is listed.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::account;
use super::chat_files::{
    Below, ChatFiles, DATABASE, FileState, META_FILE, MetaFile, MetaRowError, directories_below,
};
use super::chat_head;
use crate::StorePlaces;
use crate::chat::reading::{chat, raw};
use crate::chat::resume::furthest::furthest;
use crate::chat::search;
use crate::chat::store::Writers;
use crate::model::{Activity, Conversation, Damage, Head, StoreKind};
use crate::parallel;
use crate::plain_file;
use crate::raw_record::VisitRaw;
use crate::search::Matcher;
use crate::store::{
    Account, Branches, ConversationStore, Discovered, Extent, Found, Listing,
    ReadConversationError, SkippedPlace,
};

/// One `chats` or `acp-sessions` directory.
#[derive(Debug)]
pub(crate) struct ChatsRoot {
    pub(crate) kind: StoreKind,
    pub(crate) path: PathBuf,
    pub(crate) writers: Writers,
}

pub(crate) struct ListedChat {
    pub(crate) key: String,
    /// The name of the chat's directory.
    pub(crate) id: String,
    pub(crate) files: ChatFiles,
}

/// A log that changed this recently has a writer, even if that process is not visible from here.
const JUST_NOW: Duration = Duration::from_secs(10);

pub(crate) fn discover(places: &StorePlaces) -> Vec<Discovered> {
    let cli = places.chats.iter().map(|path| (StoreKind::Cli, path));
    let acp = places.acp_sessions.iter().map(|path| (StoreKind::Acp, path));
    cli.chain(acp).filter_map(|(kind, path)| discover_root(kind, path)).collect()
}

fn discover_root(kind: StoreKind, path: &Path) -> Option<Discovered> {
    let skipped = |why: String| {
        Some(Discovered::Skipped(SkippedPlace { store: kind, path: path.into(), why }))
    };
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => match fs::read_dir(path) {
            Ok(_) => Some(Discovered::Store(Box::new(ChatsRoot::new(kind, path.to_owned())))),
            Err(err) => skipped(format!("the directory cannot be read: {err}")),
        },
        Ok(_) => skipped("is not a directory".to_owned()),
        Err(err) if err.kind() == std::io::ErrorKind::NotFound => None,
        Err(err) => skipped(format!("cannot be inspected: {err}")),
    }
}

impl ChatsRoot {
    pub(crate) fn new(kind: StoreKind, path: PathBuf) -> Self {
        Self { kind, path, writers: Writers::default() }
    }

    /// Finds the directories that may contain chats.
    pub(crate) fn directories(&self, damage: &mut Vec<Damage>) -> Vec<Below> {
        let mut refuse = |place: String, what: String| damage.push(Damage::new(place, what));
        let first = directories_below(&self.path, "", &mut refuse);
        if self.kind != StoreKind::Cli {
            return first;
        }
        let below = parallel::map(&first, |bucket| {
            let mut refused = Vec::new();
            let sessions = directories_below(&bucket.path, &bucket.name, &mut |place, what| {
                refused.push((place, what));
            });
            (sessions, refused)
        });
        let mut all = Vec::new();
        for (sessions, refused) in below {
            all.extend(sessions);
            refused.into_iter().for_each(|(place, what)| refuse(place, what));
        }
        all
    }

    /// Finds all chats and inspects their files.
    pub(crate) fn chats(&self, damage: &mut Vec<Damage>) -> Vec<ListedChat> {
        let directories = self.directories(damage);
        let files = parallel::map(&directories, |below| ChatFiles::of(below.path.clone()));
        let chats = directories.into_iter().zip(files).filter_map(|(below, files)| {
            let id =
                below.name.rsplit_once('/').map_or(below.name.as_str(), |(_, id)| id).to_owned();
            Some(ListedChat { key: below.name, id, files: files? })
        });
        let chats = chats.collect();
        if self.kind == StoreKind::Cli { without_copies(chats) } else { chats }
    }

    /// Finds one chat by its key, or by its id alone.
    pub(crate) fn find(&self, key: &str) -> Option<ListedChat> {
        let names: Vec<&str> = key.split('/').collect();
        let is_name =
            |name: &&str| !name.is_empty() && !matches!(*name, "." | "..") && !name.contains('\0');
        if !names.iter().all(is_name) {
            return None;
        }
        match (self.kind, names.as_slice()) {
            (StoreKind::Cli, [_, id]) | (StoreKind::Acp, [id]) => {
                let files = ChatFiles::of(self.plain_directory(&names)?)?;
                Some(ListedChat { key: key.to_owned(), id: (*id).to_owned(), files })
            }
            (StoreKind::Cli, [id]) => self.copies_of(id).into_iter().max_by(rank),
            _ => None,
        }
    }

    /// Joins the names to a directory. No name may be a link.
    fn plain_directory(&self, names: &[&str]) -> Option<PathBuf> {
        let mut path = self.path.clone();
        for name in names {
            path.push(name);
            if !fs::symlink_metadata(&path).ok()?.is_dir() {
                return None;
            }
        }
        Some(path)
    }

    /// Returns all conversations with this id.
    fn copies_of(&self, id: &str) -> Vec<ListedChat> {
        let buckets = directories_below(&self.path, "", &mut |_, _| {});
        let copies = buckets.into_iter().filter_map(|bucket| {
            let files = ChatFiles::of(self.plain_directory(&[&bucket.name, id])?)?;
            Some(ListedChat { key: format!("{}/{id}", bucket.name), id: id.to_owned(), files })
        });
        without_copies(copies.collect())
    }

    /// Returns the chat's id in lists: its own id, unless another chat has a stronger claim to it.
    pub(crate) fn listed_id(&self, chat: &ListedChat) -> String {
        if self.kind != StoreKind::Cli {
            return chat.id.clone();
        }
        match self.copies_of(&chat.id).into_iter().max_by(rank) {
            Some(first) if first.key != chat.key => other_id(chat),
            _ => chat.id.clone(),
        }
    }

    /// True if a process has the chat open for writing, or if its log changed just now.
    pub(crate) fn is_live(&self, files: &ChatFiles) -> bool {
        // SQLite creates the log when a writer begins, and deletes it when the last writer ends.
        let Some(changed_ms) = files.wal.modified_ms() else { return false };
        let now_ms = i64::try_from(ground::now_ms()).unwrap_or(i64::MAX);
        let just_now_ms = i64::try_from(JUST_NOW.as_millis()).unwrap_or(i64::MAX);
        let is_fresh = files.wal.n_bytes() > 0
            && (now_ms - just_now_ms..=now_ms + just_now_ms).contains(&changed_ms);
        is_fresh
            || self
                .writers
                .has_any([files.database.identity(), files.wal.identity()].into_iter().flatten())
    }

    fn listed_head(&self, chat: &ListedChat) -> (Head, Vec<Damage>) {
        let files = &chat.files;
        let mut damage = Vec::new();
        let mut head = files.head(self.kind, &chat.key, &chat.id);
        if let MetaFile::Unreadable(why) = &files.meta_file {
            damage.push(Damage::new(format!("{}/meta.json", chat.key), why.clone()));
        }
        for (name, state) in [("store.db", &files.database), ("store.db-wal", &files.wal)] {
            if let FileState::Refused(why) = state {
                damage.push(Damage::new(format!("{}/{name}", chat.key), why.clone()));
                head.activity = Activity::Damaged;
            }
        }
        if damage.is_empty() && files.needs_meta_row() {
            match files.meta_row() {
                Ok(Some(meta)) => chat_head::add_meta(&mut head, &meta),
                Ok(None) => {}
                Err(MetaRowError { why, activity }) => {
                    damage.push(Damage::new(format!("{}/store.db", chat.key), why));
                    head.activity = activity;
                }
            }
        }
        if self.is_live(files) {
            head.activity = Activity::Live;
        }
        (head, damage)
    }
}

/// Orders chats with the same id by their claim to it: first content, then the latest change, then size.
fn rank(one: &ListedChat, other: &ListedChat) -> std::cmp::Ordering {
    let of = |chat: &ListedChat| {
        let head = chat.files.head(StoreKind::Cli, &chat.key, &chat.id);
        let updated_ms = head.updated.map(|at| at.at_ms);
        (
            !chat.files.database.is_missing(),
            updated_ms,
            head.n_bytes,
            std::cmp::Reverse(chat.key.clone()),
        )
    };
    of(one).cmp(&of(other))
}

fn bucket_of(chat: &ListedChat) -> &str {
    chat.key.split('/').next().unwrap_or_default()
}

fn other_id(chat: &ListedChat) -> String {
    let short: String = bucket_of(chat).chars().take(8).collect();
    format!("{}@{short}", chat.id)
}

/// Leaves out chats that another one with the same id continues, in another bucket of the same workspace.
fn without_copies(chats: Vec<ListedChat>) -> Vec<ListedChat> {
    let mut by_id: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, chat) in chats.iter().enumerate() {
        by_id.entry(&chat.id).or_default().push(at);
    }
    let mut copies = HashSet::new();
    for mut of_same_id in by_id.into_values() {
        // Of two equal chats, the one with the longer hash comes first: Cursor would use it.
        of_same_id.sort_by_key(|at| std::cmp::Reverse(bucket_of(&chats[*at]).len()));
        // Hashes of the same length are of different paths.
        if let [one, other] = of_same_id[..]
            && bucket_of(&chats[one]).len() != bucket_of(&chats[other]).len()
            && let Some(first) = furthest(&[one, other].map(|at| &chats[at].files.directory))
        {
            copies.insert([other, one][first]);
        }
    }
    let chats = chats.into_iter().enumerate();
    chats.filter(|(at, _)| !copies.contains(at)).map(|(_, chat)| chat).collect()
}

/// Lets the first of several chats with the same id keep it, and gives the others new ids.
fn tell_copies_apart(chats: &[ListedChat], heads: &mut [Head]) {
    let mut first: HashMap<&str, usize> = HashMap::new();
    for (at, chat) in chats.iter().enumerate() {
        match first.get_mut(chat.id.as_str()) {
            None => drop(first.insert(&chat.id, at)),
            Some(best) => {
                let loser = if rank(&chats[*best], chat).is_lt() {
                    std::mem::replace(best, at)
                } else {
                    at
                };
                heads[loser].id = other_id(&chats[loser]);
            }
        }
    }
}

/// Lists each parent's sub-agents.
fn link_parents(heads: &mut [Head]) {
    let mut children: HashMap<String, Vec<String>> = HashMap::new();
    for head in heads.iter() {
        if let Some(parent) = &head.parent {
            children.entry(parent.id.clone()).or_default().push(head.id.clone());
        }
    }
    for head in heads {
        head.subagents.extend(children.remove(&head.id).unwrap_or_default());
    }
}

impl ConversationStore for ChatsRoot {
    fn kind(&self) -> StoreKind {
        self.kind
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn list(&self) -> Listing {
        let mut damage = Vec::new();
        let chats = self.chats(&mut damage);
        let mut heads = Vec::with_capacity(chats.len());
        for (head, lost) in parallel::map(&chats, |chat| self.listed_head(chat)) {
            heads.push(head);
            damage.extend(lost);
        }
        tell_copies_apart(&chats, &mut heads);
        link_parents(&mut heads);
        Listing { heads, damage }
    }

    fn complete(&self, head: &mut Head) {
        chat::complete(self, head);
    }

    fn read(&self, key: &str, extent: Extent) -> Result<Conversation, ReadConversationError> {
        chat::read(self, key, extent)
    }

    fn search(&self, matcher: &Matcher, found: Found<'_>) -> Vec<Damage> {
        search::search(self, matcher, found)
    }

    fn visit_raw(
        &self,
        key: &str,
        branches: Branches,
        visit: &mut VisitRaw<'_>,
    ) -> Result<(), ReadConversationError> {
        raw::visit_raw(self, key, branches, visit)
    }

    fn stamp(&self, key: &str) -> Option<u64> {
        let (key, _) = split_key(key);
        let chat = self.find(key)?;
        let mut hasher = DefaultHasher::new();
        let stamp = |name: &str| plain_file::stamp(&chat.files.directory.join(name));
        ["store.db", "store.db-wal", "meta.json"].map(stamp).hash(&mut hasher);
        Some(hasher.finish())
    }

    fn watched(&self, key: Option<&str>) -> Vec<PathBuf> {
        if let Some(key) = key {
            let chat = self.find(split_key(key).0);
            return chat.map(|chat| chat.files.directory).into_iter().collect();
        }
        let mut refused = Vec::new();
        // A session begins as an empty directory. The watch on a bucket covers directories that already contain a chat.
        let is_empty = |directory: &Path| {
            let is_there = |name: &str| fs::symlink_metadata(directory.join(name)).is_ok();
            !is_there(DATABASE) && !is_there(META_FILE)
        };
        let sessions = self.directories(&mut refused).into_iter().map(|below| below.path);
        let empty = sessions.filter(|directory| is_empty(directory));
        let buckets = match self.kind {
            StoreKind::Cli => directories_below(&self.path, "", &mut |_, _| {}),
            _ => Vec::new(),
        };
        let buckets = buckets.into_iter().map(|below| below.path);
        std::iter::once(self.path.clone()).chain(buckets).chain(empty).collect()
    }

    fn account(&self) -> Account {
        account::account(self)
    }
}

/// Splits a sub-agent's name from the key of the chat that keeps it.
pub(crate) fn split_key(key: &str) -> (&str, Option<&str>) {
    key.split_once('#').map_or((key, None), |(key, subagent)| (key, Some(subagent)))
}
