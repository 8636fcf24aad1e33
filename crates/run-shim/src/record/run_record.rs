//! Writes the journal, redacts secrets in it, and notifies everything that watches it.
//!
//! **Invariant:** a run that lost its session's lease records none of the agent's lines, only the run's end.

use std::borrow::Cow;

use agent_stream::{EventKind, RawLine, Repair, StreamLine};
use ground::now_ms;
use run_journal::{AgentLine, JournalError, JournalWriter, LineEnding, Redaction};
use run_protocol::{RunEvent, RunOutcome};
use tokio::sync::watch;

use crate::control::control_socket::Written;
use crate::limits::DiskAccount;
use crate::login::LoginWatch;
use crate::record::redaction::Redactor;
use crate::session::lease_watch::LeaseWatch;
use crate::supervise::run_state::Input;

/// The journal of a run that has not ended.
pub(crate) struct RunRecord {
    writer: JournalWriter,
    redactor: Redactor,
    written: watch::Sender<Written>,
    /// The session's lease, once the run has it.
    lease: Option<LeaseWatch>,
    /// The agent's copy of the login. The agent may write new tokens into it.
    login: Option<LoginWatch>,
    /// Counts the journal's length.
    account: DiskAccount,
    /// True once the run cannot or must not append. From then on the shim drops the agent's lines, and the reserved
    /// space stays free for the run's end.
    is_broken: bool,
}

/// Why the run appends nothing more.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AppendError {
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error("this run no longer has the session's lease")]
    LeaseLost,
}

impl AppendError {
    /// Returns the input for the state machine.
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

    /// Returns the account of all disk space that the run's record takes.
    pub(crate) fn account(&self) -> &DiskAccount {
        &self.account
    }

    /// From now on, the run appends only while it has the session's lease.
    pub(crate) fn stand_on(&mut self, lease: LeaseWatch) {
        self.lease = Some(lease);
    }

    /// Tells whether the run has a lease.
    pub(crate) fn has_lease(&self) -> bool {
        self.lease.is_some()
    }

    /// From now on, also redacts the tokens that the agent writes into its login.
    pub(crate) fn watch_login(&mut self, login: Option<LoginWatch>) {
        self.login = login;
    }

    /// Learns the tokens that the agent wrote into its login since the last call. Call it before recording the agent's
    /// text.
    pub(crate) fn learn_new_tokens(&mut self) {
        if let Some(login) = &mut self.login {
            let tokens = login.new_tokens();
            self.redactor.learn(tokens.iter().map(String::as_str));
        }
    }

    /// Returns the redactor, for other code that records the agent's text.
    pub(crate) fn redactor(&self) -> Redactor {
        self.redactor.clone()
    }

    /// Redacts these values from now on.
    pub(crate) fn keep_secret<'s>(&self, secrets: impl IntoIterator<Item = &'s str>) {
        self.redactor.learn(secrets);
    }

    /// Adds one of the agent's lines to the batch, exactly as printed.
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
        let ending = match line.raw {
            RawLine::Unterminated(_) => LineEnding::Missing,
            RawLine::Whole(_) | RawLine::Oversized { .. } => LineEnding::LineFeed,
        };
        self.writer.agent_line(now, form, ending, redaction);
    }

    pub(crate) fn event(&mut self, event: &RunEvent) {
        // The agent's tools, or names that it chose, may bring a secret into an event.
        match self.cleaned(event) {
            Some(cleaned) => self.writer.event(now_ms(), &cleaned, Redaction::Redacted),
            None => self.writer.event(now_ms(), event, Redaction::Untouched),
        };
    }

    /// Adds an event that one of the agent's tool calls caused.
    pub(crate) fn event_of_agent(&mut self, event: &RunEvent) {
        if !self.is_broken {
            self.event(event);
        }
    }

    /// Returns the event with its secrets redacted, or `None` if it has no secrets.
    fn cleaned(&self, event: &RunEvent) -> Option<RunEvent> {
        let json = serde_json::to_vec(event).ok()?;
        match self.redactor.clean(&json) {
            Cow::Borrowed(_) => None,
            Cow::Owned(cleaned) => serde_json::from_slice(&cleaned).ok(),
        }
    }

    /// Drops everything that is not written yet. Returns true the first time. A full disk is recorded as an event in
    /// the reserved space.
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

    /// Checks that the run still has its lease, and that the journal is still at its path. After a failed check, the
    /// run only records its end.
    pub(crate) fn check(&mut self) -> Result<(), AppendError> {
        if self.is_broken {
            return Ok(());
        }
        if self.lease.as_mut().is_some_and(|lease| !lease.is_ours()) {
            return Err(AppendError::LeaseLost);
        }
        Ok(self.writer.check_place()?)
    }

    /// Passes the batch to the kernel, then notifies the watchers.
    pub(crate) fn flush(&mut self) -> Result<(), AppendError> {
        self.check()?;
        let flushed = self.writer.flush();
        self.account.journal_is(self.writer.length());
        let number = flushed?;
        self.written.send_replace(Written { epoch: number.epoch, seq: number.seq });
        self.writer.sync_soon();
        Ok(())
    }

    /// Starts making everything durable.
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

    /// Drops everything that is not written yet, and uses the reserved space from now on.
    fn fall_back_to_reserve(&mut self) {
        self.writer.discard_pending();
        self.writer.use_reserve();
    }

    pub(crate) fn clean<'t>(&self, text: &'t [u8]) -> Cow<'t, [u8]> {
        self.redactor.clean(text)
    }

    /// Writes the last event and closes the journal. If that fails, the run did not succeed: an event in the reserved
    /// space says that the journal failed.
    pub(crate) fn finish(mut self, ended: RunEvent) {
        // The caller has checked the lease. Only the run's end follows.
        self.lease = None;
        self.event(&ended);
        if self.sync().is_err() {
            self.is_broken = true;
            self.fall_back_to_reserve();
            self.event(&journal_failed(ended));
            if let Err(error) = self.sync() {
                tracing::error!(%error, "cannot write the end of the run");
                return;
            }
        }
        if let Err(error) = self.writer.finish() {
            tracing::error!(%error, "cannot close the journal");
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

/// Returns how the journal keeps a line: as JSON only if its bytes are valid JSON.
fn form_of<'b>(line: &StreamLine<'_>, bytes: &'b [u8]) -> AgentLine<'b> {
    if let RawLine::Oversized { length, sha256, .. } = line.raw {
        return AgentLine::Cut { head: bytes, length, sha256 };
    }
    let is_json = match (&line.event.kind, line.event.repaired) {
        (EventKind::Noise { .. } | EventKind::Blank | EventKind::Oversized(_), _) => false,
        (_, Some(Repair::InvalidUtf8)) => false,
        // The parser skips a byte order mark, but JSON does not allow it.
        _ => !bytes.starts_with(b"\xEF\xBB\xBF"),
    };
    if is_json {
        // The journal writer checks for UTF-8.
        return AgentLine::Json(bytes);
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => AgentLine::Text(text),
        Err(_) => AgentLine::Bytes(bytes),
    }
}
