//! Finds the workspace of a conversation if only `workspaceStorage/<id>` knows it.

use std::collections::HashMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use serde_json::Value as Json;

use crate::ide::database::keys;
use crate::ide::database::pool::Pool;
use crate::ide::database::{Table, Value};
use crate::ide::lenient::{items, parse, text, texts};
use crate::model::Workspace;
use crate::parallel;
use crate::workspace_json::read_workspace_json;

/// The item in which a workspace lists its conversations.
pub(crate) const COMPOSERS_KEY: &str = "composer.composerData";
/// The chat panes. Their keys name conversations.
pub(crate) const PANES_PREFIX: &str = "workbench.panel.composerChatViewPane";
const VIEW_PREFIX: &str = "workbench.panel.aichat.view.";
/// Real users have hundreds.
const MAX_WORKSPACES: usize = 100_000;

/// The locations and titles of conversations that workspaces know, by id.
#[derive(Debug, Default)]
pub(crate) struct WorkspaceLinks {
    places: HashMap<String, Workspace>,
    titles: HashMap<String, String>,
}

/// The directories of all workspaces.
pub(crate) fn workspace_directories(workspace_storage: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(workspace_storage) else { return Vec::new() };
    let mut directories: Vec<PathBuf> = entries
        .flatten()
        .take(MAX_WORKSPACES)
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect();
    directories.sort_unstable();
    directories
}

/// The folder of one workspace. Some ids are not directories but window numbers, or `empty-window`.
pub(crate) fn workspace_of_id(workspace_storage: &Path, id: &str) -> Option<Workspace> {
    let is_name =
        !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    is_name
        .then(|| read_workspace_json(&workspace_storage.join(id).join("workspace.json")))
        .flatten()
}

impl WorkspaceLinks {
    /// Reads the databases of all workspaces. Unreadable databases are skipped.
    pub(crate) fn read(workspace_storage: &Path) -> Self {
        let directories = workspace_directories(workspace_storage);
        let mut links = Self::default();
        for (place, composers) in parallel::map(&directories, |directory| {
            let place = read_workspace_json(&directory.join("workspace.json"));
            (place, composers_of(&directory.join("state.vscdb")))
        }) {
            for (id, title) in composers {
                if let Some(title) = title {
                    links.titles.entry(id.clone()).or_insert(title);
                }
                if let Some(place) = &place {
                    links.places.entry(id).or_insert_with(|| place.clone());
                }
            }
        }
        links
    }

    pub(crate) fn workspace(&self, composer_id: &str) -> Option<&Workspace> {
        self.places.get(composer_id)
    }

    pub(crate) fn title(&self, composer_id: &str) -> Option<&str> {
        self.titles.get(composer_id).map(String::as_str)
    }
}

/// Returns the conversations that a workspace names, most certain first, with their titles if known.
fn composers_of(database: &Path) -> Vec<(String, Option<String>)> {
    let Ok(pool) = Pool::open(database) else { return Vec::new() };
    let mut composers = Vec::new();
    if let Some(json) = pool.bytes(Table::Items, COMPOSERS_KEY).and_then(|value| parse(&value)) {
        for head in items(&json["allComposers"]) {
            if let Some(id) = text(&head["composerId"]) {
                composers.push((id.to_owned(), text(&head["name"]).map(str::to_owned)));
            }
        }
        for field in ["selectedComposerIds", "lastFocusedComposerIds"] {
            composers.extend(texts(&json[field]).into_iter().map(|id| (id, None)));
        }
        composers.extend(text(&json["selectedComposerId"]).map(|id| (id.to_owned(), None)));
    }
    // An unreadable row costs a link, but no message.
    let _damage = pool.visit(Table::Items, &keys::beginning_with(PANES_PREFIX), &mut |row| {
        if let Value::Bytes(bytes) = &row.value
            && let Some(Json::Object(views)) = parse(bytes)
        {
            let ids = views.keys().filter_map(|key| key.strip_prefix(VIEW_PREFIX));
            composers.extend(ids.map(|id| (id.to_owned(), None)));
        }
        ControlFlow::Continue(())
    });
    composers
}
