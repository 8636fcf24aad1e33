//! The state machine of a run, as a pure step: it takes an input and the time, and returns the new state and effects.
//!
//! ```text
//!              release          result                    exit             output drained
//!   Starting ──────────► Running ──────► Finishing (grace) ──────► Draining ──────────► Ended
//!       │                   │                 │                      ▲
//!       │ exit              │ stop, limit,    │ grace over           │ exit
//!       │                   ▼ no result       ▼                      │
//!       └──────────────► Stopping: INT ─► TERM ─► KILL of the namespace
//! ```
//!
//! The machine decides the verdict once: by `result`, otherwise by the reason for the stop, otherwise by the process's
//! exit. Silence is not a hang. There are different limits for silence without an open tool, with an open tool, and
//! after a final answer without a result.

use run_protocol::{
    BytesPath, LimitKind, NoResult, RunEvent, RunLimits, RunOutcome, SignalName, StopManner,
    StopReason,
};

pub(crate) use self::exchange::{AgentSign, Effect, Ending, Input};
use self::repetition::Repetition;
use crate::supervise::token_count::TokenCount;

mod deadlines;
mod exchange;
mod repetition;

/// Milliseconds on a monotonic clock.
pub(crate) type Moment = u64;

/// The most open tool calls that the machine tracks.
const MOST_OPEN_TOOLS: usize = 256;

#[derive(Debug, Clone)]
pub(crate) struct RunState {
    limits: RunLimits,
    phase: Phase,
    started: Moment,
    verdict: Option<RunOutcome>,
    stdout_open: bool,
    was_released: bool,
    /// The number of the agent's tool calls.
    n_tool_calls: u64,
    tokens: TokenCount,
    repetition: Repetition,
}

#[derive(Debug, Clone, PartialEq)]
enum Phase {
    Starting,
    Running(Activity),
    /// The agent gave its result. Until the deadline, its process may end on its own.
    Finishing {
        until: Option<Moment>,
    },
    Stopping {
        next: Rung,
        at: Moment,
    },
    /// The shim killed the namespace. The kernel ends it.
    Killed,
    /// The process is gone. Until the deadline, the rest of its output may arrive.
    Draining {
        until: Moment,
        exit_code: Option<i32>,
    },
    Ended,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rung {
    Term,
    Kill,
}

#[derive(Debug, Clone, PartialEq)]
struct Activity {
    since: Moment,
    saw_init: bool,
    last_sign: Moment,
    said_slow: bool,
    open_tools: Vec<OpenTool>,
    /// True if the agent's last text was final.
    is_final: bool,
    stdout_closed: Option<Moment>,
}

#[derive(Debug, Clone, PartialEq)]
struct OpenTool {
    call_id: String,
    name: String,
    until: Option<Moment>,
}

impl RunState {
    pub(crate) fn new(limits: RunLimits, now: Moment) -> Self {
        Self {
            limits,
            phase: Phase::Starting,
            started: now,
            verdict: None,
            stdout_open: true,
            was_released: false,
            n_tool_calls: 0,
            tokens: TokenCount::default(),
            repetition: Repetition::default(),
        }
    }

    /// The number of the agent's tool calls.
    pub(crate) fn n_tool_calls(&self) -> u64 {
        self.n_tool_calls
    }

    /// The tokens that the agent used, once it has reported them.
    pub(crate) fn tokens(&self) -> Option<u64> {
        self.tokens.total()
    }

    #[cfg(test)]
    pub(crate) fn has_ended(&self) -> bool {
        self.phase == Phase::Ended
    }

    /// The time of the next `Tick`.
    pub(crate) fn next_deadline(&self) -> Option<Moment> {
        let wall = self.wall_deadline();
        match &self.phase {
            Phase::Starting => wall,
            Phase::Running(activity) => {
                let own = self.running_deadlines(activity).map(|(at, _)| at).min();
                [own, wall].into_iter().flatten().min()
            }
            Phase::Finishing { until } => [*until, wall].into_iter().flatten().min(),
            Phase::Stopping { at, .. } => Some(*at),
            Phase::Draining { until, .. } => Some(*until),
            Phase::Killed | Phase::Ended => None,
        }
    }

