//! Plays the simulated agent in its own home.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use tempfile::TempDir;

use crate::stage::programs::program;

/// A separate home directory with one workspace.
pub(crate) struct Home {
    directory: TempDir,
}

pub(crate) struct Play {
    script: String,
    flags: Vec<String>,
    misbehaviour: Option<String>,
}

pub(crate) struct Played {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Play {
    /// Makes a play from a script for the agent.
    pub(crate) fn script(script: &str) -> Self {
        Self { script: script.to_owned(), flags: Vec::new(), misbehaviour: None }
    }

    pub(crate) fn flags(mut self, flags: &[&str]) -> Self {
        self.flags.extend(flags.iter().map(ToString::to_string));
        self
    }

    pub(crate) fn misbehaving(mut self, misbehaviour: &str) -> Self {
        self.misbehaviour = Some(misbehaviour.to_owned());
        self
    }
}

impl Home {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("workspace")).unwrap();
        Self { directory }
    }

    /// Returns the workspace's physical path, as the agent sees it.
    pub(crate) fn workspace(&self) -> PathBuf {
        self.directory.path().join("workspace").canonicalize().unwrap()
    }

    pub(crate) fn dot_cursor(&self) -> PathBuf {
        self.directory.path().join(".cursor")
    }

    pub(crate) fn write(&self, file: &str, content: &str) {
        std::fs::write(self.workspace().join(file), content).unwrap();
    }

    /// Plays one turn with the prompt on stdin, and expects success.
    pub(crate) fn play_well(&self, play: &Play) -> Played {
        let played = self.play(play);
        assert!(played.status.success(), "{}: {}", played.status, played.stderr);
        played
    }

    /// Plays one turn, successful or not.
    pub(crate) fn play(&self, play: &Play) -> Played {
        let mut child = self
            .agent(&self.workspace())
            .args(["--print", "--output-format", "stream-json", "--trust"])
            .args(&play.flags)
            .envs(play.misbehaviour.iter().map(|names| ("SIMULATED_AGENT_MISBEHAVE", names)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let prompt = format!("Play this:\n```agent\n{}```\n", play.script);
        // An agent that fails early does not read its prompt.
        child.stdin.take().unwrap().write_all(prompt.as_bytes()).ok();
        let output = child.wait_with_output().unwrap();
        Played {
            status: output.status,
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    fn agent(&self, directory: &Path) -> Command {
        let mut command = Command::new(program("simulated-agent"));
        command
            .env_clear()
            .env("HOME", self.directory.path())
            .env("PATH", "/usr/bin:/bin")
            .env("CURSOR_API_KEY", "simulated")
            .current_dir(directory);
        command
    }
}
