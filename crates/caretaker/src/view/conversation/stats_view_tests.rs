use cursor_stores::model::Conversation;
use jiff::tz::TimeZone;
use pretty_assertions::assert_eq;
use store_fixtures::conversation::{rich, rich_with_everywhere};

use super::*;

fn printed(stats: &ConversationStats, width: Width) -> String {
    let mut out = Vec::new();
    print(&mut out, stats, "2026-07-03".parse().unwrap(), width).unwrap();
    anstream::adapter::strip_str(std::str::from_utf8(&out).unwrap()).to_string()
}

fn stats_of(conversation: &Conversation) -> ConversationStats {
    let mut stats = ConversationStats::default();
    stats.add(conversation, &TimeZone::UTC);
    stats
}

fn stats() -> ConversationStats {
    stats_of(&rich())
}

#[test]
fn without_a_terminal_only_words_and_numbers_are_printed() {
    assert_eq!(
        printed(&stats(), Width::Unlimited),
        "\
conversations  1
messages       10: 2 prompts, 3 answers, 5 others
tool calls     7: 2 succeeded, 1 failed, 1 rejected, 1 cancelled, 1 pending, 1 with an unknown outcome
tokens         14,921 in, 806 out, 51,840 from cache, 12 to cache (known for all)
days           2026-07-01
active time    5 min 10 s (known for all)

tools
  shell                    2: 1 failed, 1 pending
  (unnamed)                1: 1 with an unknown outcome
  delete                   1: 1 rejected
  edit                     1: 1 succeeded
  mcp_github_create_issue  1: 1 cancelled
  task                     1: 1 succeeded

models
  Composer 2  1 conversation, 1 message
  GPT-5.2     1 conversation, 1 message

workspaces
  /home/ada/parser  10 messages, 7 tool calls, 1 conversation

days
  2026-07-01 Wed  10 messages, 7 tool calls, 1 conversation
"
    );
}

#[test]
fn two_ids_with_one_name_are_told_apart() {
    let mut stats = stats();
    stats.models.clear();
    for id in ["claude-4.5-opus-high-thinking", "opus-4.5-thinking", "gpt-5.2"] {
        stats.models.insert(id.to_owned(), Default::default());
    }
    let page = printed(&stats, Width::Unlimited);
    for name in [
        "  Claude Opus 4.5 (Thinking) (claude-4.5-opus-high-thinking)  ",
        "  Claude Opus 4.5 (Thinking) (opus-4.5-thinking)  ",
        "  GPT-5.2  ",
    ] {
        assert!(page.contains(name), "{name} is not in\n{page}");
    }
}

#[test]
fn on_a_terminal_bars_are_printed_and_every_row_fits() {
    let page = printed(&stats(), Width::Columns(80));
    for line in [
        "  shell                    ████████████████████████ 2: 1 failed, 1 pending",
        "  task                     ████████████             1: 1 succeeded",
        "  /home/ada/parser  ██████████████████ 10 messages, 7 tool calls, 1 conversation",
        "█··  messages, the last 50 days",
    ] {
        assert!(page.contains(line), "{line} is not in\n{page}");
    }
    for width in [1, 10, 30, 40, 80, 200] {
        let page = printed(&stats(), Width::Columns(width));
        for line in page.split_once("\n\n").unwrap().1.lines() {
            assert!(columns(line) <= width, "{line} is wider than {width}");
        }
    }
}

#[test]
fn an_unknown_number_is_unknown_and_not_zero() {
    let mut conversation = rich();
    conversation.head.tokens = None;
    conversation.turns.clear();
    conversation.messages.clear();
    let page = printed(&stats_of(&conversation), Width::Unlimited);
    assert!(page.contains("\ntokens         unknown\n"), "{page}");
    assert!(page.contains("\nactive time    unknown\n"), "{page}");
    assert!(page.contains("\ntool calls     none\n"), "{page}");
    assert_eq!(printed(&ConversationStats::default(), Width::Unlimited), "conversations  0\n");
}

#[test]
fn names_cannot_control_the_terminal() {
    let hostile = rich_with_everywhere("\u{1b}]0;owned\u{7}\u{202e}\r\n");
    let stats = stats_of(&hostile);
    for width in [Width::Unlimited, Width::Columns(60)] {
        let mut out = Vec::new();
        print(&mut out, &stats, "2026-07-03".parse().unwrap(), width).unwrap();
        let page = String::from_utf8(out).unwrap();
        assert!(!page.contains("\u{1b}]") && !page.contains(['\u{7}', '\u{202e}', '\r']), "{page}");
    }
}