    #[must_use]
    pub(crate) fn step(mut self, input: Input, now: Moment) -> (Self, Vec<Effect>) {
        let mut effects = Vec::new();
        match input {
            Input::Released => self.released(now),
            Input::Agent(sign) => self.agent(sign, now, &mut effects),
            Input::SignOfLife => self.sign_of_life(now),
            Input::StdoutClosed => self.stdout_closed(now, &mut effects),
            Input::Exited { exit_code } => self.exited(exit_code, now, &mut effects),
            Input::Stop(manner) => self.stop_asked(manner, now, &mut effects),
            Input::Suspend => {
                self.pause(RunOutcome::Suspended, StopReason::Suspended, now, &mut effects);
            }
            Input::Interrupt => match self.phase {
                Phase::Stopping { .. } => self.kill(StopReason::Interrupted, &mut effects),
                _ => {
                    self.pause(RunOutcome::Interrupted, StopReason::Interrupted, now, &mut effects);
                }
            },
            Input::Forgotten => {
                self.session_lost(RunOutcome::Amnesia, StopReason::Amnesia, &mut effects);
            }
            Input::Exceeded(limit) => {
                if self.note_exceeded(limit, now, &mut effects) {
                    self.kill(StopReason::Limit, &mut effects);
                }
            }
            Input::HadExceeded(limit) => {
                self.note_exceeded(limit, now, &mut effects);
            }
            Input::ProtectionLost(path) => self.protection_lost(path, &mut effects),
            Input::JournalFailed => self.journal_failed(now, &mut effects),
            Input::LeaseLost => {
                self.session_lost(RunOutcome::LeaseLost, StopReason::LeaseLost, &mut effects);
            }
            Input::Absent { ms } => self.absent(ms),
            Input::Tick => self.tick(now, &mut effects),
        }
        (self, effects)
    }

    fn released(&mut self, now: Moment) {
        // The agent may have ended before the shim read that the set-up was over.
        self.was_released = true;
        if self.phase == Phase::Starting {
            self.phase = Phase::Running(Activity {
                since: now,
                saw_init: false,
                last_sign: now,
                said_slow: false,
                open_tools: Vec::new(),
                is_final: false,
                stdout_closed: None,
            });
        }
    }

    fn agent(&mut self, sign: AgentSign, now: Moment, effects: &mut Vec<Effect>) {
        if let AgentSign::Result { is_error, tokens } = sign {
            self.tokens.add(tokens);
            return self.result(is_error, now, effects);
        }
        if matches!(sign, AgentSign::ToolStarted { .. }) {
            self.n_tool_calls += 1;
        }
        let mut is_another_session = false;
        let mut looping = None;
        if let Phase::Running(activity) = &mut self.phase {
            activity.last_sign = now;
            activity.said_slow = false;
            match sign {
                AgentSign::Init { is_the_asked_session } => {
                    activity.saw_init = true;
                    is_another_session = !is_the_asked_session;
                }
                AgentSign::ToolStarted { call_id, name, declared_ms } => {
                    activity.is_final = false;
                    let limit = deadlines::tool_limit(&self.limits, declared_ms);
                    activity.open_tools.retain(|tool| tool.call_id != call_id);
                    if activity.open_tools.len() < MOST_OPEN_TOOLS {
                        let until = limit.map(|limit| now.saturating_add(limit));
                        activity.open_tools.push(OpenTool { call_id, name, until });
                    }
                }
                AgentSign::ToolCompleted { call_id, call } => {
                    activity.open_tools.retain(|tool| tool.call_id != call_id);
                    looping = self.repetition.note(call);
                }
                AgentSign::FinalText => activity.is_final = true,
                AgentSign::Other => {}
                AgentSign::Result { .. } => {}
            }
        }
        if is_another_session {
            self.verdict = Some(RunOutcome::SessionMismatch);
            self.kill(StopReason::SessionMismatch, effects);
        }
        if let Some(event) = looping {
            self.looping(event, now, effects);
        }
        let most = self.limits.tool_calls;
        if most > 0 && self.n_tool_calls > most && matches!(self.phase, Phase::Running(_)) {
            self.note_exceeded(LimitKind::ToolCalls { most }, now, effects);
            self.climb_from_int(StopReason::Limit, now, effects);
        }
    }

    /// The agent's result decides the outcome, even if its process goes on.
    fn result(&mut self, is_error: bool, now: Moment, effects: &mut Vec<Effect>) {
        let is_first = match &self.verdict {
            // This verdict already follows a result.
            Some(RunOutcome::QuotaExceeded { limit: LimitKind::Tokens { .. } }) => false,
            None
            | Some(
                RunOutcome::Cancelled
                | RunOutcome::Suspended
                | RunOutcome::Interrupted
                | RunOutcome::TimedOut { .. }
                | RunOutcome::QuotaExceeded { .. }
                | RunOutcome::Looping
                | RunOutcome::Unknown { .. },
            ) => true,
            Some(_) => false,
        };
        if is_first && self.phase != Phase::Ended {
            self.verdict =
                Some(if is_error { RunOutcome::AgentError } else { RunOutcome::Succeeded });
            effects.push(Effect::Sync);
        }
        self.judge_tokens(now, effects);
        if matches!(self.phase, Phase::Running(_)) {
            let until = RunLimits::duration(self.limits.linger_ms)
                .map(|_| now.saturating_add(self.limits.linger_ms));
            self.phase = Phase::Finishing { until };
        }
    }

