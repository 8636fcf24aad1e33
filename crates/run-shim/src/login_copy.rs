//! The run's private copy of the user's login, and the way back of what the agent refreshed in it.
//!
//! ```text
//!   <run>/login/   host-file         where the login comes from
//!                  taken.json        what it was
//!                  inside/auth.json  the agent's own: mounted, written by it, not to be believed
//! ```
//!
//! Only tokens go back, and only into the very file that was taken: whoever changed it in between knows better.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use cursor_home::{Login, LoginError};
use run_journal::{KernelLock, StateRoot};

/// A real one has a few hundred bytes.
const LARGEST: u64 = 256 * 1024;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoginCopyError {
    #[error("the login file `{}` cannot be read", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("the login file `{}` cannot be used", path.display())]
    Unusable { path: PathBuf, source: LoginError },
    #[error("the private copy of the login could not be made in `{}`", path.display())]
    Copy { path: PathBuf, source: io::Error },
}

/// A copy on disk. It is gone when this is dropped.
#[derive(Debug)]
pub(crate) struct LoginCopy {
    directory: PathBuf,
    login: Login,
}

/// What became of the agent's copy.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Returned {
    /// The agent did not refresh it, or left nothing that could be believed.
    Unchanged,
    Refreshed,
    /// The user's own file is another by now, and stays.
    HostChanged,
}

impl LoginCopy {
    /// The directory of a run that is mounted where the agent looks for its login.
    pub(crate) fn mounted_in(run_dir: &Path) -> PathBuf {
        directory_in(run_dir).join("inside")
    }

    pub(crate) fn make(run_dir: &Path, host_file: &Path) -> Result<Self, LoginCopyError> {
        let path = || host_file.to_owned();
        let unread = |source| LoginCopyError::Read { path: path(), source };
        // A link of the user's own is theirs to follow, and what it leads to is what is replaced later.
        let physical = fs::canonicalize(host_file).map_err(unread)?;
        let content = read(&physical).map_err(unread)?;
        let login = Login::parse(&content)
            .map_err(|source| LoginCopyError::Unusable { path: path(), source })?;
        let copy = Self { directory: directory_in(run_dir), login };
        copy.write(&physical, &content)
            .map_err(|source| LoginCopyError::Copy { path: copy.directory.clone(), source })?;
        Ok(copy)
    }

    fn write(&self, host_file: &Path, content: &[u8]) -> io::Result<()> {
        let inside = self.directory.join("inside");
        DirBuilder::new().recursive(true).mode(0o700).create(&inside)?;
        write_private(&self.directory.join("host-file"), host_file.as_os_str().as_bytes())?;
        write_private(&self.directory.join("taken.json"), content)?;
        write_private(&inside.join("auth.json"), content)
    }

    /// The secret values in it.
    pub(crate) fn tokens(&self) -> impl Iterator<Item = &str> {
        self.login.tokens()
    }

    /// Sees what the agent puts into its copy.
    pub(crate) fn watch(&self) -> LoginWatch {
        let path = self.directory.join("inside/auth.json");
        LoginWatch { seen: stamp(&path), path, n_learnt: 0 }
    }

    /// Puts refreshed tokens into the user's file. The agent must be gone.
    pub(crate) fn give_back(self, state: &StateRoot) {
        note(give_back(&self.directory, state));
    }

    /// Does the same for a run that died with its copy.
    pub(crate) fn recover(run_dir: &Path, state: &StateRoot) {
        let directory = directory_in(run_dir);
        if directory.is_dir() {
            note(give_back(&directory, state));
            fs::remove_dir_all(&directory).ok();
        }
    }
}

impl Drop for LoginCopy {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.directory) {
            tracing::warn!(%error, "the private copy of the login could not be removed");
        }
    }
}

/// A login's refreshes are far apart; more than these are not what they say.
const MOST_LEARNT: usize = 64;
/// Real tokens are longer. What is shorter may be a word of the agent's, which is not to be lost.
const SHORTEST_TOKEN: usize = 20;

