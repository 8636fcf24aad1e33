use std::collections::{BTreeMap, BTreeSet};

use admission::budgets::budget::BudgetKind;
use pretty_assertions::assert_eq;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use super::*;

fn id(number: u64) -> RunId {
    format!("0191d0f6-0000-7000-8000-{number:012x}").parse().unwrap()
}

fn share(number: u64) -> Share {
    Share {
        group: None,
        model: None,
        account: "default".to_owned(),
        workspace: PathBuf::from(format!("/w/{number}")),
        session: format!("session {number}"),
    }
}

fn waiting(number: u64) -> WaitingRun {
    WaitingRun {
        run: id(number),
        share: share(number),
        since_ms: number,
        priority: 0,
        not_before_ms: None,
        after: Vec::new(),
        after_ok: Vec::new(),
        hold: None,
    }
}

fn caps(total: u32) -> Caps {
    Caps { total, groups: BTreeMap::new(), models: BTreeMap::new(), accounts: BTreeMap::new() }
}

/// The input of a decision. No run is held back, unless the test adds a reason.
struct Scene {
    now_ms: u64,
    gate: Gate,
    disk: DiskRoom,
    lowered: BTreeMap<String, Lowered>,
    dependencies: BTreeMap<RunId, Dependency>,
    budgets: SpentBudgets,
}

impl Scene {
    fn new() -> Self {
        Self {
            now_ms: 1_000_000,
            gate: Gate::Open,
            disk: DiskRoom::Enough,
            lowered: BTreeMap::new(),
            dependencies: BTreeMap::new(),
            budgets: SpentBudgets::default(),
        }
    }

    fn decide(&self, waiting: &[WaitingRun], live: &[(RunId, Share)], caps: &Caps) -> Decision {
        let conditions = Conditions {
            gate: self.gate,
            disk: self.disk,
            lowered: &self.lowered,
            budgets: &self.budgets,
            dependencies: &self.dependencies,
            ageing_ms: 60_000,
        };
        decide(self.now_ms, waiting, live, caps, &conditions)
    }
}

#[test]
fn the_oldest_start_first_and_the_rest_know_how_many_come_before_them() {
    let runs: Vec<WaitingRun> = (1..=4).rev().map(waiting).collect();
    let decision = Scene::new().decide(&runs, &[(id(9), share(9))], &caps(3));
    assert_eq!(decision.starts, [id(1), id(2)]);
    let cap = |before| Waiting::Cap {
        cap: CapKind::Total,
        name: String::new(),
        running: 3,
        limit: 3,
        before,
    };
    assert_eq!(decision.waiting, [(id(3), cap(0)), (id(4), cap(1))]);
    assert_eq!(decision.next_look_ms, None, "nothing changes by itself");
}

#[test]
fn a_higher_priority_goes_first_until_another_run_has_waited_long_enough() {
    let urgent = WaitingRun { priority: 10, since_ms: 500_000, ..waiting(2) };
    let decision = Scene::new().decide(&[waiting(1), urgent.clone()], &[], &caps(1));
    assert_eq!(decision.starts, [id(2)]);
    // Ten points of priority equal ten minutes of waiting.
    let late = WaitingRun { since_ms: 10 * 60_000 + 2, ..urgent };
    let decision = Scene::new().decide(&[waiting(1), late], &[], &caps(1));
    assert_eq!(decision.starts, [id(1)]);
}

#[test]
fn a_run_held_back_by_its_own_cap_does_not_hold_up_others() {
    let of_group = |number| {
        let mut run = waiting(number);
        run.share.group = Some("night".to_owned());
        run
    };
    let mut caps = caps(3);
    caps.groups.insert("night".to_owned(), 1);
    let decision = Scene::new().decide(&[of_group(1), of_group(2), waiting(3)], &[], &caps);
    assert_eq!(decision.starts, [id(1), id(3)]);
    let (run, reason) = &decision.waiting[0];
    assert_eq!(*run, id(2));
    assert_eq!(
        reason.to_string(),
        "1 of at most 1 runs of group `night` are under way; next in line"
    );
}

