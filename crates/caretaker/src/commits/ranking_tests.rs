use cursor_stores::model::Moment;
use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;

const NOON: i64 = 1_782_907_200_000;
const MINUTE: i64 = 60_000;
const HALF_AN_HOUR: u64 = 30 * 60_000;

fn commit(files: &[&str]) -> Commit {
    Commit {
        id: "1a2b3c4".to_owned(),
        subject: "Fix it".to_owned(),
        author_ms: NOON,
        commit_ms: NOON,
        parents: Vec::new(),
        files: files.iter().map(ToString::to_string).collect(),
    }
}

/// A conversation in the same workspace that changed files. Times are in minutes relative to the commit.
fn evidence(touches: &[(&str, i64)]) -> Evidence {
    let touches: Vec<Touch> = touches
        .iter()
        .map(|(path, minute)| Touch {
            path: (*path).to_owned(),
            at: Some(Moment::recorded(NOON + minute * MINUTE)),
        })
        .collect();
    let mut activity = vec![NOON - 60 * MINUTE];
    activity.extend(touches.iter().filter_map(|touch| Some(touch.at?.at_ms)));
    activity.sort_unstable();
    let span = activity.first().copied().zip(activity.last().copied());
    Evidence { workspace_match: WorkspaceMatch::Same, touches, activity, span }
}

fn reason(commit: &Commit, evidence: &Evidence) -> Option<(u32, String)> {
    rank(commit, evidence, HALF_AN_HOUR).map(|found| (found.score, found.reason()))
}

#[test]
fn a_conversation_that_changed_all_files_just_before_ranks_highest() {
    let commit = commit(&["a.rs", "b.rs"]);
    let whole = evidence(&[("a.rs", -5), ("b.rs", -1)]);
    let (best, words) = reason(&commit, &whole).unwrap();
    assert_eq!(
        (best, words.as_str()),
        (98, "changed all of its 2 files, the last change 1 min before it, in the same workspace")
    );
    let half = evidence(&[("a.rs", -5), ("c.rs", -1)]);
    let (lower, words) = reason(&commit, &half).unwrap();
    assert!(
        words.starts_with("changed 1 of its 2 files, the last change 5 min before it"),
        "{words}"
    );
    let none = evidence(&[("c.rs", -1)]);
    let (lowest, words) = reason(&commit, &none).unwrap();
    assert!(words.starts_with("changed none of its 2 files, active 1 min before it"), "{words}");
    assert!(best > lower && lower > lowest, "{best} {lower} {lowest}");
}

#[test]
fn a_conversation_that_was_not_active_within_the_window_does_not_count() {
    let commit = commit(&["a.rs"]);
    assert!(reason(&commit, &evidence(&[("a.rs", -31)])).is_none());
    assert!(reason(&commit, &evidence(&[("a.rs", -30)])).is_some());
    // The conversation changed the file long ago, but went on.
    let (_, words) = reason(&commit, &evidence(&[("a.rs", -120), ("b.rs", -2)])).unwrap();
    assert!(words.starts_with("changed its only file, the last change 2 h before it"), "{words}");
}

#[test]
fn a_change_after_the_commit_did_not_lead_to_it() {
    let commit = commit(&["a.rs"]);
    let mut late = evidence(&[("a.rs", 5)]);
    assert!(reason(&commit, &late).is_none());
    late.activity.push(NOON - MINUTE);
    late.activity.sort_unstable();
    let (_, words) = reason(&commit, &late).unwrap();
    assert!(words.starts_with("did not change its file, active 1 min before it"), "{words}");
    // This conversation began after the commit.
    let mut later = evidence(&[("a.rs", 5), ("a.rs", 6), ("a.rs", 7)]);
    later.activity.retain(|at| *at > NOON + 1000);
    later.span = Some((NOON + 5 * MINUTE, NOON + 7 * MINUTE));
    assert!(reason(&commit, &later).is_none());
}

