//! A tool call from the turns, for calls that are missing from the prompt.

use prost::Message;
use serde_json::{Map, Value as Json, json};

use crate::chat::schema::wire_json::wire_json;
use crate::chat::schema::{
    ConversationStep, EditOutcome, EditSuccess, EditToolCall, McpToolCall, OpaqueToolCall,
    ReadOutcome, ReadOutput, ReadToolCall, ShellOutcome, ShellSuccess, ShellToolCall, Step,
    TaskOutcome, TaskToolCall, Tool, ToolCall as ToolStep, TruncatedToolCall,
};
use crate::chat::store::Blobs;
use crate::model::{ToolCall, ToolResult, ToolState};

/// Returns the vendor's name for a step's tool. Empty for a tool that is newer than the schema.
pub(crate) fn tool_name(step: &ToolStep) -> &str {
    match &step.tool {
        Some(Tool::Mcp(mcp)) => match &mcp.args {
            Some(args) if !args.tool_name.is_empty() => &args.tool_name,
            Some(args) if !args.name.is_empty() => &args.name,
            _ => "mcp",
        },
        Some(tool) => tool.name(),
        None => "",
    }
}

/// The id of a step's call. Early builds keep it only among the arguments.
pub(crate) fn call_id(step: &ToolStep) -> Option<&str> {
    let among_arguments = match &step.tool {
        Some(Tool::Shell(shell)) => shell.args.as_ref().map(|args| &args.tool_call_id),
        Some(Tool::Mcp(mcp)) => mcp.args.as_ref().map(|args| &args.tool_call_id),
        _ => None,
    };
    step.tool_call_id.as_ref().or(among_arguments).map(String::as_str).filter(|id| !id.is_empty())
}

/// Converts a step. Reads a truncated call from the blob that has all of it.
pub(crate) fn tool_call(blobs: &Blobs<'_>, step: &ToolStep) -> rusqlite::Result<ToolCall> {
    if let Some(Tool::Truncated(truncated)) = &step.tool {
        return match call_step(blobs, &truncated.original_step_blob_id)? {
            // No recursion here: a step may name itself as its original.
            Some(original) if !matches!(original.tool, Some(Tool::Truncated(_))) => {
                let mut call = whole_call(blobs, &original)?;
                call.id = call.id.or_else(|| call_id(step).map(str::to_owned));
                Ok(call)
            }
            _ => Ok(cut_call(step, truncated)),
        };
    }
    whole_call(blobs, step)
}

/// Reads the step of a call, with its arguments and its result.
pub(crate) fn call_step(blobs: &Blobs<'_>, id: &[u8]) -> rusqlite::Result<Option<Box<ToolStep>>> {
    let data = blobs.data_of(id)?;
    let step = data.and_then(|data| ConversationStep::decode(data.as_slice()).ok()?.message);
    Ok(match step {
        Some(Step::ToolCall(step)) => Some(step),
        _ => None,
    })
}

fn cut_call(step: &ToolStep, cut: &TruncatedToolCall) -> ToolCall {
    let mut call =
        ToolCall::new("truncated", cut.args.as_deref().map(wire_json).unwrap_or_default());
    call.id = call_id(step).map(str::to_owned);
    let cut_result =
        |result| ToolResult { is_truncated: true, ..ToolResult::of(wire_json(result)) };
    call.result = cut.result.as_deref().map(cut_result);
    call
}

fn whole_call(blobs: &Blobs<'_>, step: &ToolStep) -> rusqlite::Result<ToolCall> {
    let outcome = match &step.tool {
        Some(Tool::Shell(shell)) => shell_call(shell),
        Some(Tool::Read(read)) => read_call(blobs, read)?,
        Some(Tool::Edit(edit)) => edit_call(edit),
        Some(Tool::Mcp(mcp)) => mcp_call(mcp),
        Some(Tool::Task(task)) => task_call(task),
        Some(Tool::Truncated(_)) | None => CallOutcome::default(),
        Some(tool) => opaque_call(opaque(tool)),
    };
    let mut call = ToolCall::new(tool_name(step), outcome.input);
    call.id = call_id(step).map(str::to_owned);
    call.state = outcome.state;
    call.subagent = outcome.subagent;
    call.duration_ms = outcome.duration_ms;
    call.result = outcome.output.map(ToolResult::of);
    Ok(call)
}

