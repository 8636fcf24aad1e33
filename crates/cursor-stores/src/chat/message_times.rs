//! Times for messages: the recorded ones, and between them what is likely.

use super::draft::Draft;
use crate::model::Moment;

/// What is known of a conversation's time as a whole.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) created_ms: Option<i64>,
    pub(super) updated_ms: Option<i64>,
    /// How many messages there are, read or not.
    pub(super) n_ordinals: usize,
}

/// Spreads messages without a time evenly between those that have one, and between the beginning and the last change.
pub(super) fn interpolate_times(drafts: &mut [Draft], span: Span) {
    let last = span.n_ordinals.saturating_sub(1);
    let mut anchors: Vec<(usize, i64)> = Vec::new();
    anchors.extend(span.created_ms.map(|created| (0, created)));
    anchors.extend(drafts.iter().filter_map(|draft| Some((draft.ordinal, draft.at?.at_ms))));
    anchors.extend(span.updated_ms.map(|updated| (last, updated)));
    // Time does not run backwards, whatever a clock says.
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
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;
    use crate::model::{Confidence, MessageKind, Role};

    fn drafts(times: &[Option<i64>]) -> Vec<Draft> {
        let draft = |(ordinal, at_ms): (usize, &Option<i64>)| Draft {
            at: at_ms.map(Moment::recorded),
            ..Draft::new(Role::User, MessageKind::Said, ordinal)
        };
        times.iter().enumerate().map(draft).collect()
    }

    fn times(drafts: &[Draft]) -> Vec<Option<i64>> {
        drafts.iter().map(|draft| Some(draft.at?.at_ms)).collect()
    }

    #[test]
    fn what_has_no_time_lies_between_its_neighbours() {
        let mut drafts = drafts(&[None, None, Some(500), None, None]);
        interpolate_times(
            &mut drafts,
            Span { created_ms: Some(100), updated_ms: Some(700), n_ordinals: 5 },
        );
        assert_eq!(times(&drafts), [Some(100), Some(300), Some(500), Some(600), Some(700)]);
        assert_eq!(drafts[2].at, Some(Moment::recorded(500)));
        assert!(drafts[1].at.unwrap().confidence == Confidence::Interpolated);
    }

    #[test]
    fn the_end_alone_is_dated_as_the_end_of_the_whole() {
        let mut end = drafts(&[None; 10]).split_off(8);
        interpolate_times(
            &mut end,
            Span { created_ms: Some(0), updated_ms: Some(900), n_ordinals: 10 },
        );
        assert_eq!(times(&end), [Some(800), Some(900)]);
    }

    #[test]
    fn nothing_known_is_nothing_guessed() {
        let mut unknown = drafts(&[None, None]);
        interpolate_times(&mut unknown, Span { n_ordinals: 2, ..Span::default() });
        assert_eq!(times(&unknown), [None, None]);
    }

    proptest! {
        #[test]
        fn guesses_never_run_backwards(known in prop::collection::vec(prop::option::of(any::<i64>()), 0..20), created: Option<i64>, updated: Option<i64>) {
            let mut drafts = drafts(&known);
            interpolate_times(&mut drafts, Span { created_ms: created, updated_ms: updated, n_ordinals: known.len() });
            let guessed: Vec<i64> = drafts
                .iter()
                .filter_map(|draft| draft.at)
                .filter(|at| at.confidence == Confidence::Interpolated)
                .map(|at| at.at_ms)
                .collect();
            prop_assert!(guessed.is_sorted());
        }
    }
}
