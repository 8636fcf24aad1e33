//! A message as the model got it: the JSON of an `agentKv:blob`, in the same form as in chats.

use std::collections::{HashMap, HashSet};

use crate::chat::{CallResult, JsonMessage};
use crate::encryption_keys::names_a_key;
use crate::ide::lenient::parse;
use crate::model::{Message, Part, Role};

/// A message, and its request if it opens a turn.
#[derive(Debug, Clone)]
pub(crate) struct AgentMessage {
    pub(crate) message: Message,
    /// Only the prompt that opens a turn has it.
    pub(crate) request_id: Option<String>,
    /// Results that are not yet attached to their calls.
    results: Vec<CallResult>,
}

impl AgentMessage {
    pub(crate) fn new(message: Message, request_id: Option<String>) -> Self {
        Self { message, request_id, results: Vec::new() }
    }
}

/// Reads the JSON of a blob. `None` if it is not a message.
pub(crate) fn read_agent_message(blob_id: &str, bytes: &[u8]) -> Option<AgentMessage> {
    let read = if names_a_key(bytes) {
        JsonMessage::parse(parse(bytes)?.to_string().as_bytes())?
    } else {
        JsonMessage::parse(bytes)?
    };
    if read.role == Role::Unknown {
        return None;
    }
    let mut message = Message::new(read.role, read.parts);
    message.id = Some(blob_id.to_owned());
    message.kind = read.kind;
    message.model = read.model.filter(|model| !model.is_empty());
    let request_id = read.request_id.filter(|id| !id.is_empty());
    Some(AgentMessage { message, request_id, results: read.results })
}

/// Gives each call its result. Drops messages that contained only results of known calls.
pub(crate) fn join_results(messages: &mut Vec<AgentMessage>) {
    let calls: HashSet<String> = messages
        .iter()
        .flat_map(|message| message.message.tool_calls())
        .filter_map(|call| Some(call_key(call.id.as_deref()?).to_owned()))
        .collect();
    let mut results: HashMap<String, CallResult> = HashMap::new();
    for message in messages.iter_mut() {
        for result in message.results.drain(..) {
            match result.call_id.as_deref().map(call_key).filter(|id| calls.contains(*id)) {
                Some(id) => drop(results.insert(id.to_owned(), result)),
                None => message.message.parts.push(Part::ToolResult {
                    call_id: result.call_id,
                    tool_name: result.tool_name,
                    result: result.result,
                }),
            }
        }
    }
    messages.retain(|message| {
        !(message.message.role == Role::Tool && message.message.parts.is_empty())
    });
    for part in messages.iter_mut().flat_map(|message| &mut message.message.parts) {
        if let Part::ToolCall(call) = part
            && let Some(result) = call.id.as_deref().and_then(|id| results.get(call_key(id)))
        {
            result.clone().answer(call);
        }
    }
}

/// Some call ids consist of two ids on two lines. Some stores keep both, others only the first.
pub(crate) fn call_key(id: &str) -> &str {
    id.split('\n').next().unwrap_or(id)
}
