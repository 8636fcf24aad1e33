//! The inbox of a session: the agent's questions, the messages to the agent, and their delivery. One append-only file,
//! with one JSON object per line.
//!
//! ```text
//!   inbox/<session>.jsonl   asked · posted · offered (a run took it and may have shown it) · delivered (the agent has it)
//! ```
//!
//! A run offers a message before the agent can see it. The message counts as delivered when the agent's own output
//! shows it. If the run dies in between, the message is offered again. A delivered message is never offered again.
//!
//! **Invariant:** only the holder of the file's lock appends, and it removes only an incomplete last line. A line is
//! durable before any caller learns of it.

mod content;

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ground::plain_file;
use ground::{make_private_dir, now_ms};
use run_protocol::{HandOver, InboxEntry, Message, MessageSender, Question, RunId};
use uuid::Uuid;

use crate::{KernelLock, RunDirectory, StateRoot};

pub use content::InboxContent;

/// Enough for more than a year of frequent messages.
const MOST_BYTES: u64 = 8 * 1024 * 1024;
/// Room that stays free for the lines about deliveries.
const ROOM_FOR_DELIVERY: u64 = 2 * 1024 * 1024;
/// The most messages that may wait for one agent.
const MOST_WAITING: usize = 256;
/// The holder of the lock only writes a few lines, but the disk may be busy.
const LOCK_PATIENCE: Duration = Duration::from_secs(30);
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// The inbox of one session. The file need not exist.
#[derive(Debug, Clone)]
pub struct Inbox {
    state: StateRoot,
    session: Uuid,
    path: PathBuf,
}

/// Why an inbox was not changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InboxError {
    #[error("the session's inbox is full")]
    Full,
    #[error("{0} questions are already waiting for an answer")]
    TooManyQuestions(usize),
    #[error("there is no question `{0}`")]
    NoSuchQuestion(String),
    #[error("the question `{0}` is already answered")]
    Answered(String),
    #[error("another process holds the inbox `{path}`")]
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

    /// Reads the inbox. Needs no lock, and ignores an incomplete last line.
    pub fn read(&self) -> Result<InboxContent, InboxError> {
        match plain_file::read_at_most(&self.path, MOST_BYTES * 2) {
            Ok(text) => Ok(InboxContent::parse(&text)),
            Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(InboxContent::default()),
            Err(source) => Err(self.unusable(source)),
        }
    }

    /// Adds a question, unless `most_open` questions are already open.
    pub fn ask(&self, question: Question, most_open: usize) -> Result<(), InboxError> {
        self.change(|known| {
            match known.open_questions().count() {
                n_open if n_open >= most_open => return Err(InboxError::TooManyQuestions(n_open)),
                _ => {}
            }
            Ok(vec![InboxEntry::Asked(question)])
        })
    }

    /// Adds a message. Returns `false` if the inbox already has it.
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
            from: MessageSender::Person,
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

    /// Takes waiting messages for a run to show to its agent: at most this many messages and about this many bytes, but
    /// at least one message. Leaves messages that another live run has taken.
    pub fn offer(
        &self,
        run: RunId,
        by: HandOver,
        most_messages: usize,
        most_bytes: usize,
    ) -> Result<Vec<Message>, InboxError> {
        let mut taken: Vec<Message> = Vec::new();
        // Usually there is no message, and finding that out needs no lock.
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

    /// Takes exactly these messages as the prompt of a run. Returns `None` if one of them is no longer waiting.
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

    /// Records that the agent has these messages. Returns those that were not recorded before.
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

    /// Reads the inbox under the lock, and appends the entries that `decide` returns.
    fn change(
        &self,
        decide: impl FnOnce(&InboxContent) -> Result<Vec<InboxEntry>, InboxError>,
    ) -> Result<(), InboxError> {
        let directory = self.state.inboxes();
        make_private_dir(&directory).map_err(|source| self.unusable(source))?;
        let is_new = !self.path.exists();
        let lock = self.lock()?;
        let text = plain_file::read_at_most(&self.path, MOST_BYTES * 2)
            .map_err(|source| self.unusable(source))?;
        let entries = decide(&InboxContent::parse(&text))?;
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
        let is_message =
            entries.iter().any(|it| matches!(it, InboxEntry::Asked(_) | InboxEntry::Posted(_)));
        let reserve = if is_message { ROOM_FOR_DELIVERY } else { 0 };
        if whole + lines.len() as u64 + reserve > MOST_BYTES {
            return Err(InboxError::Full);
        }
        self.write(whole, known.len() as u64, &lines).map_err(|source| self.unusable(source))
    }

    fn write(&self, at: u64, length: u64, lines: &[u8]) -> io::Result<()> {
        let mut file = plain_file::open_writable(&self.path)?;
        if length > at {
            // The process that began this line died.
            file.set_len(at)?;
        }
        let written = file.write_all_at(lines, at).and_then(|()| file.flush());
        if let Err(err) = written.and_then(|()| file.sync_data()) {
            // The file may contain some of the lines. Remove them, because the caller gets an error.
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
