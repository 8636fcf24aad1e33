//! The root of a conversation and the small messages it holds or refers to, as Cursor encodes them.
//!
//! Names and numbers are the vendor's (`agent.v1`). A `Vec<u8>` is either a blob id (32 raw bytes, see
//! [`super::references`]) or a message with unknown fields, kept unchanged so that encoding it again loses nothing.
//! Fields of an unknown wire type are left out on purpose: a wrong guess would make the whole message undecodable.
//! Maps are ordered by key, so that encoding is deterministic. Cursor itself keeps the order of insertion.

use std::collections::BTreeMap;

/// The state of a conversation at one checkpoint: the blob that `latestRootBlobId` names.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ConversationStateStructure {
    /// Ids of the JSON messages the model is prompted with, in prompt order.
    #[prost(bytes = "vec", repeated, tag = "1")]
    pub root_prompt_messages_json: Vec<Vec<u8>>,
    /// Ids of [`crate::chat::schema::AgentConversationTurnStructure`], not wrapped. Builds of 2025 only.
    #[prost(bytes = "vec", repeated, tag = "2")]
    pub turns_old: Vec<Vec<u8>>,
    /// Ids of [`TodoItem`].
    #[prost(bytes = "vec", repeated, tag = "3")]
    pub todos: Vec<Vec<u8>>,
    /// JSON text, inline, of messages that are not in the prompt yet because a tool is still running.
    #[prost(string, repeated, tag = "4")]
    pub pending_tool_calls: Vec<String>,
    #[prost(message, optional, tag = "5")]
    pub token_details: Option<ConversationTokenDetails>,
    /// Id of a [`ConversationSummary`].
    #[prost(bytes = "vec", optional, tag = "6")]
    pub summary: Option<Vec<u8>>,
    /// Id of a [`ConversationPlan`].
    #[prost(bytes = "vec", optional, tag = "7")]
    pub plan: Option<Vec<u8>>,
    /// Ids of [`crate::chat::schema::ConversationTurnStructure`].
    #[prost(bytes = "vec", repeated, tag = "8")]
    pub turns: Vec<Vec<u8>>,
    /// `file:///abs/path`.
    #[prost(string, repeated, tag = "9")]
    pub previous_workspace_uris: Vec<String>,
    #[prost(enumeration = "AgentMode", optional, tag = "10")]
    pub mode: Option<i32>,
    /// Id of a [`ConversationSummaryArchive`]; the older, single form of `summary_archives`.
    #[prost(bytes = "vec", optional, tag = "11")]
    pub summary_archive: Option<Vec<u8>>,
    /// From a path to the id of a [`FileState`].
    #[prost(btree_map = "string, bytes", tag = "12")]
    pub file_states: BTreeMap<String, Vec<u8>>,
    /// Ids of [`ConversationSummaryArchive`].
    #[prost(bytes = "vec", repeated, tag = "13")]
    pub summary_archives: Vec<Vec<u8>>,
    #[prost(message, repeated, tag = "14")]
    pub turn_timings: Vec<StepTiming>,
    #[prost(btree_map = "string, message", tag = "15")]
    pub file_states_v2: BTreeMap<String, FileStateStructure>,
    /// The states of subagents, nested inline.
    #[prost(btree_map = "string, message", tag = "16")]
    pub subagent_states: BTreeMap<String, SubagentPersistedState>,
    #[prost(uint32, tag = "17")]
    pub self_summary_count: u32,
    #[prost(string, repeated, tag = "18")]
    pub read_paths: Vec<String>,
    #[prost(string, optional, tag = "19")]
    pub active_branch_name: Option<String>,
    #[prost(btree_map = "string, message", tag = "20")]
    pub plans: BTreeMap<String, PlanRegistryEntry>,
    #[prost(message, repeated, tag = "21")]
    pub tracked_git_repo_branches: Vec<TrackedGitRepo>,
    #[prost(string, optional, tag = "22")]
    pub agent_type: Option<String>,
    /// Opaque `CommunicateUpdateHistoryEntry` messages.
    #[prost(bytes = "vec", repeated, tag = "23")]
    pub communicate_update_history: Vec<Vec<u8>>,
    #[prost(btree_map = "string, string", tag = "24")]
    pub subagent_threads: BTreeMap<String, String>,
    #[prost(string, optional, tag = "25")]
    pub communicate_update_final_summary: Option<String>,
    #[prost(uint64, optional, tag = "26")]
    pub conversation_started_timestamp_ms: Option<u64>,
    #[prost(string, optional, tag = "27")]
    pub conversation_started_time_zone: Option<String>,
    #[prost(string, optional, tag = "28")]
    pub communicate_update_completed_subtitle: Option<String>,
    /// Opaque `CommunicateUpdateTurnState` messages.
    #[prost(btree_map = "string, bytes", tag = "29")]
    pub communicate_update_states_by_parent_tool_call_id: BTreeMap<String, Vec<u8>>,
    #[prost(btree_map = "string, message", tag = "30")]
    pub subagent_runs_by_parent_tool_call_id: BTreeMap<String, SubagentRunState>,
    /// Ids of [`SubagentPersistedState`]; the newer form of `subagent_states`.
    #[prost(btree_map = "string, bytes", tag = "31")]
    pub subagent_state_refs: BTreeMap<String, Vec<u8>>,
    /// An opaque `GoalState` message.
    #[prost(bytes = "vec", optional, tag = "32")]
    pub goal_state: Option<Vec<u8>>,
    #[prost(bool, optional, tag = "33")]
    pub is_root_project_conversation: Option<bool>,
    #[prost(string, repeated, tag = "34")]
    pub completed_ask_question_tool_call_ids: Vec<String>,
    #[prost(string, repeated, tag = "35")]
    pub durable_skill_blocks: Vec<String>,
    #[prost(string, optional, tag = "36")]
    pub durable_custom_mode_id: Option<String>,
    #[prost(uint32, optional, tag = "37")]
    pub message_count_at_last_compaction: Option<u32>,
    #[prost(string, repeated, tag = "38")]
    pub recent_user_message_ids: Vec<String>,
    #[prost(uint32, optional, tag = "39")]
    pub recent_user_message_ids_older_turn_count: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum AgentMode {
    Unspecified = 0,
    Agent = 1,
    Ask = 2,
    Plan = 3,
    Debug = 4,
    Triage = 5,
    Project = 6,
    Multitask = 7,
    Custom = 8,
}

