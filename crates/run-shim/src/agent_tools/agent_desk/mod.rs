//! Serves the agent's calls that reach beyond its own run: to people, to related runs, to the workspace's history.
//!
//! ```text
//!   RunTools ──► AgentDesk ──┬─► inbox/<session>.jsonl    questions and messages, its own and its relatives'
//!                            ├─► family                   parent, children, siblings: it sees no other run
//!                            ├─► control sockets, queue   to stop its own children
//!                            └─► the daemon               to queue a child
//! ```
//!
//! **Invariant:** the caller is always this desk's own run. A call can name only the run's parent, children and
//! siblings. Any other run looks like one that does not exist.
//!
//! **Invariant:** a call may take a moment, but it never waits for a person or for another run.

mod child_maker;
mod end_report;
mod family;
mod handover;

use std::sync::Arc;

use ground::now_ms;
use ground::with_causes;
use run_journal::{Inbox, InboxError, StateRoot};
use run_protocol::{
    ChildRequest, Lineage, McpCallOutcome, Message, MessageSender, Question, QuestionAbout,
    Relation, RunEvent, RunId, RunSpec,
};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::record::redaction::Redactor;
use crate::supervise::workspace_watch::Marker;
pub(crate) use child_maker::ChildMaker;
pub use end_report::report_end;
use family::{Relative, relatives};
pub(crate) use handover::{Arrived, Handover};

/// A session may have at most this many open questions.
const MOST_QUESTIONS: usize = 3;
/// One answer from `check_inbox` has at most this many messages.
const MOST_MESSAGES: usize = 20;
const MOST_MESSAGE_BYTES: usize = 64 * 1024;
/// The journal keeps this many characters of a sent message.
const SENT_CHARS: usize = 500;

/// A call that this desk serves.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum DeskCall {
    AskHuman { question: String, options: Vec<String> },
    RequestAccess { host: Option<String>, why: String },
    CheckInbox,
    SendMessage { to: String, text: String },
    SpawnRun(Box<ChildRequest>),
    ListRuns,
    GetRun { run: String },
    StopRun { run: String },
    Checkpoint { label: String },
}

/// The result of a call.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) event: Option<RunEvent>,
    pub(crate) reply: Value,
}

/// Why a call failed, in words for the model.
#[derive(Debug)]
pub(crate) struct NotServed {
    pub(crate) outcome: McpCallOutcome,
    pub(crate) text: String,
}

impl NotServed {
    fn refused(text: impl Into<String>) -> Self {
        Self { outcome: McpCallOutcome::Refused, text: text.into() }
    }

    fn failed(text: impl Into<String>) -> Self {
        Self { outcome: McpCallOutcome::Failed, text: text.into() }
    }
}

impl From<InboxError> for NotServed {
    fn from(error: InboxError) -> Self {
        match error {
            InboxError::TooManyQuestions(n_open) => Self::refused(format!(
                "{n_open} of your questions are already waiting for an answer. Go on without it, or end your turn: the \
                 answers will start your next turn."
            )),
            InboxError::Full => Self::refused("That inbox is full. Nothing was sent."),
            error => Self::failed(format!("Caretaker could not do it: {}.", with_causes(&error))),
        }
    }
}

/// Serves one run's calls.
pub(crate) struct AgentDesk {
    state: StateRoot,
    run: RunId,
    session: Uuid,
    name: Option<String>,
    lineage: Option<Lineage>,
    redactor: Redactor,
    handover: Arc<Handover>,
    marker: Option<Marker>,
    children: ChildMaker,
}

impl std::fmt::Debug for AgentDesk {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("AgentDesk").field("run", &self.run).finish_non_exhaustive()
    }
}

impl AgentDesk {
    pub(crate) fn new(
        state: &StateRoot,
        spec: &RunSpec,
        redactor: Redactor,
        handover: Arc<Handover>,
        marker: Option<Marker>,
        children: ChildMaker,
    ) -> Self {
        Self {
            state: state.clone(),
            run: spec.run,
            session: spec.session,
            name: spec.name.clone(),
            lineage: spec.lineage.clone(),
            redactor,
            handover,
            marker,
            children,
        }
    }

    /// Serves one call. May block while it uses files, git or the daemon.
    pub(crate) fn serve(&self, call: DeskCall) -> Result<Served, NotServed> {
        match call {
            DeskCall::AskHuman { question, options } => {
                self.ask(QuestionAbout::Work, &question, options, None)
            }
            DeskCall::RequestAccess { host, why } => {
                self.ask(QuestionAbout::Access, &why, Vec::new(), host)
            }
            DeskCall::CheckInbox => self.check_inbox(),
            DeskCall::SendMessage { to, text } => self.send(&to, &text),
            DeskCall::SpawnRun(request) => self.children.spawn(&request),
            DeskCall::ListRuns => {
                let runs: Vec<Value> = self.family()?.iter().map(Relative::report).collect();
                Ok(Served { event: None, reply: json!({"runs": runs}) })
            }
            DeskCall::GetRun { run } => {
                Ok(Served { event: None, reply: self.relative(&run)?.report() })
            }
            DeskCall::StopRun { run } => self.stop(&run),
            DeskCall::Checkpoint { label } => self.mark(&label),
        }
    }

    /// Removes the run's secrets from the agent's text.
    fn clean(&self, text: &str) -> String {
        String::from_utf8_lossy(&self.redactor.clean(text.as_bytes())).into_owned()
    }

