//! Counts the database's rows by key family, without reading values.

use std::collections::BTreeMap;

use ground::with_causes;

use super::database::keys::{self, KeyRange};
use super::database::{Table, Vscdb};
use super::listing::{Composer, list_opened};
use crate::database::ReadDatabaseError;
use crate::ide::database::pool::Pool;
use crate::ide::listing::workspaces::workspace_directories;
use crate::ide::store::{IdeStore, Opened};
use crate::model::Damage;
use crate::plain_file;
use crate::store::{Account, Family, Treatment};

/// A walk takes one step for each family. Real databases have a few dozen.
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
    account.count(&listing.heads);
    for composer in inventory.composers.values() {
        if matches!(composer, Composer::Tombstone) {
            account.hide("deleted");
        }
    }
    for table in [Table::DiskKv, Table::Items] {
        match opened.pool.with(|database| families(database, table)) {
            Ok(families) => account.families.extend(families),
            Err(err) => account.damage.push(Damage::new(table.name(), with_causes(&err))),
        }
    }
    account.add_family("composerHeaders", n_headers(&opened.pool), Treatment::Read);
    let n_workspaces = workspace_directories(&store.workspace_storage).len() as u64;
    account.add_family("workspaceStorage", n_workspaces, Treatment::Read);
}

fn n_headers(pool: &Pool) -> u64 {
    let count = pool.with(|database| {
        let database = &database.database;
        match database.has_plain_table("composerHeaders", ["composerId", "value"])? {
            true => database.count("SELECT count(*) FROM composerHeaders", []),
            false => Ok(0),
        }
    });
    count.unwrap_or(0)
}

/// Walks from family to family, and counts the rows of each.
fn families(database: &Vscdb, table: Table) -> Result<Vec<Family>, ReadDatabaseError> {
    let mut found: Vec<(String, KeyRange)> = Vec::new();
    let everything = String::new()..keys::after("");
    database.skip(table, everything, &mut |key| {
        let prefix = family_prefix(table, key);
        // A key without a family is a family of its own.
        let (name, range) = match prefix {
            "" => ("other", keys::only(key)),
            prefix => (prefix, keys::beginning_with(prefix)),
        };
        let next = range.end.clone();
        found.push((family_name(table, name), range));
        (found.len() < MAX_FAMILIES).then_some(next)
    })?;
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for (name, range) in found {
        *counts.entry(name).or_default() += database.count_keys(table, &range)?;
    }
    let treated = counts.into_iter().filter_map(|(name, n_rows)| {
        Some(Family { treatment: treatment(table, &name)?, name, n_rows })
    });
    Ok(treated.collect())
}

/// Returns the prefix that a key shares with its family.
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

/// Some keys begin with the id of a cloud agent, so each would be its own family.
fn family_name(table: Table, prefix: &str) -> String {
    let is_agent = table == Table::DiskKv && prefix.starts_with("bc-");
    let name = if is_agent { "bc-…:" } else { prefix };
    match table {
        Table::DiskKv => name.to_owned(),
        Table::Items => format!("ItemTable {name}"),
    }
}

/// `None` for a family that another store accounts for.
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
