//! One turn: the prompt in, model steps and tool calls, the result out. Every step goes to the stream and to the store.

mod calls;
mod connection;
mod demonstration;
pub mod events;
mod transcript;

use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use cursor_home::ProjectDir;
use serde_json::{Value, json};

use crate::misbehaviour::{Armed, Moment};
use crate::process::ending::Ending;
use crate::process::helpers::Reentry;
use crate::process::lock;
use crate::process::signals::Ears;
use crate::process::stdout::{Output, OutputFormat, kill_this_process};
use crate::script::{Order, Script};
use crate::session_store::{Closing, CrashPoint, Role, SessionError, SessionStore};
use crate::startup::Plan;
use crate::tools::{Generation, ToolEnvironment};
use events::{EventWriter, Flush, Usage, tokens};
use transcript::{Transcript, TurnEnding};

/// A turn in progress. Scripts and misbehaviours act on it.
pub struct Turn {
    pub output: Arc<Output>,
    pub events: EventWriter,
    pub ears: Ears,
    pub reentry: Reentry,
    pub project_directory: ProjectDir,
    plan: Plan,
    tools: Arc<ToolEnvironment>,
    /// `None` after the result, when it is closed.
    store: Option<SessionStore>,
    transcript: Option<Transcript>,
    armed: Vec<Armed>,
    crash_points: Arc<Mutex<Vec<CrashPoint>>>,
    step: ModelStep,
    /// All flushed segments, without a separator.
    answer: String,
    thoughts: Vec<String>,
    model_delay: Duration,
    pace: Duration,
    n_model_calls: u32,
    n_queries: u64,
    usage: Usage,
    n_tokens_cached: u64,
    background_shells: Vec<String>,
    started: Instant,
}

/// The model's thoughts and text since the last tool call.
#[derive(Default)]
struct ModelStep {
    has_begun: bool,
    thinking: String,
    text: String,
}

impl Turn {
    pub fn new(
        plan: Plan,
        output: Arc<Output>,
        ears: Ears,
        reentry: Reentry,
        tools: ToolEnvironment,
        mut store: SessionStore,
    ) -> Self {
        let crash_points: Arc<Mutex<Vec<CrashPoint>>> = Arc::default();
        let dies_at = Arc::clone(&crash_points);
        store.on_crash_point(move |point| {
            if lock(&dies_at).contains(&point) {
                kill_this_process();
            }
        });
        Self {
            output,
            events: EventWriter {
                session_id: tools.session_id.to_string(),
                request_id: tools.request_id.clone(),
                generation: tools.generation,
            },
            ears,
            reentry,
            project_directory: plan.project_directory.clone(),
            plan,
            tools: Arc::new(tools),
            store: Some(store),
            transcript: None,
            armed: Vec::new(),
            crash_points,
            step: ModelStep::default(),
            answer: String::new(),
            thoughts: Vec::new(),
            model_delay: Duration::ZERO,
            pace: Duration::ZERO,
            n_model_calls: 0,
            n_queries: 0,
            usage: Usage::default(),
            n_tokens_cached: 0,
            background_shells: Vec::new(),
            started: Instant::now(),
        }
    }

    /// Plays the whole turn, including misbehaviours after the result.
    pub fn perform(mut self) -> Result<(), Ending> {
        let outcome = self.perform_script();
        if let (Err(ending), Some(transcript)) = (&outcome, self.transcript.take()) {
            transcript.end(&TurnEnding::Aborted { error: ending.stderr.trim().to_owned() })?;
        }
        outcome
    }

    fn perform_script(&mut self) -> Result<(), Ending> {
        let script = match self.plan.script.take() {
            Some(script) => script,
            None => {
                let (workspace, mode) = (self.tools.workspace.clone(), self.plan.mode);
                demonstration::script(&workspace, self.store()?.history(), mode)
                    .map_err(Ending::error)?
            }
        };
        self.begin(&script)?;
        for order in script.orders {
            self.obey(order)?;
        }
        self.finish()
    }

