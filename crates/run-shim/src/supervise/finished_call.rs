//! A finished tool call, reduced to what shows that the agent repeats itself.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use agent_stream::{FileArgs, McpArgs, ShellArgs, ToolCall, tool_subject};
use run_protocol::RepeatedCall;
use serde_json::value::RawValue;

use crate::agent_tools::mcp_server::POLLING;
use crate::supervise::agent_line::kept;

/// Fields that differ from call to call, even if the arguments and the result are the same: ids and durations.
const INCIDENTAL: [&str; 10] = [
    "agentId",
    "conversationId",
    "durationMs",
    "executionTime",
    "localExecutionTimeMs",
    "msToWait",
    "pid",
    "requestId",
    "shellId",
    "toolCallId",
];

/// Cursor writes the output of background shells to files in a directory of this name.
const TERMINALS: &str = "/terminals/";

/// Two finished calls are equal if tool, arguments and result are the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FinishedCall {
    digest: u64,
    pub(super) words: RepeatedCall,
}

impl FinishedCall {
    /// `None` if the call waits for something, or if its arguments or its result are not known.
    pub(crate) fn of(call: &ToolCall<'_>) -> Option<Self> {
        let (tool, args, outcome) = (call.name_or_unnamed(), call.args?, call.outcome.as_ref()?);
        if waits(tool, args) {
            return None;
        }
        let mut hasher = DefaultHasher::new();
        (tool, outcome.kind.name()).hash(&mut hasher);
        hash_fields(args, &mut hasher);
        hash_fields(outcome.detail, &mut hasher);
        let subject = serde_json::from_str(args.get()).map(|args| tool_subject(&args));
        let subject = subject.unwrap_or_default();
        Some(Self { digest: hasher.finish(), words: RepeatedCall { tool: kept(tool), subject } })
    }
}

/// True if agents make this call again and again while they wait for something.
fn waits(tool: &str, args: &RawValue) -> bool {
    match tool {
        "await" => true,
        "mcp" => {
            let McpArgs { tool_name, name, .. } = McpArgs::read(args);
            let name = tool_name.or(name).unwrap_or_default();
            POLLING.iter().any(|polling| name.ends_with(polling))
        }
        "shell" => {
            let command = ShellArgs::read(args).command.unwrap_or_default();
            let mut words = command.split(|character: char| !character.is_alphanumeric());
            words.any(|word| word == "sleep") || command.contains(TERMINALS)
        }
        _ => FileArgs::read(args).path.is_some_and(|path| path.contains(TERMINALS)),
    }
}

fn hash_fields(raw: &RawValue, hasher: &mut DefaultHasher) {
    match serde_json::from_str::<BTreeMap<String, &RawValue>>(raw.get()) {
        Ok(mut fields) => {
            fields.retain(|name, _| !INCIDENTAL.contains(&name.as_str()));
            fields.iter().for_each(|(name, value)| (name, value.get()).hash(hasher));
        }
        Err(_) => raw.get().hash(hasher),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use agent_stream::{AgentStream, EventKind};
    use serde_json::{Value, json};

    use super::*;

    /// A call that is equal only to calls with the same number.
    pub(crate) fn numbered(digest: u64) -> FinishedCall {
        let words = RepeatedCall { tool: "shell".to_owned(), subject: format!("call {digest}") };
        FinishedCall { digest, words }
    }

    /// The call as the shim reads it from the agent's line.
    fn finished(tool: &str, args: &Value, result: &Value) -> Option<FinishedCall> {
        let line = json!({
            "type": "tool_call", "subtype": "completed", "call_id": "a",
            "tool_call": {format!("{tool}ToolCall"): {"args": args, "result": result}},
        });
        let mut call = None;
        AgentStream::default().feed(format!("{line}\n").as_bytes(), |line| {
            if let EventKind::ToolCompleted(completed) = &line.event.kind {
                call = FinishedCall::of(completed);
            }
        });
        call
    }

    fn shell(id: &str, command: &str, stdout: &str, time: u64) -> Option<FinishedCall> {
        let args = json!({"command": command, "toolCallId": id, "requestId": id});
        let result = json!({"command": command, "exitCode": 0, "stdout": stdout, "executionTime": time, "pid": time});
        finished("shell", &args, &json!({"success": result, "isBackground": false}))
    }

    #[test]
    fn calls_are_equal_if_tool_arguments_and_result_are_the_same_apart_from_ids_and_durations() {
        let first = shell("call_1\nfc_1", "ls", "a b", 7).unwrap();
        assert_eq!(
            first.words,
            RepeatedCall { tool: "shell".to_owned(), subject: "ls".to_owned() }
        );
        assert_eq!(shell("call_2\nfc_2", "ls", "a b", 9), Some(first.clone()));
        assert_ne!(shell("call_1\nfc_1", "ls", "a b c", 7), Some(first.clone()));
        assert_ne!(shell("call_1\nfc_1", "ls .", "a b", 7), Some(first));
        let args = json!({"path": "a.rs"});
        let results =
            [json!({"success": {"diffString": "+1"}}), json!({"success": {"diffString": "+2"}})];
        let rejected = [json!({"rejected": {}}), json!({"error": {}})];
        let calls: Vec<_> = results
            .iter()
            .chain(&rejected)
            .map(|it| finished("edit", &args, it).unwrap())
            .collect();
        for (place, call) in calls.iter().enumerate() {
            assert!(!calls[..place].contains(call), "{place}");
        }
        // Only the call's own ids are incidental, not those in the arguments of a server's tool.
        let of_server = |pid: u64| {
            let args = json!({"toolName": "inspect", "args": {"pid": pid}});
            finished("mcp", &args, &json!({"success": {"content": []}})).unwrap()
        };
        assert_ne!(of_server(1), of_server(2));
    }

    #[test]
    fn calls_that_wait_and_calls_without_arguments_or_result_say_nothing() {
        let done = json!({"success": {}});
        let mcp =
            |tool: &str| json!({"name": format!("caretaker-{tool}"), "toolName": tool, "args": {}});
        for (tool, args) in [
            ("await", json!({"taskId": "1"})),
            ("mcp", mcp("check_inbox")),
            ("mcp", mcp("get_run")),
            ("mcp", mcp("list_runs")),
            ("mcp", mcp("ask_human")),
            ("mcp", json!({"name": "caretaker-check_inbox"})),
            ("shell", json!({"command": "sleep 30; tail build.log"})),
            ("shell", json!({"command": "tail /h/.cursor/projects/w/terminals/3.txt"})),
            ("read", json!({"path": "/h/.cursor/projects/w/terminals/3.txt"})),
            ("grep", json!({"pattern": "done", "path": "/h/.cursor/projects/w/terminals/3.txt"})),
            ("readTodos", Value::Null),
        ] {
            assert_eq!(finished(tool, &args, &done), None, "{tool} {args}");
        }
        assert_eq!(finished("read", &json!({"path": "a"}), &Value::Null), None);
        for (tool, args) in [
            ("mcp", mcp("whoami")),
            ("shell", json!({"command": "grep -r sleeping src"})),
            ("read", json!({"path": "terminals.md"})),
            ("readTodos", json!({})),
        ] {
            assert!(finished(tool, &args, &done).is_some(), "{tool} {args}");
        }
    }
}
