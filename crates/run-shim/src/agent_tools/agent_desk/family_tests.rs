use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;

fn overview(run: u128, session: u128, parent: Option<u128>, name: &str) -> RunOverview {
    let id = |number: u128| format!("01941f29-7c00-7000-8000-{number:012x}");
    let lineage = parent
        .map(|parent| json!({"run": id(900), "session": Uuid::from_u128(parent), "depth": 1}));
    serde_json::from_value(json!({
        "run": id(run), "created_ms": 1, "name": name, "labels": {},
        "session": Uuid::from_u128(session).to_string(), "workspace": "/secret/place",
        "profile": "default", "agent": "/a", "agent_version": null, "model": null,
        "prompt_start": "the prompt", "prompt_length": 3, "lineage": lineage,
        "state": {"state": "starting"}, "last_event": null, "last_event_ms": 1,
        "checkpoint": null, "reported": null, "journal_bytes": 1,
    }))
    .unwrap()
}

fn lineage(session: u128) -> Lineage {
    let run = "01941f29-7c00-7000-8000-0000000000ff".parse().unwrap();
    Lineage { run, session: Uuid::from_u128(session), depth: 1 }
}

/// 1 is the grandparent; 2 and 3 are its children; 4 and 5 are children of 2; 6 is a child of 3; 7 has no parent.
fn runs() -> Vec<RunOverview> {
    vec![
        overview(10, 1, None, "top"),
        overview(20, 2, Some(1), "left"),
        overview(21, 2, Some(1), "left-again"),
        overview(30, 3, Some(1), "right"),
        overview(40, 4, Some(2), "a"),
        overview(50, 5, Some(2), "b"),
        overview(60, 6, Some(3), "c"),
        overview(70, 7, None, "stranger"),
    ]
}

fn known_to(session: u128, parent: Option<u128>) -> Vec<(Relation, String)> {
    let lineage = parent.map(lineage);
    family_of(runs(), Uuid::from_u128(session), lineage.as_ref())
        .into_iter()
        .map(|relative| (relative.relation, relative.latest.name.unwrap()))
        .collect()
}

#[test]
fn an_agent_knows_its_parent_its_children_and_its_siblings_and_nobody_else() {
    let named = |relation, name: &str| (relation, name.to_owned());
    assert_eq!(
        known_to(2, Some(1)),
        [
            named(Relation::Parent, "top"),
            named(Relation::Sibling, "right"),
            named(Relation::Child, "a"),
            named(Relation::Child, "b"),
        ]
    );
    // A resumed session shows its latest run.
    assert_eq!(
        known_to(4, Some(2)),
        [named(Relation::Parent, "left-again"), named(Relation::Sibling, "b")]
    );
    assert_eq!(known_to(7, None), []);
    assert_eq!(known_to(8, None), [], "two runs without a parent are not siblings");
}

#[test]
fn the_report_about_a_relative_shows_neither_its_prompt_nor_its_workspace() {
    let family = family_of(runs(), Uuid::from_u128(1), None);
    let told = json!(family.iter().map(Relative::report).collect::<Vec<_>>()).to_string();
    assert!(told.contains("left-again"), "{told}");
    assert!(!told.contains("the prompt") && !told.contains("secret"), "{told}");
}
