//! Turns, the user's messages that open them, and their steps, as Cursor encodes them.

use crate::chat::schema::{AgentMode, ToolCall};

messages! {
    /// One turn. The root's field 8 refers to it.
    ConversationTurnStructure {
        turn: Option<Turn> [oneof = "Turn", tags = "1, 2"],
    }

    union Turn {
        1 AgentConversationTurn(AgentConversationTurnStructure) [message],
        2 ShellConversationTurn(ShellConversationTurnStructure) [message],
    }

    /// A prompt and the agent's steps.
    AgentConversationTurnStructure {
        /// Id of a [`UserMessage`].
        1 user_message: Vec<u8> [bytes = "vec"],
        /// Ids of [`ConversationStep`].
        2 steps: Vec<Vec<u8>> [bytes = "vec", repeated],
        /// The same as `providerOptions.cursor.requestId` of the user's JSON message.
        3 request_id: Option<String> [string, optional],
        4 encrypted_model: Option<String> [string, optional],
        5 dynamic_tool_count: Option<u32> [uint32, optional],
        6 send_message_step_indices: Vec<u32> [uint32, repeated],
        7 routed_model_display_name: Option<String> [string, optional],
        /// Opaque `SubagentDispatchStep` messages.
        8 subagent_dispatch_steps: Vec<Vec<u8>> [bytes = "vec", repeated],
        9 dynamic_tool_names: Vec<String> [string, repeated],
        10 user_message_id: Option<String> [string, optional],
    }

    /// A command the user ran in the conversation with `!`.
    ShellConversationTurnStructure {
        /// Id of a [`ShellCommand`].
        1 shell_command: Vec<u8> [bytes = "vec"],
        /// Id of a [`ShellOutput`].
        2 shell_output: Vec<u8> [bytes = "vec"],
    }

    ShellCommand {
        1 command: String [string],
    }

    ShellOutput {
        1 stdout: String [string],
        2 stderr: String [string],
        3 exit_code: i32 [int32],
    }

    /// One text, thought or call by the agent.
    ConversationStep {
        message: Option<Step> [oneof = "Step", tags = "1, 2, 3"],
    }

    union Step {
        1 AssistantMessage(AssistantMessage) [message],
        // Boxed, because a task's result itself holds steps.
        2 ToolCall(Box<ToolCall>) [message, boxed],
        3 ThinkingMessage(ThinkingMessage) [message],
    }

    AssistantMessage {
        1 text: String [string],
        2 started_at_ms: Option<u64> [uint64, optional],
        3 completed_at_ms: Option<u64> [uint64, optional],
    }

    ThinkingMessage {
        1 text: String [string],
        2 duration_ms: u32 [uint32],
        3 started_at_ms: Option<u64> [uint64, optional],
        4 completed_at_ms: Option<u64> [uint64, optional],
    }

    /// A prompt. Fields 22 and 23 (2026.09) are left out: their wire types are not known.
    UserMessage {
        1 text: String [string],
        /// A UUID.
        2 message_id: String [string],
        /// A `SelectedContext` message, kept unchanged. [`SelectedContextImages`] reads the blob ids in it.
        3 selected_context: Option<Vec<u8>> [bytes = "vec", optional],
        4 mode: i32 [enumeration = "AgentMode"],
        5 is_simulated_msg: Option<bool> [bool, optional],
        6 best_of_n_group_id: Option<String> [string, optional],
        7 try_use_best_of_n_promotion: Option<bool> [bool, optional],
        8 rich_text: Option<String> [string, optional],
        /// An enumeration whose values are not known.
        9 simulated_msg_reason: Option<i32> [int32, optional],
        /// Id of the root before this message: a point to rewind to or fork from.
        10 conversation_state_blob_id: Vec<u8> [bytes = "vec"],
        11 subagent_system_reminder: Option<String> [string, optional],
        /// An opaque `TriggeringUserInfo` message.
        13 triggering_user_info: Option<Vec<u8>> [bytes = "vec", optional],
        /// An opaque `ExecutePlanInfo` message.
        14 execute_plan_info: Option<Vec<u8>> [bytes = "vec", optional],
        /// An opaque `SimulatedMessageMetadata` message.
        15 simulated_message_metadata: Option<Vec<u8>> [bytes = "vec", optional],
        16 prompt_reference_id: Option<String> [string, optional],
        17 thread_id: Option<String> [string, optional],
        /// Id of a text blob. If it is set, `text` may be empty.
        18 text_blob_id: Option<Vec<u8>> [bytes = "vec", optional],
        /// Id of a text blob.
        19 rich_text_blob_id: Option<Vec<u8>> [bytes = "vec", optional],
        21 hook_additional_contexts: Vec<HookAdditionalContext> [message, repeated],
        24 turn_steer: Option<bool> [bool, optional],
        25 started_at_ms: Option<u64> [uint64, optional],
        26 completed_at_ms: Option<u64> [uint64, optional],
        27 sent_by_agent_id: Option<String> [string, optional],
    }

    /// Text that one of the user's hooks added to the prompt.
    HookAdditionalContext {
        1 hook_event_name: String [string],
        2 content: String [string],
    }

    /// The images of a `SelectedContext`: a view for finding blob ids, which drops everything else.
    SelectedContextImages {
        1 selected_images: Vec<SelectedImageBlob> [message, repeated],
    }

    /// The blob id of a `SelectedImage`: a view, which drops everything else.
    SelectedImageBlob {
        /// Id of a blob with the raw image; empty when the image is inline.
        1 blob_id: Vec<u8> [bytes = "vec"],
    }
}
