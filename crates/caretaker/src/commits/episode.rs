//! The part of a conversation that belongs to one commit. A conversation may lead to many commits.

use cursor_stores::model::{Confidence, Conversation, Message, Moment, Part, Role, ToolCall};

use super::evidence::{changed_paths, may_have_changed};
use super::git::Commit;
use super::paths::Standpoint;

/// Git stores whole seconds, so a commit may be up to a second later than its time says.
const REST_OF_SECOND_MS: i64 = 999;
/// The kinds of attachments that are files.
const FILE_KINDS: &[&str] = &["file", "selection", "diff"];

/// The time before a commit: since the previous commit, but at most the user's window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CommitWindow {
    /// Each span begins after its first moment and ends with its second. A commit has two times, so there may be two
    /// spans.
    spans: Vec<(i64, i64)>,
}

impl CommitWindow {
    /// `parents`: the known parents of the commit.
    pub(crate) fn of(commit: &Commit, parents: &[&Commit], window_ms: u64) -> Self {
        let span = |moment_of: fn(&Commit) -> i64| {
            let moment = moment_of(commit);
            let of_parents = parents.iter().map(|parent| moment_of(parent));
            let before = of_parents.filter(|parent| *parent < moment).max();
            let widest = moment.saturating_sub_unsigned(window_ms).saturating_sub(1);
            let start = before.map_or(i64::MIN, |before| before.saturating_add(REST_OF_SECOND_MS));
            (start.max(widest), moment.saturating_add(REST_OF_SECOND_MS))
        };
        let mut spans = vec![span(|commit| commit.author_ms), span(|commit| commit.commit_ms)];
        spans.dedup();
        Self { spans }
    }

    pub(crate) fn holds(&self, at_ms: i64) -> bool {
        self.spans.iter().any(|(start, end)| *start < at_ms && at_ms <= *end)
    }
}

/// The messages and tool calls in the window of a commit.
#[derive(Debug)]
pub(crate) struct Episode<'a> {
    pub(crate) conversation: &'a Conversation,
    /// With their positions. Empty if only tool calls of a longer message are in the window.
    pub(crate) messages: Vec<(usize, &'a Message)>,
    pub(crate) calls: Vec<&'a ToolCall>,
    /// Changed files, relative to the repository if they are in it.
    pub(crate) changed: Vec<String>,
    /// Files that were read or attached, but not changed.
    pub(crate) discussed: Vec<String>,
    /// True if the store has no times inside the conversation: then the episode is the whole conversation.
    pub(crate) is_whole: bool,
}

impl<'a> Episode<'a> {
    /// Returns `None` if nothing is in the window.
    pub(crate) fn of(
        conversation: &'a Conversation,
        window: &CommitWindow,
        roots: &[String],
        workspaces: &[String],
    ) -> Option<Self> {
        let times = times(&conversation.messages);
        let is_whole = times.is_none();
        let times = times.unwrap_or_default();
        let is_in =
            |position: usize| is_whole || times.get(position).is_some_and(|at| window.holds(*at));
        let mut episode = Self {
            conversation,
            messages: Vec::new(),
            calls: Vec::new(),
            changed: Vec::new(),
            discussed: Vec::new(),
            is_whole,
        };
        let standpoint = Standpoint::new(roots, workspaces);
        for (position, message) in conversation.messages.iter().enumerate() {
            let is_message_in = is_in(position);
            if is_message_in && message.kind.is_said() {
                episode.messages.push((position, message));
                episode.note_attached(&standpoint, message);
            }
            for call in message.tool_calls() {
                let own = call.started.filter(is_recorded).filter(|_| !is_whole);
                if own.map_or(is_message_in, |at| window.holds(at.at_ms)) {
                    episode.note_call(&standpoint, call);
                }
            }
        }
        let Self { changed, discussed, .. } = &mut episode;
        discussed.retain(|path| !changed.contains(path));
        (!episode.messages.is_empty() || !episode.calls.is_empty()).then_some(episode)
    }

