//! What the shim writes down: the journal, with secrets replaced, and word to everybody who watches it.
//!
//! **Invariant:** nothing of the agent's is appended by a run that has lost its session's lease; only how the run ended is.

use std::borrow::Cow;

use agent_stream::{EventKind, RawLine, Repair, StreamLine};
use ground::now_ms;
use run_journal::{AgentLine, JournalError, JournalWriter, Redaction};
use run_protocol::{RunEvent, RunOutcome};
use tokio::sync::watch;

use crate::control::control_socket::Written;
use crate::limits::DiskAccount;
use crate::login::LoginWatch;
use crate::record::redaction::Redactor;
use crate::session::lease_watch::LeaseWatch;
use crate::supervise::run_state::Input;

/// The journal of a run that is under way.
pub(crate) struct RunRecord {
    writer: JournalWriter,
    redactor: Redactor,
    written: watch::Sender<Written>,
    /// The session's lease, once it is taken.
    lease: Option<LeaseWatch>,
    /// The agent's copy of the login, in which it may put new tokens.
    login: Option<LoginWatch>,
    /// Where the length of the journal is counted.
    account: DiskAccount,
    /// Whether nothing can be appended, or nothing may be. From then on the agent's lines are let go, so that the room
    /// that was kept is there for the end.
    is_broken: bool,
}

/// Why nothing more is appended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AppendError {
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error("the session's lease is not this run's any more")]
    LeaseLost,
}

impl AppendError {
    /// What it means for the course of the run.
    pub(crate) fn as_input(&self) -> Input {
        match self {
            Self::Journal(_) => Input::JournalFailed,
            Self::LeaseLost => Input::LeaseLost,
        }
    }
}

impl RunRecord {
    pub(crate) fn new(
        writer: JournalWriter,
        redactor: Redactor,
        written: watch::Sender<Written>,
    ) -> Self {
        let account = DiskAccount::default();
        Self { writer, redactor, written, lease: None, login: None, account, is_broken: false }
    }

    /// The account that everything goes on which is written to a disk for the run.
    pub(crate) fn account(&self) -> &DiskAccount {
        &self.account
    }

    /// From now on nothing is appended unless the session is still ours.
    pub(crate) fn stand_on(&mut self, lease: LeaseWatch) {
        self.lease = Some(lease);
    }

    /// Whether the session is ours.
    pub(crate) fn has_lease(&self) -> bool {
        self.lease.is_some()
    }

    /// Keeps what the agent puts into its login out of everything, too.
    pub(crate) fn watch_login(&mut self, login: Option<LoginWatch>) {
        self.login = login;
    }

    /// Learns what the agent has put into its login since the last time. To be called before its words are written.
    pub(crate) fn learn_new_tokens(&mut self) {
        if let Some(login) = &mut self.login {
            let tokens = login.new_tokens();
            self.redactor.learn(tokens.iter().map(String::as_str));
        }
    }

    /// What replaces secrets here, for others who write down the agent's words.
    pub(crate) fn redactor(&self) -> Redactor {
        self.redactor.clone()
    }