#[test]
fn a_delayed_run_waits_and_is_decided_again_when_its_time_comes() {
    let mut scene = Scene::new();
    let delayed = WaitingRun { not_before_ms: Some(1_000_500), ..waiting(1) };
    let decision = scene.decide(std::slice::from_ref(&delayed), &[], &caps(1));
    assert_eq!(decision.starts, []);
    assert_eq!(decision.next_look_ms, Some(1_000_500));
    scene.now_ms = 1_000_500;
    assert_eq!(scene.decide(&[delayed], &[], &caps(1)).starts, [id(1)]);
}

#[test]
fn a_run_waits_for_its_dependencies_and_ends_if_they_can_no_longer_be_met() {
    let mut scene = Scene::new();
    let after = WaitingRun { after: vec![id(7)], ..waiting(1) };
    let after_ok = WaitingRun { after_ok: vec![id(7)], ..waiting(2) };
    let both = [after, after_ok];
    let cases = [
        (Some(Dependency::Unfinished), vec![], 0),
        (Some(Dependency::Succeeded), vec![id(1), id(2)], 0),
        (Some(Dependency::Failed), vec![id(1)], 1),
        (Some(Dependency::Removed), vec![id(1)], 1),
        (None, vec![id(1)], 1),
    ];
    for (dependency, starts, n_ends) in cases {
        scene.dependencies = dependency.into_iter().map(|it| (id(7), it)).collect();
        let decision = scene.decide(&both, &[], &caps(5));
        assert_eq!((decision.starts, decision.ends.len()), (starts, n_ends), "{dependency:?}");
    }
}

#[test]
fn a_pause_a_full_disk_and_missing_keys_are_reported_as_reasons() {
    let mut scene = Scene::new();
    scene.gate = Gate::Paused;
    let reason = |decision: Decision| decision.waiting[0].1.clone();
    assert_eq!(reason(scene.decide(&[waiting(1)], &[], &caps(1))), Waiting::Resumption);
    scene.gate = Gate::Open;
    scene.disk = DiskRoom::Short { free_bytes: 1, needed_bytes: 2 };
    let decision = scene.decide(&[waiting(1)], &[], &caps(1));
    assert!(decision.next_look_ms.is_some(), "no event reports that a disk has room again");
    assert!(matches!(reason(decision), Waiting::DiskBlocked { .. }));
    scene.disk = DiskRoom::Enough;
    let names = vec!["CURSOR_API_KEY".to_owned()];
    let keyless = WaitingRun { hold: Some(Hold::Keys { names: names.clone() }), ..waiting(1) };
    assert_eq!(reason(scene.decide(&[keyless], &[], &caps(1))), Waiting::Keys { names });
}

#[test]
fn a_spent_group_budget_holds_back_only_its_runs_and_a_spent_day_budget_all_runs_until_tomorrow() {
    let mut scene = Scene::new();
    let spent = Overspent {
        kind: BudgetKind::Tokens,
        spent: 9,
        n_unknown: 0,
        each_unknown: None,
        limit: 9,
    };
    scene.budgets.groups.insert("night".to_owned(), spent.clone());
    let of_group =
        WaitingRun { share: Share { group: Some("night".to_owned()), ..share(1) }, ..waiting(1) };
    let both = [of_group, waiting(2)];
    let decision = scene.decide(&both, &[], &caps(9));
    assert_eq!(decision.starts, [id(2)]);
    let reason = &decision.waiting[0].1;
    let expected = "the budget of group `night` is exhausted: 9 of 9 tokens used";
    assert_eq!(reason.to_string(), expected);

    scene.budgets.day = Some(spent);
    scene.budgets.day_ends_ms = scene.now_ms + 5000;
    let decision = scene.decide(&both, &[], &caps(9));
    assert_eq!((decision.starts, decision.waiting.len()), (vec![], 2));
    assert_eq!(decision.next_look_ms, Some(scene.now_ms + 5000));
}

#[test]
fn a_failed_start_is_repeated_in_time() {
    let hold = Hold::Retry { problem: "no".to_owned(), until_ms: 1_000_010 };
    let mut scene = Scene::new();
    let run = WaitingRun { hold: Some(hold), ..waiting(1) };
    let decision = scene.decide(std::slice::from_ref(&run), &[], &caps(1));
    assert_eq!((decision.starts, decision.next_look_ms), (vec![], Some(1_000_010)));
    scene.now_ms += 10;
    assert_eq!(scene.decide(&[run], &[], &caps(1)).starts, [id(1)]);
}

