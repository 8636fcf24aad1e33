//! The tools as the agent's model sees them.

use std::sync::Arc;

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

pub(super) const WHOAMI: &str = "whoami";
pub(super) const REPORT_PROGRESS: &str = "report_progress";
pub(super) const REPORT_RESULT: &str = "report_result";

pub(super) const ASK_HUMAN: &str = "ask_human";
pub(super) const CHECK_INBOX: &str = "check_inbox";
pub(super) const SEND_MESSAGE: &str = "send_message";
pub(super) const SPAWN_RUN: &str = "spawn_run";
pub(super) const LIST_RUNS: &str = "list_runs";
pub(super) const GET_RUN: &str = "get_run";
pub(super) const STOP_RUN: &str = "stop_run";
pub(super) const CHECKPOINT: &str = "checkpoint";
pub(super) const REQUEST_ACCESS: &str = "request_access";

/// All tools. Cursor accepts about forty tools from all servers together.
pub(super) const NAMES: [&str; 12] = [
    WHOAMI,
    REPORT_PROGRESS,
    REPORT_RESULT,
    ASK_HUMAN,
    CHECK_INBOX,
    SEND_MESSAGE,
    SPAWN_RUN,
    LIST_RUNS,
    GET_RUN,
    STOP_RUN,
    CHECKPOINT,
    REQUEST_ACCESS,
];

/// The tools that an agent calls again and again while it waits for an answer or for another run.
pub(crate) const POLLING: [&str; 4] = [ASK_HUMAN, CHECK_INBOX, LIST_RUNS, GET_RUN];

/// The tools that the shim answers from memory. All others use files, locks or the daemon, so they may block.
const FROM_MEMORY: [&str; 3] = [WHOAMI, REPORT_PROGRESS, REPORT_RESULT];

/// Tells whether a tool uses files, locks or the daemon.
pub(super) fn is_for_the_desk(tool: &str) -> bool {
    NAMES.contains(&tool) && !FROM_MEMORY.contains(&tool)
}

/// Describes the whole server to the model.
pub(super) const INSTRUCTIONS: &str = "Caretaker supervises this run, and the people who started it read your reports. \
     During longer work, call report_progress now and then. Call report_result once, just before your last message. \
     Use ask_human for decisions that only a person can make. check_inbox returns answers and other agents' messages; \
     if you end your turn, they start the next one. No tool waits: if you can only wait, end your turn.";

pub(super) fn tools() -> Vec<Tool> {
    let mut tools = vec![
        tool(
            WHOAMI,
            "Returns this run and session, its workspace, the time left, and how many tool calls and tokens it may use in all (null: no limit).",
            json!({"type": "object", "properties": {}}),
            ToolAnnotations::new().read_only(true).open_world(false),
        ),
        tool(
            REPORT_PROGRESS,
            "Shows one line of progress to the people who watch the run. At most once a second.",
            json!({
                "type": "object",
                "properties": {
                    "text": {"type": "string", "description": "What you have done or are doing, in one line."},
                    "percent": {"type": "number", "minimum": 0, "maximum": 100},
                },
                "required": ["text"],
            }),
            ToolAnnotations::new().destructive(false).open_world(false),
        ),
        tool(
            REPORT_RESULT,
            "Records the result of the work. Call it once, just before your last message.",
            json!({
                "type": "object",
                "properties": {
                    "status": {
                        "type": "string",
                        "enum": ["done", "blocked", "failed"],
                        "description": "`blocked` if a person has to decide or provide something first.",
                    },
                    "summary": {"type": "string", "description": "What you did, or what is missing."},
                    "artifacts": {
                        "type": "array",
                        "items": {"type": "string"},
                        "description": "Files or links that you made.",
                    },
                },
                "required": ["status", "summary"],
            }),
            ToolAnnotations::new().destructive(false).open_world(false),
        ),
    ];
    tools.extend(for_people());
    tools.extend(for_the_family());
    tools
}

fn writes() -> ToolAnnotations {
    ToolAnnotations::new().destructive(false).open_world(false)
}

fn reads() -> ToolAnnotations {
    ToolAnnotations::new().read_only(true).open_world(false)
}

fn nothing() -> Value {
    json!({"type": "object", "properties": {}, "additionalProperties": false})
}

