//! Tool outputs that were too long for the conversation: `agent-tools/*.txt`, one directory per project.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::files::{Project, TranscriptFile};
use crate::lines::{Line, LineReader};
use crate::plain_file::{self, PlainFileError};
use crate::search::{FieldMatch, Matcher, search_bytes};

const DIRECTORY: &str = "agent-tools";
const WINDOW_BYTES: usize = 1024 * 1024;
/// How much two neighbouring windows overlap.
const OVERLAP_BYTES: usize = 16 * 1024;

/// A project's tool outputs.
pub(super) fn sidecars_of(project: &Project) -> Vec<PathBuf> {
    let directory = project.path.join(DIRECTORY);
    if !fs::symlink_metadata(&directory).is_ok_and(|metadata| metadata.is_dir()) {
        return Vec::new();
    }
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect();
    paths.sort();
    paths
}

/// Returns the name under which a match in an output is reported.
pub(super) fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    format!("{DIRECTORY}/{name}")
}

/// Searches one output, a window at a time.
pub(super) fn search_sidecar(
    matcher: &Matcher,
    path: &Path,
    limit: u64,
) -> Result<Option<FieldMatch>, PlainFileError> {
    let failed = |source: io::Error| PlainFileError::Read { path: path.to_owned(), source };
    let mut file = plain_file::open_at_most(path, limit)?;
    let mut window = Vec::new();
    loop {
        let n_kept = window.len().min(OVERLAP_BYTES);
        window.drain(..window.len() - n_kept);
        let n_new = (&mut file)
            .take((WINDOW_BYTES - n_kept) as u64)
            .read_to_end(&mut window)
            .map_err(failed)?;
        if n_new == 0 {
            return Ok(None);
        }
        if let Some(found) = search_bytes(matcher, DIRECTORY, &window) {
            return Ok(Some(found));
        }
    }
}

/// Finds the conversation of each output: the first one that mentions it.
pub(super) fn owners<'a>(
    names: &HashSet<String>,
    files: impl Iterator<Item = &'a (TranscriptFile, String)>,
    limit: u64,
) -> HashMap<String, String> {
    let mut owners = HashMap::new();
    for (file, key) in files {
        let Ok(opened) = plain_file::open(&file.path) else { continue };
        let mut lines = LineReader::new(opened.take(limit));
        while let Ok(Some(line)) = lines.next() {
            let Line::Whole { bytes, .. } = line else { continue };
            for name in mentioned(bytes) {
                if names.contains(&name) {
                    owners.entry(name).or_insert_with(|| key.clone());
                }
            }
        }
    }
    owners
}

/// Finds every `agent-tools/….txt` in a text, also with the separators of JSON and Windows.
fn mentioned(bytes: &[u8]) -> impl Iterator<Item = String> {
    memchr::memmem::find_iter(bytes, DIRECTORY).filter_map(|at| {
        let rest = &bytes[at + DIRECTORY.len()..];
        let n_separators = rest.iter().take_while(|byte| matches!(byte, b'/' | b'\\')).count();
        let name = rest.get(n_separators..).filter(|_| n_separators > 0)?;
        let end = memchr::memmem::find(name.get(..256).unwrap_or(name), b".txt")?;
        let name = std::str::from_utf8(&name[..end]).ok()?;
        Some(format!("{DIRECTORY}/{name}.txt"))
    })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::search::{Case, Pattern};

    #[test]
    fn an_output_is_recognised_however_its_path_is_written() {
        let text = br#"{"path":"/h/.cursor/projects/x/agent-tools/a-1.txt"} C:\\x\\agent-tools\\b.txt agent-tools agent-tools/"#;
        let names: Vec<String> = mentioned(text).collect();
        assert_eq!(names, ["agent-tools/a-1.txt", "agent-tools/b.txt"]);
    }

    #[test]
    fn a_word_at_the_edge_of_a_window_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("long.txt");
        let matcher = Matcher::new(Pattern::Words("needle"), Case::Smart).unwrap();
        for at in [WINDOW_BYTES - 3, 2 * WINDOW_BYTES - OVERLAP_BYTES - 3] {
            let mut text = vec![b'.'; at];
            text.extend_from_slice(b"needle");
            text.resize(3 * WINDOW_BYTES, b'.');
            fs::write(&path, text).unwrap();
            let found = search_sidecar(&matcher, &path, u64::MAX).unwrap().unwrap();
            assert_eq!(
                (found.field.as_str(), found.snippet.found.as_str()),
                ("agent-tools", "needle")
            );
        }
        fs::write(&path, "nothing").unwrap();
        assert_eq!(search_sidecar(&matcher, &path, u64::MAX).unwrap(), None);
        assert!(search_sidecar(&matcher, &path, 3).is_err());
    }
}
