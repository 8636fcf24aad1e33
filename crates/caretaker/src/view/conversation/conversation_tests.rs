use cursor_stores::model::{
    Conversation, Head, Message, MessageKind, Moment, Origin, Part, Role, StoreKind, Todo,
    TodoState, ToolCall, ToolResult, ToolState,
};
use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;

fn conversation() -> Conversation {
    let origin = Origin { store: StoreKind::Cli, path: "/chats/store.db".into(), key: None };
    let mut head = Head::new("5f1c3a52", origin);
    head.title = Some("Fix \u{1b}[2Jthe tests".to_owned());
    let mut conversation = Conversation::new(head);
    let mut context = Message::new(Role::User, vec![Part::text("<user_info>…</user_info>")]);
    context.kind = MessageKind::Context;
    let mut call = ToolCall::new("Shell", json!({"command": "cargo test\nls"}));
    call.state = ToolState::Failed;
    call.duration_ms = Some(4200);
    call.result = Some(ToolResult {
        output: json!("one\ntwo\nthree\nfour\nfive\u{1b}[31m"),
        error: None,
        is_truncated: false,
    });
    let mut answer = Message::new(
        Role::Assistant,
        vec![
            Part::reasoning("first thought\nsecond"),
            Part::text("# Done\nall **good** in `x`"),
            Part::ToolCall(call),
        ],
    );
    answer.at = Some(Moment::interpolated(0));
    conversation.messages =
        vec![context, Message::new(Role::User, vec![Part::text("please")]), answer];
    conversation.todos = vec![Todo { text: "ship".to_owned(), state: TodoState::Completed }];
    conversation
}

fn printed(folding: Folding) -> String {
    let mut out = Vec::new();
    print(&mut out, &conversation(), folding).unwrap();
    anstream::adapter::strip_str(std::str::from_utf8(&out).unwrap()).to_string()
}

#[test]
fn a_conversation_reads_in_order_with_long_parts_folded() {
    let text = printed(Folding::Folded);
    let (head, said) = text.split_once("\n\n").unwrap();
    assert!(head.starts_with("Fix ␛[2Jthe tests\nsession    5f1c3a52\n"), "{head}");
    let at = moment(0);
    assert_eq!(
        said,
        format!(
            "── context (26 bytes) ──

── you ──
please

── agent · ~{at} ──
  first thought
  (thought · 1 more line)
Done
all good in x
  ✗ Shell cargo test… · 4.2 s
    │ one
    │ two
    │ three
    │ … 2 more lines

── todos ──
✓ ship
"
        )
    );
}

#[test]
fn everything_is_shown_on_request_and_nothing_controls_the_terminal() {
    let text = printed(Folding::Open);
    for part in ["<user_info>", "second", "five␛[31m", "\"command\""] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(!text.contains('\u{1b}'));
}
