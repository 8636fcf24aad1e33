use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;

#[test]
fn lines_added_at_the_end_look_as_in_the_capture() {
    let expected =
        "--- a//ws/notes.txt\n+++ b//ws/notes.txt\n@@ -1 +1,3 @@\n first line\n+\n+added";
    let diff = diff("/ws/notes.txt", Some("first line\n"), "first line\n\nadded");
    assert_eq!(diff, Diff { text: expected.to_owned(), n_added: 2, n_removed: 0 });
}

#[test]
fn a_change_in_the_middle_has_three_lines_around_it() {
    let before = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
    let diff = diff("/f", Some(before), &before.replace("5\n", "five\n5a\n"));
    let expected = "--- a//f\n+++ b//f\n@@ -2,7 +2,8 @@\n 2\n 3\n 4\n-5\n+five\n+5a\n 6\n 7\n 8";
    assert_eq!(diff, Diff { text: expected.to_owned(), n_added: 2, n_removed: 1 });
}

#[test]
fn new_emptied_and_unchanged_files_have_their_own_forms() {
    assert_eq!(diff("/f", None, "a\nb\n").text, "--- /dev/null\n+++ b//f\n@@ -0,0 +1,2 @@\n+a\n+b");
    assert_eq!(diff("/f", Some("a\n"), "").text, "--- a//f\n+++ b//f\n@@ -1 +0,0 @@\n-a");
    assert_eq!(diff("/f", Some("a\n"), "a\n").text, "--- a//f\n+++ b//f");
}

/// Applies the one hunk of a diff to the lines it was made from.
fn apply(diff: &str, before: &[&str]) -> Vec<String> {
    let mut hunk = diff.split('\n').skip(2);
    let Some(header) = hunk.next() else {
        return before.iter().map(|line| (*line).to_owned()).collect();
    };
    let old_range = header.split(' ').nth(1).unwrap().trim_start_matches('-');
    let (start, count) = old_range.split_once(',').unwrap_or((old_range, "1"));
    let (start, count): (usize, usize) = (start.parse().unwrap(), count.parse().unwrap());
    let first = if count == 0 { start } else { start - 1 };
    let mut after: Vec<String> = before[..first].iter().map(|line| (*line).to_owned()).collect();
    let mut at = first;
    for line in hunk {
        let (sign, text) = line.split_at(1);
        if sign != "+" {
            assert_eq!(before[at], text);
            at += 1;
        }
        if sign != "-" {
            after.push(text.to_owned());
        }
    }
    assert_eq!(at - first, count);
    after.extend(before[at..].iter().map(|line| (*line).to_owned()));
    after
}

proptest! {
    #[test]
    fn applying_the_diff_gives_the_new_text(before in "([ab]{0,1}\n){0,12}", after in "([ab]{0,1}\n){0,12}") {
        let diff = diff("/f", Some(&before), &after);
        prop_assert_eq!(apply(&diff.text, &lines(&before)), lines(&after));
        prop_assert_eq!(lines(&before).len() + diff.n_added, lines(&after).len() + diff.n_removed);
    }
}
