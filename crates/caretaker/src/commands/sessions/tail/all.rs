//! `caretaker sessions tail --all`: follows every conversation.
//!
//! There may be ten thousand conversations, so this reads only those in changed directories, and lists a store again
//! only if it may have a new conversation.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::PathBuf;

use admission::command_error::CommandError;
use admission::host::Host;
use admission::sessions::changed_ms;
use admission::words::talk::note;
use cursor_stores::model::{Head, StoreKind};
use cursor_stores::{Catalogue, ConversationStore, is_same_conversation};

use super::{Args, Followed, Printer, directories};
use crate::conversations::directory_watch::{Changes, DirectoryWatch};

/// The latest conversations are likely to continue, so read this many at the start.
const LIKELY: usize = 50;

type StoreName = (StoreKind, PathBuf);

/// Follows all conversations, until interrupted.
pub(super) fn follow_all(
    host: &Host,
    args: &Args,
    catalogue: Catalogue,
    watch: DirectoryWatch,
    printer: &mut Printer,
) -> Result<(), CommandError> {
    let mut following = Following {
        host,
        args,
        catalogue,
        watch,
        followed: HashMap::new(),
        residents: HashMap::new(),
        stores_by_directory: HashMap::new(),
        stamps: HashMap::new(),
        known_stores: BTreeSet::new(),
    };
    following.begin();
    note(&format!("following {} conversations", following.followed.len()));
    loop {
        if let Some(changes) = following.watch.wait()? {
            following.tell_changed(&changes, printer)?;
            following.look_for_new(&changes, printer)?;
        }
        // A new store may have appeared.
        following.find_stores(printer)?;
    }
}

struct Following<'a> {
    host: &'a Host,
    args: &'a Args,
    catalogue: Catalogue,
    watch: DirectoryWatch,
    /// Conversations by id.
    followed: HashMap<String, Followed>,
    /// The conversations that may change when their directory changes.
    residents: HashMap<PathBuf, HashSet<String>>,
    /// The stores that may have a new conversation when a directory changes.
    stores_by_directory: HashMap<PathBuf, BTreeSet<StoreName>>,
    /// The stamp of every conversation in every store, from the last check.
    stamps: HashMap<(StoreName, String), Option<u64>>,
    /// The stores that were listed. The catalogue may know more.
    known_stores: BTreeSet<StoreName>,
}

