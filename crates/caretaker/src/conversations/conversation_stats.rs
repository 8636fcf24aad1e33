//! Counts what is in conversations.

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

/// Cannot be mistaken for a path: paths are absolute.
const UNKNOWN_WORKSPACE: &str = "unknown";

/// The counts of some conversations. An unknown number is absent, never zero.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct ConversationStats {
    pub(crate) conversations: u64,
    pub(crate) messages: MessageCounts,
    /// Counts by the tool's name, which is the same in all stores.
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
    /// `null` if no conversation knows.
    pub(crate) sum: Option<TokenUsage>,
}

/// The time of active work, as far as messages have times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct KnownTime {
    pub(crate) known_conversations: u64,
    /// `null` if no conversation knows.
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
    /// Counts one conversation. Days are those of `zone`.
    pub(crate) fn of(conversation: &Conversation, zone: &TimeZone) -> Self {
        let mut stats = Self { conversations: 1, ..Self::default() };
        let said = || conversation.messages.iter().filter(|message| is_counted(message));
        for message in said() {
            stats.messages.add(message);
        }
        for call in said().flat_map(Message::tool_calls) {
            let counts = stats.tools.entry(call.tool.clone()).or_default();
            *counts.of_state(call.state) += 1;
        }
        stats.tokens = tokens(conversation);
        stats.count_models(conversation);
        let all = Counts {
            conversations: 1,
            messages: said().count() as u64,
            tool_calls: said().map(n_calls).sum(),
        };
        let workspace = conversation.head.workspace.as_ref().map(ls::workspace);
        stats.workspaces.insert(workspace.unwrap_or_else(|| UNKNOWN_WORKSPACE.to_owned()), all);
        stats.count_days(conversation, zone);
        stats.active = active_time(conversation);
        stats
    }

    /// Adds the counts of other conversations.
    #[must_use]
    pub(crate) fn plus(mut self, other: Self) -> Self {
        self.conversations += other.conversations;
        self.messages = self.messages.plus(other.messages);
        merge(&mut self.tools, other.tools, ToolCounts::plus);
        self.tokens = self.tokens.plus(other.tokens);
        merge(&mut self.models, other.models, ModelCounts::plus);
        self.first_ms = [self.first_ms, other.first_ms].into_iter().flatten().min();
        self.last_ms = [self.last_ms, other.last_ms].into_iter().flatten().max();
        self.active = self.active.plus(other.active);
        merge(&mut self.days, other.days, Counts::plus);
        merge(&mut self.workspaces, other.workspaces, Counts::plus);
        self
    }

    /// All tools together.
    pub(crate) fn tool_calls(&self) -> ToolCounts {
        self.tools.values().copied().fold(ToolCounts::default(), ToolCounts::plus)
    }

    fn count_models(&mut self, conversation: &Conversation) {
        let names = conversation.head.models.iter().map(String::as_str);
        let of_turns = conversation.turns.iter().filter_map(|turn| turn.model.as_deref());
        let of_messages = conversation.messages.iter().filter_map(|m| m.model.as_deref());
        for model in names.chain(of_turns).chain(of_messages.clone()).collect::<BTreeSet<_>>() {
            self.models.entry(model.to_owned()).or_default().conversations = 1;
        }
        for model in of_messages {
            self.models.entry(model.to_owned()).or_default().messages += 1;
        }
    }

    /// A message without a time counts for the day on which its conversation changed.
    fn count_days(&mut self, conversation: &Conversation, zone: &TimeZone) {
        let head = &conversation.head;
        let of_head = head.updated.or(head.created).map(|moment| moment.at_ms);
        let ends = [head.created, head.updated].into_iter().flatten().map(|moment| moment.at_ms);
        let of_messages =
            conversation.messages.iter().filter_map(|message| Some(message.at?.at_ms));
        self.first_ms = ends.clone().chain(of_messages.clone()).min();
        self.last_ms = ends.chain(of_messages).max();
        for message in conversation.messages.iter().filter(|message| is_counted(message)) {
            let at = message.at.map(|moment| moment.at_ms).or(of_head);
            let Some(day) = at.and_then(|at| day_of(at, zone)) else { continue };
            let counts = self.days.entry(day).or_default();
            counts.conversations = 1;
            counts.messages += 1;
            counts.tool_calls += n_calls(message);
        }
    }
}

