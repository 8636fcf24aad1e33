//! The inbox of a session: what its agent asks, what others write to it, and what of that it has. One file, one JSON
//! object a line, only ever appended to.
//!
//! ```text
//!   inbox/<session>.jsonl   asked · posted · offered (a run has it, and may have passed it on) · delivered (it has)
//! ```
//!
//! A message is offered by a run before the agent can see it, and delivered when the agent's own output shows that it did.
//! What was offered by a run that died in between is offered again; what is delivered never is.
//!
//! **Invariant:** only the holder of the lock on the file appends, and removes nothing but a last line without its line
//! feed. What was appended is durable before anybody is told of it.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ground::now_ms;
use ground::plain_file;
use run_protocol::{Correspondent, HandOver, InboxEntry, Message, Question, RunId};
use uuid::Uuid;

use crate::{Correspondence, KernelLock, RunDirectory, StateRoot};

/// More than a year of lively correspondence.
const MOST_BYTES: u64 = 8 * 1024 * 1024;
/// What is kept free for the lines that say what became of messages.
const ROOM_FOR_DELIVERY: u64 = 2 * 1024 * 1024;
/// What waits for one agent at most.
const MOST_WAITING: usize = 256;
/// Whoever holds the lock writes a few lines; on a busy disk, after a few others.
const LOCK_PATIENCE: Duration = Duration::from_secs(30);
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// The inbox of one session; it need not exist.
#[derive(Debug, Clone)]
pub struct Inbox {
    state: StateRoot,
    session: Uuid,
    path: PathBuf,
}

/// Says why an inbox was not changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InboxError {
    #[error("the inbox of the session is full")]
    Full,
    #[error("{0} questions wait for an answer already")]
    TooManyQuestions(usize),
    #[error("there is no question `{0}`")]
    NoSuchQuestion(String),
    #[error("the question `{0}` is answered already")]
    Answered(String),
    #[error("somebody else holds the inbox `{path}`")]
    Busy { path: PathBuf },
    #[error("the inbox `{path}` cannot be used")]
    Io { path: PathBuf, source: io::Error },
}

impl Inbox {
    pub fn of(state: &StateRoot, session: Uuid) -> Self {
        let path = state.inboxes().join(format!("{session}.jsonl"));
        Self { state: state.clone(), session, path }
    }

    pub fn session(&self) -> Uuid {
        self.session
    }

    /// Every session that has an inbox.
    pub fn all(state: &StateRoot) -> io::Result<Vec<Self>> {
        let entries = match fs::read_dir(state.inboxes()) {
            Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let sessions = entries.flatten().filter_map(|entry| session_of(&entry.file_name()));
        Ok(sessions.map(|session| Self::of(state, session)).collect())
    }

    /// What is in it now. Needs no lock; a line that is being written is not there yet.
    pub fn read(&self) -> Result<Correspondence, InboxError> {
        match plain_file::read_at_most(&self.path, MOST_BYTES * 2) {
            Ok(text) => Ok(Correspondence::parse(&text)),
            Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(Correspondence::default()),
            Err(source) => Err(self.unusable(source)),
        }
    }

    /// Puts a question to people, unless `most_open` wait already.
    pub fn ask(&self, question: Question, most_open: usize) -> Result<(), InboxError> {
        self.change(|known| {
            match known.open_questions().count() {
                n_open if n_open >= most_open => return Err(InboxError::TooManyQuestions(n_open)),
                _ => {}
            }
            Ok(vec![InboxEntry::Asked(question)])
        })
    }

    /// Leaves a message. `false`: it was there already.
    pub fn post(&self, message: Message) -> Result<bool, InboxError> {
        let mut is_new = false;
        self.change(|known| {
            if known.message(&message.id).is_some() {
                return Ok(Vec::new());
            }
            if known.undelivered().count() >= MOST_WAITING {
                return Err(InboxError::Full);
            }
            is_new = true;
            Ok(vec![InboxEntry::Posted(message)])
        })?;
        Ok(is_new)
    }

    /// Answers a question, once.
    pub fn answer(&self, question: &str, text: String) -> Result<Message, InboxError> {
        let message = Message {
            id: Uuid::new_v4().to_string(),
            at: now_ms(),
            from: Correspondent::Person,
            text,
            answers: Some(question.to_owned()),
        };
        self.change(|known| {
            if known.question(question).is_none() {
                return Err(InboxError::NoSuchQuestion(question.to_owned()));
            }
            if known.answer_to(question).is_some() {
                return Err(InboxError::Answered(question.to_owned()));
            }
            Ok(vec![InboxEntry::Posted(message.clone())])
        })?;
        Ok(message)
    }

    /// Takes what waits, for a run to pass on: at most so many messages and about so many bytes of them, one at least.
    /// What another run took and is still about to pass on is left to it.
    pub fn offer(
        &self,
        run: RunId,
        by: HandOver,
        most_messages: usize,
        most_bytes: usize,
    ) -> Result<Vec<Message>, InboxError> {
        let mut taken: Vec<Message> = Vec::new();
        // Nearly always there is nothing, and that needs no lock.
        if self.read()?.undelivered().next().is_none() {
            return Ok(taken);
        }
        self.change(|known| {
            let mut n_bytes = 0;
            for message in known.waiting(run, |other| self.is_over(other)).take(most_messages) {
                n_bytes += message.text.len();
                if n_bytes > most_bytes && !taken.is_empty() {
                    break;
                }
                taken.push(message.clone());
            }
            Ok(offered(run, by, taken.iter().map(|message| message.id.clone()).collect()))
        })?;
        Ok(taken)
    }

    /// Takes exactly these messages for a run whose prompt they are. `None`: one of them is not to be delivered any more.
    pub fn offer_as_turn(
        &self,
        run: RunId,
        messages: &[String],
    ) -> Result<Option<Vec<Message>>, InboxError> {
        let mut taken = None;
        self.change(|known| {
            let waiting: Vec<&Message> = known.waiting(run, |other| self.is_over(other)).collect();
            let find =
                |id: &String| waiting.iter().find(|message| message.id == *id).copied().cloned();
            taken = messages.iter().map(find).collect::<Option<Vec<Message>>>();
            Ok(match taken {
                Some(_) => offered(run, HandOver::Turn, messages.to_vec()),
                None => Vec::new(),
            })
        })?;
        Ok(taken)
    }

    /// Says that the agent has these messages. What was said before is not said again.
    pub fn confirm(
        &self,
        run: RunId,
        by: HandOver,
        messages: &[String],
    ) -> Result<Vec<Message>, InboxError> {
        let mut delivered = Vec::new();
        self.change(|known| {
            let fresh = known.undelivered().filter(|message| messages.contains(&message.id));
            delivered = fresh.cloned().collect();
            let messages: Vec<String> =
                delivered.iter().map(|message| message.id.clone()).collect();
            Ok(match messages.is_empty() {
                true => Vec::new(),
                false => vec![InboxEntry::Delivered { at: now_ms(), run, by, messages }],
            })
        })?;
        Ok(delivered)
    }

    fn is_over(&self, run: RunId) -> bool {
        RunDirectory::open(&self.state, run).map_or(true, |directory| !directory.is_live())
    }

    fn unusable(&self, source: io::Error) -> InboxError {
        InboxError::Io { path: self.path.clone(), source }
    }

    /// Decides under the lock on what is there, and appends what was decided.
    fn change(
        &self,
        decide: impl FnOnce(&Correspondence) -> Result<Vec<InboxEntry>, InboxError>,
    ) -> Result<(), InboxError> {
        let directory = self.state.inboxes();
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&directory);
        made.map_err(|source| self.unusable(source))?;
        let is_new = !self.path.exists();
        let lock = self.lock()?;
        let text = plain_file::read_at_most(&self.path, MOST_BYTES * 2)
            .map_err(|source| self.unusable(source))?;
        let entries = decide(&Correspondence::parse(&text))?;
        if entries.is_empty() {
            return Ok(());
        }
        self.append(&text, &entries)?;
        if is_new {
            File::open(&directory)
                .and_then(|directory| directory.sync_all())
                .map_err(|source| self.unusable(source))?;
        }
        drop(lock);
        Ok(())
    }

