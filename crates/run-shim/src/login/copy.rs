//! The run's private copy of the user's login. The shim keeps the copy and the user's file in sync while the agent
//! runs.
//!
//! ```text
//!   <run>/login/   host-file         the path of the user's file
//!                  taken.json        the content when both were last identical
//!                  inside/auth.json  the agent's copy: mounted, written by the agent, not trusted
//!
//!   only the agent's copy changed     the verdict decides: its tokens go straight into the user's file, or are dropped
//!   only the user's file changed      it goes into the agent's copy: the user or another run renewed the login
//!   both changed                      the user's file stays; the agent gets it if it is newer
//! ```
//!
//! Only tokens leave the sandbox, and only into the file that the copy came from. One lock makes all runs take turns.
//! Other programs that write these files use no lock, so the shim leaves them as little time as possible to interfere.

use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cursor_home::{Login, LoginError};
use ground::now_ms;
use run_journal::{JournalWriter, Redaction, RunDirectory, StateRoot};
use run_protocol::{LoginDrop, RunEvent, RunId};
use tokio::sync::mpsc;

use super::files::{self, LARGEST, write_private};
use super::history::{self, LoginHistory};
use super::login_events::LoginEvents;
use super::verdict::{self, Verdict};
use super::watch;

/// The most changes to the user's login by one run. Renewals are rare.
const MOST_CARRIED: u32 = 16;

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

/// A copy on disk. Dropping this removes it.
#[derive(Debug)]
pub(crate) struct LoginCopy {
    directory: PathBuf,
    login: Login,
    exchange: Arc<Mutex<Exchange>>,
}

/// The result of comparing both files.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Exchanged {
    /// Both are unchanged.
    Nothing,
    /// The agent renewed the login, and the user's file now has the new tokens.
    CarriedBack {
        /// The id of the previous login.
        kept: String,
    },
    /// The user's file changed, and the agent's copy now has the same content.
    HandedIn,
    /// The agent changed its copy, and the user's file stays.
    Dropped { reason: LoginDrop, content: Vec<u8> },
}

impl Exchanged {
    fn dropped(reason: LoginDrop, inside: Option<Vec<u8>>) -> Self {
        // An unreadable file has no content, so use the reason instead.
        let content = inside.unwrap_or_else(|| format!("{reason:?}").into_bytes());
        Self::Dropped { reason, content }
    }
}

/// When the shim checks the agent's copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// The agent may be writing. A half-written file is fine, because the shim also notices when the agent finishes
    /// writing.
    AnyTime,
    /// The agent has just closed its file, or is gone.
    Settled,
}

impl LoginCopy {
    /// The run's directory that the sandbox mounts where the agent looks for its login.
    pub(crate) fn mounted_in(run_dir: &Path) -> PathBuf {
        directory_in(run_dir).join("inside")
    }

    pub(crate) fn make(
        state: &StateRoot,
        run: RunId,
        host_file: &Path,
    ) -> Result<Self, LoginCopyError> {
        let path = || host_file.to_owned();
        let unread = |source| LoginCopyError::Read { path: path(), source };
        // The user's file may be a link. The shim later replaces the file that the link points to.
        let physical = fs::canonicalize(host_file).map_err(unread)?;
        let content = files::read(&physical, LARGEST).map_err(unread)?;
        let login = Login::parse(&content)
            .map_err(|source| LoginCopyError::Unusable { path: path(), source })?;
        let directory = directory_in(&state.run_dir(&run));
        let exchange = Arc::new(Mutex::new(Exchange::new(state, run)));
        let copy = Self { directory, login, exchange };
        copy.write(&physical, &content)
            .map_err(|source| LoginCopyError::Copy { path: copy.directory.clone(), source })?;
        Ok(copy)
    }

