use pretty_assertions::assert_eq;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn id(number: u64) -> RunId {
    format!("0191d0f6-0000-7000-8000-{number:012x}").parse().unwrap()
}

/// Run `number` had its last event at `number` seconds, and takes a hundred bytes.
fn run(number: u64) -> Candidate {
    Candidate {
        run: id(number),
        session: format!("session {number}"),
        at_ms: number * 1000,
        bytes: 100,
        need: None,
    }
}

fn runs(n: u64) -> Vec<Candidate> {
    (1..=n).map(run).collect()
}

const NONE: Criteria = Criteria { older_than_ms: None, keep: None, max_bytes: None };

#[test]
fn the_oldest_go_by_age_by_number_and_by_size() {
    let all = runs(5);
    assert_eq!(plan(&all, NONE, 10_000), Plan::default());
    let by_age = Criteria { older_than_ms: Some(7_000), ..NONE };
    assert_eq!(plan(&all, by_age, 10_000).go, [id(1), id(2)]);
    let by_number = Criteria { keep: Some(2), ..NONE };
    assert_eq!(plan(&all, by_number, 10_000).go, [id(1), id(2), id(3)]);
    let by_size = Criteria { max_bytes: Some(250), ..NONE };
    assert_eq!(plan(&all, by_size, 10_000).go, [id(1), id(2), id(3)]);
    assert_eq!(plan(&all, Criteria { max_bytes: Some(500), ..NONE }, 10_000), Plan::default());
}

#[test]
fn a_needed_run_stays_with_its_reason_and_others_go_to_reach_the_size() {
    let mut all = runs(4);
    all[0].need = Some(Need::Pinned);
    let decided = plan(&all, Criteria { keep: Some(2), ..NONE }, 10_000);
    assert_eq!(decided, Plan { go: vec![id(2)], stay: vec![(id(1), Need::Pinned)] });
    let by_size = plan(&all, Criteria { max_bytes: Some(200), ..NONE }, 10_000);
    assert_eq!(by_size.go, [id(2), id(3)]);
}

#[test]
fn a_run_that_continues_a_kept_run_is_kept_too() {
    let mut all = runs(3);
    all[0].need = Some(Need::Pinned);
    let session = all[0].session.clone();
    all[1].session = session;
    let decided = plan(&all, Criteria { keep: Some(0), ..NONE }, 10_000);
    assert_eq!(decided.go, [id(3)]);
    assert_eq!(decided.stay, [(id(1), Need::Pinned), (id(2), Need::Successor { of: id(1) })]);
}

proptest! {
    /// For any criteria: the plan removes no needed run, removes a session's last run only after the earlier ones, and
    /// the remaining runs meet the criteria, unless no more runs may be removed.
    #[test]
    fn no_needed_run_goes(
        needed in vec(any::<bool>(), 1..25),
        sessions in vec(0u8..6, 25),
        age in proptest::option::of(0u64..30_000),
        keep in proptest::option::of(0usize..30),
        most in proptest::option::of(0u64..3000),
    ) {
        let all: Vec<Candidate> = needed.iter().enumerate().map(|(index, needed)| Candidate {
            session: sessions[index].to_string(),
            need: needed.then_some(Need::Pinned),
            ..run(index as u64 + 1)
        }).collect();
        let criteria = Criteria { older_than_ms: age, keep, max_bytes: most };
        let decided = plan(&all, criteria, 30_000);
        let going: BTreeSet<RunId> = decided.go.iter().copied().collect();
        prop_assert_eq!(going.len(), decided.go.len());
        for run in &all {
            if going.contains(&run.run) {
                prop_assert!(run.need.is_none());
                let earlier = all.iter().filter(|it| it.session == run.session && it.run < run.run);
                for it in earlier {
                    prop_assert!(going.contains(&it.run), "an earlier run of its session stays");
                }
            }
        }
        for (run, _) in &decided.stay {
            prop_assert!(!going.contains(run));
        }
        if let Some(most) = most {
            let left: u64 = all.iter().filter(|it| !going.contains(&it.run)).map(|it| it.bytes).sum();
            let could_go = |it: &&Candidate| {
                !going.contains(&it.run)
                    && all.iter().all(|other| {
                        other.session != it.session || other.run > it.run || other.need.is_none()
                    })
            };
            prop_assert!(left <= most || !all.iter().any(|it| could_go(&it)));
        }
    }
}