#[test]
fn git_cuts_off_parts_of_a_second() {
    let mut evidence = evidence(&[("a.rs", 0)]);
    evidence.touches[0].at = Some(Moment::recorded(NOON + 999));
    let found = rank(&commit(&["a.rs"]), &evidence, HALF_AN_HOUR).unwrap();
    assert_eq!((found.timing, found.files.len()), (Timing::ChangedBefore(0), 1));
}

#[test]
fn a_rewritten_commit_keeps_the_time_of_its_change() {
    let mut commit = commit(&["a.rs"]);
    commit.commit_ms += 3 * 24 * 60 * MINUTE;
    let found = rank(&commit, &evidence(&[("a.rs", -2)]), HALF_AN_HOUR).unwrap();
    assert_eq!(found.timing, Timing::ChangedBefore(2 * 60_000));
}

#[test]
fn without_times_the_files_decide() {
    let mut timeless = evidence(&[("a.rs", -1)]);
    timeless.touches[0].at = None;
    (timeless.activity, timeless.span) = (Vec::new(), None);
    let (_, words) = reason(&commit(&["a.rs"]), &timeless).unwrap();
    assert_eq!(words, "changed its only file, at an unknown time, in the same workspace");
    assert!(reason(&commit(&["b.rs"]), &timeless).is_none());
    // Only the conversation's beginning and end are known.
    let mut open = timeless.clone();
    open.span = Some((NOON - 100 * MINUTE, NOON + 100 * MINUTE));
    let (_, words) = reason(&commit(&["b.rs"]), &open).unwrap();
    assert!(words.contains("open at the time"), "{words}");
}

#[test]
fn elsewhere_only_common_files_count() {
    let mut elsewhere = evidence(&[("a.rs", -1)]);
    for workspace_match in [WorkspaceMatch::Different, WorkspaceMatch::Namesake] {
        elsewhere.workspace_match = workspace_match;
        assert!(reason(&commit(&["b.rs"]), &elsewhere).is_none());
        assert!(reason(&commit(&["a.rs"]), &elsewhere).is_some());
    }
    assert!(
        reason(&commit(&[]), &evidence(&[("a.rs", -1)]))
            .unwrap()
            .1
            .starts_with("the commit changes no")
    );
}

proptest! {
    #[test]
    fn more_files_or_nearer_times_never_lower_the_score(
        touches in proptest::collection::vec((0usize..6, -40i64..40), 0..8),
        file in 0usize..3, minute in 0i64..29, window in 0u64..4_000_000,
    ) {
        let names = ["a.rs", "b.rs", "c.rs", "d.rs", "e.rs", "f.rs"];
        let commit = commit(&names[..3]);
        let touches: Vec<(&str, i64)> = touches.iter().map(|(n, at)| (names[*n], *at)).collect();
        let score = |touches: &[(&str, i64)], window| {
            rank(&commit, &evidence(touches), window).map_or(0, |found| found.score)
        };
        let before = score(&touches, window);
        prop_assert!(before <= 100);
        prop_assert!(score(&touches, u64::MAX) >= before);
        // One more file of the commit, changed just before it.
        let mut more = touches.clone();
        more.push((names[file], -minute));
        let mut nearer = touches;
        nearer.push((names[file], -(minute / 2)));
        prop_assert!(score(&nearer, u64::MAX) >= score(&more, u64::MAX));
        let no_file: Vec<(&str, i64)> = more.iter().map(|(_, at)| ("other.rs", *at)).collect();
        prop_assert!(score(&more, u64::MAX) >= score(&no_file, u64::MAX));
    }

    #[test]
    fn no_time_makes_it_fail(author: i64, committed: i64, at: i64, window: u64) {
        let commit = Commit { author_ms: author, commit_ms: committed, ..commit(&["a.rs"]) };
        let touches = vec![Touch { path: "a.rs".to_owned(), at: Some(Moment::recorded(at)) }];
        let evidence = Evidence { workspace_match: WorkspaceMatch::Same, touches, activity: vec![at], span: Some((at, at)) };
        if let Some(found) = rank(&commit, &evidence, window) {
            prop_assert!(found.score <= 100 && !found.reason().is_empty());
        }
    }
}
