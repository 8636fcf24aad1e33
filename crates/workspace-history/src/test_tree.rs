//! A workspace for a test, with a reader that does not use our own code.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use run_protocol::RunId;
use tempfile::TempDir;

use crate::{Git, History, Limits, Saved, Scope, Snapshot, SnapshotName, restore};

pub(crate) struct TestTree {
    directory: TempDir,
}

pub(crate) const AMPLE: Limits =
    Limits { most_files: 100_000, most_new_bytes: 1 << 30, within: Duration::from_secs(600) };

/// Path → kind, mode and content.
pub(crate) type Seen = BTreeMap<PathBuf, String>;

impl TestTree {
    pub(crate) fn new() -> Self {
        let tree = Self { directory: tempfile::tempdir().unwrap() };
        fs::create_dir(tree.workspace()).unwrap();
        tree
    }

    /// Makes a tree in memory, where creating and removing many directories is fast.
    pub(crate) fn in_memory() -> Self {
        let tree = Self { directory: tempfile::tempdir_in("/dev/shm").unwrap() };
        fs::create_dir(tree.workspace()).unwrap();
        tree
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join("workspace")
    }

    pub(crate) fn outside(&self) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join("outside")
    }

    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.workspace().join(relative)
    }

    pub(crate) fn write(&self, relative: &str, content: impl AsRef<[u8]>) {
        let path = self.path(relative);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub(crate) fn link(&self, target: impl AsRef<Path>, relative: &str) {
        symlink(target, self.path(relative)).unwrap();
    }

    pub(crate) fn mode(&self, relative: &str, mode: u32) {
        fs::set_permissions(self.path(relative), fs::Permissions::from_mode(mode)).unwrap();
    }

    pub(crate) fn shell(&self, script: &str) {
        let status = Command::new("/bin/sh")
            .args(["-ec", script])
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .current_dir(self.workspace())
            .status()
            .unwrap();
        assert!(status.success(), "{script}");
    }

    pub(crate) fn git(&self, arguments: &str) {
        self.shell(&format!(
            "git -c user.name=a -c user.email=a@b -c init.defaultBranch=main {arguments}"
        ));
    }

    pub(crate) fn history(&self) -> History {
        let git = Git::new("/usr/bin/git".into(), None);
        History::of(&self.directory.path().join("checkpoints"), &self.workspace(), git)
    }

    pub(crate) fn save(&self, name: &SnapshotName) -> Saved {
        self.history().save(name, Scope::AsGitWould, &[], AMPLE).unwrap()
    }

    /// Saves the current state, restores `target`, and returns the saved state.
    pub(crate) fn put_back(&self, target: &Snapshot, run: RunId) -> Snapshot {
        let history = self.history();
        let name = history.next_replaced(run);
        let present = history.save(&name, Scope::As(target), &[], AMPLE).unwrap().snapshot;
        let outcome = restore(&history, &present, target).unwrap();
        assert_eq!(outcome.failed, []);
        present
    }

    pub(crate) fn seen(&self) -> Seen {
        let mut seen = Seen::new();
        look(&self.workspace(), &self.workspace(), &mut seen);
        seen
    }
}

pub(crate) fn look(root: &Path, directory: &Path, seen: &mut Seen) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let metadata = fs::symlink_metadata(&path).unwrap();
        let mode = metadata.mode() & 0o7777;
        let kind = metadata.file_type();
        let said = if kind.is_symlink() {
            format!("link {:?}", fs::read_link(&path).unwrap())
        } else if kind.is_dir() {
            look(root, &path, seen);
            format!("directory {mode:o}")
        } else if kind.is_fifo() {
            format!("fifo {mode:o}")
        } else {
            let content = fs::read(&path).unwrap();
            format!("file {mode:o} {}", String::from_utf8_lossy(&content).escape_debug())
        };
        seen.insert(path.strip_prefix(root).unwrap().to_owned(), said);
    }
}

pub(crate) fn run() -> RunId {
    RunId::generate()
}

pub(crate) fn odd_name() -> PathBuf {
    PathBuf::from(std::ffi::OsStr::from_bytes(b"odd \"name\"\n\\\xff"))
}