    fn append(&self, known: &[u8], entries: &[InboxEntry]) -> Result<(), InboxError> {
        let whole = memchr::memrchr(b'\n', known).map_or(0, |end| end as u64 + 1);
        let mut lines = Vec::new();
        for entry in entries {
            serde_json::to_writer(&mut lines, entry).map_err(|err| self.unusable(err.into()))?;
            lines.push(b'\n');
        }
        let is_correspondence =
            entries.iter().any(|it| matches!(it, InboxEntry::Asked(_) | InboxEntry::Posted(_)));
        let reserve = if is_correspondence { ROOM_FOR_DELIVERY } else { 0 };
        if whole + lines.len() as u64 + reserve > MOST_BYTES {
            return Err(InboxError::Full);
        }
        self.write(whole, known.len() as u64, &lines).map_err(|source| self.unusable(source))
    }

    fn write(&self, at: u64, length: u64, lines: &[u8]) -> io::Result<()> {
        let mut file = plain_file::open_writable(&self.path)?;
        if length > at {
            // Whoever began this line died over it.
            file.set_len(at)?;
        }
        let written = file.write_all_at(lines, at).and_then(|()| file.flush());
        if let Err(err) = written.and_then(|()| file.sync_data()) {
            // A part of it may be there; what was not promised is not kept.
            file.set_len(at).ok();
            return Err(err);
        }
        Ok(())
    }

    fn lock(&self) -> Result<KernelLock, InboxError> {
        let deadline = Instant::now() + LOCK_PATIENCE;
        loop {
            match KernelLock::try_take(&self.path) {
                Ok(Some(lock)) => return Ok(lock),
                Ok(None) if Instant::now() < deadline => std::thread::sleep(LOOK_AGAIN),
                Ok(None) => return Err(InboxError::Busy { path: self.path.clone() }),
                Err(source) => return Err(self.unusable(source)),
            }
        }
    }
}

fn offered(run: RunId, by: HandOver, messages: Vec<String>) -> Vec<InboxEntry> {
    match messages.is_empty() {
        true => Vec::new(),
        false => vec![InboxEntry::Offered { at: now_ms(), run, by, messages }],
    }
}

/// The session whose inbox has this file name.
pub fn session_of(file_name: &std::ffi::OsStr) -> Option<Uuid> {
    let stem = Path::new(file_name.to_str()?.strip_suffix(".jsonl")?);
    Uuid::parse_str(stem.to_str()?).ok()
}

#[cfg(test)]
#[path = "inbox_tests.rs"]
mod tests;
