use pretty_assertions::assert_eq;

use super::*;
use crate::tools::test_environment::TestEnvironment;
use crate::tools::{ArgsKept, ToolRequest};

#[test]
fn the_agent_asks_about_a_plan_which_is_accepted_without_a_file() {
    let plan = "\n## Mend the fence \n\n1. Buy nails.".to_owned();
    let environment = TestEnvironment::new();
    let (prepared, tool_run) = environment.call(&ToolRequest::CreatePlan { plan });
    assert_eq!(prepared.args["name"], json!("Mend the fence"));
    let query = prepared.query.unwrap();
    assert_eq!(query.request, json!({"args": prepared.args, "toolCallId": "call_1\nfc_1"}));
    assert_eq!(query.response, json!({"result": {"success": {}, "planUri": ""}}));
    assert_eq!(tool_run.result, json!({"success": {}, "planUri": ""}));
    assert_eq!((tool_run.args_kept, tool_run.is_error), (ArgsKept::Kept, false));
}