#[test]
fn a_run_waits_briefly_for_its_credentials_and_then_starts() {
    let mut scene = Scene::new();
    let hold = Some(Hold::Credentials { until_ms: scene.now_ms + 10 });
    let run = WaitingRun { hold, ..waiting(1) };
    let decision = scene.decide(std::slice::from_ref(&run), &[], &caps(1));
    assert_eq!(decision.waiting, [(id(1), Waiting::Start)]);
    assert_eq!(decision.next_look_ms, Some(scene.now_ms + 10));
    scene.now_ms += 10;
    assert_eq!(scene.decide(&[run], &[], &caps(1)).starts, [id(1)]);
}

#[test]
fn two_runs_share_neither_a_workspace_nor_a_session() {
    let inside =
        WaitingRun { share: Share { workspace: "/w/1/inside".into(), ..share(2) }, ..waiting(2) };
    let same_session =
        WaitingRun { share: Share { session: share(1).session, ..share(3) }, ..waiting(3) };
    let beside =
        WaitingRun { share: Share { workspace: "/w/11".into(), ..share(4) }, ..waiting(4) };
    let runs = [waiting(1), inside, same_session, beside];
    let decision = Scene::new().decide(&runs, &[], &caps(9));
    assert_eq!(decision.starts, [id(1), id(4)]);
    let reasons: Vec<Waiting> = decision.waiting.into_iter().map(|(_, reason)| reason).collect();
    assert_eq!(reasons, [Waiting::Workspace { run: id(1) }, Waiting::Session { run: id(1) }]);
}

#[test]
fn a_rate_limited_account_pauses_and_then_continues_with_half_its_cap() {
    let mut scene = Scene::new();
    let lowered = Lowered::after_refusal(None, 4, 1, scene.now_ms, 500);
    scene.lowered.insert("default".to_owned(), lowered);
    let mut other = waiting(9);
    other.share.account = "other".to_owned();
    let runs: Vec<WaitingRun> = (1..=4).map(waiting).chain([other]).collect();
    let decision = scene.decide(&runs, &[], &caps(4));
    assert_eq!(decision.starts, [id(9)]);
    assert_eq!(decision.next_look_ms, Some(lowered.pause_until_ms()));
    scene.now_ms = lowered.pause_until_ms();
    let decision = scene.decide(&runs, &[], &caps(4));
    assert_eq!(decision.starts, [id(1), id(2), id(9)]);
    assert_eq!(decision.next_look_ms, Some(lowered.next_raise_ms(scene.now_ms)));
}

fn any_name(names: &'static [&'static str]) -> impl Strategy<Value = Option<String>> {
    proptest::option::of(proptest::sample::select(names)).prop_map(|it| it.map(str::to_owned))
}

prop_compose! {
    fn any_share(number: u64)(
        group in any_name(&["a", "b"]),
        model in any_name(&["m", "n"]),
        account in proptest::sample::select(&["default", "other"][..]),
        workspace in 0u64..12,
    ) -> Share {
        Share {
            group,
            model,
            account: account.to_owned(),
            workspace: PathBuf::from(format!("/w/{workspace}")),
            session: format!("session {number}"),
        }
    }
}

prop_compose! {
    fn any_waiting(number: u64)(
        share in any_share(number),
        since_ms in 0u64..2_000_000,
        priority in -5i32..5,
        not_before_ms in proptest::option::of(0u64..2_000_000),
        after in vec(0u64..40, 0..2),
        after_ok in vec(0u64..40, 0..2),
    ) -> WaitingRun {
        WaitingRun {
            run: id(number),
            share,
            since_ms,
            priority,
            not_before_ms,
            after: after.into_iter().map(id).collect(),
            after_ok: after_ok.into_iter().map(id).collect(),
            hold: None,
        }
    }
}

prop_compose! {
    fn any_caps()(
        total in 0u32..8,
        groups in btree_map(proptest::sample::select(&["a", "b"][..]), 0u32..4, 0..3),
        models in btree_map(proptest::sample::select(&["m", "n"][..]), 0u32..4, 0..3),
        accounts in btree_map(proptest::sample::select(&["default", "other"][..]), 0u32..4, 0..3),
    ) -> Caps {
        let named = |map: BTreeMap<&str, u32>| map.into_iter().map(|(k, v)| (k.to_owned(), v)).collect();
        Caps { total, groups: named(groups), models: named(models), accounts: named(accounts) }
    }
}

