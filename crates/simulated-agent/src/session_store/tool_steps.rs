//! Tool calls as steps of a turn: from the JSON of the stream to the typed messages of the store.

use cursor_stores::chat::schema::{
    AssistantMessage, ConversationStep, EditArgs, EditOutcome, EditResult, EditSuccess,
    EditToolCall, McpArgs, McpToolCall, OpaqueToolCall, ReadOutcome, ReadOutput, ReadToolArgs,
    ReadToolCall, ReadToolResult, ReadToolSuccess, ShellArgs, ShellOutcome, ShellResult,
    ShellSuccess, ShellToolCall, Step, TaskArgs, TaskOutcome, TaskResult, TaskSuccess,
    TaskToolCall, Tool, ToolCall,
};
use prost::Message;
use serde_json::Value;

use super::records::ToolCallRecord;

/// The step of a finished call. A tool without a known shape keeps only its number and its outcome.
pub(super) fn tool_call(call: &ToolCallRecord, result: &Value) -> ToolCall {
    let args = Json(&call.args);
    let result = Json(result);
    let opaque = || OpaqueToolCall { args: Some(Vec::new()), result: Some(outline(result)) };
    let tool = match call.key.as_str() {
        "shellToolCall" => Some(Tool::Shell(shell(args, result))),
        "readToolCall" => Some(Tool::Read(read(args, result))),
        "editToolCall" => Some(Tool::Edit(edit(args, result))),
        "mcpToolCall" => Some(Tool::Mcp(mcp(args, result))),
        "taskToolCall" => Some(Tool::Task(task(args, result))),
        "deleteToolCall" => Some(Tool::Delete(opaque())),
        "globToolCall" => Some(Tool::Glob(opaque())),
        "grepToolCall" => Some(Tool::Grep(opaque())),
        "updateTodosToolCall" => Some(Tool::UpdateTodos(opaque())),
        "readTodosToolCall" => Some(Tool::ReadTodos(opaque())),
        "lsToolCall" => Some(Tool::Ls(opaque())),
        "readLintsToolCall" => Some(Tool::ReadLints(opaque())),
        "semSearchToolCall" => Some(Tool::SemSearch(opaque())),
        "createPlanToolCall" => Some(Tool::CreatePlan(opaque())),
        "webSearchToolCall" => Some(Tool::WebSearch(opaque())),
        "askQuestionToolCall" => Some(Tool::AskQuestion(opaque())),
        "webFetchToolCall" => Some(Tool::WebFetch(opaque())),
        "getMcpToolsToolCall" => Some(Tool::GetMcpTools(opaque())),
        // A reader sees the same for a tool that is newer than its schema.
        _ => None,
    };
    ToolCall { tool, tool_call_id: Some(call.call_id.clone()), ..ToolCall::default() }
}

fn shell(args: Json<'_>, result: Json<'_>) -> ShellToolCall {
    ShellToolCall {
        args: Some(ShellArgs {
            command: args.text("command"),
            working_directory: args.text("workingDirectory"),
            timeout: args.number("timeout").unwrap_or_default(),
            tool_call_id: args.text("toolCallId"),
            simple_commands: args.texts("simpleCommands"),
            file_output_threshold_bytes: args.number("fileOutputThresholdBytes"),
            is_background: args.flag("isBackground").unwrap_or_default(),
        }),
        result: Some(ShellResult {
            result: shell_outcome(result),
            is_background: result.flag("isBackground"),
            terminals_folder: result.optional_text("terminalsFolder"),
            pid: result.number("pid"),
            ..ShellResult::default()
        }),
        description: args.optional_text("description"),
    }
}

fn shell_outcome(result: Json<'_>) -> Option<ShellOutcome> {
    let (key, outcome) = result.outcome()?;
    Some(match key {
        "success" => ShellOutcome::Success(shell_end(outcome)),
        // A failure has the fields of a success and more.
        "failure" => ShellOutcome::Failure(shell_end(outcome).encode_to_vec()),
        "timeout" => ShellOutcome::Timeout(shell_refusal(outcome)),
        "rejected" => ShellOutcome::Rejected(shell_refusal(outcome)),
        "permissionDenied" => ShellOutcome::PermissionDenied(shell_refusal(outcome)),
        _ => ShellOutcome::SpawnError(shell_refusal(outcome)),
    })
}

