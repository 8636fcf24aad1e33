//! The task tool: a subagent without a model. It answers with its own prompt.

use serde_json::json;
use uuid::Uuid;

use super::{PreparedCall, ToolRun};

pub(super) fn prepare(description: &str, prompt: &str) -> PreparedCall {
    let args = json!({
        "description": description,
        "prompt": prompt,
        "subagentType": {"unspecified": {}},
        "model": "",
        "agentId": Uuid::new_v4().to_string(),
    });
    PreparedCall::new(
        "taskToolCall",
        "Task",
        args,
        json!({"description": description, "prompt": prompt}),
    )
}

pub(super) fn run(prompt: &str, prepared: &PreparedCall) -> ToolRun {
    let answer = format!("The simulated subagent was asked: {prompt}");
    let value = json!({
        "conversationSteps": [{"assistantMessage": {"text": answer}}],
        "agentId": prepared.args["agentId"],
        "isBackground": false,
        "durationMs": "0",
    });
    ToolRun::success(value, answer)
}
