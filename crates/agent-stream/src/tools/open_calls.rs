//! The tool calls under way: started, but not completed.

use std::collections::VecDeque;

use serde_json::value::RawValue;

use crate::tools::tool_call::ToolCall;

/// More than any model runs at the same time. Beyond this, the oldest call is dropped, so that a stream of starts alone
/// cannot fill the memory.
const MOST_OPEN: usize = 1024;
/// The limit for all open calls together. A call whose arguments do not fit is kept without them.
const MOST_BYTES: usize = 32 * 1024 * 1024;
/// No real id, name and description together are longer. A call beyond this is not kept at all.
const LONGEST_LABELS: usize = 16 * 1024;

#[derive(Debug, Clone)]
pub struct OpenCall {
    pub call_id: String,
    pub name: String,
    pub description: Option<String>,
    /// Kept because a rejected call completes without them.
    pub args: Option<Box<RawValue>>,
    /// `timestamp_ms` of the start.
    pub started_ms: Option<u64>,
}

/// The calls under way, in the order in which they started.
#[derive(Debug, Default)]
pub struct OpenCalls {
    calls: VecDeque<OpenCall>,
    bytes: usize,
}

impl OpenCalls {
    /// Records the start of a call. A second start with the same id replaces the first.
    pub fn started(&mut self, call: &ToolCall<'_>, timestamp_ms: Option<u64>) {
        let Some(call_id) = call.call_id.as_deref() else { return };
        self.take(call_id);
        let description = call.description.as_deref().unwrap_or_default();
        if call_id.len() + call.name_or_unnamed().len() + description.len() > LONGEST_LABELS {
            return;
        }
        if self.calls.len() == MOST_OPEN
            && let Some(oldest) = self.calls.pop_front()
        {
            self.bytes -= bytes_of(&oldest);
        }
        let args = call.args.filter(|args| self.bytes + args.get().len() <= MOST_BYTES);
        let call = OpenCall {
            call_id: call_id.to_owned(),
            name: call.name_or_unnamed().to_owned(),
            description: call.description.as_deref().map(str::to_owned),
            args: args.map(ToOwned::to_owned),
            started_ms: timestamp_ms,
        };
        self.bytes += bytes_of(&call);
        self.calls.push_back(call);
    }

    /// Records the end of a call, and returns its start. `None` is normal: some calls complete without a start.
    pub fn completed(&mut self, call_id: Option<&str>) -> Option<OpenCall> {
        self.take(call_id?)
    }

    /// The calls under way, oldest first.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &OpenCall> {
        self.calls.iter()
    }

    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    fn take(&mut self, call_id: &str) -> Option<OpenCall> {
        let position = self.calls.iter().position(|call| call.call_id == call_id)?;
        let call = self.calls.remove(position)?;
        self.bytes -= bytes_of(&call);
        Some(call)
    }
}

fn bytes_of(call: &OpenCall) -> usize {
    let description = call.description.as_ref().map_or(0, String::len);
    let args = call.args.as_ref().map_or(0, |args| args.get().len());
    call.call_id.len() + call.name.len() + description + args
}

#[cfg(test)]
#[path = "open_calls_tests.rs"]
mod tests;
