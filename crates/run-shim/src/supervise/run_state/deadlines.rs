//! The deadlines of a running agent, and the effects when one passes.

use run_protocol::{LimitKind, NoResult, RunEvent, RunLimits};

use super::{Activity, Effect, Moment, Phase, RunState};

/// A tool that declares its own limit gets this much extra time before it counts as hanging.
const TOOL_GRACE_MS: u64 = 60_000;
/// Silence after which `ps` shows the run as slow.
const SLOW_MS: u64 = 60_000;

impl RunState {
    pub(super) fn wall_deadline(&self) -> Option<Moment> {
        let limit = RunLimits::duration(self.limits.wall_ms)?;
        Some(self.started.saturating_add(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX)))
    }

    /// Returns the deadlines of a running agent.
    pub(super) fn running_deadlines<'s>(
        &'s self,
        activity: &'s Activity,
    ) -> impl Iterator<Item = (Moment, RunningDeadline)> + 's {
        let limits = &self.limits;
        let after = |from: Moment, limit_ms: u64| {
            RunLimits::duration(limit_ms).map(|_| from.saturating_add(limit_ms))
        };
        let quiet = activity.open_tools.is_empty();
        let startup = after(activity.since, limits.startup_ms).filter(|_| !activity.saw_init);
        let idle = after(activity.last_sign, limits.idle_ms).filter(|_| quiet && activity.saw_init);
        let settled =
            after(activity.last_sign, limits.settle_ms).filter(|_| quiet && activity.is_final);
        let closed = activity.stdout_closed.and_then(|at| after(at, limits.linger_ms.max(1)));
        let slow = (!activity.said_slow).then(|| activity.last_sign.saturating_add(SLOW_MS));
        let tools = activity.open_tools.iter().filter_map(|tool| {
            Some((tool.until?, RunningDeadline::Tool { name: tool.name.clone() }))
        });
        [
            startup.map(|at| (at, RunningDeadline::Startup)),
            idle.map(|at| (at, RunningDeadline::Idle)),
            settled.map(|at| (at, RunningDeadline::Settled)),
            closed.map(|at| (at, RunningDeadline::StreamClosed)),
            slow.map(|at| (at, RunningDeadline::Slow)),
        ]
        .into_iter()
        .flatten()
        .chain(tools)
    }

    /// Moves all deadlines by this much, except the wall-clock limit, which the user set.
    pub(super) fn absent(&mut self, ms: u64) {
        let later = |at: &mut Moment| *at = at.saturating_add(ms);
        match &mut self.phase {
            Phase::Running(activity) => {
                later(&mut activity.since);
                later(&mut activity.last_sign);
                activity.stdout_closed.iter_mut().for_each(later);
                activity
                    .open_tools
                    .iter_mut()
                    .filter_map(|tool| tool.until.as_mut())
                    .for_each(later);
            }
            Phase::Finishing { until } => until.iter_mut().for_each(later),
            Phase::Stopping { at, .. } => later(at),
            Phase::Draining { until, .. } => later(until),
            Phase::Starting | Phase::Killed | Phase::Ended => {}
        }
    }

    pub(super) fn running_deadline_passed(
        &mut self,
        due: RunningDeadline,
        now: Moment,
        effects: &mut Vec<Effect>,
    ) {
        let Phase::Running(activity) = &mut self.phase else { return };
        let silent_ms = now.saturating_sub(activity.last_sign);
        let running_ms = now.saturating_sub(activity.since);
        match due {
            RunningDeadline::Slow => {
                activity.said_slow = true;
                let tool = activity.open_tools.last().map(|tool| tool.name.clone());
                effects.push(Effect::Record(RunEvent::Slow { silent_ms, tool }));
            }
            RunningDeadline::Startup => {
                self.limit_reached(LimitKind::Startup, running_ms, now, effects);
            }
            RunningDeadline::Idle => self.limit_reached(LimitKind::Idle, silent_ms, now, effects),
            RunningDeadline::Tool { name } => {
                self.limit_reached(LimitKind::Tool { name }, silent_ms, now, effects);
            }
            RunningDeadline::Settled => {
                effects.push(Effect::Record(RunEvent::SettledWithoutResult { silent_ms }));
                self.no_result(NoResult::SettledWithoutResult, now, effects);
            }
            RunningDeadline::StreamClosed => {
                effects.push(Effect::Record(RunEvent::StreamClosed));
                self.no_result(NoResult::StreamClosed, now, effects);
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RunningDeadline {
    Startup,
    Idle,
    Settled,
    StreamClosed,
    Slow,
    Tool { name: String },
}

/// The limit of a tool call: the declared limit with some grace, but at most the run's own limit for tools.
pub(super) fn tool_limit(limits: &RunLimits, declared_ms: Option<u64>) -> Option<u64> {
    let declared = declared_ms.map(|declared| declared.saturating_add(TOOL_GRACE_MS));
    let general = RunLimits::duration(limits.tool_ms).map(|_| limits.tool_ms);
    [declared, general].into_iter().flatten().min()
}
