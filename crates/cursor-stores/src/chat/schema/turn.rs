//! Turns, the user's messages that open them, and their steps, as Cursor encodes them.

use crate::chat::schema::{AgentMode, ToolCall};

/// One turn, as the root's field 8 refers to it.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ConversationTurnStructure {
    #[prost(oneof = "Turn", tags = "1, 2")]
    pub turn: Option<Turn>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Turn {
    #[prost(message, tag = "1")]
    AgentConversationTurn(AgentConversationTurnStructure),
    #[prost(message, tag = "2")]
    ShellConversationTurn(ShellConversationTurnStructure),
}

/// A prompt and the agent's steps.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct AgentConversationTurnStructure {
    /// Id of a [`UserMessage`].
    #[prost(bytes = "vec", tag = "1")]
    pub user_message: Vec<u8>,
    /// Ids of [`ConversationStep`].
    #[prost(bytes = "vec", repeated, tag = "2")]
    pub steps: Vec<Vec<u8>>,
    /// The same as `providerOptions.cursor.requestId` of the user's JSON message.
    #[prost(string, optional, tag = "3")]
    pub request_id: Option<String>,
    #[prost(string, optional, tag = "4")]
    pub encrypted_model: Option<String>,
    #[prost(uint32, optional, tag = "5")]
    pub dynamic_tool_count: Option<u32>,
    #[prost(uint32, repeated, tag = "6")]
    pub send_message_step_indices: Vec<u32>,
    #[prost(string, optional, tag = "7")]
    pub routed_model_display_name: Option<String>,
    /// Opaque `SubagentDispatchStep` messages.
    #[prost(bytes = "vec", repeated, tag = "8")]
    pub subagent_dispatch_steps: Vec<Vec<u8>>,
    #[prost(string, repeated, tag = "9")]
    pub dynamic_tool_names: Vec<String>,
    #[prost(string, optional, tag = "10")]
    pub user_message_id: Option<String>,
}

/// A command the user ran in the conversation with `!`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ShellConversationTurnStructure {
    /// Id of a [`ShellCommand`].
    #[prost(bytes = "vec", tag = "1")]
    pub shell_command: Vec<u8>,
    /// Id of a [`ShellOutput`].
    #[prost(bytes = "vec", tag = "2")]
    pub shell_output: Vec<u8>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ShellCommand {
    #[prost(string, tag = "1")]
    pub command: String,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ShellOutput {
    #[prost(string, tag = "1")]
    pub stdout: String,
    #[prost(string, tag = "2")]
    pub stderr: String,
    #[prost(int32, tag = "3")]
    pub exit_code: i32,
}

/// One text, thought or call of the agent.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ConversationStep {
    #[prost(oneof = "Step", tags = "1, 2, 3")]
    pub message: Option<Step>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Step {
    #[prost(message, tag = "1")]
    AssistantMessage(AssistantMessage),
    // Boxed, because a task's result holds steps again.
    #[prost(message, boxed, tag = "2")]
    ToolCall(Box<ToolCall>),
    #[prost(message, tag = "3")]
    ThinkingMessage(ThinkingMessage),
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct AssistantMessage {
    #[prost(string, tag = "1")]
    pub text: String,
    #[prost(uint64, optional, tag = "2")]
    pub started_at_ms: Option<u64>,
    #[prost(uint64, optional, tag = "3")]
    pub completed_at_ms: Option<u64>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ThinkingMessage {
    #[prost(string, tag = "1")]
    pub text: String,
    #[prost(uint32, tag = "2")]
    pub duration_ms: u32,
    #[prost(uint64, optional, tag = "3")]
    pub started_at_ms: Option<u64>,
    #[prost(uint64, optional, tag = "4")]
    pub completed_at_ms: Option<u64>,
}

/// A prompt. Fields 22 and 23 (2026.09) are left out: their wire types are not known.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct UserMessage {
    #[prost(string, tag = "1")]
    pub text: String,
    /// A UUID.
    #[prost(string, tag = "2")]
    pub message_id: String,
    /// A `SelectedContext` message, kept unchanged. [`SelectedContextImages`] reads the blob ids in it.
    #[prost(bytes = "vec", optional, tag = "3")]
    pub selected_context: Option<Vec<u8>>,
    #[prost(enumeration = "AgentMode", tag = "4")]
    pub mode: i32,
    #[prost(bool, optional, tag = "5")]
    pub is_simulated_msg: Option<bool>,
    #[prost(string, optional, tag = "6")]
    pub best_of_n_group_id: Option<String>,
    #[prost(bool, optional, tag = "7")]
    pub try_use_best_of_n_promotion: Option<bool>,
    #[prost(string, optional, tag = "8")]
    pub rich_text: Option<String>,
    /// An enumeration whose values are not known.
    #[prost(int32, optional, tag = "9")]
    pub simulated_msg_reason: Option<i32>,
    /// Id of the root before this message: a point to rewind to or fork from.
    #[prost(bytes = "vec", tag = "10")]
    pub conversation_state_blob_id: Vec<u8>,
    #[prost(string, optional, tag = "11")]
    pub subagent_system_reminder: Option<String>,
    /// An opaque `TriggeringUserInfo` message.
    #[prost(bytes = "vec", optional, tag = "13")]
    pub triggering_user_info: Option<Vec<u8>>,
    /// An opaque `ExecutePlanInfo` message.
    #[prost(bytes = "vec", optional, tag = "14")]
    pub execute_plan_info: Option<Vec<u8>>,
    /// An opaque `SimulatedMessageMetadata` message.
    #[prost(bytes = "vec", optional, tag = "15")]
    pub simulated_message_metadata: Option<Vec<u8>>,
    #[prost(string, optional, tag = "16")]
    pub prompt_reference_id: Option<String>,
    #[prost(string, optional, tag = "17")]
    pub thread_id: Option<String>,
    /// Id of a text blob. If it is set, `text` may be empty.
    #[prost(bytes = "vec", optional, tag = "18")]
    pub text_blob_id: Option<Vec<u8>>,
    /// Id of a text blob.
    #[prost(bytes = "vec", optional, tag = "19")]
    pub rich_text_blob_id: Option<Vec<u8>>,
    #[prost(message, repeated, tag = "21")]
    pub hook_additional_contexts: Vec<HookAdditionalContext>,
    #[prost(bool, optional, tag = "24")]
    pub turn_steer: Option<bool>,
    #[prost(uint64, optional, tag = "25")]
    pub started_at_ms: Option<u64>,
    #[prost(uint64, optional, tag = "26")]
    pub completed_at_ms: Option<u64>,
    #[prost(string, optional, tag = "27")]
    pub sent_by_agent_id: Option<String>,
}

/// Text that a hook of the user added to the prompt.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct HookAdditionalContext {
    #[prost(string, tag = "1")]
    pub hook_event_name: String,
    #[prost(string, tag = "2")]
    pub content: String,
}

/// The images of a `SelectedContext`: a view for finding blob ids, which drops everything else.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SelectedContextImages {
    #[prost(message, repeated, tag = "1")]
    pub selected_images: Vec<SelectedImageBlob>,
}

/// The blob id of a `SelectedImage`: a view, which drops everything else.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SelectedImageBlob {
    /// Id of a blob with the raw image; empty when the image is inline.
    #[prost(bytes = "vec", tag = "1")]
    pub blob_id: Vec<u8>,
}
