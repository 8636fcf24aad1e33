//! Counts the files below a `chats` directory by their names.

use std::fs;

use super::chats_root::ChatsRoot;
use crate::model::Shelf;
use crate::parallel;
use crate::store::{Account, ConversationStore, Treatment};

/// A chat's files, and what this crate does with them.
const FILES: [(&str, Treatment); 5] = [
    ("store.db", Treatment::Read),
    ("store.db-wal", Treatment::Read),
    ("meta.json", Treatment::Read),
    ("store.db-shm", Treatment::Counted),
    ("prompt_history.json", Treatment::Counted),
];

pub(crate) fn account(root: &ChatsRoot) -> Account {
    let listing = root.list();
    let mut account = Account { damage: listing.damage, ..Account::default() };
    for head in &listing.heads {
        match head.shelf {
            _ if head.parent.is_some() => account.hide("sub-agent"),
            Shelf::Empty => account.hide("empty"),
            Shelf::Shown | Shelf::Archived | Shelf::Draft => account.n_conversations += 1,
        }
    }
    add_families(root, listing.heads.len(), &mut account);
    account
}

fn add_families(root: &ChatsRoot, n_chats: usize, account: &mut Account) {
    let directories = root.directories(&mut Vec::new());
    let names = parallel::map(&directories, |below| {
        let entries = fs::read_dir(&below.path).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name()).collect::<Vec<_>>()
    });
    let names: Vec<_> = names.into_iter().flatten().collect();
    let mut n_others = names.len() as u64;
    for (file, treatment) in FILES {
        let n_files = names.iter().filter(|name| *name == file).count() as u64;
        n_others -= n_files;
        account.add_family(file, n_files, treatment);
    }
    account.add_family("other files", n_others, Treatment::Counted);
    let n_not_chats = directories.len().saturating_sub(n_chats) as u64;
    account.add_family("directories without a chat", n_not_chats, Treatment::Counted);
}