fn for_people() -> Vec<Tool> {
    vec![
        tool(
            ASK_HUMAN,
            "Asks a person, and returns the question's id immediately. check_inbox returns the answer later, or the answer \
             starts your next turn. At most three questions may be open.",
            json!({
                "type": "object",
                "properties": {
                    "question": {"type": "string", "description": "With everything that a person needs to answer it."},
                    "options": {
                        "type": "array", "items": {"type": "string"}, "maxItems": 10,
                        "description": "Suggested answers.",
                    },
                },
                "required": ["question"],
                "additionalProperties": false,
            }),
            writes(),
        ),
        tool(
            REQUEST_ACCESS,
            "Asks a person for access that the sandbox does not give. Asking alone grants nothing. The answer arrives as \
             with ask_human.",
            json!({
                "type": "object",
                "properties": {
                    "host": {"type": "string", "description": "The host that you need, if it is a host."},
                    "why": {"type": "string", "description": "What you need, and why."},
                },
                "required": ["why"],
                "additionalProperties": false,
            }),
            writes(),
        ),
        tool(
            CHECK_INBOX,
            "Returns new answers from people and new messages from other agents, each only once.",
            nothing(),
            writes(),
        ),
        tool(
            CHECKPOINT,
            "Saves the current workspace in the background. At most ten times in a run.",
            json!({
                "type": "object",
                "properties": {"label": {"type": "string", "description": "Its name."}},
                "required": ["label"],
                "additionalProperties": false,
            }),
            writes(),
        ),
    ]
}

fn for_the_family() -> Vec<Tool> {
    let who = "`parent`, a name, or a run's id. You can name only your parent, your children and your siblings.";
    let one_run = || {
        json!({
            "type": "object",
            "properties": {"run": {"type": "string", "description": who}},
            "required": ["run"],
            "additionalProperties": false,
        })
    };
    vec![
        tool(
            SEND_MESSAGE,
            "Sends a message to your parent, a child or a sibling.",
            json!({
                "type": "object",
                "properties": {
                    "to": {"type": "string", "description": who},
                    "text": {"type": "string", "maxLength": 8000},
                },
                "required": ["to", "text"],
                "additionalProperties": false,
            }),
            writes(),
        ),
        tool(
            SPAWN_RUN,
            "Starts another agent that works for you, in its own git worktree from the last commit. It has at most your \
             own rights. A report arrives in your inbox when it ends.",
            json!({
                "type": "object",
                "properties": {
                    "prompt": {"type": "string", "description": "Everything it needs to know. It sees nothing of this conversation."},
                    "name": {"type": "string", "description": "A short name: letters, digits, `-` and `_`."},
                    "mode": {"type": "string", "enum": ["plan", "ask"], "description": "It only reads."},
                    "profile": {"type": "string", "description": "`strict`, for a stricter sandbox than yours."},
                    "network": {"type": "string", "enum": ["none", "allowlist", "host"], "description": "Not more than you have."},
                    "hosts": {
                        "type": "array", "items": {"type": "string"},
                        "description": "The hosts that it needs, chosen from yours. If omitted, all of yours.",
                    },
                    "timeout_seconds": {"type": "integer", "minimum": 1, "description": "Not more than you have left."},
                    "memory_mb": {"type": "integer", "minimum": 1},
                    "processes": {"type": "integer", "minimum": 1},
                    "disk_mb": {"type": "integer", "minimum": 1},
                },
                "required": ["prompt"],
                "additionalProperties": false,
            }),
            writes(),
        ),
        tool(
            LIST_RUNS,
            "Lists your parent, your children and your siblings, with their states.",
            nothing(),
            reads(),
        ),
        tool(GET_RUN, "Returns the state and the report of one of them.", one_run(), reads()),
        tool(
            STOP_RUN,
            "Stops one of your own children.",
            one_run(),
            ToolAnnotations::new().destructive(true).open_world(false),
        ),
    ]
}

fn tool(
    name: &'static str,
    description: &'static str,
    input_schema: Value,
    annotations: ToolAnnotations,
) -> Tool {
    let input_schema = match input_schema {
        Value::Object(schema) => schema,
        _ => JsonObject::new(),
    };
    Tool::new(name, description, Arc::new(input_schema)).with_annotations(annotations)
}
