//! Runs git: bounded in time and output, with nothing of anybody's configuration that could start a program.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::snapshot::Head;
use crate::tree_path::TreePath;

/// Longer than a question about names takes in any repository.
const QUESTION: Duration = Duration::from_secs(10);
/// Some hundred thousand names.
const MOST_OUTPUT: u64 = 64 << 20;

/// Settings that would start programs or reach out, switched off wherever git looks at a repository that is not ours.
const SETTINGS: &[&str] = &[
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.untrackedCache=false",
    "protocol.allow=never",
    "gc.auto=0",
    "maintenance.auto=false",
    "submodule.recurse=false",
    // Whose the repository is does not matter, since it decides nothing.
    "safe.directory=*",
];

/// The git of this host.
#[derive(Debug, Clone)]
pub struct Git {
    program: PathBuf,
    home: Option<PathBuf>,
}

/// Says why git did not do it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GitError {
    #[error("git cannot be started from `{}`", program.display())]
    Start { program: PathBuf, source: io::Error },
    #[error("git took longer than {} s", .0.as_secs())]
    TimedOut(Duration),
    #[error("git cannot be waited for")]
    Wait(#[source] io::Error),
    #[error("git said: {0}")]
    Refused(String),
}

/// What git said.
#[derive(Debug)]
pub struct GitAnswer {
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl GitAnswer {
    /// The output, if git was content.
    pub fn checked(self) -> Result<Vec<u8>, GitError> {
        if self.status.success() {
            return Ok(self.stdout);
        }
        let said = self.stderr.lines().find(|line| !line.trim().is_empty()).unwrap_or("nothing");
        Err(GitError::Refused(said.trim().to_owned()))
    }
}

/// What is asked about the user's repository before it is saved.
#[derive(Debug, Default)]
pub struct RepositoryView {
    /// What it tracks below the workspace.
    pub tracked: Vec<TreePath>,
    pub head: Option<Head>,
    /// The user's own rules for what to ignore everywhere.
    pub ignored_everywhere: Option<String>,
}

impl Git {
    /// `home` is where the user's own settings are, of which only the rules for what to ignore are read.
    pub fn new(program: PathBuf, home: Option<PathBuf>) -> Self {
        Self { program, home }
    }

    /// A command in a repository of somebody else's.
    pub fn command_in(&self, directory: &Path) -> Command {
        let mut command = self.command();
        command.arg("-C").arg(directory);
        for setting in SETTINGS {
            command.args(["-c", setting]);
        }
        command
    }

    /// A command that checks files out as the user's own git would: with the user's settings, but without any program that
    /// the repository itself names.
    pub fn command_as_user(&self, directory: &Path) -> Result<Command, GitError> {
        let mut question = self.command_in(directory);
        // Nothing but the repository's own is read here. Settings are listed as `name`, line feed, value, NUL.
        question.args(["config", "-z", "--get-regexp", r"^filter\."]);
        let answer = run_git(&mut question, None, QUESTION)?;
        let mut command = self.command_in(directory);
        command.env_remove("GIT_CONFIG_GLOBAL").env_remove("GIT_CONFIG_NOSYSTEM");
        if let Some(home) = &self.home {
            command.env("HOME", home);
        }
        let mut n_settings = 0;
        // By variables, because a name may hold what a command line would split at.
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

    /// A command in our own repository.
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
            // A clone that is only a part would fetch the rest.
            .env("GIT_NO_LAZY_FETCH", "1")
            .current_dir("/");
        command
    }

