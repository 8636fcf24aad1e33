//! Where our own files are on this host.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::unistd::Uid;
use sha2::{Digest, Sha256};

use crate::host::environment::Environment;

/// The directories below which everything of ours is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// Runs, sessions, locks.
    pub state: PathBuf,
    /// `config.toml` and `profiles/`.
    pub config: PathBuf,
    /// One directory per run, while it lives.
    pub sockets: PathBuf,
    /// What tells the daemon of an unusual state directory from that of the usual one.
    daemon_mark: Option<String>,
}

impl Places {
    /// Where the daemon listens. One that serves another state directory than the usual one has another name.
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
        // `su` and `sudo` leave the variable of the other user behind, and its directory may be gone.
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
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::host::environment::tests::environment_of;

    #[test]
    fn everything_is_below_the_xdg_directories_or_their_defaults() {
        let places = Places::of(&environment_of(&[("HOME", Path::new("/home/ada"))]));
        assert_eq!(
            (places.state.to_str(), places.config.to_str()),
            (Some("/home/ada/.local/state/caretaker"), Some("/home/ada/.config/caretaker"))
        );
        assert_eq!(
            places.sockets,
            Path::new(&format!("/tmp/caretaker-{}", nix::unistd::geteuid()))
        );

        let runtime = tempfile::tempdir().unwrap();
        let places = Places::of(&environment_of(&[
            ("HOME", Path::new("/home/ada")),
            ("XDG_STATE_HOME", Path::new("/s")),
            ("XDG_CONFIG_HOME", Path::new("/c")),
            ("XDG_RUNTIME_DIR", runtime.path()),
        ]));
        assert_eq!(
            (places.state.to_str(), places.config.to_str()),
            (Some("/s/caretaker"), Some("/c/caretaker"))
        );
        assert_eq!(places.sockets, runtime.path().join("caretaker"));
    }

    #[test]
    fn caretaker_home_moves_the_state_and_may_be_relative() {
        let places = Places::of(&environment_of(&[
            ("HOME", Path::new("/home/ada")),
            ("CARETAKER_HOME", Path::new("scratch")),
        ]));
        assert_eq!(places.state, Path::new("/scratch"));
    }

    #[test]
    fn a_runtime_directory_that_is_not_there_is_not_used() {
        let places = Places::of(&environment_of(&[("XDG_RUNTIME_DIR", Path::new("/no/such"))]));
        assert!(places.sockets.starts_with("/tmp"));
    }
}
