use pretty_assertions::assert_eq;

use super::*;

#[test]
fn every_name_is_unique_and_parses_alone_unless_it_needs_a_point() {
    for (index, scenario) in SCENARIOS.iter().enumerate() {
        assert!(SCENARIOS[index + 1..].iter().all(|other| other != scenario));
        let parsed = Armed::parse(scenario.name);
        assert_eq!(parsed.is_ok(), !matches!(scenario.takes, Takes::CrashPoint));
    }
}

#[test]
fn arguments_follow_an_equals_sign_or_a_space() {
    assert_eq!(Armed::parse("silence=7").unwrap().number, 7);
    assert_eq!(Armed::parse("silence 7"), Armed::parse("silence=7"));
    assert_eq!(Armed::parse("silence").unwrap().number, 30);
    let point = Armed::parse("kill-at=mid-tool").unwrap().crash_point();
    assert_eq!(point, Some(CrashPoint::MidTool));
    assert_eq!(Armed::parse_list("noise, linger=1").unwrap().len(), 2);
}

#[test]
fn mistakes_are_explained() {
    let message = |text| Armed::parse(text).unwrap_err().to_string();
    assert_eq!(
        message("lingr"),
        "unknown misbehaviour `lingr`; did you mean `linger`? (see --help-scenarios)"
    );
    assert_eq!(message("noise=3"), "`noise` takes no argument");
    assert_eq!(message("flood=many"), "`flood` takes a number of EVENTS PER SECOND, not `many`");
    assert!(message("kill-at=nowhere").starts_with("`kill-at` takes one of store-created, "));
}

#[test]
fn the_list_has_one_line_for_each() {
    let list = list();
    for scenario in SCENARIOS {
        assert_eq!(list.lines().filter(|line| line.contains(scenario.summary)).count(), 1);
    }
}
