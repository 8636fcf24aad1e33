//! What the lines of an inbox amount to: a fold, pure. A line that cannot be read is passed over.

use run_protocol::{InboxEntry, Message, Question, RunId};

/// The questions and messages of one session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Correspondence {
    questions: Vec<Question>,
    messages: Vec<Letter>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Letter {
    message: Message,
    /// The run that took it last.
    offered_by: Option<RunId>,
    delivered_by: Option<RunId>,
}

impl Correspondence {
    pub(crate) fn parse(text: &[u8]) -> Self {
        let whole = memchr::memrchr(b'\n', text).map_or(&[][..], |end| &text[..end]);
        let mut correspondence = Self::default();
        for line in whole.split(|byte| *byte == b'\n') {
            if let Ok(entry) = serde_json::from_slice(line) {
                correspondence.see(entry);
            }
        }
        correspondence
    }

    fn see(&mut self, entry: InboxEntry) {
        match entry {
            InboxEntry::Asked(question) => self.questions.push(question),
            InboxEntry::Posted(message) => {
                self.messages.push(Letter { message, offered_by: None, delivered_by: None });
            }
            InboxEntry::Offered { run, messages, .. } => {
                self.letters(&messages).for_each(|letter| letter.offered_by = Some(run));
            }
            InboxEntry::Delivered { run, messages, .. } => {
                self.letters(&messages).for_each(|letter| letter.delivered_by = Some(run));
            }
        }
    }

    fn letters<'a>(&'a mut self, ids: &'a [String]) -> impl Iterator<Item = &'a mut Letter> {
        self.messages.iter_mut().filter(|letter| ids.contains(&letter.message.id))
    }

    /// Questions that nobody has answered.
    pub fn open_questions(&self) -> impl Iterator<Item = &Question> {
        self.questions.iter().filter(|question| self.answer_to(&question.id).is_none())
    }

    pub fn question(&self, id: &str) -> Option<&Question> {
        self.questions.iter().find(|question| question.id == id)
    }

    pub fn answer_to(&self, question: &str) -> Option<&Message> {
        let mut messages = self.messages.iter().map(|letter| &letter.message);
        messages.find(|message| message.answers.as_deref() == Some(question))
    }

    pub fn message(&self, id: &str) -> Option<&Message> {
        self.messages.iter().map(|letter| &letter.message).find(|message| message.id == id)
    }

    /// Messages that the agent does not have, as far as is known; the oldest first.
    pub fn undelivered(&self) -> impl Iterator<Item = &Message> {
        let waiting = self.messages.iter().filter(|letter| letter.delivered_by.is_none());
        waiting.map(|letter| &letter.message)
    }

    /// Messages that a run may pass on: not those that it has passed on already, nor those of a run that is not over.
    pub fn waiting(
        &self,
        run: RunId,
        is_over: impl Fn(RunId) -> bool,
    ) -> impl Iterator<Item = &Message> {
        let is_free = move |letter: &&Letter| match letter.offered_by {
            None => true,
            Some(other) => other != run && is_over(other),
        };
        let waiting = self.messages.iter().filter(|letter| letter.delivered_by.is_none());
        waiting.filter(is_free).map(|letter| &letter.message)
    }
}
