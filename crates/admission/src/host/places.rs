//! Caretaker's directories on this host.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::unistd::Uid;
use sha2::{Digest, Sha256};

use crate::host::environment::Environment;

/// The directories with all of Caretaker's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// Runs, sessions, locks.
    pub state: PathBuf,
    /// `config.toml` and `profiles/`.
    pub config: PathBuf,
    /// One directory per live run.
    pub sockets: PathBuf,
    /// Distinguishes the socket of a daemon with an unusual state directory.
    daemon_mark: Option<String>,
}

impl Places {
    /// The daemon's socket. A daemon with an unusual state directory has a different socket.
    pub fn daemon_socket(&self) -> PathBuf {
        match &self.daemon_mark {
            None => self.sockets.join("daemon.sock"),
            Some(mark) => self.sockets.join(format!("daemon-{mark}.sock")),
        }
    }

    pub fn of(environment: &Environment) -> Self {
        let below_home = |below: &str| environment.home.join(below);
        let xdg = |variable: &str, otherwise: &str| {
            environment
                .absolute_path(variable)
                .map_or_else(|| below_home(otherwise), Path::to_path_buf)
                .join("caretaker")
        };
        let state = environment
            .variable("CARETAKER_HOME")
            .map(|path| environment.absolute(Path::new(path)))
            .unwrap_or_else(|| xdg("XDG_STATE_HOME", ".local/state"));
        // `su` and `sudo` keep the other user's variable, and its directory may be gone.
        let runtime = environment
            .absolute_path("XDG_RUNTIME_DIR")
            .filter(|path| is_directory_of(path, environment.uid));
        let sockets = match runtime {
            Some(runtime) => runtime.join("caretaker"),
            None => PathBuf::from(format!("/tmp/caretaker-{}", environment.uid)),
        };
        let usual = xdg("XDG_STATE_HOME", ".local/state");
        let daemon_mark = (state != usual).then(|| mark_of(&state));
        Self { state, config: xdg("XDG_CONFIG_HOME", ".config"), sockets, daemon_mark }
    }
}

fn mark_of(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt;
    hex::encode(&Sha256::digest(path.as_os_str().as_bytes())[..4])
}

fn is_directory_of(path: &Path, owner: Uid) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_dir() && found.uid() == owner.as_raw())
}

/// A real directory, not a link to one, that only its owner can enter.
pub fn is_private_directory_of(path: &Path, owner: Uid) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| {
        found.is_dir() && found.uid() == owner.as_raw() && found.mode() & 0o077 == 0
    })
}

#[cfg(test)]
#[path = "places_tests.rs"]
mod tests;
