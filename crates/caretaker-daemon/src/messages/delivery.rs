//! How a message reaches the agent of a session, depending on the session's state.

use run_journal::{IndexError, RunDirectory, RunFilter, RunOverview, StateRoot, list_runs};
use run_protocol::{Message, MessageSender, RunOutcome, RunSpec};
use serde::Serialize;
use uuid::Uuid;

/// How a message reaches its agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// The agent is running, or about to run, and finds the message when it checks its inbox.
    CheckInbox,
    /// The daemon delivers the message as the session's next turn.
    NextTurn,
    /// The message waits until a user resumes the session.
    OnResume,
}

/// The session state that the delivery depends on.
#[derive(Debug)]
pub(crate) struct SessionStanding {
    is_underway: bool,
    /// The session's latest run, if its spec can be read.
    pub(crate) latest: Option<(RunOverview, RunSpec)>,
}

impl SessionStanding {
    pub(crate) fn of(state: &StateRoot, session: Uuid) -> Result<Self, IndexError> {
        let session = Some(session.to_string());
        let runs = list_runs(state, &RunFilter { session, ..RunFilter::default() })?;
        let is_underway = runs.iter().any(|run| run.state.is_unfinished());
        let latest = runs.into_iter().max_by_key(|run| run.run).and_then(|run| {
            let spec = RunDirectory::open(state, run.run).ok()?.spec().ok()?;
            Some((run, spec))
        });
        Ok(Self { is_underway, latest })
    }

    /// How all waiting messages are delivered; they share one turn.
    pub(crate) fn delivery(&self, undelivered: &[&Message]) -> Delivery {
        if self.is_underway {
            return Delivery::CheckInbox;
        }
        let Some((latest, spec)) = &self.latest else { return Delivery::OnResume };
        // If the latest run failed to deliver a message, only a new message starts another attempt.
        let mut news = undelivered.iter().filter(|message| !spec.delivers.contains(&message.id));
        if news.any(|message| wakes(message, latest, spec)) {
            Delivery::NextTurn
        } else {
            Delivery::OnResume
        }
    }
}

/// A user's message wakes any session. An agent's message wakes only a session that finished its turn successfully and
/// is certainly within its token limit.
fn wakes(message: &Message, latest: &RunOverview, spec: &RunSpec) -> bool {
    let tokens = latest.spent.and_then(|spent| spent.tokens);
    let is_within = spec.limits.tokens == 0 || tokens.is_some();
    message.from == MessageSender::Person
        || latest.state.outcome() == Some(RunOutcome::Succeeded) && is_within
}

#[cfg(test)]
#[path = "delivery_tests.rs"]
mod tests;
