//! Proves that the attempts on git's configuration can succeed: after git on the host has replaced it, a read-only mount
//! of the same file does not stop them. Only a new file does.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::abuse::host_changes::CATCH;
use crate::stage::programs::program;
use crate::stage::repository::make_repository;

/// A sandbox as bubblewrap makes it, without a shim that watches it.
struct Unwatched {
    bwrap: Child,
    init: String,
    workspace: PathBuf,
    _directory: tempfile::TempDir,
}

impl Unwatched {
    fn new(how: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let workspace = directory.path().canonicalize().unwrap();
        make_repository(&workspace);
        fs::write(workspace.join("catch.py"), CATCH).unwrap();
        let (work, git) = (workspace.to_str().unwrap(), workspace.join(".git"));
        let (git, config) = (git.to_str().unwrap(), git.join("config"));
        let config = config.to_str().unwrap();
        let mut bwrap = Command::new("bwrap")
            .args(["--unshare-user", "--unshare-pid", "--disable-userns", "--die-with-parent"])
            .args(["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"])
            .args(["--bind", work, work, "--bind", git, git, "--ro-bind", config, config])
            .args(["--chdir", work, "--json-status-fd", "1", "--", "python3", "catch.py", how])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(bwrap.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let status: serde_json::Value = serde_json::from_str(&line).unwrap();
        let init = status["child-pid"].to_string();
        let sandbox = Self { bwrap, init, workspace, _directory: directory };
        sandbox.wait_for("ready");
        sandbox
    }

    fn config(&self) -> PathBuf {
        self.workspace.join(".git/config")
    }

    fn wait_for(&self, name: &str) {
        let until = Instant::now() + Duration::from_secs(60);
        while !self.workspace.join(name).exists() {
            assert!(Instant::now() < until, "`{name}` did not appear");
            std::thread::yield_now();
        }
    }

    /// Replaces the configuration with a new file of the same text, as git does.
    fn replace(&self) {
        let (config, new) = (self.config(), self.workspace.join(".git/config.lock"));
        fs::copy(&config, &new).unwrap();
        fs::rename(new, config).unwrap();
    }

    fn bind_again(&self) {
        let mut bind = Command::new(program("caretaker"));
        let config: &Path = &self.config();
        let bound = bind.arg("bind-again").arg(&self.init).arg(config).output().unwrap();
        assert!(bound.status.success(), "{}", String::from_utf8_lossy(&bound.stderr));
    }

    /// Returns whether the agent's text is in the configuration.
    fn has_escaped(&self) -> bool {
        fs::read_to_string(self.config()).unwrap().contains("evil")
    }
}

impl Drop for Unwatched {
    fn drop(&mut self) {
        self.bwrap.kill().ok();
        self.bwrap.wait().ok();
    }
}

#[test]
fn an_agent_that_kept_the_file_can_still_write_it_when_the_same_file_is_mounted_again() {
    for how in ["descriptor", "link", "reopen"] {
        let sandbox = Unwatched::new(how);
        sandbox.replace();
        sandbox.wait_for("caught");
        sandbox.bind_again();
        sandbox.wait_for("wrote");
        assert!(sandbox.has_escaped(), "{how} proves nothing");
    }
}

#[test]
fn a_kept_file_is_useless_to_the_agent_when_a_new_file_is_mounted() {
    for how in ["descriptor", "link", "reopen"] {
        let sandbox = Unwatched::new(how);
        sandbox.replace();
        sandbox.wait_for("caught");
        sandbox.replace();
        sandbox.bind_again();
        sandbox.wait_for("wrote");
        assert!(!sandbox.has_escaped(), "{how}");
    }
}
