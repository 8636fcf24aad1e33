use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::AgentStream;

fn delta(text: &str) -> String {
    json!({"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":text}]},"session_id":"s","timestamp_ms":1}).to_string()
}
fn before_tool(text: &str) -> String {
    json!({"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":text}]},"session_id":"s","model_call_id":"m","timestamp_ms":1}).to_string()
}
fn last(text: &str) -> String {
    json!({"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":text}]},"session_id":"s"}).to_string()
}
fn tool() -> String {
    json!({"type":"tool_call","subtype":"started","call_id":"c","tool_call":{"lsToolCall":{"args":{}}}}).to_string()
}
fn query() -> String {
    json!({"type":"interaction_query","subtype":"request","query_type":"q","query":{"id":0}})
        .to_string()
}
fn retry() -> String {
    json!({"type":"retry","subtype":"starting","attempt":1,"is_resume":true}).to_string()
}
fn result(text: &str) -> String {
    json!({"type":"result","subtype":"success","is_error":false,"result":text}).to_string()
}

fn reduce(mode: TextMode, lines: &[String]) -> (String, Vec<TextVerdict>) {
    let mut stream = AgentStream::default();
    let mut reducer = TextReducer::new(mode);
    let mut text = String::new();
    let mut verdicts = Vec::new();
    stream.feed((lines.join("\n") + "\n").as_bytes(), |line| {
        verdicts.extend(reducer.observe(&line.event, &mut |piece| text.push_str(piece)));
    });
    (text, verdicts)
}

#[track_caller]
fn check(lines: &[String], expected: &str) {
    let lines = [lines, &[result(expected)]].concat();
    let (text, verdicts) = reduce(TextMode::MayRepeat, &lines);
    assert_eq!(text, expected);
    assert_eq!(verdicts, [TextVerdict::Agrees]);
}

#[test]
fn without_partial_output_every_segment_counts() {
    check(
        &[before_tool("I'll look. "), tool(), delta("Then ask. "), query(), last("Done.")],
        "I'll look. Then ask. Done.",
    );
}

#[test]
fn equal_segments_without_partial_output_are_all_kept() {
    check(&[before_tool("ok"), tool(), before_tool("ok"), tool(), last("okok")], "okokokok");
    check(&[before_tool("ok"), tool(), last("ok")], "okok");
}

#[test]
fn with_partial_output_each_flush_repeats_its_deltas() {
    check(
        &[
            delta("I'll"),
            delta(" look."),
            before_tool("I'll look."),
            tool(),
            delta("Do"),
            delta("ne."),
            last("Done."),
        ],
        "I'll look.Done.",
    );
}

#[test]
fn a_segment_said_again_before_a_query_is_dropped() {
    check(
        &[delta("May"), delta(" I?"), delta("May I?"), query(), delta("Yes."), last("Yes.")],
        "May I?Yes.",
    );
}

#[test]
fn a_segment_before_a_query_that_is_not_said_again_is_kept() {
    check(&[delta("May"), delta(" I?"), query(), delta("Yes."), last("Yes.")], "May I?Yes.");
}

#[test]
fn a_delta_that_equals_the_segment_so_far_is_kept_when_more_follows() {
    check(&[delta("ha"), delta("ha"), delta("!"), last("haha!")], "haha!");
    check(&[delta("ha"), delta("ha"), last("haha")], "haha");
    check(&[delta("ha"), delta("ha"), last("ha")], "ha");
    check(&[delta("ha"), delta("ha")], "haha");
    check(&[delta("ha"), delta("ha")], "ha");
}

#[test]
fn a_flush_that_says_more_than_the_deltas_adds_the_rest() {
    check(&[delta("Hel"), last("Hello")], "Hello");
}

#[test]
fn the_older_last_event_that_repeats_the_whole_answer_adds_nothing() {
    check(&[delta("A."), before_tool("A."), tool(), delta("B."), last("A.B.")], "A.B.");
    check(&[delta("A."), delta("A."), before_tool("A.A."), tool(), last("A.A.")], "A.A.");
    check(&[before_tool("A."), tool(), before_tool("B."), tool(), last("A.B.")], "A.B.");
    check(&[last("wd"), last("tsot."), last("wdtsot.")], "wdtsot.");
}

