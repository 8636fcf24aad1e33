//! The shim's tools for a sandboxed agent, and the journal events of each call.

mod calls;
mod definitions;

pub(crate) use definitions::POLLING;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest,
    CustomResult, ErrorCode, ErrorData, Implementation, ListToolsResult, PaginatedRequestParams,
    ServerCapabilities, ServerConfig,
};
use rmcp::service::{RequestContext, RoleServer};
use run_protocol::{McpCallOutcome, McpRefusal, RunEvent};
use serde_json::{Value, json};
use tokio::sync::mpsc::{self, error::TrySendError};

use super::WhoAmI;
use super::pace::Pace;
use crate::agent_tools::agent_desk::{AgentDesk, DeskCall};
use calls::{Call, cut, cut_line};

/// All connections of a run share this. The limits apply to the run, so a new connection does not reset them.
#[derive(Debug, Clone)]
pub(super) struct RunTools {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    facts: WhoAmI,
    events: mpsc::Sender<RunEvent>,
    limits: Mutex<Limits>,
    desk: Arc<AgentDesk>,
    /// The desk serves one call at a time, across all connections.
    desk_turn: Mutex<()>,
}

#[derive(Debug)]
struct Limits {
    calls: Pace,
    /// Limits how often the journal records calls over the limit.
    overflow_events: Pace,
    progress: Pace,
    messages: Pace,
    children: Pace,
    /// True once the agent has reported its result. A run is one turn, and a turn has one result.
    has_result: bool,
    /// Refusals that have no event yet.
    turned_away: Vec<(McpRefusal, u64)>,
    turned_away_events: Pace,
}

/// Why the shim refuses a call, in words for the model.
struct Refusal {
    outcome: McpCallOutcome,
    text: String,
}

/// The number of tools.
pub(super) fn n_tools() -> usize {
    definitions::tools().len()
}

impl RunTools {
    pub(super) fn new(facts: WhoAmI, events: mpsc::Sender<RunEvent>, desk: Arc<AgentDesk>) -> Self {
        let second = Duration::from_secs(1);
        let limits = Limits {
            calls: Pace::new(second / 10, 100),
            overflow_events: Pace::new(second, 1),
            progress: Pace::new(second, 1),
            messages: Pace::new(second, 20),
            children: Pace::new(2 * second, 8),
            has_result: false,
            turned_away: Vec::new(),
            turned_away_events: Pace::new(second, 1),
        };
        let (limits, desk_turn) = (Mutex::new(limits), Mutex::new(()));
        Self { shared: Arc::new(Shared { facts, events, limits, desk, desk_turn }) }
    }

    /// Answers a call. A call that may block runs on another thread.
    async fn respond(&self, tool: &str, arguments: Value) -> CallToolResult {
        if !definitions::is_for_the_desk(tool) {
            return self.answer(tool, arguments, Instant::now());
        }
        let (tools, tool) = (self.clone(), tool.to_owned());
        let answer = move || tools.answer(&tool, arguments, Instant::now());
        match tokio::task::spawn_blocking(answer).await {
            Ok(result) => result,
            Err(_) => failure("Caretaker itself failed."),
        }
    }

