//! The tools that a sandboxed agent has of us, and what each call becomes in the journal.

mod calls;
mod definitions;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest,
    CustomResult, ErrorCode, ErrorData, Implementation, ListToolsResult, PaginatedRequestParams,
    ServerCapabilities, ServerConfig,
};
use rmcp::service::{RequestContext, RoleServer};
use run_protocol::{McpCallOutcome, RunEvent};
use serde_json::{Value, json};
use tokio::sync::mpsc::{self, error::TrySendError};

use super::WhoAmI;
use super::pace::Pace;
use calls::{Call, cut_line};

/// Shared by all connections of a run: limits belong to the run, and connecting anew does not lift them.
#[derive(Debug, Clone)]
pub(super) struct RunTools {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    facts: WhoAmI,
    events: mpsc::Sender<RunEvent>,
    limits: Mutex<Limits>,
}

#[derive(Debug)]
struct Limits {
    calls: Pace,
    /// Of the calls that are too many, those that are journalled all the same.
    overflow_events: Pace,
    progress: Pace,
    /// A run is one turn, and a turn has one result.
    has_result: bool,
}

/// Why a call is not done, in words for the model.
struct Refusal {
    outcome: McpCallOutcome,
    text: String,
}

/// How many there are.
pub(super) fn n_tools() -> usize {
    definitions::tools().len()
}

impl RunTools {
    pub(super) fn new(facts: WhoAmI, events: mpsc::Sender<RunEvent>) -> Self {
        let second = Duration::from_secs(1);
        let limits = Limits {
            calls: Pace::new(second / 10, 100),
            overflow_events: Pace::new(second, 1),
            progress: Pace::new(second, 1),
            has_result: false,
        };
        Self { shared: Arc::new(Shared { facts, events, limits: Mutex::new(limits) }) }
    }

    /// Answers a call. What it leaves in the journal is already in the channel when the agent reads the answer.
    fn answer(&self, tool: &str, arguments: Value, now: Instant) -> CallToolResult {
        let mut limits = self.shared.limits.lock().unwrap_or_else(PoisonError::into_inner);
        if !limits.calls.has_room(now) {
            // A flood shows in the journal but does not fill it.
            let is_told = limits.overflow_events.has_room(now)
                && self.record(tool, McpCallOutcome::RateLimited, None).is_ok();
            if is_told {
                limits.overflow_events.charge(now, 1);
            }
            return failure("Too many calls; nothing was recorded. Wait some seconds.");
        }
        let admitted = limits.admit(Call::parse(tool, arguments), now);
        let recorded = match &admitted {
            Ok(call) => self.record(tool, McpCallOutcome::Ok, call.event()),
            Err(refusal) => self.record(tool, refusal.outcome, None),
        };
        if let Err(text) = recorded {
            return failure(text);
        }
        limits.calls.charge(now, 1);
        match admitted {
            Ok(call) => {
                limits.spend(&call, now);
                self.reply(&call)
            }
            Err(refusal) => failure(refusal.text),
        }
    }

    /// Puts a call and what it says into the channel, both or neither.
    fn record(
        &self,
        tool: &str,
        outcome: McpCallOutcome,
        said: Option<RunEvent>,
    ) -> Result<(), &'static str> {
        let call = RunEvent::McpCall { tool: cut_line(tool), outcome };
        match self.shared.events.try_reserve_many(1 + usize::from(said.is_some())) {
            Ok(room) => {
                let events = [call].into_iter().chain(said);
                room.zip(events).for_each(|(permit, event)| permit.send(event));
                Ok(())
            }
            Err(TrySendError::Full(())) => {
                Err("Caretaker is busy and recorded nothing; try again in a moment.")
            }
            Err(TrySendError::Closed(())) => Err("The run is ending; nothing was recorded."),
        }
    }

    fn reply(&self, call: &Call) -> CallToolResult {
        match call {
            Call::WhoAmI => {
                CallToolResult::structured(who_am_i(&self.shared.facts, milliseconds_since_epoch()))
            }
            Call::ReportProgress(_) | Call::ReportResult(_) => {
                CallToolResult::success(vec![ContentBlock::text("Recorded.")])
            }
        }
    }
}

impl Limits {
    fn admit(&self, call: Result<Call, String>, now: Instant) -> Result<Call, Refusal> {
        let limited =
            |text: &str| Refusal { outcome: McpCallOutcome::RateLimited, text: text.to_owned() };
        match call {
            Err(text) => Err(Refusal { outcome: McpCallOutcome::Refused, text }),
            Ok(Call::ReportProgress(_)) if !self.progress.has_room(now) => {
                Err(limited("At most one progress report a second is recorded; this one was not."))
            }
            Ok(Call::ReportResult(_)) if self.has_result => {
                Err(limited("The result of this turn is already recorded; this one was not."))
            }
            Ok(call) => Ok(call),
        }
    }

    fn spend(&mut self, call: &Call, now: Instant) {
        match call {
            Call::WhoAmI => {}
            Call::ReportProgress(_) => self.progress.charge(now, 1),
            Call::ReportResult(_) => self.has_result = true,
        }
    }
}

impl ServerHandler for RunTools {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("caretaker", env!("CARGO_PKG_VERSION")))
            .with_instructions(definitions::INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(definitions::tools()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        Ok(self.answer(&request.name, arguments, Instant::now()).into())
    }

    /// Sees all that is no request the library knows: also a call whose arguments are not an object.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let params = request.params.unwrap_or_default();
        match (request.method.as_str(), params["name"].as_str()) {
            ("tools/call", Some(tool)) => {
                let result = self.answer(tool, params["arguments"].clone(), Instant::now());
                Ok(CustomResult::new(json!(result)))
            }
            (method, _) => Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, cut_line(method), None)),
        }
    }
}

fn failure(text: impl Into<String>) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(text)])
}

fn who_am_i(facts: &WhoAmI, now_ms: u64) -> Value {
    json!({
        "run": facts.run.to_string(),
        "session": facts.session.to_string(),
        "name": facts.name,
        "workspace": facts.workspace,
        "model": facts.model,
        "deadline_ms": facts.deadline_ms,
        "seconds_left": facts.deadline_ms.map(|deadline_ms| deadline_ms.saturating_sub(now_ms) / 1000),
    })
}

fn milliseconds_since_epoch() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "run_tools_tests.rs"]
mod tests;
