//! What is in a store, by counts.

use std::collections::{BTreeMap, HashSet};
use std::fs;

use ground::with_causes;

use super::agent_blobs::chat_path;
use super::index_db::{Table, with_index};
use super::line_files::{self, visit_lines};
use super::store::{Form, SdkStore};
use crate::model::{Damage, Shelf};
use crate::store::{Account, ConversationStore, Family, Treatment};

pub(super) fn account(store: &SdkStore) -> Account {
    let listing = store.list();
    let mut damage = listing.damage;
    let mut n_hidden: BTreeMap<String, u64> = BTreeMap::new();
    for head in &listing.heads {
        let shelf = match head.shelf {
            Shelf::Shown => continue,
            Shelf::Archived => "archived",
            Shelf::Draft => "draft",
            Shelf::Empty => "empty",
        };
        *n_hidden.entry(shelf.to_owned()).or_default() += 1;
    }
    let families = match &store.form {
        Form::Database => {
            let mut families = database_families(store, &mut damage);
            let known: HashSet<_> =
                listing.heads.iter().map(|head| chat_path(&store.directory, &head.id)).collect();
            families.extend(chat_families(store, &|path| known.contains(path)));
            families
        }
        Form::Lines(files) => line_files::ALL
            .into_iter()
            .map(|name| {
                let mut n_rows = 0;
                let counted = visit_lines(&files.file(name), &mut Vec::new(), &mut |_, _| {
                    n_rows += 1;
                    std::ops::ControlFlow::Continue(())
                });
                if let Err(error) = counted {
                    damage.push(Damage::new(name, with_causes(&error)));
                }
                Family { name: name.to_owned(), n_rows, treatment: Treatment::Read }
            })
            .collect(),
    };
    let n_conversations = listing.heads.len() as u64;
    Account { n_conversations, n_hidden, families, damage, backup: None }
}

fn database_families(store: &SdkStore, damage: &mut Vec<Damage>) -> Vec<Family> {
    match with_index(&store.path, super::index_db::IndexDb::counts) {
        Ok(counts) => counts
            .into_iter()
            .map(|(name, n_rows)| {
                let is_read = Table::ALL.iter().any(|table| table.name() == name);
                let treatment = if is_read { Treatment::Read } else { Treatment::Counted };
                Family { name, n_rows, treatment }
            })
            .collect(),
        Err(error) => {
            let lost = Damage::new("index.db", with_causes(&error));
            if !damage.contains(&lost) {
                damage.push(lost);
            }
            Vec::new()
        }
    }
}

/// The databases of agents, those apart that belong to no agent of the index.
fn chat_families(store: &SdkStore, is_known: &dyn Fn(&std::path::PathBuf) -> bool) -> Vec<Family> {
    let entries = fs::read_dir(store.directory.join("agents")).into_iter().flatten().flatten();
    let chats = entries.map(|entry| entry.path().join("store.db")).filter(|path| path.is_file());
    let (known, strange): (Vec<_>, Vec<_>) = chats.partition(is_known);
    [
        ("agents/*/store.db", known.len(), Treatment::Read),
        ("agents/*/store.db of no agent", strange.len(), Treatment::Counted),
    ]
    .into_iter()
    .filter(|(_, n_files, _)| *n_files > 0)
    .map(|(name, n_files, treatment)| Family {
        name: name.to_owned(),
        n_rows: n_files as u64,
        treatment,
    })
    .collect()
}