fn shell_end(outcome: Json<'_>) -> ShellSuccess {
    ShellSuccess {
        command: outcome.text("command"),
        working_directory: outcome.text("workingDirectory"),
        exit_code: outcome.number("exitCode").unwrap_or_default(),
        signal: outcome.text("signal"),
        stdout: outcome.text("stdout"),
        stderr: outcome.text("stderr"),
        execution_time: outcome.number("executionTime").unwrap_or_default(),
        shell_id: outcome.number("shellId"),
        interleaved_output: outcome.optional_text("interleavedOutput"),
        ..ShellSuccess::default()
    }
}

/// The first fields of every outcome of a command that did not run to its end.
#[derive(Clone, PartialEq, Message)]
struct ShellRefusal {
    #[prost(string, tag = "1")]
    command: String,
    #[prost(string, tag = "2")]
    working_directory: String,
}

fn shell_refusal(outcome: Json<'_>) -> Vec<u8> {
    let working_directory = outcome.text("workingDirectory");
    ShellRefusal { command: outcome.text("command"), working_directory }.encode_to_vec()
}

fn read(args: Json<'_>, result: Json<'_>) -> ReadToolCall {
    let outcome = result.outcome().map(|(key, outcome)| match key {
        "success" => ReadOutcome::Success(ReadToolSuccess {
            output: outcome.optional_text("content").map(ReadOutput::Content),
            is_empty: outcome.flag("isEmpty").unwrap_or_default(),
            exceeded_limit: outcome.flag("exceededLimit").unwrap_or_default(),
            total_lines: outcome.number("totalLines").unwrap_or_default(),
            file_size: outcome.number("fileSize").unwrap_or_default(),
            path: outcome.text("path"),
        }),
        _ => ReadOutcome::Error(only_text(outcome.text("errorMessage"))),
    });
    ReadToolCall {
        args: Some(ReadToolArgs {
            path: args.text("path"),
            offset: args.number("offset"),
            limit: args.number("limit"),
        }),
        result: Some(ReadToolResult { result: outcome }),
    }
}

fn edit(args: Json<'_>, result: Json<'_>) -> EditToolCall {
    let outcome = result.outcome().map(|(key, outcome)| match key {
        "success" => EditOutcome::Success(EditSuccess {
            path: outcome.text("path"),
            lines_added: outcome.number("linesAdded"),
            lines_removed: outcome.number("linesRemoved"),
            diff_string: outcome.optional_text("diffString"),
            before_full_file_content: outcome.optional_text("beforeFullFileContent"),
            after_full_file_content: outcome.text("afterFullFileContent"),
        }),
        "fileNotFound" => EditOutcome::FileNotFound(only_text(outcome.text("path"))),
        "readPermissionDenied" => {
            EditOutcome::ReadPermissionDenied(only_text(outcome.text("path")))
        }
        "writePermissionDenied" => {
            EditOutcome::WritePermissionDenied(only_text(outcome.text("path")))
        }
        "rejected" => EditOutcome::Rejected(only_text(outcome.text("path"))),
        _ => EditOutcome::Error(only_text(outcome.text("path"))),
    });
    EditToolCall {
        args: Some(EditArgs {
            path: args.text("path"),
            stream_content: args.optional_text("streamContent"),
        }),
        result: Some(EditResult { result: outcome }),
    }
}

fn mcp(args: Json<'_>, result: Json<'_>) -> McpToolCall {
    let given = args.0.get("args").and_then(Value::as_object).cloned().unwrap_or_default();
    McpToolCall {
        args: Some(McpArgs {
            name: args.text("name"),
            args: given.into_iter().map(|(name, value)| (name, value.into())).collect(),
            tool_call_id: args.text("toolCallId"),
            provider_identifier: args.text("providerIdentifier"),
            tool_name: args.text("toolName"),
        }),
        result: Some(outline(result)),
        ..McpToolCall::default()
    }
}

