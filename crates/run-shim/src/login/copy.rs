//! The run's private copy of the user's login, kept the same as the user's own while both live.
//!
//! ```text
//!   <run>/login/   host-file         where the login comes from
//!                  taken.json        what it was when the two were the same last
//!                  inside/auth.json  the agent's own: mounted, written by the agent, not to be believed
//!
//!   the agent's changed, the user's did not     judged: its tokens go into the user's file at once, or are dropped
//!   the user's changed, the agent's did not     it goes into the agent's copy: another run renewed it, or the user did
//!   both did                                    the user's stays; the agent gets it if it is the later one
//! ```
//!
//! Only tokens get out, and only into the very file that was taken. All our runs take turns by one lock; other programs that
//! write these files know no lock, and are given as little time as possible to come in between.

use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cursor_home::{Login, LoginError};
use ground::now_ms;
use run_journal::{JournalWriter, RunDirectory, StateRoot};
use run_protocol::{LoginDrop, RunEvent, RunId};
use tokio::sync::mpsc;

use super::files::{self, LARGEST, write_private};
use super::kept::{self, Shelf};
use super::tidings::Tidings;
use super::verdict::{self, Verdict};
use super::watch;

/// How often one run may change the user's login. Renewals are far apart.
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

/// A copy on disk. It is gone when this is dropped.
#[derive(Debug)]
pub(crate) struct LoginCopy {
    directory: PathBuf,
    login: Login,
    exchange: Arc<Mutex<Exchange>>,
}

/// What a look at both files came to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Exchanged {
    /// Both are as they were.
    Nothing,
    /// The agent renewed the login, and the user has that now.
    CarriedBack {
        /// The id of the login before.
        kept: String,
    },
    /// The user's is another, and the agent has that now.
    HandedIn,
    /// The agent changed its copy, and the user's stays.
    Dropped { reason: LoginDrop, content: Vec<u8> },
}

impl Exchanged {
    fn dropped(reason: LoginDrop, inside: Option<Vec<u8>>) -> Self {
        // Of a file that cannot be read, the reason is all there is.
        let content = inside.unwrap_or_else(|| format!("{reason:?}").into_bytes());
        Self::Dropped { reason, content }
    }
}

/// Whether the agent may be in the middle of writing its copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// It may: half a file is no reason to complain, because the end of the writing is seen too.
    AnyTime,
    /// The agent has just closed its file, or is gone.
    Settled,
}

impl LoginCopy {
    /// The directory of a run that is mounted where the agent looks for its login.
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
        // A link of the user's own is theirs to follow, and what it leads to is what is replaced later.
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

    /// The secret values of a login that is used where it is.
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

    /// The secret values in it.
    pub(crate) fn tokens(&self) -> impl Iterator<Item = &str> {
        self.login.tokens()
    }

    /// Sees what the agent puts into its copy.
    pub(crate) fn watch(&self) -> LoginWatch {
        let path = self.directory.join("inside/auth.json");
        LoginWatch { seen: stamp(&path), path, n_learnt: 0 }
    }

    /// Keeps both the same until the copy is gone, and tells of it.
    pub(crate) fn keep_the_same(&self, events: mpsc::Sender<RunEvent>) {
        watch::start(Arc::clone(&self.exchange), events);
    }

    /// Looks for the last time, and returns what the journal was not told yet. The agent must be gone.
    pub(crate) fn give_back(self) -> Vec<RunEvent> {
        let mut exchange = lock(&self.exchange);
        let mut events = exchange.look(Look::Settled);
        events.extend(exchange.rest());
        events
    }

    /// Does the same for a run that died with its copy, whose journal is told.
    pub(crate) fn recover(run: RunId, state: &StateRoot) {
        let directory = directory_in(&state.run_dir(&run));
        if !directory.is_dir() {
            return;
        }
        let events = Exchange::new(state, run).look(Look::Settled);
        if let Err(error) = append(state, run, &events) {
            tracing::warn!(%run, ?events, error, "the journal of a dead run cannot be continued");
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
        writer.event(now_ms(), event);
    }
    writer.flush().map_err(|error| error.to_string())?;
    writer.sync_now().map_err(|error| error.to_string())
}

impl Drop for LoginCopy {
    fn drop(&mut self) {
        // Not while the other thread looks: it would find half of it.
        let _exchange = lock(&self.exchange);
        if let Err(error) = fs::remove_dir_all(&self.directory) {
            tracing::warn!(%error, "the private copy of the login could not be removed");
        }
    }
}

pub(super) fn lock(exchange: &Mutex<Exchange>) -> MutexGuard<'_, Exchange> {
    exchange.lock().unwrap_or_else(PoisonError::into_inner)
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
        let login =
            files::read(&self.path, LARGEST).ok().and_then(|content| Login::parse(&content).ok());
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

/// The two files of one run, and what was said of them.
#[derive(Debug)]
pub(super) struct Exchange {
    directory: PathBuf,
    state: StateRoot,
    run: RunId,
    tidings: Tidings,
    /// Events that could not be passed on.
    unsent: Vec<RunEvent>,
    n_carried: u32,
}

impl Exchange {
    fn new(state: &StateRoot, run: RunId) -> Self {
        Self {
            directory: directory_in(&state.run_dir(&run)),
            state: state.clone(),
            run,
            tidings: Tidings::default(),
            unsent: Vec::new(),
            n_carried: 0,
        }
    }

