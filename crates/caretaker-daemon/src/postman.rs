//! Brings messages to agents that are not at work: as the next turn of their session. Those that are find them by
//! themselves.
//!
//! ```text
//!   inbox/<session>.jsonl written ─┐
//!   a run is over ─────────────────┼─► is anything undelivered, and nobody at work? ─► a run that delivers it, queued
//!   the daemon's start ────────────┘
//! ```
//!
//! Nothing is remembered: a run that delivers says so in its spec, and takes the messages from the inbox itself, when it
//! begins. Whether it is time, [`SessionStanding`] says, for `caretaker inbox` too.

use std::collections::BTreeSet;
use std::sync::Arc;

use admission::submit::submit_turn;
use run_journal::Inbox;
use run_protocol::{Message, RunId};
use run_shim::report_end;
use tokio::sync::mpsc;
use uuid::Uuid;

use crate::daemon::Daemon;
use crate::delivery::{Delivery, SessionStanding};
use crate::letters::{LetterError, turn_prompt};
use crate::queue_file::QueueGate;

/// What one turn brings.
const MOST_MESSAGES: usize = 20;
const MOST_BYTES: usize = 64 * 1024;

/// What there is to see to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Errand {
    /// Somebody wrote to a session.
    Letter(Uuid),
    /// A run is over.
    Over { run: RunId, session: String },
    /// Everything may have changed.
    All,
}

/// Sees to errands until the end of the program, one after the other.
pub(crate) async fn work(daemon: Arc<Daemon>, mut errands: mpsc::UnboundedReceiver<Errand>) {
    let mut waiting = vec![Errand::All];
    loop {
        while let Ok(errand) = errands.try_recv() {
            // A session that is written to often is looked at once.
            if !waiting.contains(&errand) {
                waiting.push(errand);
            }
        }
        for errand in std::mem::take(&mut waiting) {
            let daemon = Arc::clone(&daemon);
            let seen_to = tokio::task::spawn_blocking(move || daemon.see_to(&errand)).await;
            if let Err(error) = seen_to {
                tracing::error!(%error, "an errand was not done");
            }
        }
        match errands.recv().await {
            Some(errand) => waiting.push(errand),
            None => return,
        }
    }
}

impl Daemon {
    fn see_to(&self, errand: &Errand) {
        let sessions: BTreeSet<Uuid> = match errand {
            Errand::Letter(session) => BTreeSet::from([*session]),
            Errand::Over { run, session } => {
                // Its supervisor has said so, unless it died.
                if let Some(Err(error)) =
                    self.directory(*run).map(|run| report_end(self.state(), &run))
                {
                    tracing::warn!(%run, %error, "the parent of a run that is over was not told");
                }
                Uuid::parse_str(session).into_iter().collect()
            }
            Errand::All => match Inbox::all(self.state()) {
                Ok(inboxes) => inboxes.iter().map(Inbox::session).collect(),
                Err(error) => {
                    tracing::error!(%error, "the inboxes cannot be listed");
                    BTreeSet::new()
                }
            },
        };
        for session in sessions {
            if let Err(error) = self.deliver(session) {
                tracing::warn!(%session, %error, "what waits for a session could not be looked at");
            }
        }
    }

    /// Has what waits for a session delivered, if it is time.
    fn deliver(&self, session: Uuid) -> Result<(), LetterError> {
        let known = Inbox::of(self.state(), session).read()?;
        let undelivered: Vec<&Message> = known.undelivered().collect();
        if undelivered.is_empty() || self.queue.gate() == QueueGate::Draining {
            return Ok(());
        }
        let standing = SessionStanding::of(self.state(), session)?;
        let delivery = standing.delivery(&undelivered);
        let Some((_, spec)) = standing.latest.filter(|_| delivery == Delivery::NextTurn) else {
            tracing::debug!(%session, ?delivery, "what waits for a session is not its next turn");
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
        match submit_turn(&self.host, &self.config.program, &spec, ids, &prompt) {
            Ok(submitted) => {
                tracing::info!(%session, run = %submitted.run, "delivers what was written to it");
                self.queue.bring(submitted.run, submitted.brought);
                self.watch.look(submitted.run);
            }
            Err(error) => {
                let error = error.message_with_causes();
                tracing::warn!(%session, error, "messages cannot be delivered as a turn");
            }
        }
        Ok(())
    }
}
