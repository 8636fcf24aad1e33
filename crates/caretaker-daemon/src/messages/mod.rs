//! Agents' questions and messages to agents, in all sessions. Everything is in files and works without a daemon; the
//! daemon only delivers sooner.

pub(crate) mod deliver;
pub(crate) mod delivery;

use ground::now_ms;
use run_journal::{Inbox, InboxContent, InboxError, IndexError, StateRoot};
use run_protocol::{Message, MessageSender, Question, QuestionAbout, Relation, RunId};
use serde::Serialize;
use uuid::Uuid;

use crate::messages::delivery::{Delivery, SessionStanding};

/// Why messages cannot be read or posted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    #[error("cannot list the inboxes")]
    List(#[source] std::io::Error),
    #[error("cannot list the runs")]
    Runs(#[from] IndexError),
    #[error(transparent)]
    Inbox(#[from] InboxError),
    #[error("there is no open question `{0}`")]
    NoQuestion(String),
    #[error("run {0} has no open question")]
    AsksNothing(RunId),
    #[error("run {run} has several open questions")]
    AsksMore { run: RunId, questions: Vec<String> },
}

/// A question that is waiting for an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct OpenQuestion {
    /// The question's id.
    pub question: String,
    /// When the agent asked, in milliseconds since 1970.
    pub at_ms: u64,
    /// The run whose agent asked.
    pub run: RunId,
    /// The run's session.
    pub session: Uuid,
    /// The run's name.
    pub name: Option<String>,
    /// The subject.
    pub about: QuestionAbout,
    /// The question, in the agent's words.
    pub text: String,
    /// Answers that the agent suggests.
    pub options: Vec<String>,
    /// The host that the agent wants to reach.
    pub host: Option<String>,
}

/// A message that has not been delivered yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct WaitingMessage {
    /// The message's id.
    pub message: String,
    /// When it was posted, in milliseconds since 1970.
    pub at_ms: u64,
    /// The session that it is for.
    pub session: Uuid,
    /// The sender.
    pub from: MessageSender,
    /// The text.
    pub text: String,
    /// How the message will reach the agent, given the session's current state.
    pub delivery: Delivery,
}

/// The open questions and undelivered messages of all sessions, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct OpenInboxes {
    pub questions: Vec<OpenQuestion>,
    pub undelivered: Vec<WaitingMessage>,
}

/// A message that was posted to an inbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[schema(as = Left)]
pub struct PostedMessage {
    /// The message's id.
    pub message: String,
    /// The session that it is for.
    pub session: Uuid,
    /// The question that the message answers.
    pub answers: Option<String>,
    /// How the message reaches the agent.
    pub delivery: Delivery,
}

/// Reads the open questions and undelivered messages of all sessions.
pub fn open_inboxes(state: &StateRoot) -> Result<OpenInboxes, MessageError> {
    let mut open = OpenInboxes::default();
    for inbox in Inbox::all(state).map_err(MessageError::List)? {
        let (known, session) = (inbox.read()?, inbox.session());
        let questions = known.open_questions().cloned();
        open.questions.extend(questions.map(|question| shown(state, session, question)));
        let undelivered: Vec<&Message> = known.undelivered().collect();
        if undelivered.is_empty() {
            continue;
        }
        let delivery = SessionStanding::of(state, session)?.delivery(&undelivered);
        open.undelivered.extend(undelivered.into_iter().cloned().map(|message| WaitingMessage {
            message: message.id,
            at_ms: message.at,
            session,
            from: message.from,
            text: message.text,
            delivery,
        }));
    }
    open.questions.sort_by_key(|question| question.at_ms);
    open.undelivered.sort_by_key(|message| message.at_ms);
    Ok(open)
}

