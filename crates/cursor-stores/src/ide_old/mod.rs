//! Conversations of older IDEs, in the `state.vscdb` of each workspace.
//!
//! ```text
//! workspaceStorage/<hash>/state.vscdb   ItemTable   …aichat.chatdata        tabs of the chat panel
//!                                                   composer.composerData   composers with their bubbles inside
//!                                                   interactive.sessions    VS Code's own chats
//! globalStorage/state.vscdb                         aiService.prompts       what was typed, and
//!                                                   aiService.generations   when
//! ```
//!
//! **Invariant:** rows are read by exact key. The same table has tokens and secrets, which this code never reads.

mod bubble;
mod chat_session;
#[cfg(test)]
mod damage_tests;
mod database;
mod kept;
mod prompts;
mod scan;
mod store;
#[cfg(test)]
mod store_tests;
#[cfg(test)]
mod test_home;

use std::fs;
use std::path::{Path, PathBuf};

use store::{OldIdeStore, Scope};

use crate::StorePlaces;
use crate::model::StoreKind;
use crate::store::{Discovered, SkippedPlace};

/// Up to two stores for each user directory: one for the workspaces, and the global one.
pub(crate) fn discover(places: &StorePlaces) -> Vec<Discovered> {
    places.cursor_user_dirs.iter().flat_map(|user| discover_user(user)).collect()
}

fn discover_user(user: &Path) -> Vec<Discovered> {
    let skipped = |path: &Path, why: &str| {
        Discovered::Skipped(SkippedPlace {
            store: StoreKind::IdeOld,
            path: path.into(),
            why: why.to_owned(),
        })
    };
    let mut discovered = Vec::new();
    let scopes = [("workspaceStorage", Scope::Workspaces), ("globalStorage", Scope::Global)];
    for (name, scope) in scopes {
        let path = user.join(name);
        match fs::metadata(&path) {
            Ok(metadata) if metadata.is_dir() => {
                if scope == Scope::Global {
                    let why = "is a database of a very old Cursor version, whose format is unknown";
                    discovered
                        .extend(very_old_databases(&path).iter().map(|file| skipped(file, why)));
                }
                discovered.push(Discovered::Store(Box::new(OldIdeStore::new(path, scope))));
            }
            Ok(_) => discovered.push(skipped(&path, "is not a directory")),
            Err(_) => {}
        }
    }
    discovered
}

/// `globalStorage/cursor.cursor/*.sqlite`.
fn very_old_databases(global_storage: &Path) -> Vec<PathBuf> {
    let entries =
        fs::read_dir(global_storage.join("cursor.cursor")).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "sqlite"))
        .collect();
    paths.sort();
    paths
}

/// Reads the bytes as the value of every key.
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz_row(bytes: &[u8]) {
    let rows = database::ALL_KEYS.map(|key| database::Row {
        key,
        value: bytes.to_vec(),
        path: PathBuf::new(),
    });
    for (kept, _) in kept::kept_in(&rows).kept {
        let mut messages = kept.messages();
        drop((kept.pieces().len(), kept.frame()));
        drop(kept.turns(&mut messages));
    }
}