#[test]
fn a_segment_said_again_after_a_lost_connection_is_emitted_once() {
    check(&[delta("Hel"), retry(), delta("Hello"), delta(" you"), last("Hello you")], "Hello you");
    check(
        &[
            delta("Hel"),
            retry(),
            delta("H"),
            delta("e"),
            delta("llo"),
            before_tool("Hello"),
            tool(),
            last("!"),
        ],
        "Hello!",
    );
    check(&[before_tool("A."), tool(), delta("Hel"), retry(), delta("Hel"), last("Hel")], "A.Hel");
    check(&[delta("Hel"), retry(), last("Hello")], "Hello");
}

#[test]
fn a_second_flush_of_a_segment_adds_nothing() {
    check(&[before_tool("A."), tool(), delta("B."), before_tool("B."), last("B.")], "A.B.");
    check(&[before_tool("A."), tool(), last("B."), last("B.")], "A.B.B.");
}

#[test]
fn a_flush_that_leaves_out_how_the_segment_began_adds_nothing() {
    check(
        &[delta("A "), delta("b."), delta("C."), before_tool("C."), tool(), last("!")],
        "A b.C.!",
    );
}

#[test]
fn a_repetition_that_only_the_result_shows_is_not_a_difference() {
    for (lines, expected) in [
        (vec![delta("Hel"), retry(), delta("Hel"), delta("lo"), last("HelHello")], "HelHello"),
        (vec![before_tool("A."), tool(), retry(), before_tool("A."), tool(), last("B.")], "A.B."),
        (vec![before_tool("A."), tool(), retry(), before_tool("X."), tool(), last("B.")], "X.B."),
        (vec![delta("Help"), retry(), delta("Yes"), last("Yes")], "Yes"),
        (vec![last("Hel"), last("Hello"), last("Hello you")], "Hello you"),
        (vec![delta("go"), before_tool("go"), tool(), before_tool("go"), tool()], "go"),
    ] {
        let lines = [lines, vec![result(expected)]].concat();
        let verdicts = reduce(TextMode::MayRepeat, &lines).1;
        assert_eq!(verdicts, [TextVerdict::AgreesButRepeats], "{lines:#?}");
    }
}

#[test]
fn text_that_changed_without_a_lost_connection_is_a_difference() {
    let lines = [delta("Hallo"), before_tool("Hello"), tool(), result("Hello")];
    let verdicts = reduce(TextMode::MayRepeat, &lines).1;
    assert_eq!(verdicts, [TextVerdict::Differs { assembled: "HalloHello".to_owned() }]);
}

#[test]
fn a_repeated_result_and_one_that_includes_the_previous_one_agree() {
    let lines = [last("A."), result("A."), result("A."), last("B."), result("A.B.")];
    assert_eq!(reduce(TextMode::MayRepeat, &lines).1, vec![TextVerdict::Agrees; 3]);
}

#[test]
fn an_answer_that_only_the_result_has_is_emitted_there() {
    check(&[], "All in one line, as with --output-format json.");
    let init = json!({"type":"system","subtype":"init"}).to_string();
    let lines = [last("A."), result("A."), init, result("A.")];
    let (text, verdicts) = reduce(TextMode::MayRepeat, &lines);
    assert_eq!((text.as_str(), verdicts), ("A.A.", vec![TextVerdict::Agrees; 2]));
}

#[test]
fn thoughts_among_the_blocks_of_a_message_are_not_part_of_the_answer() {
    let line = json!({"type":"assistant","message":{"role":"assistant","content":[
        {"type":"thinking","text":"Hm."}, {"text":"Hm?","type":"reasoning"}, {"type":"text","text":"Yes."}
    ]}});
    check(&[line.to_string()], "Yes.");
}

#[test]
fn the_text_of_an_error_is_not_an_answer_to_compare() {
    for line in [
        json!({"type":"result","subtype":"error","is_error":true,"result":"boom"}),
        json!({"type":"result","subtype":"error_during_execution","result":"boom"}),
    ] {
        let verdicts = reduce(TextMode::MayRepeat, &[last("one"), line.to_string()]).1;
        assert_eq!(verdicts, [TextVerdict::NoResultText]);
    }
}

#[test]
fn held_text_is_emitted_when_another_run_begins() {
    let init = json!({"type":"system","subtype":"init"}).to_string();
    let (text, _) = reduce(TextMode::MayRepeat, &[delta("ha"), delta("ha"), init, delta("x")]);
    assert_eq!(text, "hahax");
}

#[test]
fn a_segment_that_goes_on_after_a_lost_connection_is_whole() {
    check(&[delta("Hel"), retry(), delta("lo"), last("Hello")], "Hello");
    check(&[delta("Hel"), retry(), delta("H"), delta("i"), last("HelHi")], "HelHi");
    check(&[delta("Hel"), retry(), delta("Hel"), last("HelHel")], "HelHel");
}

