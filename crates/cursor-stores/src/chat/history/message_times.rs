//! Times for messages: recorded times, and guesses between them.

use super::draft::Draft;
use crate::model::Moment;

/// When a conversation began and last changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) created_ms: Option<i64>,
    pub(crate) updated_ms: Option<i64>,
    /// The number of messages in the conversation, including those that were not read.
    pub(crate) n_ordinals: usize,
}

/// Spreads messages without a time evenly between messages that have one, the beginning, and the last change.
pub(crate) fn interpolate_times(drafts: &mut [Draft], span: Span) {
    let last = span.n_ordinals.saturating_sub(1);
    let mut anchors: Vec<(usize, i64)> = Vec::new();
    anchors.extend(span.created_ms.map(|created| (0, created)));
    anchors.extend(drafts.iter().filter_map(|draft| Some((draft.ordinal, draft.at?.at_ms))));
    anchors.extend(span.updated_ms.map(|updated| (last, updated)));
    // Times never decrease, even if a clock went backwards.
    let mut latest = i64::MIN;
    for (_, at_ms) in &mut anchors {
        latest = latest.max(*at_ms);
        *at_ms = latest;
    }
    let mut next = 0;
    for draft in drafts {
        if draft.at.is_some() {
            continue;
        }
        while anchors.get(next).is_some_and(|(ordinal, _)| *ordinal < draft.ordinal) {
            next += 1;
        }
        let before = next.checked_sub(1).map(|before| anchors[before]);
        draft.at =
            between(before, anchors.get(next).copied(), draft.ordinal).map(Moment::interpolated);
    }
}

fn between(
    before: Option<(usize, i64)>,
    after: Option<(usize, i64)>,
    ordinal: usize,
) -> Option<i64> {
    match (before, after) {
        (Some((from, from_ms)), Some((to, to_ms))) if to > from => {
            let (passed, whole) = (ordinal.saturating_sub(from) as i128, (to - from) as i128);
            let ms =
                i128::from(from_ms) + (i128::from(to_ms) - i128::from(from_ms)) * passed / whole;
            i64::try_from(ms).ok()
        }
        (before, after) => before.or(after).map(|(_, ms)| ms),
    }
}

#[cfg(test)]
#[path = "message_times_tests.rs"]
mod tests;
