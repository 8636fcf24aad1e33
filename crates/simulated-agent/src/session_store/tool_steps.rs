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

/// Returns the step of a finished call. A tool without a known shape keeps only its number and its outcome.
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

/// Fills fields of a message from the JSON fields of the same names, in camel case.
macro_rules! filled {
    ($json:expr, $message:ident { $($field:ident)* }) => {{
        let mut message = $message::default();
        $(message.$field = $json.get(stringify!($field));)*
        message
    }};
}

fn shell(args: Json<'_>, result: Json<'_>) -> ShellToolCall {
    let outcome = result.outcome().map(|(key, outcome)| {
        let ended = filled!(outcome, ShellSuccess {
            command working_directory exit_code signal stdout stderr execution_time shell_id interleaved_output
        });
        let refused = filled!(outcome, ShellRefusal { command working_directory }).encode_to_vec();
        match key {
            "success" => ShellOutcome::Success(ended),
            // A failure has the fields of a success and more.
            "failure" => ShellOutcome::Failure(ended.encode_to_vec()),
            "timeout" => ShellOutcome::Timeout(refused),
            "rejected" => ShellOutcome::Rejected(refused),
            "permissionDenied" => ShellOutcome::PermissionDenied(refused),
            _ => ShellOutcome::SpawnError(refused),
        }
    });
    ShellToolCall {
        args: Some(filled!(args, ShellArgs {
            command working_directory timeout tool_call_id simple_commands file_output_threshold_bytes is_background
        })),
        result: Some(ShellResult {
            result: outcome,
            ..filled!(result, ShellResult { is_background terminals_folder pid })
        }),
        description: args.get("description"),
    }
}

/// The first fields of every outcome of a command that did not run to completion.
#[derive(Clone, PartialEq, Message)]
struct ShellRefusal {
    #[prost(string, tag = "1")]
    command: String,
    #[prost(string, tag = "2")]
    working_directory: String,
}

fn read(args: Json<'_>, result: Json<'_>) -> ReadToolCall {
    let outcome = result.outcome().map(|(key, outcome)| match key {
        "success" => {
            let mut success = filled!(outcome, ReadToolSuccess {
                is_empty exceeded_limit total_lines file_size path
            });
            success.output = outcome.get::<Option<String>>("content").map(ReadOutput::Content);
            ReadOutcome::Success(success)
        }
        _ => ReadOutcome::Error(outcome.only("error_message")),
    });
    ReadToolCall {
        args: Some(filled!(args, ReadToolArgs { path offset limit })),
        result: Some(ReadToolResult { result: outcome }),
    }
}

fn edit(args: Json<'_>, result: Json<'_>) -> EditToolCall {
    let outcome = result.outcome().map(|(key, outcome)| match key {
        "success" => EditOutcome::Success(filled!(outcome, EditSuccess {
            path lines_added lines_removed diff_string before_full_file_content after_full_file_content
        })),
        "fileNotFound" => EditOutcome::FileNotFound(outcome.only("path")),
        "readPermissionDenied" => EditOutcome::ReadPermissionDenied(outcome.only("path")),
        "writePermissionDenied" => EditOutcome::WritePermissionDenied(outcome.only("path")),
        "rejected" => EditOutcome::Rejected(outcome.only("path")),
        _ => EditOutcome::Error(outcome.only("path")),
    });
    EditToolCall {
        args: Some(filled!(args, EditArgs { path stream_content })),
        result: Some(EditResult { result: outcome }),
    }
}

fn mcp(args: Json<'_>, result: Json<'_>) -> McpToolCall {
    let given = args.0.get("args").and_then(Value::as_object).cloned().unwrap_or_default();
    McpToolCall {
        args: Some(McpArgs {
            args: given.into_iter().map(|(name, value)| (name, value.into())).collect(),
            ..filled!(args, McpArgs { name tool_call_id provider_identifier tool_name })
        }),
        result: Some(outline(result)),
        ..McpToolCall::default()
    }
}

fn task(args: Json<'_>, result: Json<'_>) -> TaskToolCall {
    let outcome = result.outcome().map(|(key, outcome)| match key {
        "success" => TaskOutcome::Success(TaskSuccess {
            conversation_steps: spoken_steps(outcome),
            ..filled!(outcome, TaskSuccess { agent_id is_background transcript_path })
        }),
        _ => TaskOutcome::Error(outcome.only("error")),
    });
    TaskToolCall {
        args: Some(filled!(args, TaskArgs { description prompt model agent_id })),
        result: Some(TaskResult { result: outcome }),
    }
}

/// Returns the texts of the subagent, without its calls.
fn spoken_steps(outcome: Json<'_>) -> Vec<ConversationStep> {
    let steps = outcome.0.get("conversationSteps").and_then(Value::as_array).into_iter().flatten();
    let spoken = steps.filter_map(|step| {
        let text = Json(step.get("assistantMessage")?).get("text");
        Some(Step::AssistantMessage(AssistantMessage { text, ..AssistantMessage::default() }))
    });
    spoken.map(|step| ConversationStep { message: Some(step) }).collect()
}

/// The first field of a message, a string.
#[derive(Clone, PartialEq, Message)]
struct OnlyText {
    #[prost(string, tag = "1")]
    text: String,
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
    /// Returns the value of a field, by its name in snake case. A value of another type counts as missing.
    fn get<F: Field>(self, name: &str) -> F {
        let mut words = name.split('_');
        let mut key = words.next().unwrap_or_default().to_owned();
        for word in words {
            let (first, rest) = word.split_at(1);
            key += &(first.to_ascii_uppercase() + rest);
        }
        self.0.get(&key).and_then(F::read).unwrap_or_default()
    }

    /// A message with one field, a string.
    fn only(self, name: &str) -> Vec<u8> {
        OnlyText { text: self.get(name) }.encode_to_vec()
    }

    /// Returns the member of the union. The other keys of a result are plain fields next to it.
    fn outcome(self) -> Option<(&'a str, Self)> {
        let members = self.0.as_object()?.iter();
        let siblings = ["isBackground", "sandboxPolicy", "terminalsFolder", "pid"];
        members
            .filter(|(key, value)| value.is_object() && !siblings.contains(&key.as_str()))
            .map(|(key, value)| (key.as_str(), Self(value)))
            .next()
    }
}

/// The type of a field in a message.
trait Field: Default {
    fn read(value: &Value) -> Option<Self>;
}

impl Field for String {
    fn read(value: &Value) -> Option<Self> {
        value.as_str().map(str::to_owned)
    }
}

impl Field for bool {
    fn read(value: &Value) -> Option<Self> {
        value.as_bool()
    }
}

impl Field for Vec<String> {
    fn read(value: &Value) -> Option<Self> {
        Some(value.as_array()?.iter().filter_map(String::read).collect())
    }
}

impl<F: Field> Field for Option<F> {
    fn read(value: &Value) -> Option<Self> {
        F::read(value).map(Some)
    }
}

macro_rules! numbers {
    ($($number:ty)*) => {$(
        impl Field for $number {
            fn read(value: &Value) -> Option<Self> {
                let number = value.as_i64().or_else(|| value.as_str()?.parse().ok())?;
                number.try_into().ok()
            }
        }
    )*};
}

numbers! { i32 u32 i64 u64 }

#[cfg(test)]
#[path = "tool_steps_tests.rs"]
mod tests;
