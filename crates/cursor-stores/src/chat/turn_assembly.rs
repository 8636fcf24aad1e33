//! Messages and turns of the model from drafts.

use std::collections::{HashMap, HashSet};

use super::blob_id::BlobId;
use super::draft::Draft;
use super::schema::StepTiming;
use super::turn_history::TurnHistory;
use crate::model::{Message, MessageKind, Moment, Role, Turn, TurnState};

/// The messages of a conversation, its turns, and which message each blob went into.
pub(super) struct Assembled {
    pub(super) messages: Vec<Message>,
    pub(super) turns: Vec<Turn>,
    pub(super) sources: HashMap<BlobId, usize>,
}

/// Numbers the turns from one prompt to the next.
pub(super) fn assemble(
    drafts: Vec<Draft>,
    history: &TurnHistory,
    timings: &[StepTiming],
) -> Assembled {
    let mut assembled =
        Assembled { messages: Vec::new(), turns: Vec::new(), sources: HashMap::new() };
    let mut ids = HashSet::new();
    // The turn of the history that the current one is.
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
        // The same words are one blob, however often they were said.
        message.id = message
            .id
            .map(|id| if ids.insert(id.clone()) { id } else { format!("{id}@{ordinal}") });
        assembled.messages.push(message);
    }
    assembled
}

fn first_look(draft: &Draft, history: &TurnHistory, timings: &[StepTiming]) -> Turn {
    let record = draft.turn.and_then(|turn| history.turns.get(turn));
    // One timing for each turn that came to its end: only if there are as many is it clear which is whose.
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
