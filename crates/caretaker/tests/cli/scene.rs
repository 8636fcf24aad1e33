//! A separate host for each test, with its own home, workspace and state, and without the real environment.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// One host. All its files are deleted when it is dropped.
pub(crate) struct Scene {
    root: TempDir,
    variables: Vec<(OsString, OsString)>,
}

impl Scene {
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let mut scene = Self { root, variables: Vec::new() };
        for directory in ["home", "home/work", "bin", "run", "config"] {
            fs::create_dir(scene.path(directory)).unwrap();
        }
        fs::set_permissions(scene.path("run"), fs::Permissions::from_mode(0o700)).unwrap();
        for (name, below) in [
            ("HOME", "home"),
            ("CARETAKER_HOME", "state"),
            ("XDG_RUNTIME_DIR", "run"),
            ("XDG_CONFIG_HOME", "config"),
        ] {
            let path = scene.path(below);
            scene.set(name, path);
        }
        scene.set("PATH", "/usr/bin:/bin");
        scene
    }

    pub(crate) fn path(&self, below: impl AsRef<Path>) -> PathBuf {
        fs::canonicalize(self.root.path()).unwrap().join(below)
    }

    pub(crate) fn set(&mut self, name: &str, value: impl Into<OsString>) {
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.into(), value.into()));
    }

    /// Writes a file and creates its parent directories.
    pub(crate) fn write(&self, below: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(below);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    pub(crate) fn program(&self, below: &str, script: &str, mode: u32) -> PathBuf {
        let path = self.write(below, format!("#!/bin/sh\n{script}\n"));
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_caretaker"));
        command
            .env_clear()
            .envs(self.variables.iter().cloned())
            .current_dir(self.path("home/work"));
        command
    }

    pub(crate) fn caretaker(&self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Answer {
        Answer(self.command().args(args).stdin(Stdio::null()).output().unwrap())
    }

    /// Like [`Self::caretaker`], but with `input` on stdin.
    pub(crate) fn caretaker_reading(&self, args: &[&str], input: &[u8]) -> Answer {
        let mut child = self
            .command()
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A command that fails early does not read its stdin.
        child.stdin.take().unwrap().write_all(input).ok();
        Answer(child.wait_with_output().unwrap())
    }

    /// Every path below the scene, to check that a command left nothing behind.
    pub(crate) fn inventory(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut open = vec![self.root.path().to_path_buf()];
        while let Some(directory) = open.pop() {
            for entry in fs::read_dir(&directory).into_iter().flatten() {
                let entry = entry.unwrap();
                if entry.file_type().unwrap().is_dir() {
                    open.push(entry.path());
                }
                found.push(entry.path());
            }
        }
        found.sort();
        found
    }
}

pub(crate) struct Answer(Output);

impl Answer {
    pub(crate) fn code(&self) -> i32 {
        self.0.status.code().unwrap()
    }

    pub(crate) fn stdout(&self) -> &str {
        std::str::from_utf8(&self.0.stdout).unwrap()
    }

    pub(crate) fn stderr(&self) -> &str {
        std::str::from_utf8(&self.0.stderr).unwrap()
    }
}
