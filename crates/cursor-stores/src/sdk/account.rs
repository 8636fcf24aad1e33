//! Counts a store's content.

use std::collections::HashSet;
use std::fs;
use std::ops::ControlFlow;
use std::path::PathBuf;

use ground::with_causes;

use super::history::agent_blobs::chat_path;
use super::records::index_db::{IndexDb, Table, with_index};
use super::records::line_files::{self, visit_lines};
use super::store::{Form, SdkStore};
use crate::model::Damage;
use crate::store::{Account, ConversationStore, Family, Listing, Treatment};

pub(super) fn account(store: &SdkStore) -> Account {
    let Listing { heads, damage } = store.list();
    let mut account = Account { damage, ..Account::default() };
    account.count(&heads);
    // Counts agents whether or not a list shows them.
    account.n_conversations = heads.len() as u64;
    match &store.form {
        Form::Database => {
            add_tables(store, &mut account);
            let known: HashSet<_> =
                heads.iter().map(|head| chat_path(&store.directory, &head.id)).collect();
            add_chats(store, &|path| known.contains(path), &mut account);
        }
        Form::Lines(files) => {
            for name in line_files::ALL {
                let mut n_rows = 0;
                let counted = visit_lines(&files.file(name), &mut Vec::new(), &mut |_, _| {
                    n_rows += 1;
                    ControlFlow::Continue(())
                });
                if let Err(error) = counted {
                    account.damage.push(Damage::new(name, with_causes(&error)));
                }
                let family = Family { name: name.to_owned(), n_rows, treatment: Treatment::Read };
                account.families.push(family);
            }
        }
    }
    account
}

fn add_tables(store: &SdkStore, account: &mut Account) {
    match with_index(&store.path, IndexDb::counts) {
        Ok(counts) => account.families.extend(counts.into_iter().map(|(name, n_rows)| {
            let is_read = Table::ALL.iter().any(|table| table.name() == name);
            let treatment = if is_read { Treatment::Read } else { Treatment::Counted };
            Family { name, n_rows, treatment }
        })),
        Err(error) => {
            let lost = Damage::new("index.db", with_causes(&error));
            if !account.damage.contains(&lost) {
                account.damage.push(lost);
            }
        }
    }
}

/// Adds the agents' databases. Those of agents that the index does not know are a separate family.
fn add_chats(store: &SdkStore, is_known: &dyn Fn(&PathBuf) -> bool, account: &mut Account) {
    let entries = fs::read_dir(store.directory.join("agents")).into_iter().flatten().flatten();
    let chats = entries.map(|entry| entry.path().join("store.db")).filter(|path| path.is_file());
    let (known, strange): (Vec<_>, Vec<_>) = chats.partition(is_known);
    account.add_family("agents/*/store.db", known.len() as u64, Treatment::Read);
    let strange = strange.len() as u64;
    account.add_family("agents/*/store.db without an agent", strange, Treatment::Counted);
}
