//! MCP tool calls, in the form that Cursor prints.

use serde_json::{Map, Value, json};

use super::shell::{SPILL_THRESHOLD, spill_text};
use super::{Generation, PreparedCall, ToolEnvironment, ToolRun};
use crate::mcp_client::McpCallError;
use crate::permissions::Verdict;

pub(super) fn prepare(
    server: &str,
    tool: &str,
    args: &Map<String, Value>,
    call_id: &str,
) -> PreparedCall {
    let shown = json!({
        "name": format!("{server}-{tool}"),
        "args": args,
        "toolCallId": call_id,
        "providerIdentifier": server,
        "toolName": tool,
    });
    let model_args = json!({"server": server, "toolName": tool, "arguments": args});
    PreparedCall::new("mcpToolCall", "CallMcpTool", shown, model_args)
}

pub(super) fn run(
    server: &str,
    tool: &str,
    args: &Map<String, Value>,
    environment: &ToolEnvironment,
) -> ToolRun {
    // A server without approval does not exist for the agent, so its tools need no permission.
    if let Err(err) = environment.mcp.list_tools(server) {
        return unanswered(&err);
    }
    match environment.permissions.mcp(server, tool) {
        Verdict::Allowed => {}
        Verdict::NotAllowed => {
            let reason = format!("MCP tool execution rejected by user: {server}-{tool}");
            return ToolRun::rejected(json!({"reason": reason, "isReadonly": false}), reason);
        }
        Verdict::Denied => {
            let error = format!("MCP tool {server}-{tool} is denied by the permission settings");
            return ToolRun::failed(
                "permissionDenied",
                json!({"error": error, "isReadonly": false}),
                error,
            );
        }
    }
    match environment.mcp.call(server, tool, args) {
        Ok(answer) => success(&answer, environment),
        Err(err) => unanswered(&err),
    }
}

fn unanswered(err: &McpCallError) -> ToolRun {
    let error = err.to_string();
    ToolRun::failed("error", json!({"error": error}), error)
}

fn success(answer: &Value, environment: &ToolEnvironment) -> ToolRun {
    let mut content: Vec<Value> = Vec::new();
    let mut for_model: Vec<String> = Vec::new();
    for block in answer["content"].as_array().into_iter().flatten() {
        if block["type"] == "image" {
            content.push(json!({"image": {"data": block["data"], "mimeType": block["mimeType"]}}));
            for_model.push("[image]".to_owned());
            continue;
        }
        // Show resources and unknown kinds as JSON.
        let text = block["text"].as_str().map_or_else(|| block.to_string(), str::to_owned);
        content.push(json!({"text": text_block(&text, environment)}));
        for_model.push(text);
    }
    let is_error = answer["isError"].as_bool().unwrap_or(false);
    let mut value = json!({"content": content, "isError": is_error});
    if let Some(structured) = answer.get("structuredContent") {
        value["structuredContent"] = structured.clone();
    }
    // An error that the tool itself reports is still an answer.
    ToolRun { is_error, ..ToolRun::success(value, for_model.join("\n")) }
}

fn text_block(text: &str, environment: &ToolEnvironment) -> Value {
    if environment.generation == Generation::V2026_09
        && text.len() > SPILL_THRESHOLD
        && let Ok(location) = spill_text(text, environment)
    {
        let end =
            (0..=SPILL_THRESHOLD).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
        return json!({"text": &text[..end], "outputLocation": location});
    }
    json!({"text": text})
}

#[cfg(test)]
#[path = "mcp_tests.rs"]
mod tests;