    fn begin(&mut self, script: &Script) -> Result<(), Ending> {
        let outside = std::mem::take(&mut self.plan.armed);
        // The store gets the prompt before the first order. Misbehaviours that act there must be armed now.
        let early =
            [CrashPoint::StoreCreated, CrashPoint::BeforeFirstRoot, CrashPoint::AfterUserMessage];
        let in_script = script.misbehaviours().filter_map(Armed::crash_point);
        self.crash_points().extend(in_script.filter(|point| early.contains(point)));
        self.crash_points().extend(outside.iter().filter_map(Armed::crash_point));
        if outside.iter().chain(script.misbehaviours()).any(Armed::forgets) {
            self.store()?.forget();
        }
        let prompt = self.plan.prompt.text.clone();
        let workspace = self.tools.workspace.display().to_string();
        self.emit(&self.events.init(self.plan.login, &workspace, &self.plan.model.display_name))?;
        self.emit(&self.events.user(&prompt))?;
        let request_id = self.events.request_id.clone();
        self.store()?.begin_turn(&prompt, &request_id).map_err(refused)?;
        let messages = self.store()?.transcript_messages();
        self.transcript = Some(Transcript::rewrite(
            &self.plan.roots,
            &self.plan.workspace,
            self.plan.session_id,
            &messages,
        )?);
        outside.into_iter().try_for_each(|armed| self.misbehave(armed))
    }

    fn obey(&mut self, order: Order) -> Result<(), Ending> {
        match order {
            Order::Say(text) => self.say(&text)?,
            Order::Think(text) => self.think(&text)?,
            Order::Calls(requests) => drop(self.call(&requests)?),
            Order::Until { text, count, request } => self.call_until(&text, count, request)?,
            Order::Recall => {
                let memories = self.memories()?;
                self.say(&memories)?;
            }
            Order::Servers => {
                let servers = self.tools.mcp.as_json().to_string();
                self.say(&servers)?;
            }
            Order::Wait(time) => thread::sleep(time),
            Order::Compact(time) => {
                thread::sleep(time);
                let prompt = &self.plan.prompt.text;
                let latest = format!("You said: {prompt}");
                let summary = format!("The conversation so far:\n{}\n{latest}", self.memories()?);
                self.store()?.compact(&summary).map_err(refused)?;
            }
            Order::ModelDelay(time) => self.model_delay = time,
            Order::Pace(time) => self.pace = time,
            Order::Misbehave(armed) => self.misbehave(armed)?,
            Order::Fail(failure) => return Err(Ending::failure(failure.stderr)),
            Order::Refused(complaint) => return self.retry_in_vain(&complaint),
            Order::Exit(code) => return Err(Ending::quiet(code)),
        }
        Ok(())
    }

    fn misbehave(&mut self, armed: Armed) -> Result<(), Ending> {
        self.crash_points().extend(armed.crash_point());
        self.armed.push(armed);
        armed.at_once(self)
    }

    fn reach(&mut self, moment: Moment) -> Result<(), Ending> {
        let armed = self.armed.clone();
        armed.iter().try_for_each(|one| one.at(moment, self))
    }

    /// Adds a text to the current segment. With partial output, streams it immediately.
    pub fn say(&mut self, text: &str) -> Result<(), Ending> {
        self.begin_step();
        let newline = if self.step.text.is_empty() { "" } else { "\n" };
        let text = format!("{newline}{text}");
        if self.plan.streams_partial_output {
            for token in tokens(&text) {
                thread::sleep(self.pace);
                self.emit(&self.events.assistant(token, Flush::Delta))?;
            }
        }
        self.step.text.push_str(&text);
        Ok(())
    }

    fn think(&mut self, text: &str) -> Result<(), Ending> {
        self.begin_step();
        for token in tokens(text) {
            thread::sleep(self.pace);
            self.emit(&self.events.thinking_delta(token))?;
        }
        self.emit(&self.events.thinking_completed())?;
        if !self.step.thinking.is_empty() {
            self.step.thinking.push('\n');
        }
        self.step.thinking.push_str(text);
        self.thoughts.push(text.to_owned());
        Ok(())
    }

    /// Ends the model step: its text becomes a segment of the answer.
    fn flush(&mut self, flush: Flush<'_>) -> Result<ModelStep, Ending> {
        let step = std::mem::take(&mut self.step);
        if !step.text.is_empty() {
            self.emit(&self.events.assistant(&step.text, flush))?;
            self.answer.push_str(&step.text);
        }
        self.n_model_calls += 1;
        let n_tokens = u64::from(self.store()?.context_tokens());
        self.usage.cache_read += self.n_tokens_cached;
        self.usage.input += n_tokens.saturating_sub(self.n_tokens_cached);
        self.usage.output += (tokens(&step.thinking).len() + tokens(&step.text).len()) as u64;
        self.n_tokens_cached = n_tokens;
        Ok(step)
    }

