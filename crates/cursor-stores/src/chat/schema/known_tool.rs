//! The tools whose arguments and results are known: shell, read, edit, MCP, task, and a truncated call.

use std::collections::BTreeMap;

use crate::chat::schema::{ConversationStep, Value};

messages! {
    ShellToolCall {
        1 args: Option<ShellArgs> [message, optional],
        2 result: Option<ShellResult> [message, optional],
        3 description: Option<String> [string, optional],
    }

    /// The arguments of a shell command. Fields 6 to 9 and those after 11 are left out.
    ShellArgs {
        1 command: String [string],
        2 working_directory: String [string],
        /// Milliseconds.
        3 timeout: i32 [int32],
        4 tool_call_id: String [string],
        5 simple_commands: Vec<String> [string, repeated],
        10 file_output_threshold_bytes: Option<u64> [uint64, optional],
        11 is_background: bool [bool],
    }

    ShellResult {
        result: Option<ShellOutcome> [oneof = "ShellOutcome", tags = "1, 2, 3, 4, 5, 7"],
        /// An opaque `SandboxPolicy` message.
        101 sandbox_policy: Option<Vec<u8>> [bytes = "vec", optional],
        102 is_background: Option<bool> [bool, optional],
        103 terminals_folder: Option<String> [string, optional],
        104 pid: Option<u32> [uint32, optional],
    }

    /// How a shell command ended. All but success are opaque messages.
    union ShellOutcome {
        1 Success(ShellSuccess) [message],
        2 Failure(Vec<u8>) [bytes],
        3 Timeout(Vec<u8>) [bytes],
        4 Rejected(Vec<u8>) [bytes],
        5 SpawnError(Vec<u8>) [bytes],
        7 PermissionDenied(Vec<u8>) [bytes],
    }

    ShellSuccess {
        1 command: String [string],
        2 working_directory: String [string],
        3 exit_code: i32 [int32],
        4 signal: String [string],
        5 stdout: String [string],
        6 stderr: String [string],
        /// Milliseconds.
        7 execution_time: i32 [int32],
        /// An opaque `OutputLocation` message.
        8 output_location: Option<Vec<u8>> [bytes = "vec", optional],
        9 shell_id: Option<u32> [uint32, optional],
        10 interleaved_output: Option<String> [string, optional],
    }

    ReadToolCall {
        1 args: Option<ReadToolArgs> [message, optional],
        2 result: Option<ReadToolResult> [message, optional],
    }

    ReadToolArgs {
        1 path: String [string],
        2 offset: Option<i32> [int32, optional],
        3 limit: Option<i32> [int32, optional],
    }

    ReadToolResult {
        result: Option<ReadOutcome> [oneof = "ReadOutcome", tags = "1, 2"],
    }

    union ReadOutcome {
        1 Success(ReadToolSuccess) [message],
        /// An opaque `ReadToolError` message.
        2 Error(Vec<u8>) [bytes],
    }

    /// The result of a read: the content inline, or the id of the blob that holds it.
    ReadToolSuccess {
        output: Option<ReadOutput> [oneof = "ReadOutput", tags = "1, 6, 9, 10"],
        2 is_empty: bool [bool],
        3 exceeded_limit: bool [bool],
        4 total_lines: u32 [uint32],
        5 file_size: u32 [uint32],
        7 path: String [string],
    }

    union ReadOutput {
        1 Content(String) [string],
        6 Data(Vec<u8>) [bytes],
        /// Id of a blob with raw bytes.
        9 DataBlobId(Vec<u8>) [bytes],
        /// Id of a text blob.
        10 ContentBlobId(Vec<u8>) [bytes],
    }

    EditToolCall {
        1 args: Option<EditArgs> [message, optional],
        2 result: Option<EditResult> [message, optional],
    }

    EditArgs {
        1 path: String [string],
        6 stream_content: Option<String> [string, optional],
    }

    EditResult {
        result: Option<EditOutcome> [oneof = "EditOutcome", tags = "1, 2, 3, 4, 6, 7"],
    }

    /// How an edit ended. All but success are opaque messages.
    union EditOutcome {
        1 Success(EditSuccess) [message],
        2 FileNotFound(Vec<u8>) [bytes],
        3 ReadPermissionDenied(Vec<u8>) [bytes],
        4 WritePermissionDenied(Vec<u8>) [bytes],
        6 Rejected(Vec<u8>) [bytes],
        7 Error(Vec<u8>) [bytes],
    }

    EditSuccess {
        1 path: String [string],
        3 lines_added: Option<i32> [int32, optional],
        4 lines_removed: Option<i32> [int32, optional],
        5 diff_string: Option<String> [string, optional],
        6 before_full_file_content: Option<String> [string, optional],
        7 after_full_file_content: String [string],
    }

    McpToolCall {
        1 args: Option<McpArgs> [message, optional],
        /// An opaque `McpToolResult` message.
        2 result: Option<Vec<u8>> [bytes = "vec", optional],
        3 description: Option<String> [string, optional],
    }

    McpArgs {
        1 name: String [string],
        2 args: BTreeMap<String, Value> [btree_map = "string, message"],
        3 tool_call_id: String [string],
        4 provider_identifier: String [string],
        5 tool_name: String [string],
    }

    TaskToolCall {
        1 args: Option<TaskArgs> [message, optional],
        2 result: Option<TaskResult> [message, optional],
    }

    TaskArgs {
        1 description: String [string],
        2 prompt: String [string],
        /// An opaque `SubagentType` message.
        3 subagent_type: Option<Vec<u8>> [bytes = "vec", optional],
        4 model: Option<String> [string, optional],
        5 resume: Option<String> [string, optional],
        6 agent_id: Option<String> [string, optional],
    }

    TaskResult {
        result: Option<TaskOutcome> [oneof = "TaskOutcome", tags = "1, 2"],
    }

    union TaskOutcome {
        1 Success(TaskSuccess) [message],
        /// An opaque `TaskError` message.
        2 Error(Vec<u8>) [bytes],
    }

    /// The result of a sub-agent. Fields 4 to 6 are left out.
    TaskSuccess {
        /// Inline, not by id.
        1 conversation_steps: Vec<ConversationStep> [message, repeated],
        2 agent_id: Option<String> [string, optional],
        3 is_background: bool [bool],
        7 transcript_path: Option<String> [string, optional],
    }

    /// A truncated step. Another blob has the whole step.
    TruncatedToolCall {
        /// Id of a [`ConversationStep`].
        1 original_step_blob_id: Vec<u8> [bytes = "vec"],
        2 args: Option<Vec<u8>> [bytes = "vec", optional],
        3 result: Option<Vec<u8>> [bytes = "vec", optional],
    }
}
