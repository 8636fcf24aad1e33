//! The content of an inbox. A pure fold over its lines that skips unreadable ones.

use run_protocol::{InboxEntry, Message, Question, RunId};

/// The questions and messages of one session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InboxContent {
    questions: Vec<Question>,
    messages: Vec<PostedMessage>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct PostedMessage {
    message: Message,
    /// The run that took the message last.
    offered_by: Option<RunId>,
    delivered_by: Option<RunId>,
}

impl InboxContent {
    pub(crate) fn parse(text: &[u8]) -> Self {
        let whole = memchr::memrchr(b'\n', text).map_or(&[][..], |end| &text[..end]);
        let mut content = Self::default();
        for line in whole.split(|byte| *byte == b'\n') {
            if let Ok(entry) = serde_json::from_slice(line) {
                content.see(entry);
            }
        }
        content
    }

    fn see(&mut self, entry: InboxEntry) {
        match entry {
            InboxEntry::Asked(question) => self.questions.push(question),
            InboxEntry::Posted(message) => {
                self.messages.push(PostedMessage { message, offered_by: None, delivered_by: None });
            }
            InboxEntry::Offered { run, messages, .. } => {
                self.posted(&messages).for_each(|posted| posted.offered_by = Some(run));
            }
            InboxEntry::Delivered { run, messages, .. } => {
                self.posted(&messages).for_each(|posted| posted.delivered_by = Some(run));
            }
        }
    }

    fn posted<'a>(&'a mut self, ids: &'a [String]) -> impl Iterator<Item = &'a mut PostedMessage> {
        self.messages.iter_mut().filter(|posted| ids.contains(&posted.message.id))
    }

    /// Questions without an answer.
    pub fn open_questions(&self) -> impl Iterator<Item = &Question> {
        self.questions.iter().filter(|question| self.answer_to(&question.id).is_none())
    }

    pub fn question(&self, id: &str) -> Option<&Question> {
        self.questions.iter().find(|question| question.id == id)
    }

    pub fn answer_to(&self, question: &str) -> Option<&Message> {
        let mut messages = self.messages.iter().map(|posted| &posted.message);
        messages.find(|message| message.answers.as_deref() == Some(question))
    }

    pub fn message(&self, id: &str) -> Option<&Message> {
        self.messages.iter().map(|posted| &posted.message).find(|message| message.id == id)
    }

    /// Undelivered messages, oldest first.
    pub fn undelivered(&self) -> impl Iterator<Item = &Message> {
        let waiting = self.messages.iter().filter(|posted| posted.delivered_by.is_none());
        waiting.map(|posted| &posted.message)
    }

    /// Messages that a run may show to its agent: neither those that it has already shown, nor those that a live run
    /// took.
    pub fn waiting(
        &self,
        run: RunId,
        is_over: impl Fn(RunId) -> bool,
    ) -> impl Iterator<Item = &Message> {
        let is_free = move |posted: &&PostedMessage| match posted.offered_by {
            None => true,
            Some(other) => other != run && is_over(other),
        };
        let waiting = self.messages.iter().filter(|posted| posted.delivered_by.is_none());
        waiting.filter(is_free).map(|posted| &posted.message)
    }
}
