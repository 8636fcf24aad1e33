//! What is in the database by families of keys, counted without a look at a value.

use std::collections::BTreeMap;

use ground::with_causes;

use super::database::Table;
use super::keys;
use super::list::{Composer, list_opened};
use super::pool::Pool;
use super::workspaces::workspace_directories;
use super::{IdeStore, Opened};
use crate::model::{Damage, Head, Shelf};
use crate::plain_file;
use crate::read_only_database::ReadDatabaseError;
use crate::store::{Account, Family, Treatment};

/// Families are steps of a walk, so their number is what it costs. Real ones have some dozens.
const MAX_FAMILIES: usize = 5_000;

pub(super) fn account(store: &IdeStore) -> Account {
    let backup = store.backup_path();
    let mut account = Account {
        backup: plain_file::inspect(&backup).is_ok().then(|| backup.into()),
        ..Account::default()
    };
    match store.open() {
        Ok(opened) => account_opened(store, &opened, &mut account),
        Err(err) => account.damage.push(Damage::new("state.vscdb", with_causes(&err))),
    }
    account
}

fn account_opened(store: &IdeStore, opened: &Opened, account: &mut Account) {
    let (inventory, listing) = list_opened(store, opened);
    account.damage = listing.damage;
    let mut n_hidden: BTreeMap<String, u64> = BTreeMap::new();
    for head in &listing.heads {
        match hidden_as(head) {
            Some(what) => *n_hidden.entry(what.to_owned()).or_default() += 1,
            None => account.n_conversations += 1,
        }
    }
    let n_deleted = inventory
        .composers
        .values()
        .filter(|composer| matches!(composer, Composer::Tombstone))
        .count();
    if n_deleted > 0 {
        n_hidden.insert("deleted".to_owned(), n_deleted as u64);
    }
    account.n_hidden = n_hidden;
    for table in [Table::DiskKv, Table::Items] {
        match opened.pool.with(|database| families(database, table)) {
            Ok(families) => account.families.extend(families),
            Err(err) => account.damage.push(Damage::new(table.name(), with_causes(&err))),
        }
    }
    let mut add = |name: &str, n_rows: u64| {
        if n_rows > 0 {
            account.families.push(Family {
                name: name.to_owned(),
                n_rows,
                treatment: Treatment::Read,
            });
        }
    };
    add("composerHeaders", n_headers(&opened.pool));
    add("workspaceStorage", workspace_directories(&store.workspace_storage).len() as u64);
}

fn hidden_as(head: &Head) -> Option<&'static str> {
    match head.shelf {
        _ if head.parent.is_some() => Some("sub-agents"),
        Shelf::Archived => Some("archived"),
        Shelf::Draft => Some("drafts"),
        Shelf::Empty => Some("empty"),
        Shelf::Shown => None,
    }
}

fn n_headers(pool: &Pool) -> u64 {
    let count = pool.with(|database| {
        if !database.database.has_plain_table("composerHeaders", ["composerId", "value"])? {
            return Ok(0);
        }
        database.database.read(|connection| {
            connection
                .query_row("SELECT count(*) FROM composerHeaders", [], |row| row.get::<_, i64>(0))
        })
    });
    count.ok().and_then(|count| u64::try_from(count).ok()).unwrap_or(0)
}

/// Walks from family to family and counts each.
fn families(
    database: &super::database::Vscdb,
    table: Table,
) -> Result<Vec<Family>, ReadDatabaseError> {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    if !database.is_indexed(table) {
        return Ok(Vec::new());
    }
    let everything = String::new().."\u{10FFFF}\u{10FFFF}".to_owned();
    let mut range = everything.clone();
    for _ in 0..MAX_FAMILIES {
        let Some(key) = database.first_key(table, &range)? else { break };
        let prefix = family_prefix(table, &key);
        // A key without a family is one by itself.
        let family = if prefix.is_empty() {
            key.clone()..format!("{key}\0")
        } else {
            keys::beginning_with(prefix)
        };
        let name = if prefix.is_empty() { "other" } else { prefix };
        *counts.entry(family_name(table, name)).or_default() +=
            database.count_keys(table, &family)?;
        range = family.end..everything.end.clone();
    }
    let treated = counts.into_iter().filter_map(|(name, n_rows)| {
        Some(Family { treatment: treatment(table, &name)?, name, n_rows })
    });
    Ok(treated.collect())
}

/// What the key of a row has in common with those of its family.
fn family_prefix(table: Table, key: &str) -> &str {
    let up_to = |mark: char| key.find(mark).map(|at| &key[..=at]);
    match table {
        Table::DiskKv => {
            for family in [
                keys::BLOB,
                keys::CHECKPOINT,
                keys::BUBBLE_CHECKPOINT,
                "agentKv:artifact:",
                "composer.content.",
                "inlineDiffs-",
            ] {
                if key.starts_with(family) {
                    return &key[..family.len()];
                }
            }
            up_to(':').unwrap_or_default()
        }
        Table::Items => {
            if key.starts_with("secret://") {
                return &key[.."secret://".len()];
            }
            match key.find(['.', '/', ':']) {
                Some(at) => &key[..=at],
                None => "",
            }
        }
    }
}

/// Ids of agents in the cloud begin keys, so each would be a family.
fn family_name(table: Table, prefix: &str) -> String {
    let is_agent = table == Table::DiskKv && prefix.starts_with("bc-");
    let name = if is_agent { "bc-…:" } else { prefix };
    match table {
        Table::DiskKv => name.to_owned(),
        Table::Items => format!("ItemTable {name}"),
    }
}

/// `None` for what another reader accounts for.
fn treatment(table: Table, name: &str) -> Option<Treatment> {
    Some(match table {
        Table::DiskKv => {
            let is_read = [
                keys::COMPOSER,
                keys::BUBBLE,
                keys::BLOB,
                keys::CHECKPOINT,
                keys::BUBBLE_CHECKPOINT,
            ]
            .contains(&name)
                || keys::SIDE_FAMILIES.contains(&name);
            if is_read { Treatment::Read } else { Treatment::Counted }
        }
        Table::Items => match name.strip_prefix("ItemTable ").unwrap_or(name) {
            "aiService." | "interactive." => return None,
            "composer." | "glass." => Treatment::Read,
            _ => Treatment::NeverRead,
        },
    })
}