fn task(args: Json<'_>, result: Json<'_>) -> TaskToolCall {
    let outcome = result.outcome().map(|(key, outcome)| match key {
        "success" => TaskOutcome::Success(TaskSuccess {
            conversation_steps: spoken_steps(outcome),
            agent_id: outcome.optional_text("agentId"),
            is_background: outcome.flag("isBackground").unwrap_or_default(),
            transcript_path: outcome.optional_text("transcriptPath"),
        }),
        _ => TaskOutcome::Error(only_text(outcome.text("error"))),
    });
    TaskToolCall {
        args: Some(TaskArgs {
            description: args.text("description"),
            prompt: args.text("prompt"),
            model: args.optional_text("model"),
            agent_id: args.optional_text("agentId"),
            ..TaskArgs::default()
        }),
        result: Some(TaskResult { result: outcome }),
    }
}

/// The texts of the subagent, without its calls.
fn spoken_steps(outcome: Json<'_>) -> Vec<ConversationStep> {
    let steps = outcome.0.get("conversationSteps").and_then(Value::as_array).into_iter().flatten();
    let spoken = steps.filter_map(|step| {
        let text = Json(step.get("assistantMessage")?).text("text");
        Some(Step::AssistantMessage(AssistantMessage { text, ..AssistantMessage::default() }))
    });
    spoken.map(|step| ConversationStep { message: Some(step) }).collect()
}

/// The first field of a message, a text.
#[derive(Clone, PartialEq, Message)]
struct OnlyText {
    #[prost(string, tag = "1")]
    text: String,
}

fn only_text(text: String) -> Vec<u8> {
    OnlyText { text }.encode_to_vec()
}

/// A result reduced to its outcome. In every tool's union, success is member 1, and the error is mostly member 2.
#[derive(Clone, PartialEq, Message)]
struct OutcomeOutline {
    #[prost(bytes = "vec", optional, tag = "1")]
    success: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "2")]
    error: Option<Vec<u8>>,
}

fn outline(result: Json<'_>) -> Vec<u8> {
    let mut outline = OutcomeOutline::default();
    match result.outcome() {
        Some(("success", _)) => outline.success = Some(Vec::new()),
        _ => outline.error = Some(Vec::new()),
    }
    outline.encode_to_vec()
}

/// A JSON object in protobuf's dialect: 64-bit numbers may be strings, and a missing field has its default value.
#[derive(Clone, Copy)]
struct Json<'a>(&'a Value);

impl<'a> Json<'a> {
    fn text(self, key: &str) -> String {
        self.optional_text(key).unwrap_or_default()
    }

    fn optional_text(self, key: &str) -> Option<String> {
        self.0.get(key).and_then(Value::as_str).map(str::to_owned)
    }

    fn texts(self, key: &str) -> Vec<String> {
        let items = self.0.get(key).and_then(Value::as_array).into_iter().flatten();
        items.filter_map(Value::as_str).map(str::to_owned).collect()
    }

    fn flag(self, key: &str) -> Option<bool> {
        self.0.get(key).and_then(Value::as_bool)
    }

    fn number<N: TryFrom<i64>>(self, key: &str) -> Option<N> {
        let value = self.0.get(key)?;
        let number = value.as_i64().or_else(|| value.as_str()?.parse().ok())?;
        N::try_from(number).ok()
    }

    /// The member of the union. The other keys of a result are plain fields beside it.
    fn outcome(self) -> Option<(&'a str, Self)> {
        let members = self.0.as_object()?.iter();
        let siblings = ["isBackground", "sandboxPolicy", "terminalsFolder", "pid"];
        members
            .filter(|(key, value)| value.is_object() && !siblings.contains(&key.as_str()))
            .map(|(key, value)| (key.as_str(), Self(value)))
            .next()
    }
}

#[cfg(test)]
#[path = "tool_steps_tests.rs"]
mod tests;
