use pretty_assertions::assert_eq;

use super::*;
use crate::{EventKind, LineParser, RawLine};

fn completed<'a>(parser: &'a mut LineParser, line: &'a str) -> ToolCall<'a> {
    match parser.parse(RawLine::Whole(line.as_bytes())).kind {
        EventKind::ToolCompleted(call) => call,
        other => panic!("not a completed call: {other:?}"),
    }
}

#[track_caller]
fn check_outcome(result: &str, expected: Option<(OutcomeKind<'_>, OutcomeClass)>) {
    let line = format!(
        r#"{{"type":"tool_call","subtype":"completed","call_id":"c","tool_call":{{"shellToolCall":{{"result":{result}}}}}}}"#
    );
    let mut parser = LineParser::default();
    let outcome = completed(&mut parser, &line).outcome;
    assert_eq!(outcome.map(|outcome| (outcome.kind.clone(), outcome.kind.class())), expected);
}

#[test]
fn the_name_is_the_key_that_ends_in_tool_call_in_any_position() {
    let mut parser = LineParser::default();
    let call = completed(
        &mut parser,
        r#"{"type":"tool_call","subtype":"completed","call_id":"c\nfc","tool_call":{"hookAdditionalContexts":[{"readToolCall":1}],"toolCallId":"t","startedAtMs":"1789644651201","completedAtMs":1789644652310,"ToolCall":{},"newShinyToolCall":{"args":{"a":1},"result":{"success":{}}}}}"#,
    );
    assert_eq!(call.name.as_deref(), Some("newShiny"));
    assert_eq!(call.call_id.as_deref(), Some("c\nfc"));
    assert_eq!(call.args.unwrap().get(), r#"{"a":1}"#);
    assert_eq!(
        (call.started_at_ms, call.completed_at_ms),
        (Some(1789644651201), Some(1789644652310))
    );
}

#[test]
fn the_documented_generic_form_has_its_name_inside() {
    let mut parser = LineParser::default();
    let call = completed(
        &mut parser,
        r#"{"type":"tool_call","subtype":"completed","call_id":"c","tool_call":{"function":{"name":"lookup","arguments":"{}"}}}"#,
    );
    assert_eq!((call.name.as_deref(), call.args.unwrap().get()), (Some("lookup"), "\"{}\""));
}

#[test]
fn siblings_of_the_outcome_are_not_outcomes() {
    check_outcome(
        r#"{"isBackground":false,"sandboxPolicy":{"type":"x"},"pid":4,"failure":{"exitCode":1}}"#,
        Some((OutcomeKind::Failure, OutcomeClass::Bad)),
    );
    check_outcome(r#"{"isBackground":false,"sandboxPolicy":{}}"#, None);
}

#[test]
fn every_outcome_of_the_oneof_is_known_and_a_new_one_stays_unknown() {
    check_outcome(
        r#"{"rejected":{"reason":""}}"#,
        Some((OutcomeKind::Rejected, OutcomeClass::Refused)),
    );
    check_outcome(
        r#"{"permissionDenied":{}}"#,
        Some((OutcomeKind::PermissionDenied, OutcomeClass::Refused)),
    );
    check_outcome(
        r#"{"timeout":{"timeoutMs":5}}"#,
        Some((OutcomeKind::Timeout, OutcomeClass::Bad)),
    );
    check_outcome(r#"{"spawnError":{}}"#, Some((OutcomeKind::SpawnError, OutcomeClass::Bad)));
    check_outcome(
        r#"{"stillRunning":{}}"#,
        Some((OutcomeKind::StillRunning, OutcomeClass::Neutral)),
    );
    check_outcome(
        r#"{"newSibling":3,"vanished":{"why":1}}"#,
        Some((OutcomeKind::Unknown("vanished".into()), OutcomeClass::Neutral)),
    );
    check_outcome("null", None);
    check_outcome("17", None);
    check_outcome("[{}]", None);
}

#[test]
fn an_outcome_keeps_its_detail_and_whether_it_went_to_the_background() {
    let mut parser = LineParser::default();
    let call = completed(
        &mut parser,
        r#"{"type":"tool_call","subtype":"completed","tool_call":{"shellToolCall":{"args":null,"result":{"success":{"exitCode":0},"isBackground":true}}}}"#,
    );
    let outcome = call.outcome.unwrap();
    assert_eq!((outcome.detail.get(), outcome.is_background), (r#"{"exitCode":0}"#, true));
    assert!(call.args.is_none(), "null does not count as arguments");
}
