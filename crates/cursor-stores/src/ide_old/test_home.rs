//! A user directory with old databases, for tests.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Mutex;

use serde_json::Value as Json;
use store_fixtures::Closing;
use store_fixtures::ide_old::{StateDirectory, Storage};
use tempfile::TempDir;

use super::store::{OldIdeStore, Scope};
use crate::model::{Conversation, Damage, Head};
use crate::search::{Case, Matcher, Pattern};
use crate::store::{ConversationStore, Extent, Hit};

pub(super) const HASH: &str = "0123456789abcdef0123456789abcdef";
/// The first time in the fixtures.
pub(super) const AT: i64 = 1_700_000_000_000;

pub(super) struct Home {
    pub(super) directory: TempDir,
    pub(super) workspace: StateDirectory,
}

impl Home {
    pub(super) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let workspace = StateDirectory::workspace(directory.path(), HASH);
        workspace.folder("file:///srv/app");
        Self { directory, workspace }
    }

    pub(super) fn with(rows: &[(&str, Json)]) -> Self {
        let home = Self::new();
        home.workspace.rows(rows, Storage::Blob, Closing::Clean);
        home
    }

    pub(super) fn store(&self) -> OldIdeStore {
        OldIdeStore::new(self.storage(), Scope::Workspaces)
    }

    pub(super) fn storage(&self) -> PathBuf {
        self.directory.path().join("workspaceStorage")
    }

    pub(super) fn heads(&self) -> Vec<Head> {
        let listing = self.store().list();
        assert_eq!(listing.damage, []);
        listing.heads
    }

    pub(super) fn read(&self, shape: &str, id: &str) -> Conversation {
        self.store().read(&format!("{HASH}/{shape}/{id}"), Extent::default()).unwrap()
    }

    pub(super) fn search(&self, words: &str) -> Vec<Hit> {
        let (hits, damage) = search(&self.store(), words);
        assert_eq!(damage, []);
        hits
    }
}

pub(super) fn search(store: &OldIdeStore, words: &str) -> (Vec<Hit>, Vec<Damage>) {
    let matcher = Matcher::new(Pattern::Words(words), Case::Smart).unwrap();
    let hits = Mutex::new(Vec::new());
    let damage = store.search(&matcher, &|hit| {
        hits.lock().unwrap().push(hit);
        ControlFlow::Continue(())
    });
    (hits.into_inner().unwrap(), damage)
}