fn shown(state: &StateRoot, session: Uuid, question: Question) -> OpenQuestion {
    let Question { id, at, run, about, text, options, host } = question;
    let spec = run_journal::RunDirectory::open(state, run).ok().and_then(|run| run.spec().ok());
    let name = spec.and_then(|spec| spec.name);
    OpenQuestion { question: id, at_ms: at, run, session, name, about, text, options, host }
}

/// Answers an open question by its id.
pub fn answer_question(
    state: &StateRoot,
    id: &str,
    text: String,
) -> Result<PostedMessage, MessageError> {
    for inbox in Inbox::all(state).map_err(MessageError::List)? {
        if inbox.read()?.question(id).is_some() {
            return left(state, inbox.session(), || Ok(inbox.answer(id, text)?));
        }
    }
    Err(MessageError::NoQuestion(id.to_owned()))
}

/// Answers the only open question of a run's session.
pub fn answer_run(
    state: &StateRoot,
    run: RunId,
    session: Uuid,
    text: String,
) -> Result<PostedMessage, MessageError> {
    let inbox = Inbox::of(state, session);
    let open: Vec<String> =
        inbox.read()?.open_questions().map(|question| question.id.clone()).collect();
    match open.as_slice() {
        [] => Err(MessageError::AsksNothing(run)),
        [one] => left(state, session, || Ok(inbox.answer(one, text)?)),
        _ => Err(MessageError::AsksMore { run, questions: open }),
    }
}

/// Posts a user's message to the agent of a session.
pub fn post_message(
    state: &StateRoot,
    session: Uuid,
    text: String,
) -> Result<PostedMessage, MessageError> {
    let message = Message {
        id: Uuid::new_v4().to_string(),
        at: now_ms(),
        from: MessageSender::Person,
        text,
        answers: None,
    };
    left(state, session, || {
        Inbox::of(state, session).post(message.clone())?;
        Ok(message)
    })
}

/// Posts a message, and returns how it will be delivered. Reads the session's state first, because the daemon may begin
/// the delivering turn as soon as the message is posted.
fn left(
    state: &StateRoot,
    session: Uuid,
    post: impl FnOnce() -> Result<Message, MessageError>,
) -> Result<PostedMessage, MessageError> {
    let standing = SessionStanding::of(state, session)?;
    let message = post()?;
    let delivery = standing.delivery(&[&message]);
    Ok(PostedMessage { message: message.id, session, answers: message.answers, delivery })
}

/// The prompt that delivers messages as the next turn. The text of each message is indented, so that no sender can imitate
/// the heading of another.
pub fn turn_prompt(known: &InboxContent, messages: &[Message]) -> String {
    let mut prompt = "While you were away, this arrived for you:\n".to_owned();
    for message in messages {
        let question = message.answers.as_ref().and_then(|id| known.question(id));
        prompt.push_str(&format!("\n{}:\n\n", heading(message, question)));
        for line in message.text.lines() {
            prompt.push_str(&format!("    {line}\n"));
        }
    }
    prompt
}

fn heading(message: &Message, question: Option<&Question>) -> String {
    let called = |run: &RunId, name: &Option<String>| match name {
        Some(name) => format!("`{name}` (run {run})"),
        None => format!("run {run}"),
    };
    match (&message.from, question) {
        (MessageSender::Person, Some(question)) => {
            let asked: String = question.text.chars().take(200).collect();
            let asked = asked.replace(|character: char| character.is_control(), " ");
            format!("From a person, in answer to your question {} ({asked})", question.id)
        }
        (MessageSender::Person, None) => "From a person".to_owned(),
        (MessageSender::Agent { run, name, relation }, _) => {
            let relation = match relation {
                Relation::Parent => "parent",
                Relation::Child => "child",
                Relation::Sibling => "sibling",
            };
            format!("From the agent of your {relation} {}", called(run, name))
        }
        (MessageSender::End { run, name }, _) => {
            format!("From caretaker, about your child {}", called(run, name))
        }
    }
}

#[cfg(test)]
#[path = "messages_tests.rs"]
mod tests;
