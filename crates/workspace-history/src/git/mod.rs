//! Runs git with limits on time and output. No user or repository configuration can make it start a program, and it
//! runs in a repository that an agent could write only after a check.

pub(crate) mod contents;
pub(crate) mod import;

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use ground::command::{Bounds, NoAnswer};

use crate::repository::{Repository, RepositoryError, resolve};
use crate::snapshot::Head;
use crate::tree_path::TreePath;

/// Listing names takes less time than this in any repository.
const QUESTION: Duration = Duration::from_secs(10);
const BRANCHES: &str = "refs/heads/";

/// Switches off every setting that could start a program or use the network, for repositories that are not ours.
pub const SAFE_SETTINGS: &[&str] = &[
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.untrackedCache=false",
    "protocol.allow=never",
    "gc.auto=0",
    "maintenance.auto=false",
    "submodule.recurse=false",
    // Caretaker writes no reflogs, because the agent could have chosen where they go.
    "core.logAllRefUpdates=false",
    // A mailmap is a workspace file, which the agent could write.
    "log.mailmap=false",
    "log.showSignature=false",
    // Do not use a directory that only looks like a repository.
    "safe.bareRepository=explicit",
    // The repository's owner does not matter, because nothing in the repository is trusted.
    "safe.directory=*",
];

