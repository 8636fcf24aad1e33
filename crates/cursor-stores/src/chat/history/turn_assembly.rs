//! Builds the model's messages and turns from drafts.

use std::collections::{HashMap, HashSet};

use super::draft::Draft;
use super::turn_history::TurnHistory;
use crate::chat::schema::StepTiming;
use crate::chat::store::BlobId;
use crate::model::{Message, MessageKind, Moment, Role, Turn, TurnState};

/// The messages and turns of a conversation, and the message that each blob went into.
pub(crate) struct Assembled {
    pub(crate) messages: Vec<Message>,
    pub(crate) turns: Vec<Turn>,
    pub(crate) sources: HashMap<BlobId, usize>,
}

/// Numbers the turns. A turn lasts from one prompt to the next.
pub(crate) fn assemble(
    drafts: Vec<Draft>,
    history: &TurnHistory,
    timings: &[StepTiming],
) -> Assembled {
    let mut assembled =
        Assembled { messages: Vec::new(), turns: Vec::new(), sources: HashMap::new() };
    let mut ids = HashSet::new();
    // The current turn's index in the history.
    let mut current: Option<usize> = None;
    for draft in drafts {
        let is_next = draft.turn.is_some() && current.is_some() && draft.turn != current;
        let is_first = assembled.turns.is_empty() && draft.turn.is_some();
        if draft.is_prompt() || is_next || is_first {
            current = draft.turn;
            assembled.turns.push(first_look(&draft, history, timings));
        }
        let turn = assembled.turns.len().checked_sub(1);
        let position = assembled.messages.len();
        for source in &draft.sources {
            assembled.sources.entry(*source).or_insert(position);
        }
        if let Some(id) = draft.turn.and_then(|turn| history.turns.get(turn)?.id) {
            assembled.sources.entry(id).or_insert(position);
        }
        if let Some(turn) = assembled.turns.last_mut() {
            note_message(turn, &draft);
        }
        let ordinal = draft.ordinal;
        let mut message = Message { turn, ..draft.into_message() };
        // Identical messages share one blob, no matter how often a user sends them.
        message.id = message
            .id
            .map(|id| if ids.insert(id.clone()) { id } else { format!("{id}@{ordinal}") });
        assembled.messages.push(message);
    }
    assembled
}

fn first_look(draft: &Draft, history: &TurnHistory, timings: &[StepTiming]) -> Turn {
    let record = draft.turn.and_then(|turn| history.turns.get(turn));
    // Each finished turn has a timing. Only if the counts match is it clear which timing belongs to which turn.
    let n_turns = history.n_before + history.turns.len();
    let timing = draft
        .turn
        .filter(|_| timings.len() == n_turns)
        .and_then(|turn| timings.get(history.n_before + turn))
        .filter(|timing| timing.timestamp_ms > 0);
    let at = |ms: u64| i64::try_from(ms).ok().map(Moment::recorded);
    Turn {
        request_id: record
            .and_then(|record| record.request_id.clone())
            .or_else(|| draft.request_id.clone()),
        model: record.and_then(|record| record.model.clone()),
        started: timing
            .and_then(|timing| at(timing.timestamp_ms.saturating_sub(timing.duration_ms)))
            .or(draft.at.filter(|_| draft.is_prompt())),
        ended: timing.and_then(|timing| at(timing.timestamp_ms)),
        state: if timing.is_some() { TurnState::Finished } else { TurnState::Unknown },
        ..Turn::default()
    }
}

fn note_message(turn: &mut Turn, draft: &Draft) {
    if draft.role == Role::Assistant && turn.model.is_none() {
        turn.model.clone_from(&draft.model);
    }
    if draft.kind == MessageKind::Pending {
        turn.state = TurnState::Unknown;
    }
}
