use pretty_assertions::assert_eq;
use serde_json::json;
use store_fixtures::conversation::{BEGAN_MS, rich};

use super::*;
use cursor_stores::model::{Part, Role};

fn evidence(conversation: &Conversation) -> Evidence {
    let root = ["/home/ada/parser".to_owned()];
    Evidence::of(conversation, &root, &root)
}

#[test]
fn files_come_from_the_store_s_list_and_from_calls_that_changed_them() {
    let found = evidence(&rich());
    let touches: Vec<(&str, Option<i64>)> = found
        .touches
        .iter()
        .map(|touch| (touch.path.as_str(), touch.at.map(|at| at.at_ms - BEGAN_MS)))
        .collect();
    // The refused deletion does not count. The edit has a time, so the same file has no second entry without one.
    assert_eq!(touches, [("src/parser.rs", None), ("src/lib.rs", Some(40_012))]);
    assert_eq!(found.workspace_match, WorkspaceMatch::Same);
    assert_eq!(found.span, Some((BEGAN_MS, BEGAN_MS + 600_000)));
    assert!(found.activity.contains(&(BEGAN_MS + 40_000)));
}

#[test]
fn every_way_of_naming_a_file_is_known() {
    for (input, expected) in [
        (json!({"path": "a"}), vec!["a"]),
        (json!({"file_path": "a", "contents": "path: b"}), vec!["a"]),
        (json!({"targetFile": "a"}), vec!["a"]),
        (json!({"relative_workspace_path": "a"}), vec!["a"]),
        (json!({"relativeWorkspacePath": "a"}), vec!["a"]),
        (json!({"target_notebook": "a"}), vec!["a"]),
        (json!({"edits": [{"path": "a"}, {"filePath": "b"}]}), vec!["a", "b"]),
        (
            json!({"input": "*** Begin Patch\n*** Update File: a\n@@\n*** Add File: b c\n*** End Patch"}),
            vec!["a", "b c"],
        ),
        (json!("*** Begin Patch\n*** Delete File: a\n"), vec!["a"]),
        (json!({"command": "rm a"}), vec![]),
        (json!(null), vec![]),
    ] {
        assert_eq!(changed_paths(&input), expected, "{input}");
    }
}

#[test]
fn reading_a_file_does_not_count_as_a_change() {
    let mut conversation = rich();
    conversation.files.clear();
    let call = |name: &str, state| ToolCall { state, ..ToolCall::new(name, json!({"path": "a"})) };
    let parts = vec![
        Part::ToolCall(call("read_file", ToolState::Succeeded)),
        Part::ToolCall(call("write", ToolState::Failed)),
        Part::ToolCall(call("write", ToolState::Cancelled)),
    ];
    conversation.messages = vec![Message::new(Role::Assistant, parts)];
    assert_eq!(evidence(&conversation).touches, []);
}
