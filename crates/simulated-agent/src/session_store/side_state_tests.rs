use pretty_assertions::assert_eq;
use serde_json::json;

use super::super::ToolResultRecord;
use super::super::test_bench::{Bench, shell_call};
use super::*;

#[test]
fn files_read_and_changed_and_todos_are_noted_in_the_root() {
    let bench = Bench::new(Generation::V2026_09);
    let mut store = bench.open();
    let call = |call_id: &str, key: &str, args: Value| ToolCallRecord {
        key: key.to_owned(),
        args,
        ..shell_call(call_id, "")
    };
    let calls = [
        call("r", "readToolCall", json!({ "path": "/a" })),
        call("e", "editToolCall", json!({ "path": "/b" })),
        call("f", "editToolCall", json!({ "path": "/b" })),
        call("t", "updateTodosToolCall", json!({})),
    ];
    let result = |call_id: &str, success: Value| ToolResultRecord {
        call_id: call_id.to_owned(),
        result: json!({ "success": success }),
        for_model: "done".to_owned(),
        is_error: false,
    };
    let results = [
        result("r", json!({ "path": "/a", "content": "x" })),
        result(
            "e",
            json!({ "path": "/b", "beforeFullFileContent": "one", "afterFullFileContent": "two" }),
        ),
        result(
            "f",
            json!({ "path": "/b", "beforeFullFileContent": "two", "afterFullFileContent": "three" }),
        ),
        result(
            "t",
            json!({ "todos": [{ "id": "1", "content": "rest", "status": "TODO_STATUS_IN_PROGRESS" }] }),
        ),
    ];
    store.begin_turn("work", "request").unwrap();
    store.model_step(None, None, &calls).unwrap();
    store.tools_finished(&results).unwrap();
    store.end_turn(None, "done").unwrap();
    let dump = bench.dump();
    dump.walk();
    assert_eq!(bench.check().findings, []);
    let root = ConversationStateStructure::decode(dump.blob(dump.latest_root())).unwrap();
    assert_eq!(root.read_paths, ["/a"]);
    let blob = |id: &Option<Vec<u8>>| dump.blob(&hex::encode(id.as_ref().unwrap())).to_vec();
    let state = &root.file_states_v2["/b"];
    assert_eq!(
        (blob(&state.initial_content), blob(&state.content)),
        (b"one".to_vec(), b"three".to_vec())
    );
    let todo = TodoItem::decode(dump.blob(&hex::encode(&root.todos[0]))).unwrap();
    assert_eq!((todo.content.as_str(), todo.status), ("rest", 2));
    drop(store);
    let status = tools::TodoStatus::InProgress;
    let expected = [tools::TodoItem { id: "1".to_owned(), content: "rest".to_owned(), status }];
    assert_eq!(bench.open().todos(), expected);
}
