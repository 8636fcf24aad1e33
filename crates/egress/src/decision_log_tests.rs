use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;

fn denied(host: &str) -> Decision {
    Decision {
        host: Some(host.to_owned()),
        port: Some(443),
        via: NetVia::Tls,
        refusal: Some(NetRefusal::NotListed),
        detail: None,
    }
}

fn due(log: &mut DecisionLog, now: u64) -> Vec<RunEvent> {
    std::iter::from_fn(|| log.take_due(now)).collect()
}

fn count(event: &RunEvent) -> u64 {
    match event {
        RunEvent::NetAllowed { count, .. } | RunEvent::NetDenied { count, .. } => *count,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_first_of_a_kind_is_reported_at_once_and_the_rest_together() {
    let mut log = DecisionLog::default();
    log.note(denied("a.test"));
    assert_eq!(log.next_due(), Some(0));
    let expected = RunEvent::NetDenied {
        host: Some("a.test".to_owned()),
        port: Some(443),
        via: NetVia::Tls,
        reason: NetRefusal::NotListed,
        detail: None,
        count: 1,
    };
    assert_eq!(due(&mut log, 1_000), [expected]);
    assert_eq!(log.next_due(), None);
    for _ in 0..9_999 {
        log.note(denied("a.test"));
    }
    assert_eq!(due(&mut log, 1_001), []);
    assert_eq!(log.next_due(), Some(6_000));
    assert_eq!(due(&mut log, 6_000).iter().map(count).collect::<Vec<_>>(), [9_999]);
    log.note(denied("a.test"));
    assert_eq!(log.next_due(), Some(16_000));
    assert_eq!(log.rest().iter().map(count).collect::<Vec<_>>(), [1]);
    assert_eq!(log.rest(), []);
}

#[test]
fn beyond_a_limit_new_names_are_only_counted_by_kind() {
    let mut log = DecisionLog::default();
    for number in 0..10_000 {
        log.note(denied(&format!("secret-{number}.evil.test")));
    }
    let events = due(&mut log, 0);
    assert_eq!(events.len(), MOST_KEPT + 1);
    assert_eq!(events.iter().map(count).sum::<u64>(), 10_000);
    let nameless = |event: &&RunEvent| matches!(event, RunEvent::NetDenied { host: None, .. });
    assert_eq!(events.iter().filter(nameless).map(count).sum::<u64>(), 10_000 - MOST_KEPT as u64);
}

#[test]
fn a_long_name_is_cut() {
    let mut log = DecisionLog::default();
    log.note(denied(&"ü".repeat(1_000)));
    let [RunEvent::NetDenied { host: Some(host), .. }] = &due(&mut log, 0)[..] else { panic!() };
    assert_eq!(host.len(), 252);
}

proptest! {
    #[test]
    fn no_decision_is_lost_and_the_number_of_events_is_bounded(
        hosts in proptest::collection::vec(0u16..600, 0..450), step in 0u64..200
    ) {
        let mut log = DecisionLog::default();
        let (mut told, mut n_events) = (0, 0);
        for (number, host) in hosts.iter().enumerate() {
            log.note(denied(&format!("{host}.test")));
            let events = due(&mut log, number as u64 * step);
            told += events.iter().map(count).sum::<u64>();
            n_events += events.len();
        }
        let rest = log.rest();
        told += rest.iter().map(count).sum::<u64>();
        n_events += rest.len();
        prop_assert_eq!(told, hosts.len() as u64);
        // Six events within 90 s: the first, those at 5, 15, 35 and 75 s, and the last.
        prop_assert!(n_events <= (MOST_KEPT + 1) * 6);
    }
}
