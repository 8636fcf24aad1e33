//! Runs git in a repository that may be hostile.

use std::path::{Path, PathBuf};
use std::time::Duration;

use uuid::Uuid;
use workspace_history::{Git, GitAnswer, GitError as HostGitError};

/// Longer than any answer should take.
const LONGEST_ANSWER: Duration = Duration::from_secs(60);

/// A commit, as git describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Commit {
    pub(crate) id: String,
    pub(crate) subject: String,
    /// When the author made the change; a rebase keeps it.
    pub(crate) author_ms: i64,
    /// When this commit was created.
    pub(crate) commit_ms: i64,
    pub(crate) parents: Vec<String>,
    /// Relative to the root of the repository; for a rename, both names.
    pub(crate) files: Vec<String>,
}

/// A repository and its worktrees.
#[derive(Debug, Clone)]
pub(crate) struct Repository {
    git: Git,
    pub(crate) root: PathBuf,
    /// Includes the root.
    pub(crate) worktrees: Vec<PathBuf>,
}

/// Why git gave no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GitError {
    #[error("cannot ask git about the repository")]
    Run(#[from] HostGitError),
    #[error("`{}` is not in a git repository", .path.display())]
    NotARepository { path: PathBuf, said: String },
    #[error("no commit `{0}`")]
    NoSuchCommit(String),
    #[error("git said: {0}")]
    Refused(String),
}

impl Repository {
    /// The repository that contains a directory.
    pub(crate) fn around(git: Git, directory: &Path) -> Result<Self, GitError> {
        let answer = ask(&git, directory, ["rev-parse", "--show-toplevel"])?;
        let root = text(&answer);
        let root = root.trim_end_matches('\n');
        if !answer.status.success() || root.is_empty() {
            return Err(GitError::NotARepository {
                path: directory.to_owned(),
                said: first_line(&answer.stderr),
            });
        }
        let root = PathBuf::from(root);
        let listed = ask(&git, &root, ["worktree", "list", "--porcelain", "-z"])?;
        let mut worktrees: Vec<PathBuf> = text(&listed)
            .split('\0')
            .filter_map(|line| line.strip_prefix("worktree "))
            .map(PathBuf::from)
            .collect();
        if !worktrees.contains(&root) {
            worktrees.push(root.clone());
        }
        Ok(Self { git, root, worktrees })
    }

    /// The commit that a revision names.
    pub(crate) fn commit(&self, revision: &str) -> Result<Commit, GitError> {
        let id = self.resolve(revision)?;
        let found = self.log(&["--max-count=1", &id])?.pop();
        found.ok_or_else(|| GitError::NoSuchCommit(revision.to_owned()))
    }

    /// At most `most` commits that are in `newer` but not in `older`, newest first.
    pub(crate) fn commits_between(
        &self,
        older: &str,
        newer: &str,
        most: usize,
    ) -> Result<Vec<Commit>, GitError> {
        let range = format!("{}..{}", self.resolve(older)?, self.resolve(newer)?);
        self.log(&[&format!("--max-count={most}"), &range])
    }

    fn resolve(&self, revision: &str) -> Result<String, GitError> {
        let no_such = || GitError::NoSuchCommit(revision.to_owned());
        // Never pass an option to git as a revision.
        if revision.is_empty() || revision.starts_with('-') {
            return Err(no_such());
        }
        let wanted = format!("{revision}^{{commit}}");
        let words = ["rev-parse", "--verify", "--quiet", "--end-of-options", &wanted];
        let answer = ask(&self.git, &self.root, words)?;
        let id = text(&answer);
        let id = id.trim();
        let is_id = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        if answer.status.success() && is_id { Ok(id.to_owned()) } else { Err(no_such()) }
    }

    fn log(&self, what: &[&str]) -> Result<Vec<Commit>, GitError> {
        // File names may contain any text, but they cannot contain this random mark.
        let mark = Uuid::new_v4().simple().to_string();
        let format = format!("--format=tformat:{mark}%x01%H%x01%at%x01%ct%x01%P%x01%s");
        let mut args = vec![
            "log",
            "-z",
            "--no-ext-diff",
            "--no-textconv",
            "--no-color",
            "--no-show-signature",
            "--no-mailmap",
            "--no-renames",
            "--no-notes",
            // For a merge: the changes against its first parent.
            "--diff-merges=first-parent",
            "--name-only",
            &format,
        ];
        args.extend(what);
        args.push("--");
        let answer = ask(&self.git, &self.root, args)?;
        if !answer.status.success() {
            return Err(GitError::Refused(first_line(&answer.stderr)));
        }
        Ok(parse_log(&text(&answer), &mark))
    }
}

fn ask<'a>(
    git: &Git,
    directory: &Path,
    words: impl IntoIterator<Item = &'a str>,
) -> Result<GitAnswer, HostGitError> {
    git.run_in(directory, words, None, LONGEST_ANSWER)
}

fn text(answer: &GitAnswer) -> String {
    String::from_utf8_lossy(&answer.stdout).into_owned()
}

/// `mark␁id␁time␁time␁parents␁subject`, then the names of the commit's files. With `-z`, each part ends in NUL, and a
/// line feed precedes the first name.
fn parse_log(text: &str, mark: &str) -> Vec<Commit> {
    let mut commits: Vec<Commit> = Vec::new();
    for entry in text.split('\0') {
        if let Some(header) = entry.strip_prefix(mark) {
            commits.extend(parse_header(header));
            continue;
        }
        let name = entry.strip_prefix('\n').unwrap_or(entry);
        if let Some(commit) = commits.last_mut()
            && !name.is_empty()
        {
            commit.files.push(name.to_owned());
        }
    }
    commits
}

fn parse_header(header: &str) -> Option<Commit> {
    let mut fields = header.strip_prefix('\u{1}')?.splitn(5, '\u{1}');
    let id = fields.next()?.to_owned();
    let mut time = || fields.next()?.parse::<i64>().ok()?.checked_mul(1000);
    let (author_ms, commit_ms) = (time()?, time()?);
    let parents = fields.next()?.split_whitespace().map(str::to_owned).collect();
    let subject = fields.next()?.to_owned();
    Some(Commit { id, subject, author_ms, commit_ms, parents, files: Vec::new() })
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
#[path = "git_tests.rs"]
mod tests;
