use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn change(start: u64, end: u64, lines: &[&str]) -> Change {
    Change { start, end, lines: lines.iter().map(|line| (*line).to_owned()).collect() }
}

#[test]
fn lines_that_are_known_are_removed_by_their_text_and_others_by_their_number() {
    let after = [change(2, 4, &["new"])];
    let first = ["one", "two", "three", "four"];
    assert_eq!(unified(&[], &after, Some(&first)), "@@ -2,2 +2,1 @@\n-two\n-three\n+new\n");
    assert_eq!(
        unified(&[], &after, None),
        "@@ -2,2 +2,1 @@\n\\ - 2 lines that the store does not keep\n+new\n"
    );
}

#[test]
fn earlier_changes_are_removed_and_common_lines_are_context() {
    let before = [change(1, 1, &["kept"]), change(5, 6, &["draft"])];
    let after = [change(1, 1, &["kept"]), change(5, 6, &["final"])];
    assert_eq!(
        unified(&before, &after, None),
        "@@ -1,1 +1,1 @@\n kept\n@@ -6,1 +6,1 @@\n-draft\n+final\n"
    );
    assert_eq!(unified(&[], &[], None), "");
}

#[test]
fn odd_changes_are_read_as_far_as_they_go() {
    let json = json!([
        {"original": {}, "modified": ["a\nb", 3]},
        {"original": {"startLineNumber": 9, "endLineNumberExclusive": 2}, "modified": "no list"},
        7,
    ]);
    let read = changes(&json);
    assert_eq!(read[0], change(1, 1, &["a", "b", "3"]));
    assert_eq!(read.last(), Some(&change(9, 9, &[])));
    let far = json!([{"original": {"startLineNumber": 1, "endLineNumberExclusive": u64::MAX}, "modified": ["x"]}]);
    assert!(unified(&[], &changes(&far), Some(&["only"])).contains("+x\n"));
}

/// Applies the changes to the original lines, and returns the result.
fn applied(first: &[String], changes: &[Change]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut at = 0;
    for change in changes {
        let start = usize::try_from(change.start - 1).unwrap();
        lines.extend_from_slice(&first[at..start]);
        lines.extend(change.lines.iter().cloned());
        at = usize::try_from(change.end - 1).unwrap();
    }
    lines.extend_from_slice(&first[at..]);
    lines
}

/// Applies a unified diff like `patch`, and fails if it does not fit.
fn patched(old: &[String], diff: &str) -> Vec<String> {
    let mut new = Vec::new();
    let mut at = 0;
    for line in diff.lines() {
        if let Some(header) = line.strip_prefix("@@ -") {
            let (range, _) = header.split_once(' ').unwrap();
            let (start, length) = range.split_once(',').unwrap();
            let start: usize = start.parse().unwrap();
            let start = if length == "0" { start } else { start - 1 };
            new.extend_from_slice(&old[at..start]);
            at = start;
        } else if let Some(added) = line.strip_prefix('+') {
            new.push(added.to_owned());
        } else {
            assert_eq!(old[at], line[1..], "{line}");
            at += 1;
            new.extend(line.strip_prefix(' ').map(str::to_owned));
        }
    }
    new.extend_from_slice(&old[at..]);
    new
}

const N_LINES: u64 = 12;

/// Changes that do not overlap, like the editor's own.
fn state() -> impl Strategy<Value = Vec<Change>> {
    let one = (1..=N_LINES + 1, 0_u64..4, prop::collection::vec("[ab]", 0..3));
    prop::collection::vec(one, 0..4).prop_map(|mut wanted| {
        wanted.sort();
        let mut changes: Vec<Change> = Vec::new();
        for (start, length, lines) in wanted {
            let is_free = changes.last().is_none_or(|last| start > last.end);
            if is_free {
                changes.push(Change { start, end: (start + length).min(N_LINES + 1), lines });
            }
        }
        changes
    })
}

proptest! {
    #[test]
    fn the_diff_turns_one_state_into_the_other(before in state(), after in state()) {
        let first: Vec<String> = (1..=N_LINES).map(|number| format!("line {number}")).collect();
        let known: Vec<&str> = first.iter().map(String::as_str).collect();
        let (old, new) = (applied(&first, &before), applied(&first, &after));
        let diff = unified(&before, &after, Some(&known));
        prop_assert_eq!(patched(&old, &diff), new, "{}", diff);
        // Without the original, every line that a state adds is still there.
        let blind = unified(&before, &after, None);
        for line in before.iter().chain(&after).flat_map(|change| &change.lines) {
            prop_assert!(blind.lines().any(|shown| shown.len() > 1 && shown[1..] == **line), "{}", blind);
        }
    }
}
