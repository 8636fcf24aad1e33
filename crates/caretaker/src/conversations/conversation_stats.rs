//! Counts messages, tool calls, tokens and times of conversations.

use std::collections::{BTreeMap, BTreeSet};

use cursor_stores::model::{
    Confidence, Conversation, Message, MessageKind, Role, TokenUsage, ToolState,
};
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::Serialize;

use crate::commands::sessions::ls;

/// A longer silence is a pause, not work.
const LONGEST_PAUSE_MS: i64 = 10 * 60 * 1000;

/// Cannot be mistaken for a path, because paths are absolute.
const UNKNOWN_WORKSPACE: &str = "unknown";

/// The counts of some conversations. An unknown number is absent, never zero.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct ConversationStats {
    pub(crate) conversations: u64,
    pub(crate) messages: MessageCounts,
    /// Counts by tool name; all stores use the same names.
    pub(crate) tools: BTreeMap<String, ToolCounts>,
    pub(crate) tokens: KnownTokens,
    pub(crate) models: BTreeMap<String, ModelCounts>,
    /// The first and the last known moment, in milliseconds since 1970.
    pub(crate) first_ms: Option<i64>,
    pub(crate) last_ms: Option<i64>,
    pub(crate) active: KnownTime,
    /// Counts by day, in the user's time zone.
    pub(crate) days: BTreeMap<Date, Counts>,
    /// Counts by path; `unknown` if the workspace is unknown.
    pub(crate) workspaces: BTreeMap<String, Counts>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct MessageCounts {
    pub(crate) prompts: u64,
    pub(crate) answers: u64,
    /// Context, summaries and messages that Cursor wrote itself.
    pub(crate) others: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct ToolCounts {
    pub(crate) succeeded: u64,
    pub(crate) failed: u64,
    pub(crate) rejected: u64,
    pub(crate) cancelled: u64,
    pub(crate) pending: u64,
    /// The store does not say.
    pub(crate) unknown: u64,
}

/// Sums over the conversations with known tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct KnownTokens {
    pub(crate) known_conversations: u64,
    /// `null` if it is unknown for all conversations.
    pub(crate) sum: Option<TokenUsage>,
}

