//! Tool calls inside steps: a union of all tools, by field number. Tools with a known shape have their own types.

use crate::chat::schema::{
    EditToolCall, HookAdditionalContext, McpToolCall, ReadToolCall, ShellToolCall, TaskToolCall,
    TruncatedToolCall,
};

messages! {
    /// A tool call, with its result once there is one.
    ///
    /// Members up to 57 are in every description from 2026. Members 58 to 80 come from a newer one, which has 69 tools:
    /// as many as a 2026.10 build accepts.
    ToolCall {
        tool: Option<Tool> [
            oneof = "Tool",
            tags = "1, 3, 4, 5, 8, 9, 10, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 28, 29, 30, 31, \
                    32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 48, 49, 50, 51, 52, 53, 55, 56, 58, \
                    61, 62, 63, 64, 65, 66, 67, 68, 69, 70, 71, 72, 73, 74, 75, 76, 77, 78, 79, 80"
        ],
        54 hook_additional_contexts: Vec<HookAdditionalContext> [message, repeated],
        57 tool_call_id: Option<String> [string, optional],
        59 started_at_ms: Option<u64> [uint64, optional],
        60 completed_at_ms: Option<u64> [uint64, optional],
    }

    /// A call whose arguments and result are not known in detail.
    OpaqueToolCall {
        1 args: Option<Vec<u8>> [bytes = "vec", optional],
        2 result: Option<Vec<u8>> [bytes = "vec", optional],
    }
}

/// Declares the members of the tool union once: number, variant, message and the vendor's name.
macro_rules! tools {
    ($($tag:literal $variant:ident($message:ident) $name:literal,)*) => {
        #[derive(Clone, PartialEq, prost::Oneof)]
        pub enum Tool {
            $(#[prost(message, tag = $tag)] $variant($message),)*
        }

        impl Tool {
            /// Returns the vendor's name for the tool, such as `read_todos`.
            #[must_use]
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => $name,)*
                }
            }
        }
    };
}

tools! {
    "1" Shell(ShellToolCall) "shell",
    "3" Delete(OpaqueToolCall) "delete",
    "4" Glob(OpaqueToolCall) "glob",
    "5" Grep(OpaqueToolCall) "grep",
    "8" Read(ReadToolCall) "read",
    "9" UpdateTodos(OpaqueToolCall) "update_todos",
    "10" ReadTodos(OpaqueToolCall) "read_todos",
    "12" Edit(EditToolCall) "edit",
    "13" Ls(OpaqueToolCall) "ls",
    "14" ReadLints(OpaqueToolCall) "read_lints",
    "15" Mcp(McpToolCall) "mcp",
    "16" SemSearch(OpaqueToolCall) "sem_search",
    "17" CreatePlan(OpaqueToolCall) "create_plan",
    "18" WebSearch(OpaqueToolCall) "web_search",
    "19" Task(TaskToolCall) "task",
    "20" ListMcpResources(OpaqueToolCall) "list_mcp_resources",
    "21" ReadMcpResource(OpaqueToolCall) "read_mcp_resource",
    "22" ApplyAgentDiff(OpaqueToolCall) "apply_agent_diff",
    "23" AskQuestion(OpaqueToolCall) "ask_question",
    "24" Fetch(OpaqueToolCall) "fetch",
    "25" SwitchMode(OpaqueToolCall) "switch_mode",
    "28" GenerateImage(OpaqueToolCall) "generate_image",
    "29" RecordScreen(OpaqueToolCall) "record_screen",
    "30" ComputerUse(OpaqueToolCall) "computer_use",
    "31" WriteShellStdin(OpaqueToolCall) "write_shell_stdin",
    "32" Reflect(OpaqueToolCall) "reflect",
    "33" SetupVmEnvironment(OpaqueToolCall) "setup_vm_environment",
    "34" Truncated(TruncatedToolCall) "truncated",
    "35" StartGrindExecution(OpaqueToolCall) "start_grind_execution",
    "36" StartGrindPlanning(OpaqueToolCall) "start_grind_planning",
    "37" WebFetch(OpaqueToolCall) "web_fetch",
    "38" ReportBugfixResults(OpaqueToolCall) "report_bugfix_results",
    "39" AiAttribution(OpaqueToolCall) "ai_attribution",
    "40" PrManagement(OpaqueToolCall) "pr_management",
    "41" McpAuth(OpaqueToolCall) "mcp_auth",
    "42" Await(OpaqueToolCall) "await",
    "43" BlameByFilePath(OpaqueToolCall) "blame_by_file_path",
    "44" GetMcpTools(OpaqueToolCall) "get_mcp_tools",
    "45" ReportBug(OpaqueToolCall) "report_bug",
    "46" SetActiveBranch(OpaqueToolCall) "set_active_branch",
    "48" CommunicateUpdate(OpaqueToolCall) "communicate_update",
    "49" SendFinalSummary(OpaqueToolCall) "send_final_summary",
    "50" UpdatePrCodeTour(OpaqueToolCall) "update_pr_code_tour",
    "51" ReplaceEnv(OpaqueToolCall) "replace_env",
    "52" EditPrLabels(OpaqueToolCall) "edit_pr_labels",
    "53" RecordCiInvestigationFindings(OpaqueToolCall) "record_ci_investigation_findings",
    "55" SendMessage(OpaqueToolCall) "send_message",
    "56" FetchCloudAgentData(OpaqueToolCall) "fetch_cloud_agent_data",
    "58" SendToUser(OpaqueToolCall) "send_to_user",
    "61" PiRead(OpaqueToolCall) "pi_read",
    "62" PiBash(OpaqueToolCall) "pi_bash",
    "63" PiEdit(OpaqueToolCall) "pi_edit",
    "64" PiWrite(OpaqueToolCall) "pi_write",
    "65" PiGrep(OpaqueToolCall) "pi_grep",
    "66" PiFind(OpaqueToolCall) "pi_find",
    "67" PiLs(OpaqueToolCall) "pi_ls",
    "68" ConnectScm(OpaqueToolCall) "connect_scm",
    "69" SearchConversations(OpaqueToolCall) "search_conversations",
    "70" CreateGoal(OpaqueToolCall) "create_goal",
    "71" UpdateGoal(OpaqueToolCall) "update_goal",
    "72" Adopt(OpaqueToolCall) "adopt",
    "73" GetAgentStatus(OpaqueToolCall) "get_agent_status",
    "74" SendToAgent(OpaqueToolCall) "send_to_agent",
    "75" ReadAgentTranscript(OpaqueToolCall) "read_agent_transcript",
    "76" CreateAgent(OpaqueToolCall) "create_agent",
    "77" StopAgent(OpaqueToolCall) "stop_agent",
    "78" GetPrCodeTour(OpaqueToolCall) "get_pr_code_tour",
    "79" WriteCanvas(OpaqueToolCall) "write_canvas",
    "80" ReadCanvas(OpaqueToolCall) "read_canvas",
}