/// How full the context window is. Empty before the first answer.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ConversationTokenDetails {
    #[prost(uint32, tag = "1")]
    pub used_tokens: u32,
    #[prost(uint32, tag = "2")]
    pub max_tokens: u32,
    #[prost(message, optional, tag = "3")]
    pub breakdown: Option<PromptTokenBreakdownSnapshot>,
    /// An opaque `PromptContextUsageTree` message.
    #[prost(bytes = "vec", optional, tag = "4")]
    pub prompt_context_usage_tree: Option<Vec<u8>>,
    /// Id of a blob whose content is not known.
    #[prost(bytes = "vec", optional, tag = "5")]
    pub prompt_context_usage_snapshot_blob_id: Option<Vec<u8>>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct PromptTokenBreakdownSnapshot {
    #[prost(uint32, tag = "1")]
    pub total_used: u32,
    #[prost(uint32, tag = "2")]
    pub max: u32,
    #[prost(message, repeated, tag = "3")]
    pub categories: Vec<PromptTokenBreakdownCategory>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct PromptTokenBreakdownCategory {
    #[prost(string, tag = "1")]
    pub id: String,
    #[prost(string, tag = "2")]
    pub label: String,
    #[prost(uint32, tag = "3")]
    pub estimated_tokens: u32,
    #[prost(uint32, optional, tag = "4")]
    pub character_count: Option<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct StepTiming {
    #[prost(uint64, tag = "1")]
    pub duration_ms: u64,
    #[prost(uint64, tag = "2")]
    pub timestamp_ms: u64,
}

/// Ids of raw UTF-8 text blobs.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct FileStateStructure {
    #[prost(bytes = "vec", optional, tag = "1")]
    pub content: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "2")]
    pub initial_content: Option<Vec<u8>>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct FileState {
    #[prost(string, optional, tag = "1")]
    pub content: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub initial_content: Option<String>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ConversationSummary {
    #[prost(string, tag = "1")]
    pub summary: String,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ConversationPlan {
    #[prost(string, tag = "1")]
    pub plan: String,
}

/// The messages that a compaction took out of the prompt.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ConversationSummaryArchive {
    /// Ids of JSON messages.
    #[prost(bytes = "vec", repeated, tag = "1")]
    pub summarized_messages: Vec<Vec<u8>>,
    #[prost(string, tag = "2")]
    pub summary: String,
    #[prost(uint32, tag = "3")]
    pub window_tail: u32,
    /// Id of a JSON message.
    #[prost(bytes = "vec", tag = "4")]
    pub summary_message: Vec<u8>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct TodoItem {
    #[prost(string, tag = "1")]
    pub id: String,
    #[prost(string, tag = "2")]
    pub content: String,
    #[prost(enumeration = "TodoStatus", tag = "3")]
    pub status: i32,
    #[prost(int64, tag = "4")]
    pub created_at: i64,
    #[prost(int64, tag = "5")]
    pub updated_at: i64,
    #[prost(string, repeated, tag = "6")]
    pub dependencies: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum TodoStatus {
    Unspecified = 0,
    Pending = 1,
    InProgress = 2,
    Completed = 3,
    Cancelled = 4,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PlanRegistryEntry {
    #[prost(string, tag = "1")]
    pub id: String,
    #[prost(string, tag = "2")]
    pub path: String,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct TrackedGitRepo {
    #[prost(string, tag = "1")]
    pub repo_path: String,
    #[prost(string, tag = "2")]
    pub branch_name: String,
}

/// A subagent and its whole conversation. Fields 8 to 10 (2026.09) are left out: their wire types are not known.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SubagentPersistedState {
    #[prost(message, optional, tag = "1")]
    pub conversation_state: Option<ConversationStateStructure>,
    #[prost(uint64, tag = "2")]
    pub created_timestamp_ms: u64,
    #[prost(uint64, tag = "3")]
    pub last_used_timestamp_ms: u64,
    /// An opaque `SubagentType` message.
    #[prost(bytes = "vec", optional, tag = "4")]
    pub subagent_type: Option<Vec<u8>>,
    #[prost(string, optional, tag = "5")]
    pub model_id: Option<String>,
    #[prost(enumeration = "SubagentEnvironment", tag = "6")]
    pub environment: i32,
    /// An opaque `CloudSubagentReference` message.
    #[prost(bytes = "vec", optional, tag = "7")]
    pub cloud_subagent: Option<Vec<u8>>,
}

/// The state of a sub-agent's run. Field 10, `completion_reason`, is left out: sources differ on its wire type.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SubagentRunState {
    #[prost(string, tag = "1")]
    pub parent_tool_call_id: String,
    #[prost(string, optional, tag = "2")]
    pub subagent_id: Option<String>,
    #[prost(enumeration = "SubagentEnvironment", tag = "3")]
    pub environment: i32,
    #[prost(enumeration = "SubagentRunStatus", tag = "4")]
    pub status: i32,
    #[prost(string, optional, tag = "5")]
    pub title: Option<String>,
    #[prost(string, optional, tag = "6")]
    pub detail: Option<String>,
    #[prost(string, optional, tag = "7")]
    pub transcript_path: Option<String>,
    #[prost(string, optional, tag = "8")]
    pub output_path: Option<String>,
    #[prost(uint64, optional, tag = "9")]
    pub completed_timestamp_ms: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum SubagentEnvironment {
    Unspecified = 0,
    Local = 1,
    Cloud = 2,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum SubagentRunStatus {
    Unspecified = 0,
    Running = 1,
    Backgrounded = 2,
    Success = 3,
    Error = 4,
    Aborted = 5,
}
