use pretty_assertions::assert_eq;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn spend(tool_calls: u64, tokens: Option<u64>) -> Spend {
    Spend { tool_calls: Some(tool_calls), time_ms: Some(1000), tokens }
}

fn spending(spends: &[Spend]) -> Spending {
    let mut sum = Spending::default();
    spends.iter().for_each(|spend| sum.add(*spend));
    sum
}

#[test]
fn a_budget_is_spent_when_it_is_reached_and_names_the_quantity() {
    let budget = Budget { tool_calls: Some(10), ..Budget::default() };
    assert_eq!(judge(&budget, &spending(&[spend(4, None), spend(5, None)])), None);
    let spent = judge(&budget, &spending(&[spend(4, None), spend(6, None)])).unwrap();
    assert_eq!((spent.kind, spent.spent, spent.limit), (BudgetKind::ToolCalls, 10, 10));
    assert_eq!(spent.to_string(), "10 of 10 tool calls used");
    assert!(!Budget::default().is_set() && budget.is_set());
    assert_eq!(judge(&Budget::default(), &spending(&[spend(99, None)])), None);
}

#[test]
fn an_unreported_amount_is_not_zero() {
    let budget = Budget { tokens: Some(100), ..Budget::default() };
    // No run reported its usage, so the budget counts as spent.
    let blind = judge(&budget, &spending(&[spend(1, None)])).unwrap();
    assert_eq!((blind.spent, blind.n_unknown), (0, 1));
    assert_eq!(
        blind.to_string(),
        "0 of 100 tokens used; 1 run did not report its usage, nor did any other run"
    );
    // A run that did not report counts as much as the most expensive run that did.
    assert_eq!(judge(&budget, &spending(&[spend(1, Some(30)), spend(1, None)])), None);
    let spent = judge(
        &budget,
        &spending(&[spend(1, Some(30)), spend(1, None), spend(1, None), spend(1, None)]),
    );
    let spent = spent.unwrap();
    assert_eq!((spent.spent, spent.n_unknown, spent.each_unknown), (30, 3, Some(30)));
    assert_eq!(
        spent.to_string(),
        "30 of 100 tokens used; 3 runs did not report their usage and each count as 30, the highest usage of a run"
    );
    // A run that never began does not count as a known amount.
    assert!(judge(&budget, &spending(&[Spend::NOTHING, spend(1, None)])).is_some());
    assert_eq!(judge(&budget, &spending(&[Spend::NOTHING])), None);
}

#[test]
fn the_time_of_live_runs_counts() {
    let budget = Budget { time_ms: Some(5000), ..Budget::default() };
    let mut sum = spending(&[spend(0, None)]);
    sum.add_under_way(3000);
    assert_eq!(judge(&budget, &sum), None);
    sum.add_under_way(1000);
    let spent = judge(&budget, &sum).unwrap();
    assert_eq!(spent.to_string(), "5 s of 5 s of agent time used");
}

proptest! {
    /// The sum does not depend on how the runs are grouped: removed runs count like existing runs.
    #[test]
    fn merged_spending_equals_the_spending_of_all_runs_together(
        first in vec(proptest::option::of(0u64..50), 0..8),
        second in vec(proptest::option::of(0u64..50), 0..8),
    ) {
        let all = |tokens: &[Option<u64>]| -> Vec<Spend> {
            tokens.iter().map(|tokens| spend(1, *tokens)).collect()
        };
        let mut merged = spending(&all(&first));
        let json = serde_json::to_string(&spending(&all(&second))).unwrap();
        merged.merge(serde_json::from_str(&json).unwrap());
        prop_assert_eq!(merged, spending(&all(&[first, second].concat())));
    }

    /// One more run never makes a spent budget unspent, even if its usage is unknown.
    #[test]
    fn more_runs_never_spend_less(
        amounts in vec(proptest::option::of(0u64..50), 0..12),
        more in proptest::option::of(0u64..50),
        limit in 1u64..200,
    ) {
        let budget = Budget { tokens: Some(limit), ..Budget::default() };
        let spends: Vec<Spend> = amounts.iter().map(|tokens| spend(0, *tokens)).collect();
        let before = spending(&spends);
        let mut after = before;
        after.add(spend(0, more));
        let was_blind = before.tokens.expected().is_none();
        if judge(&budget, &before).is_some() && !was_blind {
            prop_assert!(judge(&budget, &after).is_some());
        }
        // The budget is spent as soon as the known amounts reach the limit.
        let known: u64 = amounts.iter().flatten().sum();
        if known >= limit {
            prop_assert!(judge(&budget, &before).is_some());
        }
    }
}