fn any_crowd() -> impl Strategy<Value = (Vec<WaitingRun>, Vec<(RunId, Share)>)> {
    let waiting = (0u64..30).prop_map(|n| (100..100 + n).map(any_waiting).collect::<Vec<_>>());
    let live = (0u64..6).prop_map(|n| {
        (200..200 + n)
            .map(|it| any_share(it).prop_map(move |share| (id(it), share)))
            .collect::<Vec<_>>()
    });
    (waiting.prop_flat_map(|it| it), live.prop_flat_map(|it| it))
}

proptest! {
    /// For any waiting and live runs: each waiting run gets exactly one answer, and no start exceeds a cap.
    #[test]
    fn every_run_gets_one_answer_and_no_cap_is_exceeded(
        (waiting, live) in any_crowd(),
        caps in any_caps(),
        dependencies in btree_map(0u64..40, 0u8..3, 0..40),
    ) {
        let mut scene = Scene::new();
        scene.dependencies = dependencies
            .into_iter()
            .map(|(run, state)| {
                let states =
                    [Dependency::Unfinished, Dependency::Succeeded, Dependency::Failed];
                (id(run), states[usize::from(state)])
            })
            .collect();
        let decision = scene.decide(&waiting, &live, &caps);

        let answered: Vec<RunId> = decision
            .starts
            .iter()
            .copied()
            .chain(decision.ends.iter().map(|(run, _)| *run))
            .chain(decision.waiting.iter().map(|(run, _)| *run))
            .collect();
        let distinct: BTreeSet<RunId> = answered.iter().copied().collect();
        prop_assert_eq!(answered.len(), waiting.len());
        prop_assert_eq!(distinct, waiting.iter().map(|run| run.run).collect::<BTreeSet<_>>());

        let started: Vec<&WaitingRun> =
            decision.starts.iter().map(|it| waiting.iter().find(|run| run.run == *it).unwrap()).collect();
        let mut running: Vec<&Share> = live.iter().map(|(_, share)| share).collect();
        for run in &started {
            for share in &running {
                prop_assert!(!are_nested(&share.workspace, &run.share.workspace));
            }
            running.push(&run.share);
            prop_assert!(running.len() <= caps.total as usize);
            for (kind, name) in [
                (CapKind::Group, run.share.group.as_deref()),
                (CapKind::Model, run.share.model.as_deref()),
                (CapKind::Account, Some(run.share.account.as_str())),
            ] {
                let Some(name) = name else { continue };
                let Some(cap) = caps.of(kind, name) else { continue };
                let n_running = running.iter().filter(|share| counts(share, kind, name)).count();
                prop_assert!(n_running <= cap as usize);
            }
            prop_assert!(run.not_before_ms.is_none_or(|at| at <= scene.now_ms));
            for other in &run.after_ok {
                prop_assert_eq!(scene.dependencies.get(other), Some(&Dependency::Succeeded));
            }
        }
    }

    /// However many runs of higher priority keep coming, every waiting run starts in the end.
    #[test]
    fn no_run_starves(priority in -20i32..0, rival in 0i32..20, every_ms in 1_000u64..120_000) {
        let patient = WaitingRun { priority, since_ms: 0, ..waiting(1) };
        let mut scene = Scene::new();
        scene.now_ms = 0;
        let mut rivals: Vec<WaitingRun> = Vec::new();
        // Long enough to make up for the difference in priority, plus one more rival.
        let worth = (rival - priority) as u64 * 60_000;
        for number in 2..(worth / every_ms + 4) {
            scene.now_ms = (number - 2) * every_ms;
            rivals.push(WaitingRun { priority: rival, since_ms: scene.now_ms, ..waiting(number) });
            let mut all = rivals.clone();
            all.push(patient.clone());
            let decision = scene.decide(&all, &[], &caps(1));
            if decision.starts == [patient.run] {
                return Ok(());
            }
            rivals.retain(|run| run.run != decision.starts[0]);
        }
        prop_assert!(false, "the waiting run never started");
    }
}
