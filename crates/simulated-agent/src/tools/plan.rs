//! The tool that hands over a plan, which is what plan mode is for.
//!
//! The command line accepts the plan at once and keeps it nowhere: only an interactive agent writes plan files.

use serde_json::{Value, json};

use super::{InteractionQuery, PreparedCall, ToolRun};

pub(super) fn prepare(plan: &str, call_id: &str) -> PreparedCall {
    let name = name_of(plan);
    let args = json!({"plan": plan, "todos": [], "overview": "", "name": name, "phases": []});
    let query = InteractionQuery {
        query_type: "createPlanRequestQuery",
        request: json!({"args": args, "toolCallId": call_id}),
        response_key: "createPlanRequestResponse",
        response: json!({"result": accepted()}),
    };
    let model_args = json!({"name": name, "overview": "", "plan": plan, "todos": []});
    PreparedCall {
        query: Some(query),
        ..PreparedCall::new("createPlanToolCall", "CreatePlan", args, model_args)
    }
}

pub(super) fn run() -> ToolRun {
    ToolRun { result: accepted(), ..ToolRun::success(json!({}), "The plan was accepted.") }
}

/// The address stays empty, as nothing is written.
fn accepted() -> Value {
    json!({"success": {}, "planUri": ""})
}

/// The first line, without the marks of a heading.
fn name_of(plan: &str) -> &str {
    let first = plan.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    first.trim_start_matches(['#', ' ']).trim_end()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::tools::environment_for_tests::TestEnvironment;
    use crate::tools::{ArgsKept, ToolRequest};

    #[test]
    fn a_plan_is_asked_about_and_accepted_without_a_file() {
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
}
