//! The tool calls of a model step: all start together, run at the same time, and complete as they end.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use ground::now_ms;
use serde_json::json;

use super::events::{Flush, StreamedCall, new_call_id};
use super::{Turn, given, refused};
use crate::misbehaviour::Moment;
use crate::process::ending::Ending;
use crate::session_store::{ToolCallRecord, ToolResultRecord};
use crate::tools::{self, PreparedCall, ToolRequest, ToolRun};

/// `until` repeats a tool call for at most this long.
const LONGEST_UNTIL: Duration = Duration::from_secs(300);
const BETWEEN_CALLS: Duration = Duration::from_millis(250);

/// A call of this model step.
struct Call {
    id: String,
    request: ToolRequest,
    prepared: PreparedCall,
    started_at_ms: u64,
}

impl Turn {
    /// Makes the calls of one model step, all at the same time. Returns the results that the model reads.
    pub fn call(&mut self, requests: &[ToolRequest]) -> Result<String, Ending> {
        self.begin_step();
        let model_call_id = self.events.model_call_id(self.n_model_calls);
        let calls: Vec<Call> = requests.iter().map(|request| self.prepare(request)).collect();
        let flush = match calls.first() {
            Some(call) if asks_first(&call.prepared) => Flush::BeforeQuery,
            _ => Flush::BeforeToolCall { model_call_id: &model_call_id },
        };
        let step = self.flush(flush)?;
        let records: Vec<ToolCallRecord> = calls.iter().map(Call::record).collect();
        self.transcript(|transcript| transcript.assistant(given(&step.text), &records))?;
        self.store()?
            .model_step(given(&step.thinking), given(&step.text), &records)
            .map_err(refused)?;
        for call in &calls {
            let streamed = call.streamed(&model_call_id);
            if asks_first(&call.prepared) {
                self.query(&call.prepared)?;
                self.emit(&self.events.tool_started(&streamed))?;
            } else {
                self.emit(&self.events.tool_started(&streamed))?;
                self.query(&call.prepared)?;
            }
        }
        let results = self.run(&calls, &model_call_id)?;
        self.store()?.tools_finished(&results).map_err(refused)?;
        let texts: Vec<&str> = results.iter().map(|result| result.for_model.as_str()).collect();
        Ok(texts.join("\n"))
    }

    /// Calls a tool until all its answers together contain the text `count` times.
    pub fn call_until(
        &mut self,
        text: &str,
        count: usize,
        request: ToolRequest,
    ) -> Result<(), Ending> {
        let deadline = Instant::now() + LONGEST_UNTIL;
        let requests = [request];
        let mut n_seen = 0;
        loop {
            n_seen += self.call(&requests)?.matches(text).count();
            if n_seen >= count {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(Ending::error(format!("waited in vain for `{text}`")));
            }
            thread::sleep(BETWEEN_CALLS);
        }
    }

    fn prepare(&self, request: &ToolRequest) -> Call {
        let id = new_call_id();
        let prepared = tools::prepare(request, &id, &self.tools);
        Call { id, request: request.clone(), prepared, started_at_ms: now_ms() }
    }

    /// Runs the calls, each in a thread. They may complete in any order.
    fn run(
        &mut self,
        calls: &[Call],
        model_call_id: &str,
    ) -> Result<Vec<ToolResultRecord>, Ending> {
        let tools = Arc::clone(&self.tools);
        thread::scope(|scope| {
            let (sender, receiver) = mpsc::channel();
            for call in calls {
                let (sender, tools) = (sender.clone(), &tools);
                scope.spawn(move || {
                    let run = tools::run(&call.request, &call.prepared, tools);
                    sender.send((call, run)).ok();
                });
            }
            drop(sender);
            let outcome = self.reach(Moment::MidTool).and_then(|()| {
                receiver.iter().map(|(call, run)| self.complete(call, run, model_call_id)).collect()
            });
            if outcome.is_err() {
                // The scope waits for its threads, so the tools must end now.
                self.tools.processes.kill_all();
            }
            outcome
        })
    }

    fn complete(
        &mut self,
        call: &Call,
        run: ToolRun,
        model_call_id: &str,
    ) -> Result<ToolResultRecord, Ending> {
        self.emit(&self.events.tool_completed(&call.streamed(model_call_id), &run))?;
        if run.result["isBackground"] == json!(true) {
            let shell = &run.result["success"]["shellId"];
            self.background_shells.push(shell.as_str().map_or(shell.to_string(), str::to_owned));
        }
        Ok(ToolResultRecord {
            call_id: call.id.clone(),
            result: run.result,
            for_model: run.for_model,
            is_error: run.is_error,
        })
    }

    fn query(&mut self, prepared: &PreparedCall) -> Result<(), Ending> {
        let Some(query) = &prepared.query else { return Ok(()) };
        let id = self.n_queries;
        self.n_queries += 1;
        self.emit(&self.events.query_request(query, id))?;
        self.emit(&self.events.query_response(query, id))
    }
}

impl Call {
    fn streamed<'a>(&'a self, model_call_id: &'a str) -> StreamedCall<'a> {
        StreamedCall {
            call_id: &self.id,
            model_call_id,
            prepared: &self.prepared,
            started_at_ms: self.started_at_ms,
        }
    }

    fn record(&self) -> ToolCallRecord {
        ToolCallRecord {
            call_id: self.id.clone(),
            key: self.prepared.key.to_owned(),
            tool_name: self.prepared.tool_name.to_owned(),
            args: self.prepared.args.clone(),
            model_args: self.prepared.model_args.clone(),
        }
    }
}

/// In captures, the query of a web fetch comes after `started`, and every other query before it.
fn asks_first(prepared: &PreparedCall) -> bool {
    prepared.query.is_some() && prepared.key != "webFetchToolCall"
}