    /// The run's own part: it is gone when the run is.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The user's file that the copy was taken from.
    pub(super) fn host_file(&self) -> io::Result<PathBuf> {
        let name = files::read(&self.directory.join("host-file"), LARGEST)?;
        Ok(PathBuf::from(OsString::from_vec(name)))
    }

    /// Makes both the same again where that may be, and says what came of it.
    pub(super) fn look(&mut self, look: Look) -> Vec<RunEvent> {
        let exchanged = match self.exchange(look) {
            Ok(exchanged) => exchanged,
            Err(error) => {
                tracing::warn!(%error, "the login could not be kept the same");
                return Vec::new();
            }
        };
        match &exchanged {
            Exchanged::Nothing => {}
            Exchanged::CarriedBack { .. } => {
                tracing::info!("the agent renewed its login; the user's file has the new tokens");
            }
            Exchanged::HandedIn => tracing::info!("the user's login changed; the agent has it too"),
            Exchanged::Dropped { reason, .. } => {
                tracing::warn!(?reason, "the agent changed its login; the user's stays");
            }
        }
        self.tidings.event_of(&exchanged).into_iter().collect()
    }

    /// Passes events on, or holds them for the end.
    pub(super) fn tell(&mut self, events: Vec<RunEvent>, to: &mpsc::Sender<RunEvent>) {
        for event in events {
            if let Err(error) = to.try_send(event) {
                self.unsent.push(error.into_inner());
            }
        }
    }

    fn rest(&mut self) -> Vec<RunEvent> {
        let mut rest = std::mem::take(&mut self.unsent);
        rest.extend(self.tidings.rest());
        rest
    }

    fn exchange(&mut self, look: Look) -> io::Result<Exchanged> {
        let _lock = kept::lock(&self.state)?;
        let host_file = self.host_file()?;
        files::remove_left_overs(&host_file);
        let taken = files::read(&self.taken_file(), LARGEST)?;
        let Ok(own) = Login::parse(&taken) else { return Ok(Exchanged::Nothing) };
        // A user who logged out stays logged out, and a run that is under way keeps what it has.
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

    /// The user's file changed. It stays, and the agent gets it unless its own is another and later.
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
            // The agent is better off with the user's.
            Verdict::Drop(LoginDrop::Malformed | LoginDrop::Oversized) => false,
            Verdict::Drop(_) | Verdict::Carry(_) => true,
        };
        let newer = host.filter(|host| Login::parse(host).is_ok());
        if let (Some(newer), Some(inside)) = (newer, &inside)
            && !(is_agents_other && is_later(&inside_file, host_file))
        {
            // If the agent writes just now, the next look finds what it wrote.
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

    /// What is to be done with the agent's copy, and what is in it where that can be read.
    fn judge(&self, own: &Login, host_file: &Path) -> (Verdict, Option<Vec<u8>>) {
        let inside = match files::read(&self.inside_file(), LARGEST) {
            Ok(inside) => inside,
            // An agent that logs out does so for itself.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return (Verdict::Nothing, None);
            }
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                return (Verdict::Drop(LoginDrop::Oversized), None);
            }
            Err(_) => return (Verdict::Drop(LoginDrop::Malformed), None),
        };
        let shelf = Shelf::read(&self.state);
        let was_before =
            |token: &str| shelf.as_ref().is_ok_and(|shelf| shelf.has_token(host_file, token));
        let verdict = verdict::judge(own, &inside, was_before, now_ms() / 1000);
        (verdict, Some(inside))
    }

    /// Keeps the user's login and puts the renewed one in its place; `None` if the user's file is another by then.
    fn carry(
        &mut self,
        host_file: &Path,
        taken: &[u8],
        renewed: &[u8],
    ) -> io::Result<Option<String>> {
        let before = Shelf::read(&self.state)?;
        let mut shelf = before.clone();
        let kept = shelf.keep(host_file, taken, Some(self.run));
        shelf.note_carried(host_file, renewed);
        shelf.write(&self.state)?;
        match replace(host_file, renewed, taken) {
            Ok(true) => {}
            not_replaced => {
                before.write(&self.state)?;
                return not_replaced.map(|_| None);
            }
        }
        self.n_carried += 1;
        if let Err(error) = replace(&self.taken_file(), renewed, taken) {
            tracing::warn!(%error, "the copy does not know the renewed login");
        }
        Ok(Some(kept))
    }
}

/// Puts new content in the place of a file, unless the file is no longer what it was.
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
