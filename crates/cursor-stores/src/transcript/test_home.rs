//! A home with transcripts, for tests.

use std::fs::{self, File};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use pretty_assertions::assert_eq;
use store_fixtures::transcript::{Block, Layout, Line, TranscriptProject, prompt, turn_succeeded};
use tempfile::TempDir;

use super::store::TranscriptStore;
use crate::model::{Conversation, Damage, Head, Moment, Origin, StoreKind, Workspace};
use crate::search::{Case, Matcher, Pattern};
use crate::store::{ConversationStore, Extent, Hit};

/// 2026-07-21 13:04 UTC, and how a prompt writes it.
pub(super) const AT: i64 = 1_784_639_040_000;
pub(super) const WRITTEN: &str = "Tuesday, Jul 21, 2026, 3:04 PM (UTC+2)";
/// Ten minutes later.
pub(super) const MODIFIED: i64 = AT + 600_000;
pub(super) const ID: &str = "5f1c3a52-0a7e-4d9f-8f6e-0d3f3c1b2a10";

pub(super) struct Home {
    pub(super) directory: TempDir,
    pub(super) project: TranscriptProject,
}

impl Home {
    pub(super) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let project = TranscriptProject::new(directory.path(), "srv-app");
        project.trust("/srv/app");
        Self { directory, project }
    }

    pub(super) fn store(&self) -> TranscriptStore {
        TranscriptStore::new(self.directory.path().to_owned())
    }

    pub(super) fn write(&self, layout: Layout<'_>, id: &str, lines: &[Line]) -> PathBuf {
        let path = self.project.transcript(layout, id, lines);
        make_old(&path);
        path
    }

    pub(super) fn read(&self, key: &str) -> Conversation {
        self.store().read(key, Extent::default()).unwrap()
    }

    pub(super) fn search(&self, words: &str) -> Vec<Hit> {
        let (hits, damage) = search(&self.store(), words);
        assert_eq!(damage, []);
        hits
    }
}

pub(super) fn search(store: &TranscriptStore, words: &str) -> (Vec<Hit>, Vec<Damage>) {
    let matcher = Matcher::new(Pattern::Words(words), Case::Smart).unwrap();
    let hits = Mutex::new(Vec::new());
    let damage = store.search(&matcher, &|hit| {
        hits.lock().unwrap().push(hit);
        ControlFlow::Continue(())
    });
    (hits.into_inner().unwrap(), damage)
}

pub(super) fn make_old(path: &Path) {
    let at = SystemTime::UNIX_EPOCH + Duration::from_millis(MODIFIED as u64);
    File::options().append(true).open(path).unwrap().set_modified(at).unwrap();
}

pub(super) fn text(text: &str) -> Block {
    Block::Text(text.to_owned())
}

pub(super) fn small() -> Vec<Line> {
    vec![prompt(WRITTEN, "fix it"), Line::Assistant(vec![text("done")]), turn_succeeded()]
}

pub(super) fn head_of(path: &Path, id: &str) -> Head {
    let origin = Origin { store: StoreKind::Transcript, path: path.into(), key: None };
    Head {
        title: Some("fix it".to_owned()),
        workspace: Some(Workspace::here("/srv/app")),
        created: Some(Moment::recorded(AT)),
        updated: Some(Moment::of_file(MODIFIED)),
        n_bytes: Some(fs::metadata(path).unwrap().len()),
        ..Head::new(id, origin)
    }
}