/// The agent's own copy of the login, seen from outside. It is the agent's, so it is not believed to hold a login: all that
/// becomes of it is that some words are kept out of the journal.
#[derive(Debug)]
pub(crate) struct LoginWatch {
    path: PathBuf,
    seen: Option<(u64, u64, i64, i64)>,
    n_learnt: usize,
}

impl LoginWatch {
    /// The tokens in it, if it was written since the last time.
    pub(crate) fn new_tokens(&mut self) -> Vec<String> {
        let stamp = stamp(&self.path);
        if stamp == self.seen || self.n_learnt >= MOST_LEARNT {
            return Vec::new();
        }
        // Half a file has another stamp when it is whole.
        self.seen = stamp;
        let login = read(&self.path).ok().and_then(|content| Login::parse(&content).ok());
        let Some(login) = login else { return Vec::new() };
        let tokens = login.tokens().filter(|token| looks_like_a_token(token));
        let tokens: Vec<String> = tokens.take(MOST_LEARNT).map(ToOwned::to_owned).collect();
        self.n_learnt += tokens.len();
        tokens
    }
}

/// Other characters could be part of the JSON around a token, which must stay JSON.
fn looks_like_a_token(text: &str) -> bool {
    let is_usual = |byte: u8| byte.is_ascii_alphanumeric() || b"._~+/=-|".contains(&byte);
    text.len() >= SHORTEST_TOKEN && text.bytes().all(is_usual)
}

fn stamp(path: &Path) -> Option<(u64, u64, i64, i64)> {
    let found = fs::symlink_metadata(path).ok()?;
    Some((found.ino(), found.len(), found.mtime(), found.mtime_nsec()))
}

fn directory_in(run_dir: &Path) -> PathBuf {
    run_dir.join("login")
}

fn note(returned: io::Result<Returned>) {
    match returned {
        Ok(Returned::Unchanged) => {}
        Ok(Returned::Refreshed) => {
            tracing::info!("the agent refreshed its login; so is the user's")
        }
        Ok(Returned::HostChanged) => {
            tracing::warn!(
                "the agent refreshed its login, but the user's own has changed and stays"
            );
        }
        Err(error) => tracing::warn!(%error, "a refreshed login could not be given back"),
    }
}

fn give_back(directory: &Path, state: &StateRoot) -> io::Result<Returned> {
    let taken = read(&directory.join("taken.json"))?;
    let host_file = read(&directory.join("host-file"))?;
    let host_file = PathBuf::from(OsString::from_vec(host_file));
    // The agent may have put anything there, or nothing.
    let Ok(inside) = read(&directory.join("inside/auth.json")) else {
        return Ok(Returned::Unchanged);
    };
    let (Ok(login), Ok(inside)) = (Login::parse(&taken), Login::parse(&inside)) else {
        return Ok(Returned::Unchanged);
    };
    let Some(refreshed) = login.refreshed_by(&inside) else { return Ok(Returned::Unchanged) };
    // Runs of ours come one after the other. The user's own agent knows no lock; it is given as little time as can be.
    let _lock = KernelLock::take_waiting(&state.path().join("login.lock"))?;
    let mut beside = host_file.clone().into_os_string();
    beside.push(format!(".caretaker-{}", std::process::id()));
    let beside = PathBuf::from(beside);
    let replaced = write_private(&beside, &refreshed).and_then(|()| {
        if read(&host_file).ok().as_deref() != Some(&taken[..]) {
            return Ok(Returned::HostChanged);
        }
        fs::rename(&beside, &host_file).map(|()| Returned::Refreshed)
    });
    if !matches!(replaced, Ok(Returned::Refreshed)) {
        fs::remove_file(&beside).ok();
    }
    replaced
}

/// Reads a plain file that is no link, no FIFO and not too large.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let flags = nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.len() > LARGEST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut content = Vec::new();
    file.take(LARGEST).read_to_end(&mut content)?;
    Ok(content)
}

fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(content)?;
    file.sync_all()
}

#[cfg(test)]
#[path = "login_copy_tests.rs"]
mod tests;
