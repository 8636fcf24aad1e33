use std::ops::ControlFlow;

use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;
use crate::chat::{ChatStore, Depth, Rows, resume_point};
use crate::model::{Head, Origin, StoreKind, ToolResult};
use crate::session_copy::verify_store;

fn conversation(messages: Vec<Message>) -> Conversation {
    let origin = Origin {
        store: StoreKind::Ide,
        path: run_protocol::BytesPath("state.vscdb".into()),
        key: None,
    };
    let mut head = Head::new("composer", origin);
    head.title = Some("The cart".to_owned());
    Conversation { messages, ..Conversation::new(head) }
}

fn said(role: Role, text: &str) -> Message {
    Message::new(role, vec![Part::Text { text: text.to_owned() }])
}

fn target(directory: &tempfile::TempDir) -> NewSession {
    NewSession {
        chats: directory.path().join("chats"),
        bucket: "bucket".to_owned(),
        id: "0a0a0a0a-0000-4000-8000-000000000001".to_owned(),
        workspace: "/srv/shop".to_owned(),
        now_ms: 1_790_000_000_000,
    }
}

#[test]
fn a_conversation_from_another_store_becomes_a_session_that_can_be_resumed() {
    let directory = tempfile::tempdir().unwrap();
    let mut call = ToolCall::new("run_terminal_cmd", json!({"command": "npm test"}));
    call.result = Some(ToolResult { output: json!("2 failed"), error: None, is_truncated: false });
    let mut context = said(Role::User, "rules of the editor");
    context.kind = MessageKind::Context;
    let thought = Part::Reasoning { text: "Hm.".to_owned(), duration_ms: None, is_redacted: false };
    let told = retell(
        &conversation(vec![
            said(Role::System, "You are the editor."),
            context,
            said(Role::User, "Why is the cart empty?"),
            Message::new(Role::Assistant, vec![thought, Part::ToolCall(call)]),
            said(Role::Assistant, "A race."),
            said(Role::User, "Mend it."),
        ]),
        &target(&directory),
    )
    .unwrap();
    assert_eq!((told.n_prompt_messages, told.n_turns), (4, 2));
    assert_eq!(told.title.as_deref(), Some("The cart (fork)"));
    let store = told.directory.join("store.db");
    let point = resume_point(&store, None, Depth::Whole).unwrap().state;
    assert_eq!((point.id, point.n_prompt_messages, point.n_turns), (told.root, 4, 2));
    assert!(verify_store(&store, &[]).unwrap().is_sound());

    let store = ChatStore::open_read_only(&store).unwrap();
    let mut messages: Vec<String> = Vec::new();
    store
        .at_once(|blobs| {
            blobs.scan(Rows::ALL, &mut |_, data| {
                messages.extend(String::from_utf8(data.to_vec()).ok());
                ControlFlow::Continue(())
            })
        })
        .unwrap();
    let all = messages.join("\n");
    assert!(all.contains("npm test") && all.contains("2 failed") && all.contains("Mend it."));
    assert!(
        !all.contains("Hm.") && !all.contains("You are the editor.") && !all.contains("rules of")
    );
}

#[test]
fn an_empty_conversation_makes_no_session() {
    let directory = tempfile::tempdir().unwrap();
    let target = target(&directory);
    let refused = retell(&conversation(vec![said(Role::System, "hello")]), &target).unwrap_err();
    assert!(matches!(refused, CopyError::NothingSaid), "{refused}");
    assert!(!target.directory().exists());
}