    /// Keeps these values out of everything that is written from now on.
    pub(crate) fn keep_secret<'s>(&self, secrets: impl IntoIterator<Item = &'s str>) {
        self.redactor.learn(secrets);
    }

    /// Adds a line of the agent's to the batch, exactly as it was printed.
    pub(crate) fn agent_line(&mut self, line: &StreamLine<'_>) {
        if self.is_broken {
            return;
        }
        let now = now_ms();
        let bytes = line.raw.bytes();
        let cleaned = self.redactor.clean(bytes);
        let redaction = match cleaned {
            Cow::Borrowed(_) => Redaction::Untouched,
            Cow::Owned(_) => Redaction::Redacted,
        };
        let form = form_of(line, &cleaned);
        match line.raw {
            RawLine::Unterminated(_) => self.writer.unterminated_agent_line(now, form, redaction),
            RawLine::Whole(_) | RawLine::Oversized { .. } => {
                self.writer.agent_line(now, form, redaction)
            }
        };
    }

    pub(crate) fn event(&mut self, event: &RunEvent) {
        // An agent may put into our words what it knows, by its tools or by the names it gives.
        match self.cleaned(event) {
            Some(cleaned) => self.writer.redacted_event(now_ms(), &cleaned),
            None => self.writer.event(now_ms(), event),
        };
    }

    /// Adds an event that the agent caused, by a tool of ours.
    pub(crate) fn event_of_agent(&mut self, event: &RunEvent) {
        if !self.is_broken {
            self.event(event);
        }
    }

    /// The event without secrets; `None` where there are none.
    fn cleaned(&self, event: &RunEvent) -> Option<RunEvent> {
        let json = serde_json::to_vec(event).ok()?;
        match self.redactor.clean(&json) {
            Cow::Borrowed(_) => None,
            Cow::Owned(cleaned) => serde_json::from_slice(&cleaned).ok(),
        }
    }

    /// What could not be written is let go. Says whether this is the first time; a full disk is noted in the room that
    /// was kept for the end.
    pub(crate) fn break_off(&mut self, why: &AppendError) -> bool {
        if std::mem::replace(&mut self.is_broken, true) {
            self.writer.discard_pending();
            return false;
        }
        self.fall_back_to_reserve();
        if let AppendError::Journal(JournalError::DiskFull { .. }) = why {
            self.event(&RunEvent::DiskFull);
        }
        true
    }

    /// Makes sure that the session is still ours and the journal where others look for it. Once it was not, what is left
    /// to be said is how the run ended, wherever that goes.
    pub(crate) fn check(&mut self) -> Result<(), AppendError> {
        if self.is_broken {
            return Ok(());
        }
        if self.lease.as_mut().is_some_and(|lease| !lease.is_ours()) {
            return Err(AppendError::LeaseLost);
        }
        Ok(self.writer.check_place()?)
    }

    /// Hands the batch to the kernel, then tells the watchers.
    pub(crate) fn flush(&mut self) -> Result<(), AppendError> {
        self.check()?;
        let flushed = self.writer.flush();
        self.account.journal_is(self.writer.length());
        let number = flushed?;
        self.written.send_replace(Written { epoch: number.epoch, seq: number.seq });
        self.writer.sync_soon();
        Ok(())
    }

    /// Begins to make everything durable.
    pub(crate) fn begin_sync(&mut self) -> Result<(), AppendError> {
        self.flush()?;
        self.writer.begin_sync();
        Ok(())
    }

    /// Waits until everything is durable.
    pub(crate) fn sync(&mut self) -> Result<(), AppendError> {
        self.flush()?;
        Ok(self.writer.sync_now()?)
    }

    /// The disk is full: what could not be written is let go, and the room kept for the end is used from now on.
    fn fall_back_to_reserve(&mut self) {
        self.writer.discard_pending();
        self.writer.use_reserve();
    }

    pub(crate) fn clean<'t>(&self, text: &'t [u8]) -> Cow<'t, [u8]> {
        self.redactor.clean(text)
    }

    /// Writes the last event and closes the journal for good. If that fails, the run did not succeed, whatever the
    /// event says: what is written instead, from the reserve, is that the journal failed.
    pub(crate) fn finish(mut self, ended: RunEvent) {
        // Whoever calls this has looked after the lease: what comes now is how the run ended.
        self.lease = None;
        self.event(&ended);
        if self.sync().is_err() {
            self.is_broken = true;
            self.fall_back_to_reserve();
            self.event(&journal_failed(ended));
            if let Err(error) = self.sync() {
                tracing::error!(%error, "the end of the run could not be written");
                return;
            }
        }
        if let Err(error) = self.writer.finish() {
            tracing::error!(%error, "the journal could not be closed");
        }
    }
}

fn journal_failed(ended: RunEvent) -> RunEvent {
    match ended {
        RunEvent::Ended { exit_code, duration_ms, stderr_tail, .. } => RunEvent::Ended {
            outcome: RunOutcome::JournalFailed,
            why: "the journal could not be written".to_owned(),
            exit_code,
            duration_ms,
            stderr_tail,
        },
        other => other,
    }
}

/// In which form a line is kept: as JSON only where it is JSON as it stands.
fn form_of<'b>(line: &StreamLine<'_>, bytes: &'b [u8]) -> AgentLine<'b> {
    if let RawLine::Oversized { length, sha256, .. } = line.raw {
        return AgentLine::Cut { head: bytes, length, sha256 };
    }
    let is_json = match (&line.event.kind, line.event.repaired) {
        (EventKind::Noise { .. } | EventKind::Blank | EventKind::Oversized(_), _) => false,
        (_, Some(Repair::InvalidUtf8)) => false,
        // A byte order mark is skipped in reading, and is no JSON.
        _ => !bytes.starts_with(b"\xEF\xBB\xBF"),
    };
    if is_json {
        // The journal's writer makes sure itself that it is UTF-8.
        return AgentLine::Json(bytes);
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => AgentLine::Text(text),
        Err(_) => AgentLine::Bytes(bytes),
    }
}
