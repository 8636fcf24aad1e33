//! The tools whose arguments and results are known: shell, read, edit, MCP, task, and a call cut for size.

use std::collections::BTreeMap;

use crate::chat::schema::{ConversationStep, Value};

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ShellToolCall {
    #[prost(message, optional, tag = "1")]
    pub args: Option<ShellArgs>,
    #[prost(message, optional, tag = "2")]
    pub result: Option<ShellResult>,
    #[prost(string, optional, tag = "3")]
    pub description: Option<String>,
}

/// The arguments of a shell command. Fields 6 to 9 and those after 11 are left out.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ShellArgs {
    #[prost(string, tag = "1")]
    pub command: String,
    #[prost(string, tag = "2")]
    pub working_directory: String,
    /// Milliseconds.
    #[prost(int32, tag = "3")]
    pub timeout: i32,
    #[prost(string, tag = "4")]
    pub tool_call_id: String,
    #[prost(string, repeated, tag = "5")]
    pub simple_commands: Vec<String>,
    #[prost(uint64, optional, tag = "10")]
    pub file_output_threshold_bytes: Option<u64>,
    #[prost(bool, tag = "11")]
    pub is_background: bool,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ShellResult {
    #[prost(oneof = "ShellOutcome", tags = "1, 2, 3, 4, 5, 7")]
    pub result: Option<ShellOutcome>,
    /// An opaque `SandboxPolicy` message.
    #[prost(bytes = "vec", optional, tag = "101")]
    pub sandbox_policy: Option<Vec<u8>>,
    #[prost(bool, optional, tag = "102")]
    pub is_background: Option<bool>,
    #[prost(string, optional, tag = "103")]
    pub terminals_folder: Option<String>,
    #[prost(uint32, optional, tag = "104")]
    pub pid: Option<u32>,
}

