use cursor_stores::model::{Moment, Part, ToolCall, Workspace};
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use store_fixtures::conversation::{BEGAN_MS, rich};

use super::*;

fn stats(conversation: &Conversation) -> ConversationStats {
    sum(std::iter::once(conversation))
}

fn sum<'a>(conversations: impl Iterator<Item = &'a Conversation>) -> ConversationStats {
    let mut stats = ConversationStats::default();
    conversations.for_each(|conversation| stats.add(conversation, &TimeZone::UTC));
    stats
}

fn day(text: &str) -> Date {
    text.parse().unwrap()
}

#[test]
fn a_conversation_is_counted_once_in_every_way() {
    let stats = stats(&rich());
    assert_eq!(stats.messages, MessageCounts { prompts: 2, answers: 3, others: 5 });
    let tools: Vec<(&str, u64)> =
        stats.tools.iter().map(|(tool, counts)| (tool.as_str(), counts.total())).collect();
    assert_eq!(
        tools,
        [
            ("", 1),
            ("delete", 1),
            ("edit", 1),
            ("mcp_github_create_issue", 1),
            ("shell", 2),
            ("task", 1)
        ]
    );
    assert_eq!(stats.tools["shell"], ToolCounts { failed: 1, pending: 1, ..ToolCounts::default() });
    assert_eq!(
        stats.tool_calls(),
        ToolCounts { succeeded: 2, failed: 1, rejected: 1, cancelled: 1, pending: 1, unknown: 1 }
    );
    assert_eq!(stats.models["GPT-5.2"], ModelCounts { conversations: 1, messages: 1 });
    assert_eq!((stats.first_ms, stats.last_ms), (Some(BEGAN_MS), Some(BEGAN_MS + 600_000)));
    let counts = Counts { conversations: 1, messages: 10, tool_calls: 7 };
    assert_eq!(stats.days, BTreeMap::from([(day("2026-07-01"), counts)]));
    assert_eq!(stats.workspaces, BTreeMap::from([("/home/ada/parser".to_owned(), counts)]));
}

#[test]
fn tokens_are_those_of_the_conversation_else_of_its_turns_else_unknown() {
    let mut conversation = rich();
    let sum = |conversation: &Conversation| stats(conversation).tokens.sum;
    let of_head = sum(&conversation).unwrap();
    assert_eq!(
        (of_head.input, of_head.output, of_head.context_used),
        (Some(14_921), Some(806), None)
    );
    // The context's fill level says nothing about the tokens that were used.
    conversation.head.tokens = Some(TokenUsage { context_used: Some(5), ..TokenUsage::default() });
    assert_eq!(sum(&conversation).unwrap().input, Some(14_000));
    assert_eq!(sum(&conversation).unwrap().output, None);
    conversation.turns.clear();
    assert_eq!(stats(&conversation).tokens, KnownTokens { known_conversations: 0, sum: None });
    let json = serde_json::to_value(stats(&conversation)).unwrap();
    assert_eq!(json["tokens"], serde_json::json!({"known_conversations": 0, "sum": null}));
}

#[test]
fn pauses_and_guessed_times_do_not_count_as_active_time() {
    let mut conversation = rich();
    conversation.turns.clear();
    conversation.messages.clear();
    assert_eq!(stats(&conversation).active.ms, None);
    let message = |at: Moment| Message { at: Some(at), ..Message::new(Role::User, Vec::new()) };
    let minutes = |n: i64| BEGAN_MS + n * 60_000;
    conversation.messages = vec![
        message(Moment::recorded(minutes(0))),
        message(Moment::recorded(minutes(4))),
        message(Moment::interpolated(minutes(30))),
        message(Moment::recorded(minutes(120))),
    ];
    let mut call = ToolCall::new("Shell", serde_json::Value::Null);
    call.started = Some(Moment::recorded(minutes(121)));
    call.duration_ms = Some(60_000);
    conversation.messages[3].parts.push(Part::ToolCall(call));
    assert_eq!(stats(&conversation).active.ms, Some((4 + 2) * 60_000));
}

#[test]
fn a_message_without_a_time_counts_for_the_day_of_its_conversation() {
    let mut conversation = rich();
    conversation.messages = vec![Message::new(Role::User, Vec::new())];
    conversation.head.updated = Some(Moment::of_file(BEGAN_MS + 86_400_000));
    assert_eq!(stats(&conversation).days.keys().copied().collect::<Vec<_>>(), [day("2026-07-02")]);
    conversation.head.updated = None;
    conversation.head.created = None;
    assert_eq!(stats(&conversation).days, BTreeMap::new());
    // A time outside the calendar counts as unknown.
    conversation.head.created = Some(Moment::recorded(i64::MAX));
    assert_eq!(stats(&conversation).days, BTreeMap::new());
}

proptest! {
    #[test]
    fn the_order_of_conversations_does_not_matter(seeds in proptest::collection::vec((0i64..200, 0u8..4, any::<Option<u32>>()), 0..8)) {
        let all: Vec<Conversation> = seeds
            .iter()
            .map(|(days, workspace, tokens)| {
                let mut conversation = rich();
                conversation.head.workspace = Some(Workspace::here(format!("/w{workspace}")));
                conversation.head.tokens =
                    tokens.map(|input| TokenUsage { input: Some(input.into()), ..TokenUsage::default() });
                for message in &mut conversation.messages {
                    message.at = Some(Moment::recorded(BEGAN_MS + days * 86_400_000));
                }
                conversation
            })
            .collect();
        let forwards = sum(all.iter());
        prop_assert_eq!(&forwards, &sum(all.iter().rev()));
        prop_assert_eq!(forwards.conversations, seeds.len() as u64);
        let by_day: u64 = forwards.days.values().map(|counts| counts.messages).sum();
        let by_workspace: u64 = forwards.workspaces.values().map(|counts| counts.messages).sum();
        prop_assert_eq!((by_day, by_workspace), (forwards.messages.total(), forwards.messages.total()));
    }
}