fn is_counted(message: &Message) -> bool {
    message.kind != MessageKind::Orphan
}

fn n_calls(message: &Message) -> u64 {
    message.tool_calls().count() as u64
}

fn day_of(at_ms: i64, zone: &TimeZone) -> Option<Date> {
    let timestamp = Timestamp::from_millisecond(at_ms).ok()?;
    Some(timestamp.to_zoned(zone.clone()).date())
}

/// The tokens of the whole conversation if they are known, otherwise of its turns. The fill of the context is no sum.
fn tokens(conversation: &Conversation) -> KnownTokens {
    let summable = |tokens: TokenUsage| {
        let tokens = TokenUsage { context_used: None, context_limit: None, ..tokens };
        (!tokens.is_unknown()).then_some(tokens)
    };
    let of_turns = || {
        let turns = conversation.turns.iter().filter_map(|turn| turn.tokens.and_then(summable));
        turns.reduce(TokenUsage::plus)
    };
    let sum = conversation.head.tokens.and_then(summable).or_else(of_turns);
    KnownTokens { known_conversations: u64::from(sum.is_some()), sum }
}

/// The sum of the times between recorded moments, without pauses.
fn active_time(conversation: &Conversation) -> KnownTime {
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
        return KnownTime::default();
    }
    let steps = moments.windows(2).map(|pair| pair[1].saturating_sub(pair[0]));
    let ms = steps.filter(|step| *step <= LONGEST_PAUSE_MS).map(i64::unsigned_abs).sum();
    KnownTime { known_conversations: 1, ms: Some(ms) }
}

fn merge<K: Ord, V: Copy + Default>(
    into: &mut BTreeMap<K, V>,
    from: BTreeMap<K, V>,
    plus: fn(V, V) -> V,
) {
    for (key, value) in from {
        let known = into.entry(key).or_default();
        *known = plus(*known, value);
    }
}

fn add(left: Option<u64>, right: Option<u64>) -> Option<u64> {
    match (left, right) {
        (Some(left), Some(right)) => Some(left.saturating_add(right)),
        (left, right) => left.or(right),
    }
}

impl MessageCounts {
    pub(crate) fn total(self) -> u64 {
        self.prompts + self.answers + self.others
    }

    fn add(&mut self, message: &Message) {
        match (message.role, message.kind) {
            (Role::User, MessageKind::Said) => self.prompts += 1,
            (Role::Assistant, MessageKind::Said | MessageKind::Pending) => self.answers += 1,
            _ => self.others += 1,
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            prompts: self.prompts + other.prompts,
            answers: self.answers + other.answers,
            others: self.others + other.others,
        }
    }
}

impl ToolCounts {
    pub(crate) fn total(self) -> u64 {
        self.by_outcome().iter().map(|(count, _)| count).sum()
    }

    /// Each count with its word.
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

    fn plus(self, other: Self) -> Self {
        Self {
            succeeded: self.succeeded + other.succeeded,
            failed: self.failed + other.failed,
            rejected: self.rejected + other.rejected,
            cancelled: self.cancelled + other.cancelled,
            pending: self.pending + other.pending,
            unknown: self.unknown + other.unknown,
        }
    }
}

impl KnownTokens {
    fn plus(self, other: Self) -> Self {
        Self {
            known_conversations: self.known_conversations + other.known_conversations,
            sum: match (self.sum, other.sum) {
                (Some(sum), Some(more)) => Some(sum.plus(more)),
                (sum, more) => sum.or(more),
            },
        }
    }
}

impl KnownTime {
    fn plus(self, other: Self) -> Self {
        Self {
            known_conversations: self.known_conversations + other.known_conversations,
            ms: add(self.ms, other.ms),
        }
    }
}

impl ModelCounts {
    fn plus(self, other: Self) -> Self {
        Self {
            conversations: self.conversations + other.conversations,
            messages: self.messages + other.messages,
        }
    }
}

impl Counts {
    fn plus(self, other: Self) -> Self {
        Self {
            conversations: self.conversations + other.conversations,
            messages: self.messages + other.messages,
            tool_calls: self.tool_calls + other.tool_calls,
        }
    }
}

#[cfg(test)]
#[path = "conversation_stats_tests.rs"]
mod tests;
