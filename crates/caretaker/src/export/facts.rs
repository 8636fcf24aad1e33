//! Words for the facts about a conversation in an export.

use admission::words::units;
use cursor_stores::model::{
    Confidence, Conversation, Head, Message, MessageKind, Moment, Origin, Part, PendingCall, Role,
    TodoState, ToolCall, ToolResult, ToolState, Turn, TurnState, display_model,
};
use jiff::Timestamp;

use crate::commands::sessions::ls;
use crate::view::conversation::{models_in_words, tokens_in_words};

/// The list of prompts shows at most this many characters of each.
const LONGEST_HEADING: usize = 100;

pub(super) fn title(head: &Head) -> String {
    match head.title.as_deref().map(str::trim) {
        Some(title) if !title.is_empty() => title.to_owned(),
        _ => format!("Conversation {}", head.id),
    }
}

/// The known facts: names and values.
pub(super) struct Facts {
    /// The facts that readers want first.
    pub(super) first: Vec<(&'static str, String)>,
    pub(super) more: Vec<(&'static str, String)>,
}

pub(super) fn facts(conversation: &Conversation) -> Facts {
    let head = &conversation.head;
    let first = [
        ("Workspace", head.workspace.as_ref().map(ls::workspace)),
        ("Began", head.created.map(moment)),
        ("Changed", head.updated.map(moment)),
        ("Models", Some(models_in_words(head))),
        ("Mode", head.mode.clone()),
        ("State", Some(ls::state(head).to_owned())),
        ("Messages", head.n_messages.map(units::grouped)),
        ("Tokens", head.tokens.map(|tokens| tokens_in_words(&tokens))),
    ];
    let parent = head.parent.as_ref().map(|parent| {
        with_details(&parent.id, [("call", &parent.tool_call_id), ("type", &parent.type_name)])
    });
    let kept = conversation.also_kept.iter();
    let kept: Vec<String> =
        kept.map(|(name, n)| format!("{} {name}", units::grouped(*n))).collect();
    let more = [
        ("Session", Some(head.id.clone())),
        ("Sub-agent of", parent),
        ("Sub-agents", Some(head.subagents.join(", "))),
        ("On disk", head.n_bytes.map(units::bytes)),
        ("Also kept", Some(kept.join(", "))),
    ];
    let known = |facts: &[(&'static str, Option<String>)]| -> Vec<(&'static str, String)> {
        let known = facts.iter().filter_map(|(name, value)| Some((*name, value.clone()?)));
        known.filter(|(_, value)| !value.is_empty()).collect()
    };
    let mut more = known(&more);
    more.extend(head.origins.iter().map(|origin| ("Found in", origin_in_words(origin))));
    Facts { first: known(&first), more }
}

fn with_details<'a>(
    subject: &str,
    details: impl IntoIterator<Item = (&'a str, &'a Option<String>)>,
) -> String {
    let details = details.into_iter();
    let known: Vec<String> =
        details.filter_map(|(name, value)| Some(format!("{name} {}", value.as_ref()?))).collect();
    if known.is_empty() { subject.to_owned() } else { format!("{subject} ({})", known.join(", ")) }
}

fn origin_in_words(origin: &Origin) -> String {
    let path = format!("{}: {}", origin.store, origin.path.0.display());
    with_details(&path, [("key", &origin.key)])
}

/// `2026-07-01 09:30:00 UTC`: the same on every machine, with a note if it is uncertain.
pub(super) fn moment(moment: Moment) -> String {
    let time = match Timestamp::from_millisecond(moment.at_ms) {
        Ok(timestamp) => timestamp.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
        Err(_) => format!("{} ms after 1970", moment.at_ms),
    };
    match moment.confidence {
        Confidence::Recorded => time,
        Confidence::Interpolated => format!("about {time}"),
        Confidence::FileTime => format!("{time} (file time)"),
    }
}

/// A label for the message: its speaker, its kind, or both.
pub(super) fn speaker(message: &Message) -> &'static str {
    match (message.kind, message.role) {
        (MessageKind::Said, Role::User) => "User",
        (MessageKind::Said, Role::Assistant) => "Assistant",
        (MessageKind::Said, Role::System) => "System",
        (MessageKind::Said, Role::Tool) => "Result without its call",
        (MessageKind::Said, Role::Unknown) => "Unknown role",
        (MessageKind::Context, Role::System) => "System prompt",
        (MessageKind::Context, _) => "Context added by Cursor",
        (MessageKind::Summary, _) => "Summary of earlier messages",
        (MessageKind::Simulated, _) => "Written by Cursor",
        (MessageKind::Pending, Role::User) => "User, not committed",
        (MessageKind::Pending, _) => "Assistant, not committed",
        (MessageKind::Orphan, Role::User) => "User, on an abandoned branch",
        (MessageKind::Orphan, _) => "Assistant, on an abandoned branch",
    }
}

/// The model and the time.
pub(super) fn message_notes(message: &Message) -> Vec<String> {
    [message.model.as_deref().map(display_model), message.at.map(moment)]
        .into_iter()
        .flatten()
        .collect()
}

/// The user's prompts, each with its position and its first line.
pub(super) fn prompts(conversation: &Conversation) -> impl Iterator<Item = (usize, String)> {
    let is_prompt = |message: &Message| message.role == Role::User && message.kind.is_said();
    conversation.messages.iter().enumerate().filter(move |(_, message)| is_prompt(message)).map(
        |(position, message)| {
            let text = message.text();
            let line = text.lines().map(str::trim).find(|line| !line.is_empty());
            (position, cut(line.unwrap_or("(no text)")))
        },
    )
}

fn cut(line: &str) -> String {
    let mut shown: String = line.chars().take(LONGEST_HEADING).collect();
    if shown.len() < line.len() {
        shown.push('…');
    }
    shown
}

pub(super) fn turn(turn: &Turn) -> String {
    let state = match turn.state {
        TurnState::Running => "running",
        TurnState::Finished => "finished",
        TurnState::Failed => "failed",
        TurnState::Cancelled => "cancelled",
        TurnState::Unknown => "unknown end",
    };
    let error = turn.error_in_words().map_or_else(String::new, |error| format!(": {error}"));
    let words = [
        Some(format!("{state}{error}")),
        turn.model.as_deref().map(display_model),
        turn.started.map(|at| format!("began {}", moment(at))),
        turn.ended.map(|at| format!("ended {}", moment(at))),
        turn.tokens.map(|tokens| format!("tokens {}", tokens_in_words(&tokens))),
        turn.request_id.as_ref().map(|id| format!("request {id}")),
    ];
    words.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

pub(super) fn todo_mark(state: TodoState) -> &'static str {
    match state {
        TodoState::Pending => "☐",
        TodoState::InProgress => "◐",
        TodoState::Completed => "☑",
        TodoState::Cancelled => "☒",
        TodoState::Unknown => "?",
    }
}

/// `thought for 4.1 s`.
pub(super) fn thinking(duration_ms: Option<u64>) -> String {
    match duration_ms {
        Some(duration) => format!("Thinking for {}", units::duration(duration)),
        None => "Thinking".to_owned(),
    }
}

/// `image image/png, 33.7 KiB, /tmp/screenshot.png`.
pub(super) fn image(media_type: Option<&str>, path: Option<&str>, n_bytes: Option<u64>) -> String {
    let words = [
        Some(media_type.unwrap_or("image").to_owned()),
        n_bytes.map(units::bytes),
        path.map(str::to_owned),
    ];
    words.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// The tool's name.
pub(super) fn tool(call: &ToolCall) -> &str {
    [call.tool.as_str(), call.name.as_str()]
        .into_iter()
        .find(|name| !name.is_empty())
        .unwrap_or("unnamed tool")
}

pub(super) fn tool_state(state: ToolState) -> &'static str {
    match state {
        ToolState::Pending => "pending",
        ToolState::Succeeded => "succeeded",
        ToolState::Failed => "failed",
        ToolState::Rejected => "rejected",
        ToolState::Cancelled => "cancelled",
        ToolState::Unknown => "outcome unknown",
    }
}

/// The subject of a call, if its arguments have one.
pub(super) fn tool_subject(call: &ToolCall) -> Option<String> {
    Some(agent_stream::tool_subject(&call.input)).filter(|subject| !subject.is_empty())
}

/// The outcome of a call, in a few words.
pub(super) fn tool_outcome(call: &ToolCall) -> String {
    let exit_code = call.result.as_ref().and_then(ToolResult::exit_code);
    let words = [
        Some(tool_state(call.state).to_owned()),
        exit_code.filter(|code| *code != 0).map(|code| format!("exit code {code}")),
        call.duration_ms.map(units::duration),
    ];
    words.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Further facts about a call.
pub(super) fn tool_notes(call: &ToolCall) -> Vec<(&'static str, String)> {
    let name = (call.name != call.tool && !call.name.is_empty()).then(|| call.name.clone());
    let notes = [
        ("Called", name),
        ("Call", call.id.clone()),
        ("Began", call.started.map(moment)),
        ("Sub-agent", call.subagent.clone()),
    ];
    notes.into_iter().filter_map(|(what, value)| Some((what, value?))).collect()
}

/// A pending call as a tool call.
pub(super) fn pending_call(pending: &PendingCall) -> ToolCall {
    ToolCall {
        id: pending.id.clone(),
        state: ToolState::Pending,
        started: pending.started,
        ..ToolCall::new(pending.name.clone(), pending.input.clone())
    }
}

/// True if a message is folded: neither the user nor the agent wrote it.
pub(super) fn is_folded(message: &Message) -> bool {
    matches!(message.kind, MessageKind::Context) || message.role == Role::System
}

/// True if a part has nothing to show.
pub(super) fn is_blank(part: &Part) -> bool {
    matches!(part, Part::Text { text } if text.trim().is_empty())
}
