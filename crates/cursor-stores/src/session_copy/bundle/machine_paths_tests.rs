use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;

const HERE: &str = "/home/ada/my project";

fn departing(place: &str) -> Option<String> {
    let paths = MachinePaths::new(Some(HERE), &["/home/ada"]);
    PathChange::Departure(&paths).of_place(place).map(Cow::into_owned)
}

fn arriving(place: &str) -> Option<String> {
    PathChange::Arrival { workspace: "/srv/a b" }.of_place(place).map(Cow::into_owned)
}

#[test]
fn only_paths_below_the_workspace_leave_and_they_become_relative() {
    for (place, expected) in [
        (HERE, Some("${workspace}")),
        ("/home/ada/my project/src/a.rs", Some("${workspace}/src/a.rs")),
        ("file:///home/ada/my%20project", Some("file://${workspace}")),
        ("file:///home/ada/my%20project/a%20b", Some("file://${workspace}/a%20b")),
        ("src/a.rs", Some("src/a.rs")),
        ("", Some("")),
        ("/home/ada/my project 2/a", None),
        ("/home/ada/my project/../other", None),
        ("file:///home/ada/my%20project/%2e%2E/other", None),
        ("/home/ada/.cursor/plans/p.md", None),
        ("/etc/passwd", None),
        ("file:///home/ada", None),
        ("file:///etc", None),
        ("vscode-remote://ssh-remote+box/home/ada/my%20project", None),
        (r"C:\Users\ada", None),
        (r"\\box\share", None),
        ("~/notes", None),
        ("../sibling", None),
        ("file:/home/ada/x", None),
        ("see /home/ada/x", None),
        ("${workspace}/x", None),
    ] {
        assert_eq!(departing(place).as_deref(), expected, "{place}");
    }
}

#[test]
fn no_absolute_path_leaves_without_a_workspace() {
    let paths = MachinePaths::new(None, &["/home/ada"]);
    let change = PathChange::Departure(&paths);
    for place in ["/srv/shop", "file:///srv/shop", "/", "file:///"] {
        assert_eq!(change.of_place(place), None, "{place}");
    }
    assert_eq!(change.of_place("a.rs").as_deref(), Some("a.rs"));
}

#[test]
fn arriving_paths_are_below_the_new_workspace() {
    for (place, expected) in [
        ("${workspace}", Some("/srv/a b")),
        ("${workspace}/src/a.rs", Some("/srv/a b/src/a.rs")),
        ("file://${workspace}/c%20d", Some("file:///srv/a%20b/c%20d")),
        ("src/a.rs", Some("src/a.rs")),
        ("${workspace}/../../etc/passwd", None),
        ("${workspace}x", None),
        ("file://${workspace}/%2e%2e/x", None),
        ("file:///etc", None),
        ("/etc/passwd", None),
        ("../x", None),
    ] {
        assert_eq!(arriving(place).as_deref(), expected, "{place}");
    }
}

#[test]
fn a_longer_name_is_another_path() {
    let paths = MachinePaths::new(Some(HERE), &["/home/ada", "/"]);
    for (data, expected) in [
        ("in /home/ada.", true),
        ("/home/ada", true),
        ("/home/ada/x", true),
        ("file:///home/ada/my%20project", true),
        ("/home/adam", false),
        ("/home/adam and /home/ada", true),
        ("/usr/lib", false),
    ] {
        assert_eq!(paths.are_named_in(data.as_bytes()), expected, "{data}");
    }
}

proptest! {
    #[test]
    fn exported_paths_reveal_nothing_and_are_imported_unchanged(rest in "(/[a-z .%é\\\\$]{0,6}){0,4}") {
        let paths = MachinePaths::new(Some(HERE), &["/home/ada"]);
        let departure = PathChange::Departure(&paths);
        let arrival = PathChange::Arrival { workspace: HERE };
        for place in [format!("{HERE}{rest}"), format!("file:///home/ada/my%20project{rest}")] {
            if let Some(left) = departure.of_place(&place) {
                prop_assert!(!paths.are_named_in(left.as_bytes()));
                prop_assert_eq!(arrival.of_place(&left).unwrap(), place.as_str());
            }
        }
    }

    #[test]
    fn no_exported_path_is_absolute(place in "\\PC{0,20}") {
        if let Some(left) = departing(&place) {
            prop_assert!(!left.starts_with('/') && !left.starts_with("file:///"), "{left}");
        }
    }
}
