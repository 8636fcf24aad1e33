//! The root of a conversation and the small messages it holds or refers to, as Cursor encodes them.
//!
//! Names and numbers are the vendor's (`agent.v1`). A `Vec<u8>` is either a blob id (32 raw bytes, see
//! [`super::references`]) or a message with unknown fields, kept unchanged so that encoding it again loses nothing.
//! Fields of an unknown wire type are left out on purpose: a wrong guess would make the whole message undecodable. Maps
//! are ordered by key, so that encoding is deterministic. Cursor itself keeps the insertion order.

use std::collections::BTreeMap;

messages! {
    /// The state of a conversation at one checkpoint: the blob that `latestRootBlobId` names.
    ConversationStateStructure {
        /// Ids of the JSON messages the model is prompted with, in prompt order.
        1 root_prompt_messages_json: Vec<Vec<u8>> [bytes = "vec", repeated],
        /// Ids of [`crate::chat::schema::AgentConversationTurnStructure`], not wrapped. Only in builds from 2025.
        2 turns_old: Vec<Vec<u8>> [bytes = "vec", repeated],
        /// Ids of [`TodoItem`].
        3 todos: Vec<Vec<u8>> [bytes = "vec", repeated],
        /// JSON text, inline, of messages that are not in the prompt yet because a tool is still running.
        4 pending_tool_calls: Vec<String> [string, repeated],
        5 token_details: Option<ConversationTokenDetails> [message, optional],
        /// Id of a [`ConversationSummary`].
        6 summary: Option<Vec<u8>> [bytes = "vec", optional],
        /// Id of a [`ConversationPlan`].
        7 plan: Option<Vec<u8>> [bytes = "vec", optional],
        /// Ids of [`crate::chat::schema::ConversationTurnStructure`].
        8 turns: Vec<Vec<u8>> [bytes = "vec", repeated],
        /// `file:///abs/path`.
        9 previous_workspace_uris: Vec<String> [string, repeated],
        10 mode: Option<i32> [enumeration = "AgentMode", optional],
        /// Id of a [`ConversationSummaryArchive`]; the older, single form of `summary_archives`.
        11 summary_archive: Option<Vec<u8>> [bytes = "vec", optional],
        /// From a path to the id of a [`FileState`].
        12 file_states: BTreeMap<String, Vec<u8>> [btree_map = "string, bytes"],
        /// Ids of [`ConversationSummaryArchive`].
        13 summary_archives: Vec<Vec<u8>> [bytes = "vec", repeated],
        14 turn_timings: Vec<StepTiming> [message, repeated],
        15 file_states_v2: BTreeMap<String, FileStateStructure> [btree_map = "string, message"],
        /// The states of subagents, nested inline.
        16 subagent_states: BTreeMap<String, SubagentPersistedState> [btree_map = "string, message"],
        17 self_summary_count: u32 [uint32],
        18 read_paths: Vec<String> [string, repeated],
        19 active_branch_name: Option<String> [string, optional],
        20 plans: BTreeMap<String, PlanRegistryEntry> [btree_map = "string, message"],
        21 tracked_git_repo_branches: Vec<TrackedGitRepo> [message, repeated],
        22 agent_type: Option<String> [string, optional],
        /// Opaque `CommunicateUpdateHistoryEntry` messages.
        23 communicate_update_history: Vec<Vec<u8>> [bytes = "vec", repeated],
        24 subagent_threads: BTreeMap<String, String> [btree_map = "string, string"],
        25 communicate_update_final_summary: Option<String> [string, optional],
        26 conversation_started_timestamp_ms: Option<u64> [uint64, optional],
        27 conversation_started_time_zone: Option<String> [string, optional],
        28 communicate_update_completed_subtitle: Option<String> [string, optional],
        /// Opaque `CommunicateUpdateTurnState` messages.
        29 communicate_update_states_by_parent_tool_call_id: BTreeMap<String, Vec<u8>> [btree_map = "string, bytes"],
        30 subagent_runs_by_parent_tool_call_id: BTreeMap<String, SubagentRunState> [btree_map = "string, message"],
        /// Ids of [`SubagentPersistedState`]; the newer form of `subagent_states`.
        31 subagent_state_refs: BTreeMap<String, Vec<u8>> [btree_map = "string, bytes"],
        /// An opaque `GoalState` message.
        32 goal_state: Option<Vec<u8>> [bytes = "vec", optional],
        33 is_root_project_conversation: Option<bool> [bool, optional],
        34 completed_ask_question_tool_call_ids: Vec<String> [string, repeated],
        35 durable_skill_blocks: Vec<String> [string, repeated],
        36 durable_custom_mode_id: Option<String> [string, optional],
        37 message_count_at_last_compaction: Option<u32> [uint32, optional],
        38 recent_user_message_ids: Vec<String> [string, repeated],
        39 recent_user_message_ids_older_turn_count: Option<u32> [uint32, optional],
    }
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

messages! {
    /// How full the context window is. Empty before the first answer.
    ConversationTokenDetails {
        1 used_tokens: u32 [uint32],
        2 max_tokens: u32 [uint32],
        3 breakdown: Option<PromptTokenBreakdownSnapshot> [message, optional],
        /// An opaque `PromptContextUsageTree` message.
        4 prompt_context_usage_tree: Option<Vec<u8>> [bytes = "vec", optional],
        /// Id of a blob whose content is not known.
        5 prompt_context_usage_snapshot_blob_id: Option<Vec<u8>> [bytes = "vec", optional],
    }

    PromptTokenBreakdownSnapshot {
        1 total_used: u32 [uint32],
        2 max: u32 [uint32],
        3 categories: Vec<PromptTokenBreakdownCategory> [message, repeated],
    }

    PromptTokenBreakdownCategory {
        1 id: String [string],
        2 label: String [string],
        3 estimated_tokens: u32 [uint32],
        4 character_count: Option<u32> [uint32, optional],
    }

    StepTiming {
        1 duration_ms: u64 [uint64],
        2 timestamp_ms: u64 [uint64],
    }

    /// Ids of raw UTF-8 text blobs.
    FileStateStructure {
        1 content: Option<Vec<u8>> [bytes = "vec", optional],
        2 initial_content: Option<Vec<u8>> [bytes = "vec", optional],
    }

    FileState {
        1 content: Option<String> [string, optional],
        2 initial_content: Option<String> [string, optional],
    }

    ConversationSummary {
        1 summary: String [string],
    }

    ConversationPlan {
        1 plan: String [string],
    }

    /// The messages that a compaction took out of the prompt.
    ConversationSummaryArchive {
        /// Ids of JSON messages.
        1 summarized_messages: Vec<Vec<u8>> [bytes = "vec", repeated],
        2 summary: String [string],
        3 window_tail: u32 [uint32],
        /// Id of a JSON message.
        4 summary_message: Vec<u8> [bytes = "vec"],
    }

    TodoItem {
        1 id: String [string],
        2 content: String [string],
        3 status: i32 [enumeration = "TodoStatus"],
        4 created_at: i64 [int64],
        5 updated_at: i64 [int64],
        6 dependencies: Vec<String> [string, repeated],
    }
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

messages! {
    PlanRegistryEntry {
        1 id: String [string],
        2 path: String [string],
    }

    TrackedGitRepo {
        1 repo_path: String [string],
        2 branch_name: String [string],
    }

    /// A subagent and its whole conversation. Fields 8 to 10 (2026.09) are left out: their wire types are not known.
    SubagentPersistedState {
        1 conversation_state: Option<ConversationStateStructure> [message, optional],
        2 created_timestamp_ms: u64 [uint64],
        3 last_used_timestamp_ms: u64 [uint64],
        /// An opaque `SubagentType` message.
        4 subagent_type: Option<Vec<u8>> [bytes = "vec", optional],
        5 model_id: Option<String> [string, optional],
        6 environment: i32 [enumeration = "SubagentEnvironment"],
        /// An opaque `CloudSubagentReference` message.
        7 cloud_subagent: Option<Vec<u8>> [bytes = "vec", optional],
    }

    /// The state of a sub-agent's run. Field 10, `completion_reason`, is left out: sources differ on its wire type.
    SubagentRunState {
        1 parent_tool_call_id: String [string],
        2 subagent_id: Option<String> [string, optional],
        3 environment: i32 [enumeration = "SubagentEnvironment"],
        4 status: i32 [enumeration = "SubagentRunStatus"],
        5 title: Option<String> [string, optional],
        6 detail: Option<String> [string, optional],
        7 transcript_path: Option<String> [string, optional],
        8 output_path: Option<String> [string, optional],
        9 completed_timestamp_ms: Option<u64> [uint64, optional],
    }
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