    /// Returns the secret values of the user's own login file, for a run without a sandbox.
    pub(crate) fn read_tokens(host_file: &Path) -> Option<Vec<String>> {
        let content = files::read(&fs::canonicalize(host_file).ok()?, LARGEST).ok()?;
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

    /// Returns the secret values of the login.
    pub(crate) fn tokens(&self) -> impl Iterator<Item = &str> {
        self.login.tokens()
    }

    /// Returns a watch for new tokens in the agent's copy.
    pub(crate) fn watch(&self) -> LoginWatch {
        let path = self.directory.join("inside/auth.json");
        LoginWatch { seen: stamp(&path), path, n_learnt: 0 }
    }

    /// Keeps both files in sync until the copy is gone, and sends events about it.
    pub(crate) fn keep_the_same(&self, events: mpsc::Sender<RunEvent>) {
        watch::start(Arc::clone(&self.exchange), events);
    }

    /// Compares the files for the last time, and returns the unsent events. The agent must be gone.
    pub(crate) fn give_back(self) -> Vec<RunEvent> {
        let mut exchange = lock(&self.exchange);
        let mut events = exchange.look(Look::Settled);
        events.extend(exchange.rest());
        events
    }

    /// Like [`Self::give_back`], but for a run whose shim died. Writes the events to that run's journal.
    pub(crate) fn recover(run: RunId, state: &StateRoot) {
        let directory = directory_in(&state.run_dir(&run));
        if !directory.is_dir() {
            return;
        }
        let events = Exchange::new(state, run).look(Look::Settled);
        if let Err(error) = append(state, run, &events) {
            tracing::warn!(%run, ?events, error, "cannot continue the journal of a dead run");
        }
        fs::remove_dir_all(&directory).ok();
    }
}

/// Adds events to the journal of a run that died.
fn append(state: &StateRoot, run: RunId, events: &[RunEvent]) -> Result<(), String> {
    if events.is_empty() {
        return Ok(());
    }
    let directory = RunDirectory::open(state, run).map_err(|error| error.to_string())?;
    let run_lock = directory.lock().map_err(|error| error.to_string())?;
    let mut writer =
        JournalWriter::open(&directory, &run_lock).map_err(|error| error.to_string())?;
    for event in events {
        writer.event(now_ms(), event, Redaction::Untouched);
    }
    writer.flush().map_err(|error| error.to_string())?;
    writer.sync_now().map_err(|error| error.to_string())
}

impl Drop for LoginCopy {
    fn drop(&mut self) {
        // The other thread must not use the directory while this code removes it.
        let _exchange = lock(&self.exchange);
        if let Err(error) = fs::remove_dir_all(&self.directory) {
            tracing::warn!(%error, "the private copy of the login could not be removed");
        }
    }
}

pub(super) fn lock(exchange: &Mutex<Exchange>) -> MutexGuard<'_, Exchange> {
    exchange.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The most tokens to learn. Renewals are rare, so more tokens than this cannot be real.
const MOST_LEARNT: usize = 64;
/// Real tokens are longer. A shorter text may be an ordinary word that the journal must not lose.
const SHORTEST_TOKEN: usize = 20;

/// Learns new tokens from the agent's copy of the login. The agent may write anything into it, so these tokens have one
/// effect only: the journal does not show them.
#[derive(Debug)]
pub(crate) struct LoginWatch {
    path: PathBuf,
    seen: Option<(u64, u64, i64, i64)>,
    n_learnt: usize,
}

impl LoginWatch {
    /// Returns the tokens in the copy, if the agent wrote it since the last call.
    pub(crate) fn new_tokens(&mut self) -> Vec<String> {
        let stamp = stamp(&self.path);
        if stamp == self.seen || self.n_learnt >= MOST_LEARNT {
            return Vec::new();
        }
        // If the agent is still writing, the finished file will have a different stamp.
        self.seen = stamp;
        let login =
            files::read(&self.path, LARGEST).ok().and_then(|content| Login::parse(&content).ok());
        let Some(login) = login else { return Vec::new() };
        let tokens = login.tokens().filter(|token| looks_like_a_token(token));
        let tokens: Vec<String> = tokens.take(MOST_LEARNT).map(ToOwned::to_owned).collect();
        self.n_learnt += tokens.len();
        tokens
    }
}

/// Other characters could belong to the JSON around a token, and replacing them would break the JSON.
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

/// The two files of one run, and the events about them.
#[derive(Debug)]
pub(super) struct Exchange {
    directory: PathBuf,
    state: StateRoot,
    run: RunId,
    events: LoginEvents,
    /// Events that did not fit into the channel.
    unsent: Vec<RunEvent>,
    n_carried: u32,
}

impl Exchange {
    fn new(state: &StateRoot, run: RunId) -> Self {
        Self {
            directory: directory_in(&state.run_dir(&run)),
            state: state.clone(),
            run,
            events: LoginEvents::default(),
            unsent: Vec::new(),
            n_carried: 0,
        }
    }

