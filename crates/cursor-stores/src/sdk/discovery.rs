//! Finds SDK stores: in projects, and where an application put them.

use std::fs;
use std::path::{Path, PathBuf};

use ground::with_causes;

use super::store::SdkStore;
use crate::StorePlaces;
use crate::model::StoreKind;
use crate::plain_file;
use crate::sdk::records::line_files;
use crate::store::{Discovered, SkippedPlace};

const STORES: &str = "sdk-agent-store";

/// Finds every store at these places, each once.
pub(crate) fn discover(places: &StorePlaces) -> Vec<Discovered> {
    let mut roots = Vec::new();
    for projects in &places.projects {
        for project in directories(projects) {
            // The root directory has no slug: its stores are next to the projects.
            let is_stores = project.file_name().is_some_and(|name| name == STORES);
            roots.extend(directories(&if is_stores { project } else { project.join(STORES) }));
        }
    }
    for given in &places.sdk_stores {
        let below =
            directories(given).into_iter().filter(|directory| !found_in(directory).is_empty());
        match found_in(given).is_empty() {
            false => roots.push(given.clone()),
            true => roots.extend(below.chain([given.clone()])),
        }
    }
    let mut seen = std::collections::HashSet::new();
    roots.retain(|root| seen.insert(root.clone()));
    let has_stores_below =
        |root: &Path| roots.iter().any(|other| other.parent() == Some(root) && other != root);
    roots
        .iter()
        .flat_map(|root| match found_in(root) {
            found if found.is_empty() && has_stores_below(root) => Vec::new(),
            found if found.is_empty() => {
                vec![skipped(root, "there is neither `index.db` nor `agents.ndjson`")]
            }
            found => found,
        })
        .collect()
}

/// Returns the stores in a directory: at most one of each form.
fn found_in(root: &Path) -> Vec<Discovered> {
    let forms: [fn(PathBuf) -> SdkStore; 2] = [SdkStore::database, SdkStore::lines];
    let files = [root.join("index.db"), root.join(line_files::AGENTS)];
    files
        .into_iter()
        .zip(forms)
        .filter_map(|(file, form)| match plain_file::inspect(&file) {
            Ok(_) => Some(Discovered::Store(Box::new(form(file)))),
            Err(plain_file::PlainFileError::Missing { .. }) => None,
            Err(error) => Some(skipped(&file, with_causes(&error))),
        })
        .collect()
}

fn skipped(path: &Path, why: impl Into<String>) -> Discovered {
    Discovered::Skipped(SkippedPlace { store: StoreKind::Sdk, path: path.into(), why: why.into() })
}

/// Returns a directory's subdirectories, sorted, without following links.
fn directories(parent: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let mut directories: Vec<PathBuf> = entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect();
    directories.sort();
    directories
}
