//! The tools as the agent's model sees them.

use std::sync::Arc;

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

pub(super) const WHOAMI: &str = "whoami";
pub(super) const REPORT_PROGRESS: &str = "report_progress";
pub(super) const REPORT_RESULT: &str = "report_result";

/// What the model reads of the server as a whole.
pub(super) const INSTRUCTIONS: &str = "Caretaker supervises this run and the people who started it read what you report. \
     In longer work call report_progress now and then. Call report_result once, just before your last message.";

pub(super) fn tools() -> Vec<Tool> {
    vec![
        tool(
            WHOAMI,
            "Tells which run and session this is, its workspace, and the time that is left.",
            json!({"type": "object", "properties": {}}),
            ToolAnnotations::new().read_only(true).open_world(false),
        ),
        tool(
            REPORT_PROGRESS,
            "Shows one line of progress to the people who watch the run; at most once a second.",
            json!({
                "type": "object",
                "properties": {
                    "text": {"type": "string", "description": "What is done or under way, in one line."},
                    "percent": {"type": "number", "minimum": 0, "maximum": 100},
                },
                "required": ["text"],
            }),
            ToolAnnotations::new().destructive(false).open_world(false),
        ),
        tool(
            REPORT_RESULT,
            "Records how the work came out; once, just before the last message.",
            json!({
                "type": "object",
                "properties": {
                    "status": {
                        "type": "string",
                        "enum": ["done", "blocked", "failed"],
                        "description": "`blocked` if somebody has to decide or provide something first.",
                    },
                    "summary": {"type": "string", "description": "What was done, or what is missing."},
                    "artifacts": {
                        "type": "array",
                        "items": {"type": "string"},
                        "description": "Files or links that came of it.",
                    },
                },
                "required": ["status", "summary"],
            }),
            ToolAnnotations::new().destructive(false).open_world(false),
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