    fn finish(&mut self) -> Result<(), Ending> {
        let step = self.flush(Flush::Final)?;
        self.transcript(|transcript| transcript.assistant(given(&step.text), &[]))?;
        self.store()?.end_turn(given(&step.thinking), &step.text).map_err(refused)?;
        self.wait_for_background_shells()?;
        self.reach(Moment::BeforeResult)?;
        self.print_result()?;
        if let Some(transcript) = self.transcript.take() {
            transcript.end(&TurnEnding::Success)?;
        }
        let how = match self.events.generation {
            Generation::V2026_01 => Closing::LeaveWal,
            Generation::V2026_09 => Closing::Clean,
        };
        if let Some(store) = self.store.take() {
            store.close(how).map_err(Ending::error)?;
        }
        self.reach(Moment::AfterResult)
    }

    /// Waits for background shells, which keep the run open. Meanwhile the agent prints nothing.
    fn wait_for_background_shells(&mut self) -> Result<(), Ending> {
        let Some(limit) = self.plan.background_wait else { return Ok(()) };
        let n_aborted = self.tools.processes.wait_for_background(limit);
        let shells = std::mem::take(&mut self.background_shells);
        if n_aborted > 0 {
            let timeout_ms = limit.as_millis() as u64;
            return self.emit(&self.events.background_shell_timeout(n_aborted, timeout_ms));
        }
        shells
            .iter()
            .try_for_each(|shell| self.emit(&self.events.task_notification(shell, "completed")))
    }

    fn print_result(&self) -> Result<(), Ending> {
        let duration_ms = self.started.elapsed().as_millis() as u64;
        let mut result = self.events.result(&self.answer, duration_ms, self.usage);
        if self.plan.format == OutputFormat::Text {
            return Ok(self.output.line(&self.answer)?);
        }
        if self.plan.format == OutputFormat::Json && self.plan.shows_thinking {
            result["thinking_blocks"] = json!(self.thoughts);
        }
        Ok(self.output.event(&result)?)
    }

    /// Prints an event. The other formats print nothing until the end.
    pub fn emit(&self, event: &Value) -> Result<(), Ending> {
        if self.plan.format == OutputFormat::StreamJson {
            self.output.event(event)?;
        }
        Ok(())
    }

    /// Prints one event again and again, until at least `n_bytes` are written.
    pub fn emit_repeatedly(&self, event: &Value, n_bytes: u64) -> Result<(), Ending> {
        if self.plan.format == OutputFormat::StreamJson {
            self.output.repeat(&event.to_string(), n_bytes)?;
        }
        Ok(())
    }

    pub fn workspace_file(&self, name: &str) -> String {
        self.tools.workspace.join(name).display().to_string()
    }

    /// Returns the user's prompts from earlier turns, word for word.
    fn memories(&mut self) -> Result<String, Ending> {
        let said = self.store()?.history().iter().filter(|message| message.role == Role::User);
        let lines: Vec<String> =
            said.map(|message| format!("You said: {}", message.text)).collect();
        Ok(match lines.is_empty() {
            true => "I remember nothing before this.".to_owned(),
            false => lines.join("\n"),
        })
    }

    fn begin_step(&mut self) {
        if !std::mem::replace(&mut self.step.has_begun, true) {
            thread::sleep(self.model_delay);
        }
    }

    fn store(&mut self) -> Result<&mut SessionStore, Ending> {
        self.store.as_mut().ok_or_else(|| Ending::error("the session is closed"))
    }

    fn transcript(
        &mut self,
        write: impl FnOnce(&mut Transcript) -> std::io::Result<()>,
    ) -> Result<(), Ending> {
        Ok(self.transcript.as_mut().map_or(Ok(()), write)?)
    }

    fn crash_points(&self) -> MutexGuard<'_, Vec<CrashPoint>> {
        lock(&self.crash_points)
    }
}

fn given(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

/// The service refuses a prompt with a missing message. Every other error comes from this machine, such as a full disk.
fn refused(err: SessionError) -> Ending {
    match err {
        SessionError::BlobNotFound { .. } => {
            Ending::failure(format!("RetriableError: [invalid_argument] {err}"))
        }
        err => Ending::error(err),
    }
}
