//! How what is written to a session gets to its agent, as the session stands.

use run_journal::{IndexError, RunDirectory, RunFilter, RunOverview, StateRoot, list_runs};
use run_protocol::{Correspondent, Message, RunOutcome, RunSpec};
use serde::Serialize;
use uuid::Uuid;

/// How a message gets to its agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// The agent is at work, or about to be, and finds it when it looks.
    CheckInbox,
    /// As the session's next turn, by a daemon.
    NextTurn,
    /// When somebody resumes the session: nobody wakes it unasked.
    OnResume,
}

/// What decides it.
#[derive(Debug)]
pub(crate) struct SessionStanding {
    is_underway: bool,
    /// The session's latest run, where there is one whose spec can be read.
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

    /// For all that waits together: one turn brings it.
    pub(crate) fn delivery(&self, undelivered: &[&Message]) -> Delivery {
        if self.is_underway {
            return Delivery::CheckInbox;
        }
        let Some((latest, spec)) = &self.latest else { return Delivery::OnResume };
        // What the latest run was to deliver and did not is not tried again unasked: something new has to come.
        let mut news = undelivered.iter().filter(|message| !spec.delivers.contains(&message.id));
        if news.any(|message| wakes(message, latest, spec)) {
            Delivery::NextTurn
        } else {
            Delivery::OnResume
        }
    }
}

/// A person wakes any session. An agent wakes one that ended its turn by itself, not one that was stopped or failed; nor
/// one that may have taken all it may, for all that anybody knows.
fn wakes(message: &Message, latest: &RunOverview, spec: &RunSpec) -> bool {
    let tokens = latest.spent.and_then(|spent| spent.tokens);
    let is_within = spec.limits.tokens == 0 || tokens.is_some();
    message.from == Correspondent::Person
        || latest.state.outcome() == Some(RunOutcome::Succeeded) && is_within
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use run_protocol::RunId;

    use super::*;

    #[test]
    fn without_a_run_that_could_be_continued_nobody_wakes_a_session() {
        let message = Message {
            id: "m".to_owned(),
            at: 1,
            from: Correspondent::Person,
            text: "hello".to_owned(),
            answers: None,
        };
        let of_child = Correspondent::End { run: RunId::generate(), name: None };
        let news = Message { from: of_child, ..message.clone() };
        let unknown = SessionStanding { is_underway: false, latest: None };
        assert_eq!(unknown.delivery(&[&message, &news]), Delivery::OnResume);
        let busy = SessionStanding { is_underway: true, latest: None };
        assert_eq!(busy.delivery(&[&message]), Delivery::CheckInbox);
    }
}