    /// The user's prompts in the window.
    pub(crate) fn prompts(&self) -> impl Iterator<Item = &'a Message> {
        self.messages.iter().map(|(_, message)| *message).filter(|it| it.role == Role::User)
    }

    /// The last prompt before the window, if the episode continues it.
    pub(crate) fn goes_on_with(&self) -> Option<&'a Message> {
        let (first, message) = self.messages.first()?;
        let before = self.conversation.messages[..*first].iter().rev();
        let is_prompt = |message: &&Message| message.role == Role::User && message.kind.is_said();
        before.into_iter().find(is_prompt).filter(|_| message.role != Role::User)
    }

    pub(crate) fn commands(&self) -> impl Iterator<Item = &'a ToolCall> {
        self.calls.iter().copied().filter(|call| call.tool == "shell")
    }

    /// The last paragraph of the agent's answers.
    pub(crate) fn conclusion(&self) -> Option<String> {
        let answers = self.messages.iter().rev().filter(|(_, it)| it.role == Role::Assistant);
        answers.into_iter().find_map(|(_, message)| last_paragraph(&message.text()))
    }

    fn note_attached(&mut self, standpoint: &Standpoint, message: &Message) {
        for part in &message.parts {
            match part {
                Part::Attachment { kind, name: Some(name), .. }
                    if FILE_KINDS.contains(&kind.as_str()) =>
                {
                    add(&mut self.discussed, standpoint, name);
                }
                Part::Code { language, path: Some(path), .. } => {
                    let is_diff = language.as_deref() == Some("diff");
                    let list = if is_diff { &mut self.changed } else { &mut self.discussed };
                    add(list, standpoint, path);
                }
                _ => {}
            }
        }
    }

    fn note_call(&mut self, standpoint: &Standpoint, call: &'a ToolCall) {
        self.calls.push(call);
        let list = if may_have_changed(call) {
            &mut self.changed
        } else if call.tool == "read" {
            &mut self.discussed
        } else {
            return;
        };
        for path in changed_paths(&call.input) {
            add(list, standpoint, &path);
        }
    }
}

fn add(list: &mut Vec<String>, standpoint: &Standpoint, path: &str) {
    let path = standpoint.in_repository(path).unwrap_or_else(|| path.to_owned());
    if !path.is_empty() && !list.contains(&path) {
        list.push(path);
    }
}

fn is_recorded(moment: &Moment) -> bool {
    moment.confidence == Confidence::Recorded
}

/// The time of each message; a message without a time gets the time of the message before it. `None` if no message has
/// a time.
fn times(messages: &[Message]) -> Option<Vec<i64>> {
    let known = |message: &Message| {
        let at = message.at.filter(|at| at.confidence != Confidence::FileTime);
        at.map(|at| at.at_ms)
    };
    let mut last = messages.iter().find_map(known)?;
    let time = |message: &Message| {
        last = known(message).unwrap_or(last);
        last
    };
    Some(messages.iter().map(time).collect())
}

/// The text after the last empty line outside code.
fn last_paragraph(text: &str) -> Option<String> {
    let mut paragraphs: Vec<Vec<&str>> = vec![Vec::new()];
    let mut fence: Option<&str> = None;
    for line in text.lines() {
        let begun = line.trim_start();
        let mark = ["```", "~~~"].into_iter().find(|mark| begun.starts_with(mark));
        if line.trim().is_empty() && fence.is_none() {
            paragraphs.push(Vec::new());
            continue;
        }
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            _ => {}
        }
        if let Some(paragraph) = paragraphs.last_mut() {
            paragraph.push(line);
        }
    }
    let last = paragraphs.into_iter().rev().find(|lines| !lines.is_empty())?;
    Some(last.join("\n"))
}

#[cfg(test)]
#[path = "episode_tests.rs"]
mod tests;