    /// The run's directory for the copy. It is gone after the run.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The user's file.
    pub(super) fn host_file(&self) -> io::Result<PathBuf> {
        let name = files::read(&self.directory.join("host-file"), LARGEST)?;
        Ok(PathBuf::from(OsString::from_vec(name)))
    }

    /// Syncs both files if that is allowed, and returns the events about it.
    pub(super) fn look(&mut self, look: Look) -> Vec<RunEvent> {
        let exchanged = match self.exchange(look) {
            Ok(exchanged) => exchanged,
            Err(error) => {
                tracing::warn!(%error, "could not compare the logins");
                return Vec::new();
            }
        };
        match &exchanged {
            Exchanged::Nothing => {}
            Exchanged::CarriedBack { .. } => {
                tracing::info!("the agent renewed its login; the user's file has the new tokens");
            }
            Exchanged::HandedIn => tracing::info!("the user's login changed; the agent got it too"),
            Exchanged::Dropped { reason, .. } => {
                tracing::warn!(?reason, "the agent changed its login; the user's login stays");
            }
        }
        self.events.event_of(&exchanged).into_iter().collect()
    }

    /// Sends events, or holds them until the end.
    pub(super) fn send(&mut self, events: Vec<RunEvent>, to: &mpsc::Sender<RunEvent>) {
        for event in events {
            if let Err(error) = to.try_send(event) {
                self.unsent.push(error.into_inner());
            }
        }
    }

    fn rest(&mut self) -> Vec<RunEvent> {
        let mut rest = std::mem::take(&mut self.unsent);
        rest.extend(self.events.rest());
        rest
    }

    fn exchange(&mut self, look: Look) -> io::Result<Exchanged> {
        let _lock = history::lock(&self.state)?;
        let host_file = self.host_file()?;
        files::remove_left_overs(&host_file);
        let taken = files::read(&self.taken_file(), LARGEST)?;
        let Ok(own) = Login::parse(&taken) else { return Ok(Exchanged::Nothing) };
        // A user who logged out stays logged out, and a running agent keeps its login.
        let host = files::read(&host_file, LARGEST).ok();
        let (verdict, inside) = self.judge(&own, &host_file);
        if host.as_deref() != Some(&taken[..]) {
            return self.hand_in(&host_file, host, &taken, verdict, inside);
        }
        let dropped = match verdict {
            Verdict::Nothing => return Ok(Exchanged::Nothing),
            Verdict::Drop(LoginDrop::Malformed) if look == Look::AnyTime => {
                return Ok(Exchanged::Nothing);
            }
            Verdict::Drop(reason) => reason,
            Verdict::Carry(_) if self.n_carried >= MOST_CARRIED => LoginDrop::TooMany,
            Verdict::Carry(renewed) => match self.carry(&host_file, &taken, &renewed) {
                Ok(Some(kept)) => return Ok(Exchanged::CarriedBack { kept }),
                Ok(None) => LoginDrop::HostChanged,
                Err(error) => {
                    tracing::warn!(%error, "the renewed login could not be written");
                    LoginDrop::NotWritten
                }
            },
        };
        Ok(Exchanged::dropped(dropped, inside))
    }

