use pretty_assertions::assert_eq;

use super::*;
use crate::tools::ToolRequest;
use crate::tools::test_environment::TestEnvironment;

fn item(id: &str, status: TodoStatus) -> TodoItem {
    TodoItem { id: id.to_owned(), content: format!("Do {id}"), status }
}

fn update_with(items: &[TodoItem], update: TodoUpdate) -> ToolRequest {
    ToolRequest::UpdateTodos { items: items.to_vec(), update }
}

#[test]
fn the_stream_and_the_model_have_their_own_names_for_a_status() {
    let environment = TestEnvironment::new();
    let items = [item("1", TodoStatus::InProgress), item("2", TodoStatus::Pending)];
    let (prepared, tool_run) = environment.call(&update_with(&items, TodoUpdate::Replace));
    assert_eq!(prepared.args["todos"][0]["status"], json!("TODO_STATUS_IN_PROGRESS"));
    assert_eq!(prepared.args["merge"], json!(false));
    assert_eq!(
        prepared.model_args["todos"][0],
        json!({"id": "1", "content": "Do 1", "status": "in_progress"})
    );
    let success = &tool_run.result["success"];
    assert_eq!(
        (&success["totalCount"], &success["todos"][1]["content"]),
        (&json!(2), &json!("Do 2"))
    );
    assert!(success["todos"][0]["createdAt"].as_str().unwrap().parse::<u64>().unwrap() > 0);
}

#[test]
fn a_merge_keeps_unnamed_items_and_a_replacement_drops_them() {
    let mut environment = TestEnvironment::new();
    environment.todos =
        TodoList::new(vec![item("1", TodoStatus::Pending), item("2", TodoStatus::Pending)]);
    environment.call(&update_with(
        &[item("2", TodoStatus::Completed), item("3", TodoStatus::Pending)],
        TodoUpdate::Merge,
    ));
    let expected = [
        item("1", TodoStatus::Pending),
        item("2", TodoStatus::Completed),
        item("3", TodoStatus::Pending),
    ];
    assert_eq!(environment.todos.items(), expected);
    let (_, read) = environment.call(&ToolRequest::ReadTodos);
    assert_eq!(read.result["success"]["totalCount"], json!(3));
    assert_eq!(
        read.for_model,
        "- [pending] Do 1 (1)\n- [completed] Do 2 (2)\n- [pending] Do 3 (3)\n"
    );
    environment.call(&update_with(&[item("4", TodoStatus::Cancelled)], TodoUpdate::Replace));
    assert_eq!(environment.todos.items(), [item("4", TodoStatus::Cancelled)]);
}
