use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn caps(total: u32) -> Caps {
    Caps { total, groups: BTreeMap::new(), models: BTreeMap::new(), accounts: BTreeMap::new() }
}

fn run(model: Option<u8>, workspace: Option<u8>) -> BatchRun {
    BatchRun {
        model: model.map(|it| format!("m{it}")),
        workspace: workspace.map(|it| PathBuf::from(format!("/w/{it}"))),
        priority: 0,
    }
}

fn starts(runs: &[BatchRun], caps: &Caps) -> Vec<usize> {
    let batch = Batch { group: "g", account: None, caps };
    batch.starts(runs.iter().map(|run| (run, Turn::Waits)))
}

#[test]
fn group_model_and_default_account_caps_hold_and_the_order_is_kept() {
    let all = [run(Some(1), None), run(Some(1), None), run(Some(2), None)];
    let mut some = caps(9);
    some.models.insert("m1".to_owned(), 1);
    assert_eq!(starts(&all, &some), [0, 2]);
    some.groups.insert("g".to_owned(), 1);
    assert_eq!(starts(&all, &some), [0]);
    some.accounts.insert("default".to_owned(), 0);
    assert_eq!(starts(&all, &some), [0; 0]);
}

#[test]
fn live_runs_count_and_ended_runs_do_not() {
    let all = [run(None, Some(1)), run(None, Some(1)), run(None, Some(2)), run(None, Some(3))];
    let caps = caps(2);
    let batch = Batch { group: "g", account: None, caps: &caps };
    let turns = |turns: [Turn; 4]| batch.starts(all.iter().zip(turns));
    use Turn::{Over, UnderWay, Waits};
    assert_eq!(turns([UnderWay, Waits, Waits, Waits]), [2]);
    assert_eq!(turns([Over, Waits, UnderWay, Waits]), [1]);
    assert_eq!(turns([Over, UnderWay, UnderWay, Waits]), [0; 0]);
}

#[test]
fn a_higher_priority_goes_first() {
    let mut all = [run(None, None), run(None, None), run(None, None)];
    all[2].priority = 5;
    assert_eq!(starts(&all, &caps(9)), [2, 0, 1]);
    assert_eq!(starts(&all, &caps(1)), [2]);
}

proptest! {
    /// A batch never exceeds a cap, never starts two runs in one workspace, and starts every run that can start.
    #[test]
    fn caps_hold_and_no_run_waits_without_a_reason(
        all in vec((proptest::option::of(0u8..3), proptest::option::of(0u8..4)), 0..20),
        total in 0u32..8,
        cap_of_model in 0u32..4,
    ) {
        let all: Vec<BatchRun> = all.into_iter().map(|(model, place)| run(model, place)).collect();
        let mut caps = caps(total);
        caps.models.insert("m1".to_owned(), cap_of_model);
        let started = starts(&all, &caps);
        prop_assert!(started.len() <= total as usize);
        let is_limited = |it: &usize| all[*it].model.as_deref() == Some("m1");
        prop_assert!(started.iter().filter(|it| is_limited(it)).count() <= cap_of_model as usize);
        let shares = |one: &usize, other: &usize| {
            all[*one].workspace.is_some() && all[*one].workspace == all[*other].workspace
        };
        for (position, one) in started.iter().enumerate() {
            prop_assert!(!started[..position].iter().any(|other| shares(one, other)));
        }
        if started.len() < total as usize {
            for index in (0..all.len()).filter(|it| !started.contains(it)) {
                let is_kept_back =
                    is_limited(&index) || started.iter().any(|other| shares(&index, other));
                prop_assert!(is_kept_back, "{index} could start");
            }
        }
    }
}