    /// The user's file changed and stays. The agent gets it, unless the agent changed its own copy later.
    fn hand_in(
        &self,
        host_file: &Path,
        host: Option<Vec<u8>>,
        taken: &[u8],
        verdict: Verdict,
        inside: Option<Vec<u8>>,
    ) -> io::Result<Exchanged> {
        let inside_file = self.inside_file();
        let is_agents_other = match verdict {
            Verdict::Nothing => false,
            // The user's login serves the agent better than a broken one.
            Verdict::Drop(LoginDrop::Malformed | LoginDrop::Oversized) => false,
            Verdict::Drop(_) | Verdict::Carry(_) => true,
        };
        let newer = host.filter(|host| Login::parse(host).is_ok());
        if let (Some(newer), Some(inside)) = (newer, &inside)
            && !(is_agents_other && is_later(&inside_file, host_file))
        {
            // If the agent writes at this moment, the next check finds the new content.
            if !replace(&inside_file, &newer, inside)? {
                return Ok(Exchanged::Nothing);
            }
            replace(&self.taken_file(), &newer, taken)?;
            if !is_agents_other {
                return Ok(Exchanged::HandedIn);
            }
        }
        Ok(match is_agents_other {
            true => Exchanged::dropped(LoginDrop::HostChanged, inside),
            false => Exchanged::Nothing,
        })
    }

    fn taken_file(&self) -> PathBuf {
        self.directory.join("taken.json")
    }

    fn inside_file(&self) -> PathBuf {
        self.directory.join("inside/auth.json")
    }

    /// Returns the verdict about the agent's copy, and its content if it is readable.
    fn judge(&self, own: &Login, host_file: &Path) -> (Verdict, Option<Vec<u8>>) {
        let inside = match files::read(&self.inside_file(), LARGEST) {
            Ok(inside) => inside,
            // An agent that logs out does not log the user out.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return (Verdict::Nothing, None);
            }
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                return (Verdict::Drop(LoginDrop::Oversized), None);
            }
            Err(_) => return (Verdict::Drop(LoginDrop::Malformed), None),
        };
        let history = LoginHistory::read(&self.state);
        let was_before =
            |token: &str| history.as_ref().is_ok_and(|history| history.has_token(host_file, token));
        let verdict = verdict::judge(own, &inside, was_before, now_ms() / 1000);
        (verdict, Some(inside))
    }

    /// Saves the user's login, and replaces it with the renewed one. Returns `None` if the user's file has changed.
    fn carry(
        &mut self,
        host_file: &Path,
        taken: &[u8],
        renewed: &[u8],
    ) -> io::Result<Option<String>> {
        let before = LoginHistory::read(&self.state)?;
        let mut history = before.clone();
        let kept = history.keep(host_file, taken, Some(self.run));
        history.note_carried(host_file, renewed);
        history.write(&self.state)?;
        match replace(host_file, renewed, taken) {
            Ok(true) => {}
            not_replaced => {
                before.write(&self.state)?;
                return not_replaced.map(|_| None);
            }
        }
        self.n_carried += 1;
        if let Err(error) = replace(&self.taken_file(), renewed, taken) {
            tracing::warn!(%error, "could not record the renewed login in the copy");
        }
        Ok(Some(kept))
    }
}

/// Replaces a file, unless its content is no longer `was`.
fn replace(file: &Path, content: &[u8], was: &[u8]) -> io::Result<bool> {
    files::replace(file, content, || files::read(file, LARGEST).ok().as_deref() == Some(was))
}

fn is_later(one: &Path, other: &Path) -> bool {
    let changed = |path: &Path| fs::symlink_metadata(path).and_then(|found| found.modified()).ok();
    changed(one) > changed(other)
}

#[cfg(test)]
#[path = "copy_tests.rs"]
mod tests;