#[test]
fn a_segment_worded_differently_after_a_lost_connection_still_agrees() {
    let lines = [delta("Help"), retry(), last("Hello"), result("Hello")];
    let (text, verdicts) = reduce(TextMode::MayRepeat, &lines);
    assert_eq!((text.as_str(), verdicts), ("Helplo", vec![TextVerdict::Agrees]));
}

#[test]
fn held_text_is_emitted_at_the_end_of_a_stream_without_a_result() {
    let mut stream = AgentStream::default();
    let mut reducer = TextReducer::new(TextMode::MayRepeat);
    let mut text = String::new();
    stream.feed(format!("{}\n{}\n", delta("ha"), delta("ha")).as_bytes(), |line| {
        reducer.observe(&line.event, &mut |piece| text.push_str(piece));
    });
    assert_eq!(text, "ha");
    reducer.end(&mut |piece| text.push_str(piece));
    assert_eq!(text, "haha");
}

#[test]
fn a_difference_keeps_both_texts() {
    let (_, verdicts) = reduce(TextMode::MayRepeat, &[last("one"), result("two")]);
    assert_eq!(verdicts, [TextVerdict::Differs { assembled: "one".to_owned() }]);
}

#[test]
fn a_result_without_text_is_not_a_disagreement() {
    let line = json!({"type":"result","subtype":"success","is_error":false}).to_string();
    assert_eq!(reduce(TextMode::MayRepeat, &[last("one"), line]).1, [TextVerdict::NoResultText]);
}

#[test]
fn each_turn_of_a_longer_stream_is_judged_by_itself() {
    let (text, verdicts) =
        reduce(TextMode::MayRepeat, &[last("one"), result("one"), last("two"), result("two")]);
    assert_eq!((text.as_str(), verdicts), ("onetwo", vec![TextVerdict::Agrees; 2]));
}

#[test]
fn endless_text_is_emitted_whole_and_kept_only_up_to_the_ceiling() {
    let mut reducer = TextReducer::with_ceiling(TextMode::MayRepeat, 100);
    let mut stream = AgentStream::default();
    let (mut emitted, mut verdict) = (0, None);
    let lines: String = (0..1000)
        .map(|number| delta(&format!("token {number} ")) + "\n")
        .chain([result("x") + "\n"])
        .collect();
    stream.feed(lines.as_bytes(), |line| {
        verdict = reducer.observe(&line.event, &mut |piece| emitted += piece.len());
        assert!(reducer.assembled().len() <= 100);
    });
    assert_eq!(
        (emitted, verdict),
        ("token 123 ".len() * 900 + 9 * 90 + 8 * 10, Some(TextVerdict::TooLong))
    );
}

/// How a segment of a generated conversation ends.
#[derive(Debug, Clone, Copy)]
enum End {
    Tool,
    Query,
}

fn conversations() -> impl Strategy<Value = (Vec<(Vec<String>, End)>, Vec<String>)> {
    // Only a few letters, so that similar repetitions are frequent.
    let tokens = || proptest::collection::vec("[ab]{1,2}", 1..5);
    let end = prop_oneof![Just(End::Tool), Just(End::Query)];
    (proptest::collection::vec((tokens(), end), 0..5), tokens())
}

proptest! {
    #[test]
    fn both_modes_of_output_give_the_same_text((segments, ending) in conversations()) {
        let expected: String =
            segments.iter().map(|(tokens, _)| tokens.concat()).chain([ending.concat()]).collect();
        let (mut partial, mut whole) = (Vec::new(), Vec::new());
        for (tokens, end) in &segments {
            let text = tokens.concat();
            partial.extend(tokens.iter().map(|token| delta(token)));
            let (flush, boundary) = match end {
                End::Tool => (before_tool(&text), tool()),
                End::Query => (delta(&text), query()),
            };
            partial.extend([flush.clone(), boundary.clone()]);
            whole.extend([flush, boundary]);
        }
        partial.extend(ending.iter().map(|token| delta(token)));
        for lines in [&mut partial, &mut whole] {
            lines.extend([last(&ending.concat()), result(&expected)]);
        }
        let agreed = (expected, vec![TextVerdict::Agrees]);
        prop_assert_eq!(reduce(TextMode::MayRepeat, &partial), agreed.clone());
        prop_assert_eq!(reduce(TextMode::MayRepeat, &whole), agreed.clone());
        prop_assert_eq!(reduce(TextMode::Segments, &whole), agreed);
    }
}