/// The time of active work, in conversations whose messages have times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct KnownTime {
    pub(crate) known_conversations: u64,
    /// `null` if it is unknown for all conversations.
    pub(crate) ms: Option<u64>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct ModelCounts {
    pub(crate) conversations: u64,
    /// Messages that name the model.
    pub(crate) messages: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Counts {
    pub(crate) conversations: u64,
    pub(crate) messages: u64,
    pub(crate) tool_calls: u64,
}

impl ConversationStats {
    /// Counts one more conversation, with days in `zone`.
    pub(crate) fn add(&mut self, conversation: &Conversation, zone: &TimeZone) {
        let head = &conversation.head;
        self.conversations += 1;
        let workspace = head.workspace.as_ref().map(ls::workspace);
        let workspace = workspace.unwrap_or_else(|| UNKNOWN_WORKSPACE.to_owned());
        let of_workspace = self.workspaces.entry(workspace).or_default();
        of_workspace.conversations += 1;
        // A message without a time counts for the day on which its conversation changed.
        let changed = head.updated.or(head.created);
        let mut days = BTreeSet::new();
        for message in conversation.messages.iter().filter(|it| it.kind != MessageKind::Orphan) {
            *self.messages.of_kind(message) += 1;
            for call in message.tool_calls() {
                *self.tools.entry(call.tool.clone()).or_default().of_state(call.state) += 1;
            }
            of_workspace.add(message);
            let day = message.at.or(changed).and_then(|at| day_of(at.at_ms, zone));
            if let Some(day) = day {
                days.insert(day);
                self.days.entry(day).or_default().add(message);
            }
        }
        for day in days {
            self.days.entry(day).or_default().conversations += 1;
        }
        self.add_models(conversation);
        if let Some(tokens) = tokens(conversation) {
            self.tokens.known_conversations += 1;
            self.tokens.sum = Some(self.tokens.sum.map_or(tokens, |sum| sum.plus(tokens)));
        }
        if let Some(ms) = active_ms(conversation) {
            self.active.known_conversations += 1;
            self.active.ms = Some(self.active.ms.unwrap_or(0).saturating_add(ms));
        }
        let of_messages = conversation.messages.iter().map(|message| message.at);
        let moments = of_messages.chain([head.created, head.updated]).flatten();
        for at_ms in moments.map(|moment| moment.at_ms) {
            self.first_ms = Some(self.first_ms.map_or(at_ms, |first| first.min(at_ms)));
            self.last_ms = Some(self.last_ms.map_or(at_ms, |last| last.max(at_ms)));
        }
    }

    fn add_models(&mut self, conversation: &Conversation) {
        let of_head = conversation.head.models.iter().map(String::as_str);
        let of_turns = conversation.turns.iter().filter_map(|turn| turn.model.as_deref());
        let of_messages = conversation.messages.iter().filter_map(|m| m.model.as_deref());
        for model in of_head.chain(of_turns).chain(of_messages.clone()).collect::<BTreeSet<_>>() {
            self.models.entry(model.to_owned()).or_default().conversations += 1;
        }
        for model in of_messages {
            self.models.entry(model.to_owned()).or_default().messages += 1;
        }
    }

    /// The outcomes of all tools together.
    pub(crate) fn tool_calls(&self) -> ToolCounts {
        let mut all = ToolCounts::default();
        for counts in self.tools.values() {
            all.succeeded += counts.succeeded;
            all.failed += counts.failed;
            all.rejected += counts.rejected;
            all.cancelled += counts.cancelled;
            all.pending += counts.pending;
            all.unknown += counts.unknown;
        }
        all
    }
}

fn day_of(at_ms: i64, zone: &TimeZone) -> Option<Date> {
    let timestamp = Timestamp::from_millisecond(at_ms).ok()?;
    Some(timestamp.to_zoned(zone.clone()).date())
}

/// The tokens of the whole conversation if they are known, otherwise of its turns. The context's fill level does not
/// count as a sum.
fn tokens(conversation: &Conversation) -> Option<TokenUsage> {
    let summable = |tokens: TokenUsage| {
        let tokens = TokenUsage { context_used: None, context_limit: None, ..tokens };
        (!tokens.is_unknown()).then_some(tokens)
    };
    let of_turns = || {
        let turns = conversation.turns.iter().filter_map(|turn| turn.tokens.and_then(summable));
        turns.reduce(TokenUsage::plus)
    };
    conversation.head.tokens.and_then(summable).or_else(of_turns)
}

/// The sum of the times between recorded moments, without pauses.
fn active_ms(conversation: &Conversation) -> Option<u64> {
    let of_turns = conversation.turns.iter().flat_map(|turn| [turn.started, turn.ended]);
    let of_messages = conversation.messages.iter().map(|message| message.at);
    let calls = || conversation.messages.iter().flat_map(Message::tool_calls);
    let of_calls = calls().map(|call| call.started);
    let recorded = of_turns.chain(of_messages).chain(of_calls).flatten();
    let mut moments: Vec<i64> = recorded
        .filter(|moment| moment.confidence == Confidence::Recorded)
        .map(|moment| moment.at_ms)
        .collect();
    moments.extend(calls().filter_map(|call| {
        let started = call.started.filter(|at| at.confidence == Confidence::Recorded)?;
        started.at_ms.checked_add_unsigned(call.duration_ms?)
    }));
    moments.sort_unstable();
    moments.dedup();
    if moments.len() < 2 {
        return None;
    }
    let steps = moments.windows(2).map(|pair| pair[1].saturating_sub(pair[0]));
    Some(steps.filter(|step| *step <= LONGEST_PAUSE_MS).map(i64::unsigned_abs).sum())
}

impl MessageCounts {
    pub(crate) fn total(self) -> u64 {
        self.prompts + self.answers + self.others
    }

    fn of_kind(&mut self, message: &Message) -> &mut u64 {
        match (message.role, message.kind) {
            (Role::User, MessageKind::Said) => &mut self.prompts,
            (Role::Assistant, MessageKind::Said | MessageKind::Pending) => &mut self.answers,
            _ => &mut self.others,
        }
    }
}

impl ToolCounts {
    pub(crate) fn total(self) -> u64 {
        self.by_outcome().iter().map(|(count, _)| count).sum()
    }

    /// Each count with its label.
    pub(crate) fn by_outcome(self) -> [(u64, &'static str); 6] {
        [
            (self.succeeded, "succeeded"),
            (self.failed, "failed"),
            (self.rejected, "rejected"),
            (self.cancelled, "cancelled"),
            (self.pending, "pending"),
            (self.unknown, "with an unknown outcome"),
        ]
    }

    fn of_state(&mut self, state: ToolState) -> &mut u64 {
        match state {
            ToolState::Succeeded => &mut self.succeeded,
            ToolState::Failed => &mut self.failed,
            ToolState::Rejected => &mut self.rejected,
            ToolState::Cancelled => &mut self.cancelled,
            ToolState::Pending => &mut self.pending,
            ToolState::Unknown => &mut self.unknown,
        }
    }
}

impl Counts {
    fn add(&mut self, message: &Message) {
        self.messages += 1;
        self.tool_calls += message.tool_calls().count() as u64;
    }
}

#[cfg(test)]
#[path = "conversation_stats_tests.rs"]
mod tests;