    /// Checks the token limit. The agent reports its tokens only at the end of the turn, so there is nothing left to
    /// stop. Only the outcome changes, once.
    fn judge_tokens(&mut self, now: Moment, effects: &mut Vec<Effect>) {
        let is_of_the_agent =
            matches!(self.verdict, Some(RunOutcome::Succeeded | RunOutcome::AgentError));
        let most = self.limits.tokens;
        if let Some(taken) = self.tokens.beyond(most)
            && is_of_the_agent
            && self.phase != Phase::Ended
        {
            let (limit, after_ms) =
                (LimitKind::Tokens { most, taken }, now.saturating_sub(self.started));
            effects.push(Effect::Record(RunEvent::LimitReached { limit: limit.clone(), after_ms }));
            self.verdict = Some(RunOutcome::QuotaExceeded { limit });
        }
    }

    fn sign_of_life(&mut self, now: Moment) {
        if let Phase::Running(activity) = &mut self.phase {
            activity.last_sign = now;
            activity.said_slow = false;
        }
    }

    fn stdout_closed(&mut self, now: Moment, effects: &mut Vec<Effect>) {
        self.stdout_open = false;
        match &mut self.phase {
            Phase::Running(activity) => activity.stdout_closed = Some(now),
            Phase::Draining { exit_code, .. } => {
                let exit_code = *exit_code;
                self.end(exit_code, effects);
            }
            _ => {}
        }
    }

    fn exited(&mut self, exit_code: Option<i32>, now: Moment, effects: &mut Vec<Effect>) {
        match self.phase {
            Phase::Draining { .. } | Phase::Ended => {}
            _ if self.stdout_open => {
                let until = now.saturating_add(self.limits.drain_ms);
                self.phase = Phase::Draining { until, exit_code };
            }
            _ => self.end(exit_code, effects),
        }
    }

    fn end(&mut self, exit_code: Option<i32>, effects: &mut Vec<Effect>) {
        self.phase = Phase::Ended;
        effects.push(Effect::End(self.ending(exit_code)));
    }

    /// The run's ending, if the run is over now.
    pub(crate) fn ending(&self, exit_code: Option<i32>) -> Ending {
        match self.verdict.clone() {
            Some(outcome) => Ending::Decided(outcome),
            None => Ending::ByItself { exit_code, was_released: self.was_released },
        }
    }

    fn stop_asked(&mut self, manner: StopManner, now: Moment, effects: &mut Vec<Effect>) {
        let is_going_down = matches!(self.phase, Phase::Stopping { .. });
        match (manner, &self.phase) {
            (_, Phase::Killed | Phase::Draining { .. } | Phase::Ended) => {}
            (StopManner::Ladder, Phase::Running(_) | Phase::Finishing { .. }) => {
                self.verdict.get_or_insert(RunOutcome::Cancelled);
                self.climb_from_int(StopReason::Cancelled, now, effects);
            }
            // A second request kills immediately. So does a request before there is an agent to signal.
            (StopManner::Now, _)
            | (StopManner::Ladder, Phase::Stopping { .. } | Phase::Starting) => {
                self.verdict.get_or_insert(RunOutcome::Cancelled);
                let reason = if is_going_down && manner == StopManner::Ladder {
                    StopReason::Cancelled
                } else {
                    StopReason::CancelledNow
                };
                self.kill(reason, effects);
            }
        }
    }

    /// Stops with the ladder. Repeated requests do not make it faster.
    fn pause(
        &mut self,
        outcome: RunOutcome,
        reason: StopReason,
        now: Moment,
        effects: &mut Vec<Effect>,
    ) {
        match self.phase {
            Phase::Running(_) | Phase::Finishing { .. } => {
                self.verdict.get_or_insert(outcome);
                self.climb_from_int(reason, now, effects);
            }
            Phase::Starting => {
                self.verdict.get_or_insert(outcome);
                self.kill(reason, effects);
            }
            Phase::Stopping { .. } | Phase::Killed | Phase::Draining { .. } | Phase::Ended => {}
        }
    }

    /// Kills a run that does not continue its conversation, or whose session another run took. This verdict replaces
    /// any other. The agent gets no time to write to the store.
    fn session_lost(&mut self, outcome: RunOutcome, reason: StopReason, effects: &mut Vec<Effect>) {
        if matches!(self.phase, Phase::Ended) {
            return;
        }
        self.verdict = Some(outcome);
        match self.phase {
            Phase::Killed | Phase::Draining { .. } | Phase::Ended => {}
            _ => self.kill(reason, effects),
        }
    }

