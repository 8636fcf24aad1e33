//! The run's private copy of the user's login, kept the same as the user's own while both live.
//!
//! ```text
//!   <run>/login/   host-file         where the login comes from
//!                  taken.json        what it was when the two were the same last
//!                  inside/auth.json  the agent's own: mounted, written by it, not to be believed
//!
//!   the agent's changed, the user's did not     its tokens go into the user's file, at once
//!   the user's changed, the agent's did not     it goes into the agent's copy: another run refreshed it, or the user did
//!   both did                                    the user's stays; the agent gets it if it is the later one
//! ```
//!
//! Only tokens get out, and only into the very file that was taken: whoever changed it in between knows better. All our
//! runs take turns by one lock; whoever else writes these files knows no lock, and is given as little time as can be.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use cursor_home::{Login, LoginError};
use run_journal::{KernelLock, StateRoot};

use crate::login_watch;

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

/// What a look at both files came to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Exchanged {
    /// Both are as they were, or the agent left nothing that could be believed.
    Nothing,
    /// The agent refreshed it, and the user has that now.
    Refreshed,
    /// The user's is another, and the agent has that now.
    HandedIn,
    /// Both changed; the user's stays, and the agent's too if it is the later one.
    Conflict,
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

    /// The secret values of a login that is used where it is.
    pub(crate) fn read_tokens(host_file: &Path) -> Option<Vec<String>> {
        let content = read(&fs::canonicalize(host_file).ok()?).ok()?;
        let login = Login::parse(&content).ok()?;
        Some(login.tokens().map(ToOwned::to_owned).collect())
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
        note(&exchange(&self.directory, state));
    }

    /// Keeps both the same until the copy is gone.
    pub(crate) fn keep_the_same(&self, state: &StateRoot) {
        login_watch::start(self.directory.clone(), state.clone());
    }

    /// Does the same for a run that died with its copy.
    pub(crate) fn recover(run_dir: &Path, state: &StateRoot) {
        let directory = directory_in(run_dir);
        if directory.is_dir() {
            note(&exchange(&directory, state));
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

pub(crate) fn note(exchanged: &io::Result<Exchanged>) {
    match exchanged {
        Ok(Exchanged::Nothing) => {}
        Ok(Exchanged::Refreshed) => {
            tracing::info!("the agent refreshed its login; so is the user's");
        }
        Ok(Exchanged::HandedIn) => tracing::info!("the user's login changed; so is the agent's"),
        Ok(Exchanged::Conflict) => {
            tracing::warn!(
                "the agent refreshed its login, but the user's own has changed and stays"
            );
        }
        Err(error) => tracing::warn!(%error, "the login could not be kept the same"),
    }
}

/// The user's file that a copy was taken from.
pub(crate) fn host_file_of(directory: &Path) -> io::Result<PathBuf> {
    Ok(PathBuf::from(OsString::from_vec(read(&directory.join("host-file"))?)))
}

/// Makes both the same again, where only one changed.
pub(crate) fn exchange(directory: &Path, state: &StateRoot) -> io::Result<Exchanged> {
    let _lock = KernelLock::take_waiting(&state.path().join("login.lock"))?;
    let (taken_file, inside_file) =
        (directory.join("taken.json"), directory.join("inside/auth.json"));
    let host_file = host_file_of(directory)?;
    remove_left_overs(&host_file);
    let taken = read(&taken_file)?;
    let Ok(login) = Login::parse(&taken) else { return Ok(Exchanged::Nothing) };
    // Who logged out stays logged out, and a run that is under way keeps what it has.
    let host = read(&host_file).ok();
    // The agent may have put anything there, or nothing.
    let inside = read(&inside_file).ok();
    let inside_login = inside.as_deref().and_then(|inside| Login::parse(inside).ok());
    let refreshed = inside_login.as_ref().and_then(|inside| login.refreshed_by(inside));
    let has_host_changed = host.as_deref() != Some(&taken[..]);
    match (refreshed, has_host_changed) {
        (None, false) => Ok(Exchanged::Nothing),
        (Some(refreshed), false) => {
            if !replace(&host_file, &refreshed, &taken)? {
                return Ok(Exchanged::Conflict);
            }
            replace(&taken_file, &refreshed, &taken)?;
            Ok(Exchanged::Refreshed)
        }
        (refreshed, true) => {
            let newer = host.filter(|host| Login::parse(host).is_ok());
            let (Some(newer), Some(inside)) = (newer, inside) else {
                return Ok(match refreshed {
                    Some(_) => Exchanged::Conflict,
                    None => Exchanged::Nothing,
                });
            };
            let is_conflict = refreshed.is_some();
            if is_conflict && is_later(&inside_file, &host_file) {
                return Ok(Exchanged::Conflict);
            }
            // If the agent writes just now, the next look finds what it wrote.
            if !replace(&inside_file, &newer, &inside)? {
                return Ok(Exchanged::Nothing);
            }
            replace(&taken_file, &newer, &taken)?;
            Ok(if is_conflict { Exchanged::Conflict } else { Exchanged::HandedIn })
        }
    }
}

fn is_later(one: &Path, other: &Path) -> bool {
    let changed = |path: &Path| fs::symlink_metadata(path).and_then(|found| found.modified()).ok();
    changed(one) > changed(other)
}

/// Removes what somebody who was killed in the middle of [`replace`] left beside a file. The lock must be held.
fn remove_left_overs(file: &Path) {
    let (Some(directory), Some(name)) = (file.parent(), file.file_name()) else { return };
    let Some(beginning) = name.to_str().map(|name| format!("{name}{BESIDE}")) else { return };
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(|name| name.starts_with(&beginning)) {
            fs::remove_file(entry.path()).ok();
        }
    }
}

/// Stands between the name of a file and something that cannot be guessed, while it is written.
const BESIDE: &str = ".caretaker-";

/// Puts new content in the place of a file, unless the file is no longer what it was.
fn replace(file: &Path, content: &[u8], was: &[u8]) -> io::Result<bool> {
    let mut beside = file.to_owned().into_os_string();
    // Not to be guessed: the agent can write beside its own copy.
    beside.push(format!("{BESIDE}{}", uuid::Uuid::new_v4()));
    let beside = PathBuf::from(beside);
    let replaced = write_private(&beside, content).and_then(|()| {
        if read(file).ok().as_deref() != Some(was) {
            return Ok(false);
        }
        fs::rename(&beside, file).map(|()| true)
    });
    if !matches!(replaced, Ok(true)) {
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
