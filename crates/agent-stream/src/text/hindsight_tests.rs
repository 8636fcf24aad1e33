use proptest::prelude::*;

use super::*;

const NO_CEILING: usize = usize::MAX;
/// A lost connection, in a list of pieces.
const LOST: &str = "<lost>";
/// A tool call, in a list of pieces.
const TOOL: &str = "<tool>";

fn of(pieces: &[&str]) -> Hindsight {
    let mut said = Hindsight::default();
    for piece in pieces {
        match *piece {
            LOST => said.connection_lost(),
            TOOL => said.segment_ended(),
            piece => said.said(piece, NO_CEILING),
        }
    }
    said
}

#[test]
fn repetitions_and_ever_longer_snapshots_are_explained() {
    for (pieces, result) in [
        (&["A.", "B."][..], "A.B."),
        (&["A.", "B.", "B."], "A.B."),
        (&["Hel", "Hello", "Hello you"], "Hello you"),
        (&["a", "a", "aa"], "aa"),
        (&["A.", TOOL, "B.", "A.B."], "A.B."),
        (&[], ""),
    ] {
        assert!(of(pieces).explains(result, ""), "{pieces:?} → {result}");
    }
}

#[test]
fn a_piece_that_the_result_lacks_or_has_elsewhere_is_not_explained() {
    for (pieces, result) in [
        (&["A.", "B."][..], "A."),
        (&["A."], "A.B."),
        (&["B.", "A."], "A.B."),
        (&["A.", "C."], "A.B.C."),
        (&["Hallo", TOOL, "!"], "Hello!"),
        (&[], "A."),
    ] {
        assert!(!of(pieces).explains(result, ""), "{pieces:?} → {result}");
    }
}

#[test]
fn a_segment_that_a_lost_connection_interrupted_may_be_repeated_or_missing() {
    let pieces = ["A.", TOOL, "Bet", LOST, "B", "."];
    for result in ["A.BetB.", "A.B.", "B."] {
        assert!(of(&pieces).explains(result, ""), "{result}");
    }
    assert!(!of(&pieces).explains("A.Bet", ""));
    let from_the_beginning = ["A.", TOOL, "B", LOST, "A.", TOOL, "B", "."];
    assert!(of(&from_the_beginning).explains("A.B.", ""));
    assert!(of(&from_the_beginning).explains("A.BA.B.", ""));
}

#[test]
fn a_later_result_may_include_the_one_before() {
    assert!(of(&["B."]).explains("A.B.", "A."));
    assert!(of(&["B."]).explains("B.", "A."));
    assert!(of(&[]).explains("A.", "A."));
    assert!(!of(&["B."]).explains("A.", "A."));
}

#[test]
fn a_turn_over_the_limit_is_not_explained() {
    let mut said = Hindsight::default();
    said.said("four", 4);
    assert!(said.explains("four", ""));
    said.said("!", 4);
    said.said("four", 4);
    assert!(!said.explains("four", ""));
    assert!(said.text.is_empty());
}

#[test]
fn a_long_run_of_one_letter_takes_no_longer_than_other_text() {
    let run = "a".repeat(100_000);
    assert!(of(&[&run, &run, &run]).explains(&run, ""));
    assert!(!of(&[&run, &run, &run]).explains(&(run.clone() + "b"), ""));
}

proptest! {
    #[test]
    fn new_pieces_are_explained_by_their_concatenation_and_only_by_texts_with_every_piece(pieces in proptest::collection::vec("[a-c]{1,3}", 0..8), other in "[a-d]{0,12}") {
        let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
        prop_assert!(of(&pieces).explains(&pieces.concat(), ""));
        if other.contains('d') {
            prop_assert!(!of(&pieces).explains(&other, ""));
        }
        if of(&pieces).explains(&other, "") {
            prop_assert!(pieces.iter().all(|piece| other.contains(piece)));
        }
    }
}
