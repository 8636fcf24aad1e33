//! Merges the lines of files that both sides changed. Git merges them and keeps the result in our repository.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use super::MergeError;
use crate::git::run_git;
use crate::history::History;
use crate::tree_path::TreePath;

/// Merging any file takes less time than this.
const PATIENCE: Duration = Duration::from_secs(60);
/// A merge puts at most this many files on disk at a time.
const AT_ONCE: usize = 256;
/// Git's names for the current file, the common ancestor and the incoming file.
const NAMES: [&str; 3] = ["ours", "base", "theirs"];

/// A file whose lines need merging.
#[derive(Debug)]
pub(super) struct LineMerge {
    pub(super) path: TreePath,
    pub(super) ids: [String; 3],
    pub(super) mode: u32,
}

/// The id and length of the merged content. `None` if both sides changed the same lines, or the file is not text.
pub(super) type MergedLines = Option<(String, u64)>;

/// The histories that have the contents. Results go into `own`.
pub(super) struct Stores<'a> {
    pub(super) own: &'a History,
    pub(super) other: Option<&'a History>,
}

impl Stores<'_> {
    /// Merges all files. Returns the results in the same order.
    pub(super) fn merge_all(&self, merges: &[LineMerge]) -> Result<Vec<MergedLines>, MergeError> {
        let place = self.own.directory.join(format!("merging-{}", std::process::id()));
        let mut results = Vec::with_capacity(merges.len());
        for some in merges.chunks(AT_ONCE) {
            let merged = self.merge_in(&place, some);
            fs::remove_dir_all(&place).ok();
            results.extend(merged?);
        }
        Ok(results)
    }

    fn merge_in(&self, place: &Path, merges: &[LineMerge]) -> Result<Vec<MergedLines>, MergeError> {
        self.unpack(place, merges)?;
        let mut lengths = Vec::with_capacity(merges.len());
        for number in 0..merges.len() {
            lengths.push(self.merge_one(place, number)?);
        }
        let written = lengths.iter().enumerate().filter(|(_, length)| length.is_some());
        let names: String = written.map(|(number, _)| format!("{number}.merged\n")).collect();
        if names.is_empty() {
            return Ok(vec![None; merges.len()]);
        }
        let mut command = self.own.git.command_for_store(&self.own.store());
        command.args(["hash-object", "-w", "--no-filters", "--stdin-paths"]).current_dir(place);
        let ids = run_git(&mut command, Some(names.into_bytes()), PATIENCE)?.checked()?;
        let ids = String::from_utf8_lossy(&ids).into_owned();
        let mut ids = ids.lines();
        let named = lengths.into_iter().map(|length| {
            let length = length?;
            Some((ids.next()?.to_owned(), length))
        });
        Ok(named.collect())
    }

    fn unpack(&self, place: &Path, merges: &[LineMerge]) -> Result<(), MergeError> {
        let failed = |source: io::Error| MergeError::Io { path: place.to_owned(), source };
        fs::create_dir_all(place).map_err(failed)?;
        let mut contents = match self.other {
            Some(other) => self.own.contents_and(other)?,
            None => self.own.contents()?,
        };
        contents.ask_for(merges.iter().flat_map(|merge| &merge.ids).map(String::as_str));
        for (number, merge) in merges.iter().enumerate() {
            for (id, name) in merge.ids.iter().zip(NAMES) {
                let path = place.join(format!("{number}.{name}"));
                let mut file = fs::File::create(path).map_err(failed)?;
                contents.next(id, &mut file).map_err(failed)?;
            }
        }
        Ok(())
    }

    /// Writes the merged file and returns its length.
    fn merge_one(&self, place: &Path, number: usize) -> Result<Option<u64>, MergeError> {
        let mut command = self.own.git.command_for_store(&self.own.store());
        command.args(["merge-file", "--quiet", "-p"]);
        command.args(NAMES.map(|name| format!("{number}.{name}"))).current_dir(place);
        let answer = run_git(&mut command, None, PATIENCE)?;
        // The exit status is the number of conflicts, or says that the file is not text.
        if !answer.status.success() {
            return Ok(None);
        }
        let path = place.join(format!("{number}.merged"));
        fs::write(&path, &answer.stdout).map_err(|source| MergeError::Io { path, source })?;
        Ok(Some(answer.stdout.len() as u64))
    }
}
