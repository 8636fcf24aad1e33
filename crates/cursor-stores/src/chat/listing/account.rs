//! Counts the files below a `chats` directory by their names.

use std::collections::BTreeMap;
use std::fs;

use super::chats_root::ChatsRoot;
use crate::model::Shelf;
use crate::parallel;
use crate::store::{Account, ConversationStore, Family, Treatment};

/// The files of a chat, and how they are treated.
const FILES: [(&str, Treatment); 5] = [
    ("store.db", Treatment::Read),
    ("store.db-wal", Treatment::Read),
    ("meta.json", Treatment::Read),
    ("store.db-shm", Treatment::Counted),
    ("prompt_history.json", Treatment::Counted),
];
const OTHER_FILES: &str = "other files";
const NOT_CHATS: &str = "directories without a chat";

pub(crate) fn account(root: &ChatsRoot) -> Account {
    let listing = root.list();
    let mut account = Account { damage: listing.damage, ..Account::default() };
    for head in &listing.heads {
        let hidden = match head.shelf {
            _ if head.parent.is_some() => Some("sub-agent"),
            Shelf::Empty => Some("empty"),
            Shelf::Shown | Shelf::Archived | Shelf::Draft => None,
        };
        match hidden {
            Some(what) => *account.n_hidden.entry(what.to_owned()).or_default() += 1,
            None => account.n_conversations += 1,
        }
    }
    account.families = families(root, listing.heads.len());
    account
}

fn families(root: &ChatsRoot, n_chats: usize) -> Vec<Family> {
    let directories = root.directories(&mut Vec::new());
    let counts = parallel::map(&directories, |below| {
        let mut names: BTreeMap<&'static str, u64> = BTreeMap::new();
        for entry in fs::read_dir(&below.path).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let known = FILES.iter().find(|(file, _)| name == **file);
            *names.entry(known.map_or(OTHER_FILES, |(file, _)| *file)).or_default() += 1;
        }
        names
    });
    let mut n_by_name: BTreeMap<&str, u64> = BTreeMap::new();
    for (name, count) in counts.into_iter().flatten() {
        *n_by_name.entry(name).or_default() += count;
    }
    let not_chats = directories.len().saturating_sub(n_chats) as u64;
    let others = [(OTHER_FILES, Treatment::Counted), (NOT_CHATS, Treatment::Counted)];
    n_by_name.insert(NOT_CHATS, not_chats);
    let families = FILES.into_iter().chain(others).filter_map(|(name, treatment)| {
        let n_rows = *n_by_name.get(name)?;
        (n_rows > 0).then(|| Family { name: name.to_owned(), n_rows, treatment })
    });
    families.collect()
}