impl Following<'_> {
    fn begin(&mut self) {
        self.watch_stores(|_| true);
        self.known_stores = self.catalogue.stores().map(name_of).collect();
        let mut heads = self.catalogue.list().heads;
        heads.sort_by_key(|head| std::cmp::Reverse(changed_ms(head)));
        for (number, head) in heads.into_iter().enumerate() {
            let mut followed = Followed::unread(head);
            self.settle(&followed.head);
            if number < LIKELY {
                // If it cannot be read now, the next change causes another attempt.
                followed.skip(&self.catalogue).ok();
            }
            self.followed.insert(followed.head.id.clone(), followed);
        }
        let everything: Vec<String> = self.followed.keys().cloned().collect();
        self.changed_among(everything);
    }

    /// Watches the directories of new conversations.
    fn watch_stores(&mut self, is_meant: impl Fn(&dyn ConversationStore) -> bool) {
        for store in self.catalogue.stores().filter(|store| is_meant(*store)) {
            let directories = store.watched(None);
            self.watch.cover(&directories);
            for directory in directories {
                self.stores_by_directory.entry(directory).or_default().insert(name_of(store));
            }
        }
    }

    /// Watches the directories of a conversation.
    fn settle(&mut self, head: &Head) {
        let directories = directories(&self.catalogue, head);
        self.watch.cover(&directories);
        for directory in directories {
            self.residents.entry(directory).or_default().insert(head.id.clone());
        }
    }

    fn tell_changed(
        &mut self,
        changes: &Changes,
        printer: &mut Printer,
    ) -> Result<(), CommandError> {
        let ids: BTreeSet<String> = if changes.is_everything {
            self.followed.keys().cloned().collect()
        } else {
            let residents = changes.directories.iter().filter_map(|path| self.residents.get(path));
            residents.flatten().cloned().collect()
        };
        for id in self.changed_among(ids.into_iter().collect()) {
            self.tell(&id, printer)?;
        }
        Ok(())
    }

    fn tell(&mut self, id: &str, printer: &mut Printer) -> Result<(), CommandError> {
        let Some(followed) = self.followed.get_mut(id) else { return Ok(()) };
        let mut meant = vec![followed.head.clone()];
        self.args.filter.retain(self.host, &self.catalogue, &mut meant);
        if meant.is_empty() { Ok(()) } else { followed.print_news(&self.catalogue, printer) }
    }

    /// The conversations that changed since the last check. Asks each store only once.
    fn changed_among(&mut self, ids: Vec<String>) -> BTreeSet<String> {
        let mut by_store: BTreeMap<StoreName, Vec<(String, String)>> = BTreeMap::new();
        for id in ids {
            let Some(followed) = self.followed.get(&id) else { continue };
            for origin in &followed.head.origins {
                if let Some(store) = self.catalogue.store_of(origin) {
                    let key = origin.key(&followed.head).to_owned();
                    by_store.entry(name_of(store)).or_default().push((id.clone(), key));
                }
            }
        }
        let mut changed = BTreeSet::new();
        for store in self.catalogue.stores() {
            let name = name_of(store);
            let Some(asked) = by_store.get(&name) else { continue };
            let keys: Vec<&str> = asked.iter().map(|(_, key)| key.as_str()).collect();
            for ((id, key), stamp) in asked.iter().zip(store.stamps(&keys)) {
                let known = self.stamps.insert((name.clone(), key.clone()), stamp);
                if known != Some(stamp) {
                    changed.insert(id.clone());
                }
            }
        }
        changed
    }

    /// Lists again the stores that may have a new conversation.
    fn look_for_new(
        &mut self,
        changes: &Changes,
        printer: &mut Printer,
    ) -> Result<(), CommandError> {
        let mut stores: BTreeSet<StoreName> = BTreeSet::new();
        for directory in &changes.directories {
            let is_news = changes.with_news.contains(directory);
            let of_directory = self.stores_by_directory.get(directory).into_iter().flatten();
            // A database change does not show whether the conversation is old or new.
            stores.extend(
                of_directory.filter(|(kind, _)| is_news || !has_a_file_each(*kind)).cloned(),
            );
            if is_news {
                stores.extend(self.stores_of_residents(directory));
            }
        }
        let is_meant = |store: &dyn ConversationStore| {
            changes.is_everything || stores.contains(&name_of(store))
        };
        if changes.is_everything || !stores.is_empty() {
            // The catalogue's workspaces may be outdated too.
            self.catalogue = self.args.place.open(self.host)?;
            self.watch_stores(is_meant);
            self.take_in(is_meant, printer)?;
        }
        Ok(())
    }

    /// A sub-agent's transcript appears in the directory of its parent.
    fn stores_of_residents(&self, directory: &PathBuf) -> Vec<StoreName> {
        let residents = self.residents.get(directory).into_iter().flatten();
        let origins = residents
            .filter_map(|id| self.followed.get(id))
            .flat_map(|followed| &followed.head.origins)
            .filter(|origin| origin.store == StoreKind::Transcript);
        origins.filter_map(|origin| self.catalogue.store_of(origin)).map(name_of).collect()
    }

    fn find_stores(&mut self, printer: &mut Printer) -> Result<(), CommandError> {
        let catalogue = self.args.place.open(self.host)?;
        let now: BTreeSet<StoreName> = catalogue.stores().map(name_of).collect();
        if now == self.known_stores {
            return Ok(());
        }
        self.catalogue = catalogue;
        let known = std::mem::replace(&mut self.known_stores, now);
        let is_new = |store: &dyn ConversationStore| !known.contains(&name_of(store));
        self.watch_stores(is_new);
        self.take_in(is_new, printer)
    }

    /// The id under which this conversation is followed. If two conversations share an id, the suffix depends on the
    /// store's directory.
    fn known_id(&self, head: &Head) -> String {
        let is_renamed = |followed: &&Followed| is_same_conversation(&followed.head, head);
        if self.followed.contains_key(&head.id) || head.lineage.is_empty() {
            return head.id.clone();
        }
        let known = self.followed.values().find(is_renamed);
        known.map_or_else(|| head.id.clone(), |known| known.head.id.clone())
    }

    /// Lists stores, and starts following new conversations.
    fn take_in(
        &mut self,
        is_meant: impl Fn(&dyn ConversationStore) -> bool,
        printer: &mut Printer,
    ) -> Result<(), CommandError> {
        let mut begun = Vec::new();
        for head in self.catalogue.list_in(is_meant).heads {
            let id = self.known_id(&head);
            match self.followed.get_mut(&id) {
                Some(known) => {
                    let n_before = known.head.origins.len();
                    take_over(&mut known.head, head);
                    let (head, has_more) =
                        (known.head.clone(), known.head.origins.len() > n_before);
                    // A directory that was deleted and created again needs a new watch.
                    self.settle(&head);
                    if has_more {
                        begun.push(head.id);
                    }
                }
                None => {
                    self.settle(&head);
                    begun.push(head.id.clone());
                    self.followed.insert(head.id.clone(), Followed::begun(head));
                }
            }
        }
        for id in self.changed_among(begun) {
            self.tell(&id, printer)?;
        }
        Ok(())
    }
}

/// Updates a known head from `now`.
fn take_over(known: &mut Head, now: Head) {
    for origin in now.origins {
        if !known.origins.contains(&origin) {
            known.origins.push(origin);
        }
    }
    known.lineage.extend(now.lineage);
    known.title = now.title.or(known.title.take());
    known.workspace = now.workspace.or(known.workspace.take());
}

fn name_of(store: &dyn ConversationStore) -> StoreName {
    (store.kind(), store.path().to_owned())
}

/// True if this store has a file or directory per conversation.
fn has_a_file_each(kind: StoreKind) -> bool {
    matches!(kind, StoreKind::Cli | StoreKind::Acp | StoreKind::Transcript)
}
