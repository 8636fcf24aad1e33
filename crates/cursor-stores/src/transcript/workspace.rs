//! Finds the workspace of a project directory. Its name is not enough: many paths have the same slug.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value as Json;

use super::files::Project;
use crate::model::Workspace;
use crate::{lenient_json, plain_file};

const MAX_MARKER_BYTES: u64 = 64 * 1024;
/// How many directories a walk lists before it gives up.
const MAX_LISTED: usize = 64;
const MAX_ENTRIES: usize = 4096;

/// Finds the workspace from the files that Cursor left in the directory. Otherwise takes the only directory on this
/// machine whose path has that slug.
pub(super) fn workspace_of(project: &Project) -> Option<Workspace> {
    trusted_path(&project.path)
        .or_else(|| logged_path(project))
        .or_else(|| {
            if project.is_ghost() {
                return None;
            }
            let path = only_directory_of_slug(Path::new("/"), &project.slug)?;
            Some(path.to_str()?.to_owned())
        })
        .map(Workspace::here)
}

fn trusted_path(project: &Path) -> Option<String> {
    let marker =
        plain_file::read_at_most(&project.join(".workspace-trusted"), MAX_MARKER_BYTES).ok()?;
    let path =
        lenient_json::parse(&marker).ok()?.get("workspacePath").and_then(Json::as_str)?.to_owned();
    (!path.is_empty()).then_some(path)
}

/// A line of `worker.log` ends with `workspacePath=…`.
fn logged_path(project: &Project) -> Option<String> {
    use std::io::Read;
    let mut log = Vec::new();
    plain_file::open(&project.path.join("worker.log"))
        .ok()?
        .take(MAX_MARKER_BYTES)
        .read_to_end(&mut log)
        .ok()?;
    let log = String::from_utf8_lossy(&log);
    let mut paths =
        log.lines().filter_map(|line| Some(line.split_once("workspacePath=")?.1.trim()));
    // More text may follow on the line, and a path may contain spaces. Prefer the longest path with the right slug.
    paths.find_map(|rest| {
        let ends = rest.match_indices(' ').map(|(at, _)| at).chain([rest.len()]);
        let candidates: Vec<&str> = ends.filter_map(|end| rest.get(..end)).collect();
        let fitting = candidates.iter().rev().find(|path| slug(path) == project.slug);
        fitting.or(candidates.last()).filter(|path| !path.is_empty()).map(|path| (*path).to_owned())
    })
}

/// Replaces every sequence of characters that are not ASCII letters or digits with one `-`.
fn slug(path: &str) -> String {
    let words: Vec<&str> =
        path.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
    words.join("-")
}

/// Walks down from `base` along matching names. `None` if there is no such directory, more than one, or too many to
/// list.
fn only_directory_of_slug(base: &Path, wanted: &str) -> Option<PathBuf> {
    let mut found = None;
    let mut open: Vec<(PathBuf, &str)> = vec![(base.to_owned(), wanted)];
    let mut n_listed = 0;
    while let Some((directory, rest)) = open.pop() {
        if rest.is_empty() {
            if found.replace(directory).is_some() {
                return None;
            }
            continue;
        }
        n_listed += 1;
        if n_listed > MAX_LISTED {
            return None;
        }
        let Ok(entries) = fs::read_dir(&directory) else { continue };
        for entry in entries.take(MAX_ENTRIES).flatten() {
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            let part = slug(name);
            let Some(after) = rest.strip_prefix(&part).filter(|_| !part.is_empty()) else {
                continue;
            };
            let Some(after) = (if after.is_empty() { Some("") } else { after.strip_prefix('-') })
            else {
                continue;
            };
            if fs::metadata(entry.path()).is_ok_and(|metadata| metadata.is_dir()) {
                open.push((entry.path(), after));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn project(directory: &Path, slug: &str) -> Project {
        let path = directory.join(slug);
        fs::create_dir_all(&path).unwrap();
        Project { path, slug: slug.to_owned() }
    }

    #[test]
    fn the_trust_marker_comes_first() {
        let home = tempfile::tempdir().unwrap();
        let project = project(home.path(), "srv-my-app");
        fs::write(project.path.join("worker.log"), "[info] workspacePath=/srv/my-app\n").unwrap();
        assert_eq!(workspace_of(&project), Some(Workspace::here("/srv/my-app")));
        let marker = r#"{"trustedAt":"x","workspacePath":"/srv/my.app","trustMethod":"cli-flag"}"#;
        fs::write(project.path.join(".workspace-trusted"), marker).unwrap();
        assert_eq!(workspace_of(&project), Some(Workspace::here("/srv/my.app")));
    }

    #[test]
    fn a_path_in_the_log_may_contain_spaces_and_be_followed_by_more_text() {
        let home = tempfile::tempdir().unwrap();
        let project = project(home.path(), "srv-My-App");
        let log = "first line\n[info] x workspacePath=/srv/My App pid=12\n";
        fs::write(project.path.join("worker.log"), log).unwrap();
        assert_eq!(workspace_of(&project), Some(Workspace::here("/srv/My App")));
    }

    #[test]
    fn a_directory_is_found_by_its_slug_only_if_no_other_directory_fits() {
        let base = tempfile::tempdir().unwrap();
        fs::create_dir_all(base.path().join("home/dev/My Project.v2_x")).unwrap();
        fs::create_dir_all(base.path().join("home/dev/a-b")).unwrap();
        fs::create_dir_all(base.path().join("home/dev-tools")).unwrap();
        let find = |slug: &str| only_directory_of_slug(base.path(), slug);
        assert_eq!(
            find("home-dev-My-Project-v2-x"),
            Some(base.path().join("home/dev/My Project.v2_x"))
        );
        assert_eq!(find("home-dev-a-b"), Some(base.path().join("home/dev/a-b")));
        assert_eq!(find("home-dev-a"), None);
        fs::create_dir_all(base.path().join("home/dev/a/b")).unwrap();
        assert_eq!(find("home-dev-a-b"), None, "two directories have this name");
    }

    #[test]
    fn a_window_without_a_folder_has_no_workspace() {
        let home = tempfile::tempdir().unwrap();
        for slug in ["empty-window", "1790000000000"] {
            assert_eq!(workspace_of(&project(home.path(), slug)), None);
        }
    }
}
