//! Copies files that git does not track, such as `.env`, from the user's checkout into a new worktree.
//!
//! The file `.worktreeinclude` in the repository and `[worktree] include` in the configuration name them, both in the
//! syntax of `.gitignore`. An agent can write the file, so it can name only files that a run in the checkout sees
//! anyway.

use std::io;
use std::path::Path;
use std::time::Duration;

use ground::plain_file;
use run_protocol::ExitCode;
use workspace_history::{Git, GitAnswer, TreePath, copy_files};

use crate::command_error::{CommandError, OrFail};
use crate::host::host_git;

/// The file in the repository.
const FILE: &str = ".worktreeinclude";
const MOST_TEXT: u64 = 64 * 1024;
/// A set-up command should provide more files or bytes than this.
const MOST_FILES: usize = 5000;
const MOST_BYTES: u64 = 256 << 20;
const QUESTION: Duration = Duration::from_secs(60);

/// Returns the number of copied files.
pub(super) fn copy(
    git: &Git,
    checkout: &Path,
    worktree: &Path,
    of_config: &[String],
) -> Result<u64, CommandError> {
    let of_repository = match plain_file::read_at_most(&checkout.join(FILE), MOST_TEXT) {
        Ok(text) => String::from_utf8_lossy(&text).into_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error).or_fail(|| format!("`{FILE}` cannot be read")),
    };
    let lines = of_repository.lines().chain(of_config.iter().map(String::as_str));
    let patterns =
        lines.map(str::trim_end).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let excludes: Vec<String> = patterns.map(|pattern| format!("--exclude={pattern}")).collect();
    if excludes.is_empty() {
        return Ok(0);
    }
    // These patterns act as ignore rules for this one git command, which then lists the files that they match.
    let words = ["ls-files", "-z", "--others", "--ignored"].map(str::to_owned);
    let listed = git.run_in(checkout, words.into_iter().chain(excludes), None, QUESTION);
    let listed = listed.and_then(GitAnswer::checked).map_err(|error| {
        host_git::refused("the files for the worktree could not be listed", error)
    })?;
    let paths = listed.split(|byte| *byte == 0).filter_map(TreePath::checked);
    let paths: Vec<TreePath> = paths.take(MOST_FILES + 1).collect();
    if paths.len() > MOST_FILES {
        return Err(too_much());
    }
    match copy_files(checkout, worktree, &paths, MOST_BYTES) {
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => Err(too_much()),
        copied => copied.or_fail(|| "the files that git does not track could not be copied"),
    }
}

fn too_much() -> CommandError {
    let what = format!(
        "the worktree would get more than {MOST_FILES} files or {} MiB that git does not track",
        MOST_BYTES >> 20
    );
    let hint = format!(
        "name fewer in `{FILE}` or `[worktree] include`, and install the rest with --setup"
    );
    CommandError::new(ExitCode::Usage, what).hint(hint)
}
