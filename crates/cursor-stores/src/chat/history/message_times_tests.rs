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
fn a_message_without_a_time_lies_between_its_neighbours() {
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
fn the_last_messages_alone_get_the_times_they_have_in_the_whole_conversation() {
    let mut end = drafts(&[None; 10]).split_off(8);
    interpolate_times(
        &mut end,
        Span { created_ms: Some(0), updated_ms: Some(900), n_ordinals: 10 },
    );
    assert_eq!(times(&end), [Some(800), Some(900)]);
}

#[test]
fn without_any_time_nothing_is_guessed() {
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
