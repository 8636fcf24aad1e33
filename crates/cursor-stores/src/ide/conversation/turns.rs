//! Divides messages into turns.

use super::bubble::Bubble;
use crate::model::{Message, MessageKind, Moment, Role, TokenUsage, Turn, TurnState};

/// True if a message opens a turn.
pub(crate) fn opens_turn(message: &Message) -> bool {
    message.role == Role::User && matches!(message.kind, MessageKind::Said | MessageKind::Simulated)
}

/// Numbers the turns of messages, and collects the facts about each turn. `status` is the status of the last turn.
pub(crate) fn number_turns(bubbles: &mut [Bubble], status: Option<&str>) -> Vec<Turn> {
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
        turn.tokens = TokenUsage::sum(turn.tokens, bubble.tokens);
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
