use cursor_stores::model::{Head, MessageKind, Origin, StoreKind};
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn commit(author_ms: i64, commit_ms: i64) -> Commit {
    let id = format!("{author_ms:x}{commit_ms:x}");
    Commit {
        id,
        subject: String::new(),
        author_ms,
        commit_ms,
        parents: Vec::new(),
        files: Vec::new(),
    }
}

fn conversation(messages: Vec<Message>) -> Conversation {
    let origin = Origin { store: StoreKind::Cli, path: "/store.db".into(), key: None };
    let mut conversation = Conversation::new(Head::new("id", origin));
    conversation.messages = messages;
    conversation
}

fn said(role: Role, at_ms: Option<i64>, parts: Vec<Part>) -> Message {
    Message { at: at_ms.map(Moment::recorded), ..Message::new(role, parts) }
}

fn edit(path: &str, at_ms: i64) -> Part {
    let mut call = ToolCall::new("edit_file", json!({"path": path}));
    call.started = Some(Moment::recorded(at_ms));
    Part::ToolCall(call)
}

fn roots() -> Vec<String> {
    vec!["/srv/app".to_owned()]
}

#[test]
fn each_commit_has_the_work_since_the_previous_one() {
    let messages = vec![
        said(Role::User, Some(10_000), vec![Part::text("first")]),
        // The agent committed during one long answer.
        said(
            Role::Assistant,
            Some(11_000),
            vec![edit("/srv/app/a.rs", 12_000), edit("/srv/app/b.rs", 25_000)],
        ),
        said(Role::Assistant, Some(26_000), vec![Part::text("So.\n\nDone.")]),
        said(Role::User, Some(90_000), vec![Part::text("later")]),
    ];
    let conversation = conversation(messages);
    let commits = [commit(20_000, 20_000), commit(30_000, 30_000)];
    let of = |commit: &Commit| {
        let window = CommitWindow::of(commit, &[&commits[0]], u64::MAX);
        Episode::of(&conversation, &window, &roots(), &roots()).unwrap()
    };
    let (first, second) = (of(&commits[0]), of(&commits[1]));
    assert_eq!(
        (first.changed.as_slice(), second.changed.as_slice()),
        (&["a.rs".to_owned()][..], &["b.rs".to_owned()][..])
    );
    assert_eq!((first.prompts().count(), second.prompts().count()), (1, 0));
    assert_eq!(first.conclusion(), None);
    assert_eq!(second.conclusion().as_deref(), Some("Done."));
    assert_eq!(second.goes_on_with().map(Message::text).as_deref(), Some("first"));
    assert!(first.goes_on_with().is_none() && !first.is_whole);
    let late = CommitWindow::of(&commit(80_000, 80_000), &[&commits[1]], u64::MAX);
    assert!(Episode::of(&conversation, &late, &roots(), &roots()).is_none());
}

#[test]
fn the_window_of_a_rebased_commit_covers_its_author_time_and_its_commit_time() {
    let window = CommitWindow::of(&commit(20_000, 900_000), &[&commit(10_000, 900_000)], 60_000);
    assert!(window.holds(15_000) && window.holds(20_500) && window.holds(899_000));
    assert!(!window.holds(10_500) && !window.holds(400_000));
}

#[test]
fn without_times_the_episode_is_the_whole_conversation_without_context() {
    let context =
        Message { kind: MessageKind::Context, ..said(Role::User, None, vec![Part::text("x")]) };
    let attached =
        Part::Attachment { kind: "file".to_owned(), name: Some("src/c.rs".to_owned()), text: None };
    let asked = said(Role::User, None, vec![Part::text("why?"), attached]);
    let conversation = conversation(vec![context, asked]);
    let window = CommitWindow::of(&commit(1, 1), &[], 0);
    let episode = Episode::of(&conversation, &window, &roots(), &roots()).unwrap();
    assert!(episode.is_whole);
    assert_eq!(
        (episode.messages.len(), episode.discussed.as_slice()),
        (1, &["src/c.rs".to_owned()][..])
    );
}

#[test]
fn a_paragraph_ends_at_an_empty_line_outside_of_code() {
    for (text, last) in [
        ("one\n\ntwo\nthree\n\n", Some("two\nthree")),
        ("so:\n\n```\na\n\nb\n```\n", Some("```\na\n\nb\n```")),
        ("open\n\n```\na\n\nb", Some("```\na\n\nb")),
        (" \n", None),
    ] {
        assert_eq!(last_paragraph(text).as_deref(), last, "{text:?}");
    }
}

proptest! {
    #[test]
    fn every_moment_before_the_last_commit_belongs_to_exactly_one_commit(
        seconds in prop::collection::btree_set(1_i64..200, 1..6),
        at_ms in 0_i64..210_000,
    ) {
        let commits: Vec<Commit> = seconds.iter().map(|s| commit(s * 1000, s * 1000)).collect();
        // Each commit is the parent of the next.
        let window = |place: usize| {
            let parents: Vec<&Commit> = commits[..place].last().into_iter().collect();
            CommitWindow::of(&commits[place], &parents, u64::MAX)
        };
        let n_windows = (0..commits.len()).filter(|place| window(*place).holds(at_ms)).count();
        let is_before = at_ms <= seconds.last().unwrap() * 1000 + 999;
        prop_assert_eq!(n_windows, usize::from(is_before));
    }
}