    /// Records a refusal of a message that is not even a call. Many refusals share one event.
    pub(super) fn note_refused(&self, reason: McpRefusal, now: Instant) {
        let mut limits = self.limits();
        match limits.turned_away.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, count)) => *count += 1,
            None => limits.turned_away.push((reason, 1)),
        }
        if !limits.turned_away_events.has_room(now) {
            return;
        }
        let Ok(room) = self.shared.events.try_reserve_many(limits.turned_away.len()) else {
            return;
        };
        let told = std::mem::take(&mut limits.turned_away);
        let events = told.into_iter().map(|(reason, count)| RunEvent::McpRefused { reason, count });
        room.zip(events).for_each(|(permit, event)| permit.send(event));
        limits.turned_away_events.charge(now, 1);
    }

    fn limits(&self) -> MutexGuard<'_, Limits> {
        self.shared.limits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers a call. Its events are in the channel before the agent reads the answer.
    fn answer(&self, tool: &str, arguments: Value, now: Instant) -> CallToolResult {
        let mut limits = self.limits();
        if !limits.calls.has_room(now) {
            // The journal records that there was a flood of calls, but the flood does not fill it.
            let is_told = limits.overflow_events.has_room(now)
                && self.record(tool, McpCallOutcome::RateLimited, None, None).is_ok();
            if is_told {
                limits.overflow_events.charge(now, 1);
            }
            return failure("Too many calls; nothing was recorded. Wait a few seconds.");
        }
        let admitted = limits.admit(Call::parse(tool, arguments), now);
        if let Ok(Call::Desk(call)) = admitted {
            limits.calls.charge(now, 1);
            limits.spend_at_desk(&call, now);
            drop(limits);
            return self.answer_at_desk(tool, call);
        }
        let recorded = match &admitted {
            Ok(call) => self.record(tool, McpCallOutcome::Ok, None, call.event()),
            Err(refusal) => self.record(tool, refusal.outcome, Some(&refusal.text), None),
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

    /// Serves a call that reaches beyond the run. It first reserves room for the events, so that no call goes
    /// unrecorded.
    fn answer_at_desk(&self, tool: &str, call: DeskCall) -> CallToolResult {
        let room = match self.shared.events.try_reserve_many(2) {
            Ok(room) => room,
            Err(error) => return failure(no_room(&error)),
        };
        let served = {
            let _turn = self.shared.desk_turn.lock().unwrap_or_else(PoisonError::into_inner);
            self.shared.desk.serve(call)
        };
        let (event, said, result) = match served {
            Ok(served) => {
                let event = call_event(tool, McpCallOutcome::Ok, None);
                (event, served.event, CallToolResult::structured(served.reply))
            }
            Err(not_served) => {
                let event = call_event(tool, not_served.outcome, Some(&not_served.text));
                (event, None, failure(not_served.text))
            }
        };
        let events = [event].into_iter().chain(said);
        room.zip(events).for_each(|(permit, event)| permit.send(event));
        result
    }

    /// Puts the event of a call and the event of its content into the channel, both or neither.
    fn record(
        &self,
        tool: &str,
        outcome: McpCallOutcome,
        why: Option<&str>,
        said: Option<RunEvent>,
    ) -> Result<(), &'static str> {
        let call = call_event(tool, outcome, why);
        match self.shared.events.try_reserve_many(1 + usize::from(said.is_some())) {
            Ok(room) => {
                let events = [call].into_iter().chain(said);
                room.zip(events).for_each(|(permit, event)| permit.send(event));
                Ok(())
            }
            Err(error) => Err(no_room(&error)),
        }
    }

    fn reply(&self, call: &Call) -> CallToolResult {
        match call {
            Call::WhoAmI => {
                CallToolResult::structured(who_am_i(&self.shared.facts, ground::now_ms()))
            }
            Call::ReportProgress(_) | Call::ReportResult(_) => {
                CallToolResult::success(vec![ContentBlock::text("Recorded.")])
            }
            Call::Desk(_) => failure("The desk serves this call."),
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
            Ok(Call::Desk(DeskCall::SendMessage { .. })) if !self.messages.has_room(now) => {
                Err(limited("Too many messages; this one was not sent. Wait a few seconds."))
            }
            Ok(Call::Desk(DeskCall::SpawnRun(_))) if !self.children.has_room(now) => Err(limited(
                "Too many children at once; this one was not made. Wait a few seconds.",
            )),
            Ok(call) => Ok(call),
        }
    }

    fn spend_at_desk(&mut self, call: &DeskCall, now: Instant) {
        match call {
            DeskCall::SendMessage { .. } => self.messages.charge(now, 1),
            DeskCall::SpawnRun(_) => self.children.charge(now, 1),
            _ => {}
        }
    }

    fn spend(&mut self, call: &Call, now: Instant) {
        match call {
            Call::WhoAmI | Call::Desk(_) => {}
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
        Ok(self.respond(&request.name, arguments).await.into())
    }

    /// Handles every request that the library does not know, such as a call whose arguments are not an object.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let params = request.params.unwrap_or_default();
        match (request.method.as_str(), params["name"].as_str()) {
            ("tools/call", Some(tool)) => {
                let result = self.respond(tool, params["arguments"].clone()).await;
                Ok(CustomResult::new(json!(result)))
            }
            (method, _) => Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, cut_line(method), None)),
        }
    }
}

/// The journal keeps this many characters of a refusal's reason.
const MOST_WHY_CHARS: usize = 300;

fn call_event(tool: &str, outcome: McpCallOutcome, why: Option<&str>) -> RunEvent {
    let why = why.map(|why| calls::on_one_line(&cut(why, MOST_WHY_CHARS)));
    RunEvent::McpCall { tool: cut_line(tool), outcome, why }
}

fn no_room(error: &TrySendError<()>) -> &'static str {
    match error {
        TrySendError::Full(()) => "Caretaker is busy and recorded nothing; try again in a moment.",
        TrySendError::Closed(()) => "The run is ending; nothing was recorded.",
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
        "parent": facts.lineage.as_ref().map(|lineage| lineage.run.to_string()),
        "depth": facts.lineage.as_ref().map_or(0, |lineage| lineage.depth),
        "deadline_ms": facts.deadline_ms,
        "seconds_left": facts.deadline_ms.map(|deadline_ms| deadline_ms.saturating_sub(now_ms) / 1000),
        "max_tool_calls": facts.max_tool_calls,
        "max_tokens": facts.max_tokens,
    })
}

#[cfg(test)]
#[path = "run_tools_tests.rs"]
mod tests;