#[derive(Default)]
struct CallOutcome {
    input: Json,
    output: Option<Json>,
    state: ToolState,
    duration_ms: Option<u64>,
    subagent: Option<String>,
}

fn shell_call(shell: &ShellToolCall) -> CallOutcome {
    let args = shell.args.clone().unwrap_or_default();
    let mut input = object([
        ("command", json!(args.command)),
        ("workingDirectory", json!(args.working_directory)),
        ("description", json!(shell.description)),
    ]);
    if args.is_background {
        input.insert("isBackground".to_owned(), json!(true));
    }
    let ended = |end: &ShellSuccess| {
        let has_output = end.interleaved_output.as_ref().is_some_and(|output| !output.is_empty());
        let mut output = object([
            ("output", json!(end.interleaved_output)),
            ("stdout", json!(if has_output { "" } else { &end.stdout })),
            ("stderr", json!(if has_output { "" } else { &end.stderr })),
            ("signal", json!(end.signal)),
        ]);
        output.insert("exitCode".to_owned(), json!(end.exit_code));
        (Json::Object(output), u64::try_from(end.execution_time).ok().filter(|time| *time > 0))
    };
    let result = shell.result.as_ref().and_then(|result| result.result.as_ref());
    let (output, state, duration_ms) = match result {
        None => (None, ToolState::Unknown, None),
        Some(ShellOutcome::Success(end)) => {
            let (output, duration_ms) = ended(end);
            (Some(output), ToolState::Succeeded, duration_ms)
        }
        // A failure has the fields of a success and more.
        Some(ShellOutcome::Failure(bytes)) => match ShellSuccess::decode(bytes.as_slice()) {
            Ok(end) => {
                let (output, duration_ms) = ended(&end);
                (Some(output), ToolState::Failed, duration_ms)
            }
            Err(_) => (Some(wire_json(bytes)), ToolState::Failed, None),
        },
        Some(ShellOutcome::Timeout(bytes) | ShellOutcome::SpawnError(bytes)) => {
            (Some(wire_json(bytes)), ToolState::Failed, None)
        }
        Some(ShellOutcome::Rejected(bytes) | ShellOutcome::PermissionDenied(bytes)) => {
            (Some(wire_json(bytes)), ToolState::Rejected, None)
        }
    };
    CallOutcome { input: input.into(), output, state, duration_ms, subagent: None }
}

fn read_call(blobs: &Blobs<'_>, read: &ReadToolCall) -> rusqlite::Result<CallOutcome> {
    let args = read.args.clone().unwrap_or_default();
    let input = object([
        ("path", json!(args.path)),
        ("offset", json!(args.offset)),
        ("limit", json!(args.limit)),
    ]);
    let result = read.result.as_ref().and_then(|result| result.result.as_ref());
    let (output, state) = match result {
        None => (None, ToolState::Unknown),
        Some(ReadOutcome::Error(bytes)) => (Some(wire_json(bytes)), ToolState::Failed),
        Some(ReadOutcome::Success(success)) => {
            let output = match &success.output {
                Some(ReadOutput::Content(text)) => json!(text),
                Some(ReadOutput::Data(data)) => json!({ "n_bytes": data.len() }),
                Some(ReadOutput::ContentBlobId(id)) => {
                    let text = blobs.data_of(id)?;
                    json!(text.as_deref().map(String::from_utf8_lossy))
                }
                Some(ReadOutput::DataBlobId(_)) | None => json!({ "n_bytes": success.file_size }),
            };
            (Some(output), ToolState::Succeeded)
        }
    };
    Ok(CallOutcome { input: input.into(), output, state, ..CallOutcome::default() })
}