    fn ask(
        &self,
        about: QuestionAbout,
        text: &str,
        options: Vec<String>,
        host: Option<String>,
    ) -> Result<Served, NotServed> {
        let id = Uuid::new_v4().simple().to_string();
        let question = Question {
            id: format!("q-{}", &id[..8]),
            at: now_ms(),
            run: self.run,
            about,
            text: self.clean(text),
            options: options.iter().map(|option| self.clean(option)).collect(),
            host,
        };
        Inbox::of(&self.state, self.session).ask(question.clone(), MOST_QUESTIONS)?;
        let Question { id, text, options, host, .. } = question;
        let note = "A person will see the question. Go on with work that does not depend on the answer and call check_inbox \
                    now and then, or end your turn: the answer will start your next turn.";
        let reply = json!({"question": id, "note": note});
        let event = RunEvent::NeedsHuman { question: id, about, text, options, host };
        Ok(Served { event: Some(event), reply })
    }

    fn check_inbox(&self) -> Result<Served, NotServed> {
        let messages = self.handover.offer(MOST_MESSAGES, MOST_MESSAGE_BYTES)?;
        let inbox = Inbox::of(&self.state, self.session).read()?;
        let told = |message: &Message| {
            let question =
                message.answers.as_ref().and_then(|id| inbox.question(id)).map(|it| &it.text);
            let from = match &message.from {
                MessageSender::Person => json!({"who": "person"}),
                MessageSender::Agent { run, name, relation } => {
                    json!({"who": relation, "run": run, "name": name})
                }
                MessageSender::End { run, name } => {
                    json!({"who": "caretaker", "about_child": run, "name": name})
                }
            };
            json!({
                "id": message.id,
                "from": from,
                "text": message.text,
                "answers": message.answers,
                "your_question": question,
            })
        };
        let open: Vec<&String> = inbox.open_questions().map(|question| &question.id).collect();
        let messages: Vec<Value> = messages.iter().map(told).collect();
        Ok(Served { event: None, reply: json!({"messages": messages, "open_questions": open}) })
    }

    fn send(&self, to: &str, text: &str) -> Result<Served, NotServed> {
        let relative = self.relative(to)?;
        let text = self.clean(text);
        let id = Uuid::new_v4().to_string();
        let relation = match relative.relation {
            Relation::Parent => Relation::Child,
            Relation::Child => Relation::Parent,
            Relation::Sibling => Relation::Sibling,
        };
        let message = Message {
            id: id.clone(),
            at: now_ms(),
            from: MessageSender::Agent { run: self.run, name: self.name.clone(), relation },
            text: text.clone(),
            answers: None,
        };
        Inbox::of(&self.state, relative.session).post(message)?;
        let event = RunEvent::MessageSent {
            to: relative.latest.run,
            message: id.clone(),
            text: text.chars().take(SENT_CHARS).collect(),
        };
        Ok(Served { event: Some(event), reply: json!({"sent": id, "to": relative.latest.run}) })
    }

    fn stop(&self, run: &str) -> Result<Served, NotServed> {
        let relative = self.relative(run)?;
        if relative.relation != Relation::Child {
            return Err(NotServed::refused("You can stop only your own children."));
        }
        let run = relative.latest.run;
        if !relative.latest.state.is_unfinished() {
            return Ok(Served { event: None, reply: json!({"run": run, "note": "It is over."}) });
        }
        family::stop(&self.state, run)?;
        let event = Some(RunEvent::ChildStopped { run });
        Ok(Served { event, reply: json!({"run": run, "note": "It was told to stop."}) })
    }

    fn mark(&self, label: &str) -> Result<Served, NotServed> {
        let Some(marker) = &self.marker else {
            return Err(NotServed::refused("This run does not save its workspace."));
        };
        let number = marker.begin(label).map_err(NotServed::refused)?;
        let note = "The workspace is being saved.";
        Ok(Served { event: None, reply: json!({"checkpoint": number, "note": note}) })
    }

    fn family(&self) -> Result<Vec<Relative>, NotServed> {
        relatives(&self.state, self.session, self.lineage.as_ref())
            .map_err(|error| NotServed::failed(format!("Cannot list the runs: {error}.")))
    }

    fn relative(&self, named: &str) -> Result<Relative, NotServed> {
        let family = self.family()?;
        let fits = |relative: &&Relative| relative.is_called(named);
        match family.iter().filter(fits).collect::<Vec<_>>().as_slice() {
            [one] => Ok((*one).clone()),
            // An unrelated run gets the same answer as a run that does not exist.
            [] => Err(NotServed::refused(
                "There is no such run among your parent, your children and your siblings; see list_runs.",
            )),
            _ => Err(NotServed::refused("Several runs have this name; use the run's id.")),
        }
    }
}

#[cfg(test)]
impl AgentDesk {
    /// A desk without a run.
    pub(crate) fn for_test(
        state: &std::path::Path,
        run: RunId,
        session: Uuid,
        lineage: Option<Lineage>,
    ) -> Arc<Self> {
        let state = StateRoot::new(state.to_owned());
        Arc::new(Self {
            run,
            session,
            name: None,
            lineage,
            redactor: Redactor::new(["a-secret-of-the-run"]),
            handover: Arc::new(Handover::of(Inbox::of(&state, session), run)),
            marker: None,
            children: ChildMaker::for_test(&state, run),
            state,
        })
    }
}

#[cfg(test)]
#[path = "agent_desk_tests.rs"]
mod tests;
