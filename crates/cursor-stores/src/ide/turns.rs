//! Turns, and the times of messages that have none.

use super::bubble::Bubble;
use crate::model::{Message, MessageKind, Moment, Role, TokenUsage, Turn, TurnState};

/// Tells whether a message opens a turn.
pub(super) fn opens_turn(message: &Message) -> bool {
    message.role == Role::User && matches!(message.kind, MessageKind::Said | MessageKind::Simulated)
}

/// Numbers the turns of messages and says what is known of each. `status` is that of the last one.
pub(super) fn number_turns(bubbles: &mut [Bubble], status: Option<&str>) -> Vec<Turn> {
    let mut turns: Vec<Turn> = Vec::new();
    for bubble in bubbles.iter_mut() {
        let message = &mut bubble.message;
        let has_no_turn = matches!(message.kind, MessageKind::Context | MessageKind::Orphan)
            || message.role == Role::System;
        if has_no_turn {
            continue;
        }
        if turns.is_empty() || opens_turn(message) {
            turns.push(Turn { started: message.at, ..Turn::default() });
        }
        message.turn = Some(turns.len() - 1);
        let Some(turn) = turns.last_mut() else { continue };
        turn.request_id = turn.request_id.take().or_else(|| bubble.request_id.clone());
        turn.ended = later(turn.ended, message.at);
        if message.role != Role::User || turn.model.is_none() {
            turn.model = message.model.clone().or(turn.model.take());
        }
        turn.error = bubble.error.clone().or(turn.error.take());
        turn.tokens = match (turn.tokens, bubble.tokens) {
            (Some(known), Some(more)) => Some(TokenUsage::plus(known, more)),
            (known, more) => known.or(more),
        };
    }
    for turn in &mut turns {
        if turn.error.is_some() {
            turn.state = TurnState::Failed;
        }
    }
    if let Some(last) = turns.last_mut() {
        last.state = match status {
            Some("generating") => TurnState::Running,
            Some("completed") => TurnState::Finished,
            Some("error") => TurnState::Failed,
            Some("aborted" | "cancelled") => TurnState::Cancelled,
            _ => last.state,
        };
    }
    turns
}

fn later(one: Option<Moment>, other: Option<Moment>) -> Option<Moment> {
    match (one, other) {
        (Some(one), Some(other)) => Some(if other.at_ms >= one.at_ms { other } else { one }),
        (one, other) => one.or(other),
    }
}

/// Spreads messages without a time evenly between those that have one, the beginning and the end.
pub(super) fn interpolate(bubbles: &mut [Bubble], created: Option<i64>, updated: Option<i64>) {
    let n_bubbles = bubbles.len();
    let mut before = created;
    let mut first = 0;
    while first < n_bubbles {
        if let Some(at) = bubbles[first].message.at {
            before = Some(at.at_ms);
            first += 1;
            continue;
        }
        let next = (first..n_bubbles).find(|place| bubbles[*place].message.at.is_some());
        let end = next.unwrap_or(n_bubbles);
        let after = match next {
            Some(next) => bubbles[next].message.at.map(|at| at.at_ms),
            None => updated,
        };
        if let (Some(before), Some(after)) = (before, after) {
            let n_steps = i64::try_from(end - first).unwrap_or(i64::MAX - 1) + 1;
            let span = after.saturating_sub(before).max(0);
            for (step, bubble) in (1_i64..).zip(&mut bubbles[first..end]) {
                let at_ms =
                    before.saturating_add(span / n_steps * step + span % n_steps * step / n_steps);
                bubble.message.at = Some(Moment::interpolated(at_ms));
            }
        }
        first = end;
    }
}