    /// Asks about the repository that the workspace is in, all at once. What has no answer is not known: that is the case
    /// where there is no repository, and where it is broken.
    pub fn view(&self, workspace: &Path) -> RepositoryView {
        let ask = |arguments: &[&str]| {
            let mut command = self.command_in(workspace);
            command.args(arguments);
            start(&mut command, None, MOST_OUTPUT)
        };
        let tracked = ask(&["ls-files", "-z", "--cached"]);
        let head = ask(&["rev-parse", "--verify", "--quiet", "HEAD"]);
        let branch = ask(&["symbolic-ref", "--quiet", "HEAD"]);
        let excludes = self.home.as_deref().map(|home| self.ask_for_excludes(home));

        let until = Instant::now() + QUESTION;
        let answered = |asked: Result<Running, GitError>| {
            asked.and_then(|running| running.finish(until, QUESTION)).ok()?.checked().ok()
        };
        let tracked = answered(tracked).unwrap_or_default();
        let commit = answered(head).and_then(one_line);
        let branch = answered(branch).and_then(one_line);
        let excludes = excludes.and_then(answered).and_then(one_line);
        RepositoryView {
            tracked: tracked.split(|byte| *byte == 0).filter_map(TreePath::checked).collect(),
            head: commit.map(|commit| Head {
                commit,
                branch: branch.map(|name| name.trim_start_matches("refs/heads/").to_owned()),
            }),
            ignored_everywhere: self.excludes_text(excludes),
        }
    }

    fn ask_for_excludes(&self, home: &Path) -> Result<Running, GitError> {
        let mut command = self.command();
        command.env_remove("GIT_CONFIG_GLOBAL").env("HOME", home).args([
            "config",
            "--global",
            "--type=path",
            "--get",
            "core.excludesFile",
        ]);
        start(&mut command, None, MOST_OUTPUT)
    }

    fn excludes_text(&self, named: Option<String>) -> Option<String> {
        let home = self.home.as_deref()?;
        let file = named.map_or_else(|| home.join(".config/git/ignore"), PathBuf::from);
        let metadata = std::fs::metadata(&file).ok()?;
        if !metadata.is_file() || metadata.len() > crate::ignore_rules::MOST_RULES {
            return None;
        }
        Some(String::from_utf8_lossy(&std::fs::read(file).ok()?).into_owned())
    }
}

fn one_line(bytes: Vec<u8>) -> Option<String> {
    let text = String::from_utf8(bytes).ok()?;
    let line = text.trim_end_matches('\n');
    (!line.is_empty()).then(|| line.to_owned())
}

/// Runs a command to its end.
pub fn run_git(
    command: &mut Command,
    input: Option<Vec<u8>>,
    limit: Duration,
) -> Result<GitAnswer, GitError> {
    start(command, input, u64::MAX)?.finish(Instant::now() + limit, limit)
}

enum Part {
    Stdout(Vec<u8>),
    Stderr(Vec<u8>),
}

struct Running {
    child: Child,
    parts: mpsc::Receiver<Part>,
}

fn start(
    command: &mut Command,
    input: Option<Vec<u8>>,
    most_output: u64,
) -> Result<Running, GitError> {
    let program = PathBuf::from(command.get_program());
    let mut child = command
        .stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|source| GitError::Start { program, source })?;
    let (sender, parts) = mpsc::channel();
    if let (Some(mut stdin), Some(input)) = (child.stdin.take(), input) {
        // Whoever does not read to the end says so by its exit code.
        thread::spawn(move || stdin.write_all(&input).ok());
    }
    let stdout = child.stdout.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>);
    let stderr = child.stderr.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>);
    for (pipe, part) in [(stdout, Part::Stdout as fn(Vec<u8>) -> Part), (stderr, Part::Stderr as _)]
    {
        let sender = sender.clone();
        thread::spawn(move || {
            let mut bytes = Vec::new();
            pipe.map(|pipe| pipe.take(most_output).read_to_end(&mut bytes));
            sender.send(part(bytes)).ok();
        });
    }
    Ok(Running { child, parts })
}

impl Running {
    fn finish(mut self, until: Instant, limit: Duration) -> Result<GitAnswer, GitError> {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        for _ in 0..2 {
            match self.parts.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(Part::Stdout(bytes)) => stdout = bytes,
                Ok(Part::Stderr(bytes)) => stderr = bytes,
                Err(_) => {
                    self.child.kill().ok();
                    self.child.wait().ok();
                    return Err(GitError::TimedOut(limit));
                }
            }
        }
        let status = self.child.wait().map_err(GitError::Wait)?;
        Ok(GitAnswer { status, stdout, stderr: String::from_utf8_lossy(&stderr).into_owned() })
    }
}

/// The words of a command that are told apart from options by nothing but their place.
pub fn plain_word(word: &OsStr) -> bool {
    !word.is_empty() && !word.as_encoded_bytes().starts_with(b"-")
}