fn edit_call(edit: &EditToolCall) -> CallOutcome {
    let args = edit.args.clone().unwrap_or_default();
    let input = object([("path", json!(args.path)), ("content", json!(args.stream_content))]);
    let changed = |success: &EditSuccess| match &success.diff_string {
        Some(diff) => json!(diff),
        None => json!(success.after_full_file_content),
    };
    let (output, state) = match edit.result.as_ref().and_then(|result| result.result.as_ref()) {
        None => (None, ToolState::Unknown),
        Some(EditOutcome::Success(success)) => (Some(changed(success)), ToolState::Succeeded),
        Some(EditOutcome::Rejected(bytes)) => (Some(wire_json(bytes)), ToolState::Rejected),
        Some(
            EditOutcome::FileNotFound(bytes)
            | EditOutcome::ReadPermissionDenied(bytes)
            | EditOutcome::WritePermissionDenied(bytes)
            | EditOutcome::Error(bytes),
        ) => (Some(wire_json(bytes)), ToolState::Failed),
    };
    CallOutcome { input: input.into(), output, state, ..CallOutcome::default() }
}

fn mcp_call(mcp: &McpToolCall) -> CallOutcome {
    let args = mcp.args.clone().unwrap_or_default().args;
    let input: Map<String, Json> =
        args.into_iter().map(|(name, value)| (name, value.into())).collect();
    CallOutcome { input: input.into(), ..opaque_result(mcp.result.as_deref()) }
}

fn task_call(task: &TaskToolCall) -> CallOutcome {
    let args = task.args.clone().unwrap_or_default();
    let input = object([
        ("description", json!(args.description)),
        ("prompt", json!(args.prompt)),
        ("model", json!(args.model)),
    ]);
    let (output, state, agent_id) =
        match task.result.as_ref().and_then(|result| result.result.as_ref()) {
            None => (None, ToolState::Unknown, None),
            Some(TaskOutcome::Error(bytes)) => (Some(wire_json(bytes)), ToolState::Failed, None),
            Some(TaskOutcome::Success(success)) => {
                let said =
                    success.conversation_steps.iter().filter_map(|step| match &step.message {
                        Some(Step::AssistantMessage(message)) => Some(message.text.as_str()),
                        _ => None,
                    });
                let said = said.collect::<Vec<_>>().join("\n\n");
                (Some(json!(said)), ToolState::Succeeded, success.agent_id.clone())
            }
        };
    CallOutcome {
        input: input.into(),
        output,
        state,
        subagent: agent_id.or(args.agent_id),
        duration_ms: None,
    }
}

fn opaque_call(call: OpaqueToolCall) -> CallOutcome {
    let input =
        call.args.as_deref().filter(|args| !args.is_empty()).map(wire_json).unwrap_or_default();
    CallOutcome { input, ..opaque_result(call.result.as_deref()) }
}

/// Success is the first member of the union in every tool.
fn opaque_result(result: Option<&[u8]>) -> CallOutcome {
    let state = match result {
        None | Some([]) => ToolState::Unknown,
        Some([0x0a, ..]) => ToolState::Succeeded,
        Some(_) => ToolState::Failed,
    };
    CallOutcome {
        output: result.filter(|bytes| !bytes.is_empty()).map(wire_json),
        state,
        ..CallOutcome::default()
    }
}

/// All tools without a known shape encode arguments and result in the same fields.
fn opaque(tool: &Tool) -> OpaqueToolCall {
    let mut bytes = Vec::new();
    tool.encode(&mut bytes);
    // A union's member is encoded as a field: its tag, its length, and the message.
    let message = wire_message(&bytes).unwrap_or_default();
    OpaqueToolCall::decode(message).unwrap_or_default()
}

fn wire_message(bytes: &[u8]) -> Option<&[u8]> {
    let mut rest = bytes;
    prost::encoding::decode_varint(&mut rest).ok()?;
    let length = prost::encoding::decode_varint(&mut rest).ok()?;
    rest.get(..usize::try_from(length).ok()?)
}

/// Leaves out empty values.
fn object<const N: usize>(fields: [(&str, Json); N]) -> Map<String, Json> {
    fields
        .into_iter()
        .filter(|(_, value)| !value.is_null() && value != "")
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}
