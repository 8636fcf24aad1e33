use std::fs;
use std::path::Path;

use cursor_home::BucketHash;
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

#[test]
fn a_bucket_is_renamed_as_a_whole_and_its_sessions_if_that_fails() {
    let home = tempfile::tempdir().unwrap();
    let roots = CursorRoots::in_sandbox(home.path());
    let workspace = WorkspacePath::new(Path::new("/tmp/work")).unwrap();
    let bucket = || Armed::parse("renamed-bucket").unwrap().bucket(&roots, &workspace).unwrap();
    let old = roots.chats_of(&workspace);
    let new = roots.chats().join(workspace.bucket_by(BucketHash::Sha256));
    for (session, n_known) in [("first", 1), ("second", 2)] {
        fs::create_dir_all(old.join(session)).unwrap();
        assert_eq!(bucket(), new);
        assert_eq!(fs::read_dir(&new).unwrap().count(), n_known, "the {session} session");
    }
    let armed = |name: &str| Armed::parse(name).unwrap().bucket(&roots, &workspace);
    assert_eq!(armed("sha256-bucket"), Some(new));
    assert_eq!(armed("unknown-bucket"), Some(roots.chats().join("workspace-tmp-work")));
    assert_eq!(armed("noise"), None);
}