    /// Records an exceeded limit. Returns true if there is still an agent to end.
    fn note_exceeded(&mut self, limit: LimitKind, now: Moment, effects: &mut Vec<Effect>) -> bool {
        if matches!(self.phase, Phase::Killed | Phase::Ended) {
            return false;
        }
        let after_ms = now.saturating_sub(self.started);
        effects.push(Effect::Record(RunEvent::LimitReached { limit: limit.clone(), after_ms }));
        self.verdict.get_or_insert(RunOutcome::QuotaExceeded { limit });
        !matches!(self.phase, Phase::Draining { .. })
    }

    /// Kills the agent immediately if a protection is lost, so that it cannot write there. The session can be resumed.
    fn protection_lost(&mut self, path: BytesPath, effects: &mut Vec<Effect>) {
        if matches!(self.phase, Phase::Killed | Phase::Draining { .. } | Phase::Ended) {
            return;
        }
        effects.push(Effect::Record(RunEvent::ProtectionLost { path }));
        self.verdict.get_or_insert(RunOutcome::Suspended);
        self.kill(StopReason::ProtectionLost, effects);
    }

    fn journal_failed(&mut self, now: Moment, effects: &mut Vec<Effect>) {
        // A success that is not in the journal does not count.
        self.verdict = Some(RunOutcome::JournalFailed);
        match self.phase {
            Phase::Running(_) | Phase::Finishing { .. } => {
                self.climb_from_int(StopReason::JournalFailed, now, effects);
            }
            Phase::Starting => self.kill(StopReason::JournalFailed, effects),
            _ => {}
        }
    }

    fn climb_from_int(&mut self, reason: StopReason, now: Moment, effects: &mut Vec<Effect>) {
        effects.push(Effect::Record(RunEvent::StopRequested { reason }));
        effects.push(Effect::SignalAgent(SignalName::Int));
        let at = now.saturating_add(self.limits.ladder.term_after_ms);
        self.phase = Phase::Stopping { next: Rung::Term, at };
    }

    fn climb_from_term(&mut self, reason: StopReason, now: Moment, effects: &mut Vec<Effect>) {
        effects.push(Effect::Record(RunEvent::StopRequested { reason }));
        effects.push(Effect::SignalAgent(SignalName::Term));
        let at = now.saturating_add(self.limits.ladder.kill_after_ms);
        self.phase = Phase::Stopping { next: Rung::Kill, at };
    }

    fn kill(&mut self, reason: StopReason, effects: &mut Vec<Effect>) {
        effects.push(Effect::Record(RunEvent::StopRequested { reason }));
        effects.push(Effect::KillSandbox);
        self.phase = Phase::Killed;
    }

    fn tick(&mut self, now: Moment, effects: &mut Vec<Effect>) {
        match &self.phase {
            Phase::Starting | Phase::Running(_)
                if self.wall_deadline().is_some_and(|at| at <= now) =>
            {
                self.limit_reached(LimitKind::WallClock, now - self.started, now, effects);
            }
            Phase::Running(activity) => {
                let due = self
                    .running_deadlines(activity)
                    .filter(|(at, _)| *at <= now)
                    .min_by_key(|(at, _)| *at);
                if let Some((_, due)) = due {
                    self.running_deadline_passed(due, now, effects);
                }
            }
            Phase::Finishing { until }
                if [*until, self.wall_deadline()].into_iter().flatten().any(|at| at <= now) =>
            {
                effects.push(Effect::Record(RunEvent::Lingered { ms: self.limits.linger_ms }));
                self.climb_from_term(StopReason::Lingering, now, effects);
            }
            Phase::Stopping { next, at } if *at <= now => match next {
                Rung::Term => {
                    effects.push(Effect::SignalAgent(SignalName::Term));
                    let at = now.saturating_add(self.limits.ladder.kill_after_ms);
                    self.phase = Phase::Stopping { next: Rung::Kill, at };
                }
                Rung::Kill => {
                    effects.push(Effect::KillSandbox);
                    self.phase = Phase::Killed;
                }
            },
            Phase::Draining { until, exit_code } if *until <= now => {
                let exit_code = *exit_code;
                self.end(exit_code, effects);
            }
            _ => {}
        }
    }

    fn limit_reached(
        &mut self,
        limit: LimitKind,
        after_ms: u64,
        now: Moment,
        effects: &mut Vec<Effect>,
    ) {
        effects.push(Effect::Record(RunEvent::LimitReached { limit: limit.clone(), after_ms }));
        self.verdict.get_or_insert(RunOutcome::TimedOut { limit });
        match self.phase {
            Phase::Starting => self.kill(StopReason::Limit, effects),
            _ => self.climb_from_int(StopReason::Limit, now, effects),
        }
    }

    fn no_result(&mut self, why: NoResult, now: Moment, effects: &mut Vec<Effect>) {
        self.verdict.get_or_insert(RunOutcome::Unknown { why });
        self.climb_from_int(StopReason::NoResult, now, effects);
    }
}

#[cfg(test)]
#[path = "run_state_tests.rs"]
mod tests;
