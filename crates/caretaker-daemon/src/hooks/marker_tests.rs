use pretty_assertions::assert_eq;

use super::super::HookStanding;
use super::*;
use crate::server::instance::{Claim, DaemonNote};

#[test]
fn an_occasion_is_claimed_once_and_its_results_are_kept() {
    let directory = tempfile::tempdir().unwrap();
    let state = StateRoot::new(directory.path().to_owned());
    let run = RunId::generate();
    let daemon = Claim::new(&state).unwrap().unwrap();
    daemon.announce(&DaemonNote::of_this_process(1, "1", 1)).unwrap();
    let claim = |key| Marker::claim(&state, run, Transition::NeedsHuman, key, 7, 2).unwrap();
    let mut marker = claim(Some("q-1/../x")).unwrap();
    assert!(claim(Some("q-1/../x")).is_none());
    assert!(claim(Some("q-2")).is_some());
    let outcome =
        HookOutcome { hook: "x".to_owned(), is_ok: false, problem: Some("no".to_owned()), ms: 1 };
    let standing = || {
        let records = records_of(&state, run);
        assert_eq!(records.len(), 2);
        let first = records.into_iter().max_by_key(|record| record.outcomes.len()).unwrap();
        (first.outcomes.len(), first.standing.unwrap())
    };
    marker.note(outcome.clone()).unwrap();
    assert_eq!(standing(), (1, HookStanding::UnderWay));
    marker.note(outcome).unwrap();
    assert_eq!(standing(), (2, HookStanding::Done));
    assert!(claim(Some("q-1/../x")).is_none());
    // The daemon that claimed the occasion is gone, so unfinished hooks count as interrupted.
    drop(daemon);
    let of = |n_outcomes: usize| {
        let records = records_of(&state, run);
        let record = records.into_iter().find(|record| record.outcomes.len() == n_outcomes);
        record.unwrap().standing.unwrap()
    };
    assert_eq!((of(0), of(2)), (HookStanding::Interrupted, HookStanding::Done));
    assert_eq!(since(&state, 5).unwrap(), 5);
    assert_eq!(since(&state, 9).unwrap(), 5);
}
