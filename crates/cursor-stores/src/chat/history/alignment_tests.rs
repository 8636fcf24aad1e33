use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::Counterpart::{Absent, Same, Within};
use super::*;

fn atom<'a>(kind: AtomKind, id: Option<&'a str>, text: &'a str) -> Atom<'a> {
    Atom { kind, id, text }
}

fn prompt(text: &str) -> Atom<'_> {
    atom(AtomKind::Prompt, None, text)
}

fn text(text: &str) -> Atom<'_> {
    atom(AtomKind::Text, None, text)
}

fn thinking(text: &str) -> Atom<'_> {
    atom(AtomKind::Thinking, None, text)
}

fn call(id: &str) -> Atom<'_> {
    atom(AtomKind::Call, Some(id), "shell")
}

#[test]
fn the_same_history_is_the_same_throughout() {
    let history =
        [prompt("a"), thinking("hm"), text("b"), call("1"), text("c"), prompt("a"), text("b")];
    assert_eq!(align(&history, &history), (0..7).map(Same).collect::<Vec<_>>());
}

#[test]
fn items_that_only_the_turns_have_are_absent() {
    let turns = [prompt("a"), text("lost"), call("1"), text("done"), prompt("b"), text("done")];
    let messages = [prompt("a"), text("done"), prompt("b"), text("done")];
    assert_eq!(align(&messages, &turns), [Same(0), Absent, Absent, Same(1), Same(2), Same(3)]);
}

#[test]
fn a_prompt_is_matched_by_its_request_even_with_another_text() {
    let messages =
        [atom(AtomKind::Prompt, Some("r1"), "one"), atom(AtomKind::Prompt, Some("r2"), "one")];
    let turns = [atom(AtomKind::Prompt, Some("r2"), "other words")];
    assert_eq!(align(&messages, &turns), [Same(1)]);
    let turns = [atom(AtomKind::Prompt, Some("r3"), "one")];
    assert_eq!(align(&messages, &turns), [Absent]);
}

#[test]
fn a_call_without_an_id_is_found_by_its_tool() {
    let turns = [atom(AtomKind::Call, None, "read"), atom(AtomKind::Call, None, "shell")];
    assert_eq!(align(&[call("1")], &turns), [Absent, Same(0)]);
}

#[test]
fn thoughts_need_not_have_the_same_words() {
    let messages = [thinking("the whole of it"), text("a"), thinking(""), text("b")];
    let turns = [thinking("in short"), text("a"), text("b")];
    assert_eq!(align(&messages, &turns), [Same(0), Same(1), Same(3)]);
}

#[test]
fn a_piece_of_a_text_is_not_a_text_of_its_own() {
    assert_eq!(
        align(&[text("one and two")], &[text("one and"), text("two")]),
        [Within(0), Within(0)]
    );
}

#[test]
fn ids_that_are_used_again_are_told_apart_by_their_order() {
    let messages = [prompt("a"), call("call_0"), prompt("b"), call("call_0")];
    assert_eq!(align(&messages, &messages), [Same(0), Same(1), Same(2), Same(3)]);
    assert_eq!(align(&messages, &messages[2..]), [Same(2), Same(3)]);
}

#[test]
fn align_ends_matches_the_last_of_several_equal_items() {
    let turns = [text("Done."), prompt("a"), text("Done.")];
    assert_eq!(align_ends(&[text("Done.")], &turns), [Absent, Absent, Same(0)]);
    assert_eq!(align_ends(&turns, &turns), [Same(0), Same(1), Same(2)]);
}

fn any_atom() -> impl Strategy<Value = (u8, Option<String>, String)> {
    (0..4_u8, prop::option::of("[a-e]"), "[a-c]{0,2}")
}

fn atoms(raw: &[(u8, Option<String>, String)]) -> Vec<Atom<'_>> {
    let kinds = [AtomKind::Prompt, AtomKind::Text, AtomKind::Thinking, AtomKind::Call];
    raw.iter()
        .map(|(kind, id, text)| atom(kinds[usize::from(*kind)], id.as_deref(), text))
        .collect()
}

proptest! {
    #[test]
    fn matches_are_in_order_and_unique(
        messages in prop::collection::vec(any_atom(), 0..20),
        turns in prop::collection::vec(any_atom(), 0..20),
    ) {
        let (messages, turns) = (atoms(&messages), atoms(&turns));
        let counterparts = align(&messages, &turns);
        let same: Vec<usize> = counterparts
            .iter()
            .filter_map(|counterpart| match counterpart { Same(at) => Some(*at), _ => None })
            .collect();
        prop_assert!(same.is_sorted_by(|one, next| one < next));
        prop_assert!(same.iter().all(|at| *at < messages.len()));
        for (atom, counterpart) in turns.iter().zip(&counterparts) {
            if let Same(at) = counterpart {
                prop_assert_eq!(messages[*at].kind, atom.kind);
            }
        }
    }

    #[test]
    fn a_removed_item_does_not_hide_the_rest(
        history in prop::collection::vec(any_atom(), 1..20),
        out: prop::sample::Index,
    ) {
        let whole = atoms(&history);
        let mut rest = whole.clone();
        rest.remove(out.index(whole.len()));
        let n_same = align(&rest, &whole).iter().filter(|counterpart| matches!(counterpart, Same(_))).count();
        // Anchors may cross where ids repeat, so not all shared items are found in such artificial histories.
        prop_assert!(n_same * 2 + 1 >= rest.len());
    }
}