/// How a shell command ended. All but success are opaque messages.
#[derive(Clone, PartialEq, Eq, prost::Oneof)]
pub enum ShellOutcome {
    #[prost(message, tag = "1")]
    Success(ShellSuccess),
    #[prost(bytes, tag = "2")]
    Failure(Vec<u8>),
    #[prost(bytes, tag = "3")]
    Timeout(Vec<u8>),
    #[prost(bytes, tag = "4")]
    Rejected(Vec<u8>),
    #[prost(bytes, tag = "5")]
    SpawnError(Vec<u8>),
    #[prost(bytes, tag = "7")]
    PermissionDenied(Vec<u8>),
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ShellSuccess {
    #[prost(string, tag = "1")]
    pub command: String,
    #[prost(string, tag = "2")]
    pub working_directory: String,
    #[prost(int32, tag = "3")]
    pub exit_code: i32,
    #[prost(string, tag = "4")]
    pub signal: String,
    #[prost(string, tag = "5")]
    pub stdout: String,
    #[prost(string, tag = "6")]
    pub stderr: String,
    /// Milliseconds.
    #[prost(int32, tag = "7")]
    pub execution_time: i32,
    /// An opaque `OutputLocation` message.
    #[prost(bytes = "vec", optional, tag = "8")]
    pub output_location: Option<Vec<u8>>,
    #[prost(uint32, optional, tag = "9")]
    pub shell_id: Option<u32>,
    #[prost(string, optional, tag = "10")]
    pub interleaved_output: Option<String>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReadToolCall {
    #[prost(message, optional, tag = "1")]
    pub args: Option<ReadToolArgs>,
    #[prost(message, optional, tag = "2")]
    pub result: Option<ReadToolResult>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReadToolArgs {
    #[prost(string, tag = "1")]
    pub path: String,
    #[prost(int32, optional, tag = "2")]
    pub offset: Option<i32>,
    #[prost(int32, optional, tag = "3")]
    pub limit: Option<i32>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReadToolResult {
    #[prost(oneof = "ReadOutcome", tags = "1, 2")]
    pub result: Option<ReadOutcome>,
}

#[derive(Clone, PartialEq, Eq, prost::Oneof)]
pub enum ReadOutcome {
    #[prost(message, tag = "1")]
    Success(ReadToolSuccess),
    /// An opaque `ReadToolError` message.
    #[prost(bytes, tag = "2")]
    Error(Vec<u8>),
}

/// The result of a read: the content inline, or the id of the blob that holds it.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReadToolSuccess {
    #[prost(oneof = "ReadOutput", tags = "1, 6, 9, 10")]
    pub output: Option<ReadOutput>,
    #[prost(bool, tag = "2")]
    pub is_empty: bool,
    #[prost(bool, tag = "3")]
    pub exceeded_limit: bool,
    #[prost(uint32, tag = "4")]
    pub total_lines: u32,
    #[prost(uint32, tag = "5")]
    pub file_size: u32,
    #[prost(string, tag = "7")]
    pub path: String,
}

#[derive(Clone, PartialEq, Eq, prost::Oneof)]
pub enum ReadOutput {
    #[prost(string, tag = "1")]
    Content(String),
    #[prost(bytes, tag = "6")]
    Data(Vec<u8>),
    /// Id of a blob with raw bytes.
    #[prost(bytes, tag = "9")]
    DataBlobId(Vec<u8>),
    /// Id of a text blob.
    #[prost(bytes, tag = "10")]
    ContentBlobId(Vec<u8>),
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct EditToolCall {
    #[prost(message, optional, tag = "1")]
    pub args: Option<EditArgs>,
    #[prost(message, optional, tag = "2")]
    pub result: Option<EditResult>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct EditArgs {
    #[prost(string, tag = "1")]
    pub path: String,
    #[prost(string, optional, tag = "6")]
    pub stream_content: Option<String>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct EditResult {
    #[prost(oneof = "EditOutcome", tags = "1, 2, 3, 4, 6, 7")]
    pub result: Option<EditOutcome>,
}

/// How an edit ended. All but success are opaque messages.
#[derive(Clone, PartialEq, Eq, prost::Oneof)]
pub enum EditOutcome {
    #[prost(message, tag = "1")]
    Success(EditSuccess),
    #[prost(bytes, tag = "2")]
    FileNotFound(Vec<u8>),
    #[prost(bytes, tag = "3")]
    ReadPermissionDenied(Vec<u8>),
    #[prost(bytes, tag = "4")]
    WritePermissionDenied(Vec<u8>),
    #[prost(bytes, tag = "6")]
    Rejected(Vec<u8>),
    #[prost(bytes, tag = "7")]
    Error(Vec<u8>),
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct EditSuccess {
    #[prost(string, tag = "1")]
    pub path: String,
    #[prost(int32, optional, tag = "3")]
    pub lines_added: Option<i32>,
    #[prost(int32, optional, tag = "4")]
    pub lines_removed: Option<i32>,
    #[prost(string, optional, tag = "5")]
    pub diff_string: Option<String>,
    #[prost(string, optional, tag = "6")]
    pub before_full_file_content: Option<String>,
    #[prost(string, tag = "7")]
    pub after_full_file_content: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct McpToolCall {
    #[prost(message, optional, tag = "1")]
    pub args: Option<McpArgs>,
    /// An opaque `McpToolResult` message.
    #[prost(bytes = "vec", optional, tag = "2")]
    pub result: Option<Vec<u8>>,
    #[prost(string, optional, tag = "3")]
    pub description: Option<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct McpArgs {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(btree_map = "string, message", tag = "2")]
    pub args: BTreeMap<String, Value>,
    #[prost(string, tag = "3")]
    pub tool_call_id: String,
    #[prost(string, tag = "4")]
    pub provider_identifier: String,
    #[prost(string, tag = "5")]
    pub tool_name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct TaskToolCall {
    #[prost(message, optional, tag = "1")]
    pub args: Option<TaskArgs>,
    #[prost(message, optional, tag = "2")]
    pub result: Option<TaskResult>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct TaskArgs {
    #[prost(string, tag = "1")]
    pub description: String,
    #[prost(string, tag = "2")]
    pub prompt: String,
    /// An opaque `SubagentType` message.
    #[prost(bytes = "vec", optional, tag = "3")]
    pub subagent_type: Option<Vec<u8>>,
    #[prost(string, optional, tag = "4")]
    pub model: Option<String>,
    #[prost(string, optional, tag = "5")]
    pub resume: Option<String>,
    #[prost(string, optional, tag = "6")]
    pub agent_id: Option<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct TaskResult {
    #[prost(oneof = "TaskOutcome", tags = "1, 2")]
    pub result: Option<TaskOutcome>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub enum TaskOutcome {
    #[prost(message, tag = "1")]
    Success(TaskSuccess),
    /// An opaque `TaskError` message.
    #[prost(bytes, tag = "2")]
    Error(Vec<u8>),
}

/// The result of a sub-agent. Fields 4 to 6 are left out.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TaskSuccess {
    /// Inline, not by id.
    #[prost(message, repeated, tag = "1")]
    pub conversation_steps: Vec<ConversationStep>,
    #[prost(string, optional, tag = "2")]
    pub agent_id: Option<String>,
    #[prost(bool, tag = "3")]
    pub is_background: bool,
    #[prost(string, optional, tag = "7")]
    pub transcript_path: Option<String>,
}

/// A step cut for size. Another blob has all of it.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct TruncatedToolCall {
    /// Id of a [`ConversationStep`].
    #[prost(bytes = "vec", tag = "1")]
    pub original_step_blob_id: Vec<u8>,
    #[prost(bytes = "vec", optional, tag = "2")]
    pub args: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "3")]
    pub result: Option<Vec<u8>>,
}
