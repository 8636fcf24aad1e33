//! Delivers messages to agents that are not running, as the next turn of their session. A running agent finds its messages
//! itself.
//!
//! ```text
//!   inbox/<session>.jsonl written ─┐
//!   a run has ended ───────────────┼─► is a message undelivered, and no agent running? ─► queue a run that delivers it
//!   the daemon's start ────────────┘
//! ```
//!
//! The daemon keeps no state for this: a run that delivers messages has their ids in its spec, and takes them from the
//! inbox when it begins. [`SessionStanding`] decides whether it is time; `caretaker inbox` asks it too.

use std::collections::BTreeSet;
use std::sync::Arc;

use admission::credentials::QueuedRun;
use admission::queue_run::queue_turn;
use run_journal::Inbox;
use run_protocol::{Message, RunId};
use run_shim::report_end;
use tokio::sync::mpsc;
use uuid::Uuid;

use crate::daemon::Daemon;
use crate::messages::delivery::{Delivery, SessionStanding};
use crate::messages::{MessageError, turn_prompt};
use crate::queue::queue_file::QueueGate;

/// One turn delivers at most this many messages.
const MOST_MESSAGES: usize = 20;
const MOST_BYTES: usize = 64 * 1024;

/// A reason to check for messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DeliveryCheck {
    /// A session's inbox has changed.
    Session(Uuid),
    /// A run has ended.
    RunEnded { run: RunId, session: String },
    /// Any inbox may have changed.
    All,
}

/// Handles the checks one after the other, until the daemon ends.
pub(crate) async fn work(daemon: Arc<Daemon>, mut checks: mpsc::UnboundedReceiver<DeliveryCheck>) {
    let mut waiting = vec![DeliveryCheck::All];
    loop {
        while let Ok(check) = checks.try_recv() {
            // Many messages to one session need only one check.
            if !waiting.contains(&check) {
                waiting.push(check);
            }
        }
        for check in std::mem::take(&mut waiting) {
            let daemon = Arc::clone(&daemon);
            let seen_to = tokio::task::spawn_blocking(move || daemon.see_to(&check)).await;
            if let Err(error) = seen_to {
                tracing::error!(%error, "a check for messages failed");
            }
        }
        match checks.recv().await {
            Some(check) => waiting.push(check),
            None => return,
        }
    }
}

impl Daemon {
    fn see_to(&self, check: &DeliveryCheck) {
        let sessions: BTreeSet<Uuid> = match check {
            DeliveryCheck::Session(session) => BTreeSet::from([*session]),
            DeliveryCheck::RunEnded { run, session } => {
                // The shim has already told the parent, unless it died.
                if let Some(Err(error)) =
                    self.directory(*run).map(|run| report_end(self.state(), &run))
                {
                    tracing::warn!(%run, %error, "the end of a run was not reported to its parent");
                }
                Uuid::parse_str(session).into_iter().collect()
            }
            DeliveryCheck::All => match Inbox::all(self.state()) {
                Ok(inboxes) => inboxes.iter().map(Inbox::session).collect(),
                Err(error) => {
                    tracing::error!(%error, "cannot list the inboxes");
                    BTreeSet::new()
                }
            },
        };
        for session in sessions {
            if let Err(error) = self.deliver(session) {
                tracing::warn!(%session, %error, "the messages of a session could not be read");
            }
        }
    }

    /// Queues a run that delivers the waiting messages of a session, if it is time.
    fn deliver(&self, session: Uuid) -> Result<(), MessageError> {
        let known = Inbox::of(self.state(), session).read()?;
        let undelivered: Vec<&Message> = known.undelivered().collect();
        if undelivered.is_empty() || self.queue.gate() == QueueGate::Draining {
            return Ok(());
        }
        let standing = SessionStanding::of(self.state(), session)?;
        let delivery = standing.delivery(&undelivered);
        let Some((_, spec)) = standing.latest.filter(|_| delivery == Delivery::NextTurn) else {
            tracing::debug!(%session, ?delivery, "the daemon does not deliver these messages as the next turn");
            return Ok(());
        };
        let mut messages: Vec<Message> = Vec::new();
        let mut n_bytes = 0;
        for message in undelivered.into_iter().take(MOST_MESSAGES) {
            n_bytes += message.text.len();
            if n_bytes > MOST_BYTES && !messages.is_empty() {
                break;
            }
            messages.push(message.clone());
        }
        let ids = messages.iter().map(|message| message.id.clone()).collect();
        let prompt = turn_prompt(&known, &messages);
        match queue_turn(&self.host, &self.config.program, &spec, ids, &prompt) {
            Ok(QueuedRun { run, credentials, warnings }) => {
                tracing::info!(%session, %run, ?warnings, "queued a run that delivers the messages");
                self.take_over(run, credentials);
            }
            Err(error) => {
                let error = error.message_with_causes();
                tracing::warn!(%session, error, "messages cannot be delivered as a turn");
            }
        }
        Ok(())
    }
}
