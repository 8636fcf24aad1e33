//! The tool with which an agent in plan mode hands over its plan.
//!
//! The command line accepts the plan immediately and writes no file: only an interactive agent writes plan files.

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

/// The address stays empty, because there is no file.
fn accepted() -> Value {
    json!({"success": {}, "planUri": ""})
}

/// Returns the first line, without heading marks.
fn name_of(plan: &str) -> &str {
    let first = plan.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    first.trim_start_matches(['#', ' ']).trim_end()
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
