use pretty_assertions::assert_eq;

use super::*;

#[test]
fn a_budget_names_what_it_limits() {
    let budget: WrittenBudget = "tool_calls=500, time=8h,tokens=5M".parse().unwrap();
    assert_eq!(
        budget.0,
        Budget { tool_calls: Some(500), time_ms: Some(8 * 3_600_000), tokens: Some(5_000_000) }
    );
    assert_eq!("none".parse::<WrittenBudget>().unwrap().0, Budget::default());
    for (text, part) in [
        ("500", "tool_calls=N"),
        ("money=5", "`money` cannot be limited"),
        ("tokens=1,tokens=2", "`tokens` occurs twice"),
        ("time=soon", "not a duration"),
    ] {
        let error = text.parse::<WrittenBudget>().unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
}