/// The host's git.
#[derive(Debug, Clone)]
pub struct Git {
    program: PathBuf,
    home: Option<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GitError {
    #[error("git cannot be started from `{}`", program.display())]
    Start { program: PathBuf, source: io::Error },
    #[error("git did not answer")]
    Run(#[from] NoAnswer),
    #[error("cannot wait for git")]
    Wait(#[source] io::Error),
    #[error("git said: {0}")]
    Refused(String),
    #[error("git must not run in this repository")]
    Repository(#[from] RepositoryError),
}

/// The result of a git command.
#[derive(Debug)]
pub struct GitAnswer {
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl GitAnswer {
    /// Returns the output, if git succeeded.
    pub fn checked(self) -> Result<Vec<u8>, GitError> {
        if self.status.success() {
            return Ok(self.stdout);
        }
        let said = self.stderr.lines().find(|line| !line.trim().is_empty()).unwrap_or("nothing");
        Err(GitError::Refused(said.trim().to_owned()))
    }
}

impl Git {
    /// `home` has the user's own settings. Caretaker reads only their ignore rules.
    pub fn new(program: PathBuf, home: Option<PathBuf>) -> Self {
        Self { program, home }
    }

    /// Returns a command for a repository that is not ours, where an agent may have put anything. Fails if git would
    /// find links or special files there.
    pub fn command_in(&self, directory: &Path) -> Result<Command, GitError> {
        if let Some(repository) = Repository::around(directory)? {
            repository.check()?;
        }
        let mut command = self.command();
        command.arg("-C").arg(directory);
        for setting in SAFE_SETTINGS {
            command.args(["-c", setting]);
        }
        Ok(command)
    }

    /// Returns a command that checks files out like the user's own git: with the user's settings, but without any
    /// program that the repository names.
    pub fn command_as_user(&self, directory: &Path) -> Result<Command, GitError> {
        // Reads only the repository's own settings. Git lists each as name, line feed, value, NUL.
        let question = ["config", "-z", "--get-regexp", r"^filter\."];
        let answer = self.run_in(directory, question, None, QUESTION)?;
        let mut command = self.command_in(directory)?;
        command.env_remove("GIT_CONFIG_GLOBAL").env_remove("GIT_CONFIG_NOSYSTEM");
        if let Some(home) = &self.home {
            command.env("HOME", home);
        }
        let mut n_settings = 0;
        // The settings are passed as variables, because a name may contain characters that would break a command-line
        // argument.
        let mut set = |name: &str, value: &str| {
            command.env(format!("GIT_CONFIG_KEY_{n_settings}"), name);
            command.env(format!("GIT_CONFIG_VALUE_{n_settings}"), value);
            n_settings += 1;
        };
        for setting in answer.stdout.split(|byte| *byte == 0) {
            let name = setting.split(|byte| *byte == b'\n').next().unwrap_or_default();
            let name = String::from_utf8_lossy(name);
            let Some((driver, _)) = name.rsplit_once('.') else { continue };
            for program in ["clean", "smudge", "process"] {
                set(&format!("{driver}.{program}"), "");
            }
            set(&format!("{driver}.required"), "false");
        }
        command.env("GIT_CONFIG_COUNT", n_settings.to_string());
        Ok(command)
    }

    /// Returns a command for our own repository.
    pub(crate) fn command_for_store(&self, store: &Path) -> Command {
        let mut command = self.command();
        let mut git_dir = OsString::from("--git-dir=");
        git_dir.push(store);
        command.arg(git_dir);
        command
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .arg("--no-pager")
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("LC_ALL", "C")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_ATTR_NOSYSTEM", "1")
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_TERMINAL_PROMPT", "0")
            // A partial clone would fetch missing objects.
            .env("GIT_NO_LAZY_FETCH", "1")
            // Allow no transport. A repository's own `protocol.NAME.allow` would override `protocol.allow`, but not
            // this variable.
            .env("GIT_ALLOW_PROTOCOL", "")
            .current_dir("/");
        command
    }

    /// Runs git in a repository that is not ours.
    pub fn run_in(
        &self,
        directory: &Path,
        words: impl IntoIterator<Item = impl AsRef<OsStr>>,
        input: Option<Vec<u8>>,
        within: Duration,
    ) -> Result<GitAnswer, GitError> {
        let mut command = self.command_in(directory)?;
        command.args(words);
        run_git(&mut command, input, within).map_err(|error| explained(error, directory))
    }

    /// Returns the tracked files below the workspace. Empty if there is no repository, or a broken one.
    pub(crate) fn tracked(&self, workspace: &Path) -> Result<BTreeSet<TreePath>, GitError> {
        let answer = self.run_in(workspace, ["ls-files", "-z", "--cached"], None, QUESTION)?;
        let listed = answer.checked().unwrap_or_default();
        Ok(listed.split(|byte| *byte == 0).filter_map(TreePath::checked).collect())
    }

    /// Returns the HEAD of the repository that contains the workspace, or `None` if there is no readable repository.
    pub fn head(&self, workspace: &Path) -> Option<Head> {
        let repository = Repository::around(workspace).ok()??;
        let refs = repository.refs(self).ok()?;
        let head = TreePath::from("HEAD");
        let commit = resolve(&refs, &head)?.to_owned();
        let branch = refs.get(&head)?.strip_prefix("ref: ");
        let branch = branch.map(|name| name.trim_start_matches(BRANCHES).to_owned());
        Some(Head { commit, branch })
    }

    /// Returns the user's own ignore rules for all repositories.
    pub(crate) fn ignored_everywhere(&self) -> Option<String> {
        let home = self.home.as_deref()?;
        let files = [home.join(".gitconfig"), home.join(".config/git/config")];
        let may_say = |file: &PathBuf| {
            small_text(file).is_some_and(|text| {
                let text = text.to_lowercase();
                text.contains("excludesfile") || text.contains("include")
            })
        };
        let named = files.iter().any(may_say).then(|| self.ask_for_excludes(home)).flatten();
        small_text(&named.unwrap_or_else(|| home.join(".config/git/ignore")))
    }

    fn ask_for_excludes(&self, home: &Path) -> Option<PathBuf> {
        let mut command = self.command();
        command.env_remove("GIT_CONFIG_GLOBAL").env("HOME", home).args([
            "config",
            "--global",
            "--type=path",
            "--get",
            "core.excludesFile",
        ]);
        let answer = run_git(&mut command, None, QUESTION).ok()?;
        answer.checked().ok().and_then(one_line).map(PathBuf::from)
    }
}

/// Returns the content of a regular file that is not too long.
fn small_text(path: &Path) -> Option<String> {
    let metadata = std::fs::metadata(path).ok()?;
    if !metadata.is_file() || metadata.len() > crate::walk::ignore_rules::MOST_RULES {
        return None;
    }
    Some(String::from_utf8_lossy(&std::fs::read(path).ok()?).into_owned())
}

fn one_line(bytes: Vec<u8>) -> Option<String> {
    let text = String::from_utf8(bytes).ok()?;
    let line = text.trim_end_matches('\n');
    (!line.is_empty()).then(|| line.to_owned())
}

/// Runs a command until it ends, with any amount of output.
pub fn run_git(
    command: &mut Command,
    input: Option<Vec<u8>>,
    within: Duration,
) -> Result<GitAnswer, GitError> {
    let answer = ground::command::run(command, input, Bounds { within, most_output: u64::MAX })?;
    let stderr = answer.stderr_text();
    Ok(GitAnswer { status: answer.status, stdout: answer.stdout, stderr })
}

/// Explains why git did not answer in time: an agent that works there may have blocked it after our check.
fn explained(error: GitError, directory: &Path) -> GitError {
    let is_late = matches!(error, GitError::Run(NoAnswer::TimedOut(_)));
    let look = || match Repository::around(directory) {
        Ok(found) => found.and_then(|found| found.check().err()),
        Err(error) => Some(error),
    };
    match is_late.then(look).flatten() {
        Some(found) => found.into(),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::test_tree::TestTree;

    #[test]
    fn the_head_of_a_repository_matches_git() {
        let git = Git::new("/usr/bin/git".into(), None);
        let tree = TestTree::new();
        assert_eq!(git.head(&tree.workspace()), None);
        tree.git("init -q");
        assert_eq!(git.head(&tree.workspace()), None, "no commit yet");
        tree.write("a", "x");
        tree.git("add a");
        tree.git("commit -qm one");
        tree.shell("git checkout -q -b feature/x");
        let said = git.run_in(&tree.workspace(), ["rev-parse", "HEAD"], None, QUESTION);
        let commit = one_line(said.unwrap().stdout).unwrap();
        let on_branch = Head { commit: commit.clone(), branch: Some("feature/x".to_owned()) };
        assert_eq!(git.head(&tree.workspace()), Some(on_branch.clone()));
        tree.git("pack-refs --all");
        assert_eq!(git.head(&tree.workspace()), Some(on_branch.clone()));
        tree.shell("mkdir sub");
        assert_eq!(git.head(&tree.path("sub")), Some(on_branch.clone()));
        tree.git("worktree add -q --detach ../linked");
        let linked = tree.workspace().parent().unwrap().join("linked");
        assert_eq!(git.head(&linked), Some(Head { commit: commit.clone(), branch: None }));
        tree.shell("git checkout -q --detach");
        assert_eq!(git.head(&tree.workspace()), Some(Head { commit, branch: None }));
    }

    #[test]
    fn a_fifo_that_blocks_git_after_the_check_is_named() {
        let git = Git::new("/usr/bin/git".into(), None);
        let tree = TestTree::new();
        tree.git("init -q");
        let mut command = git.command_in(&tree.workspace()).unwrap();
        tree.shell("mkfifo .git/packed-refs");
        let late = run_git(command.args(["for-each-ref"]), None, Duration::from_millis(300));
        let late = explained(late.unwrap_err(), &tree.workspace());
        let GitError::Repository(found) = late else { panic!("{late:?}") };
        let fifo = tree.path(".git/packed-refs");
        assert_eq!(
            found.to_string(),
            format!("`{}` is a FIFO, and git would use it", fifo.display())
        );
    }

    #[test]
    fn no_setting_of_a_repository_lets_git_contact_another_repository() {
        let git = Git::new("/usr/bin/git".into(), None);
        let tree = TestTree::new();
        tree.git("init -q");
        tree.git("config protocol.ext.allow always");
        tree.git("config protocol.file.allow always");
        let made = tree.path("made");
        for remote in
            [format!("ext::touch {}", made.display()), tree.path("").display().to_string()]
        {
            let mut command = git.command_in(&tree.workspace()).unwrap();
            command.args(["ls-remote", &remote]);
            let answer = run_git(&mut command, None, QUESTION).unwrap();
            assert!(answer.stderr.contains("not allowed"), "{remote}: {}", answer.stderr);
        }
        assert!(!made.exists());
    }

    #[test]
    fn the_users_own_rules_are_found_where_git_finds_them() {
        let home = tempfile::tempdir().unwrap();
        let git = Git::new("/usr/bin/git".into(), Some(home.path().to_owned()));
        assert_eq!(git.ignored_everywhere(), None);
        std::fs::create_dir_all(home.path().join(".config/git")).unwrap();
        std::fs::write(home.path().join(".config/git/ignore"), "*.swp\n").unwrap();
        assert_eq!(git.ignored_everywhere().as_deref(), Some("*.swp\n"));
        std::fs::write(home.path().join(".gitconfig"), "[core]\nexcludesFile = ~/mine\n").unwrap();
        std::fs::write(home.path().join("mine"), "*.bak\n").unwrap();
        assert_eq!(git.ignored_everywhere().as_deref(), Some("*.bak\n"));
    }
}
