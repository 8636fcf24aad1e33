use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;

use super::*;

#[test]
fn pieces_of_text_become_one_text_and_the_rest_keeps_its_order() {
    let request = json!({
        "requestId": "r", "message": "hi", "isCanceled": true,
        "response": [
            {"value": "one "}, {"kind": "markdownContent", "content": {"value": "two"}},
            {"kind": "thinking", "value": "hm"},
            "three",
            {"kind": "undoStop"},
        ],
    });
    let (messages, turns) = decode_requests(&[request]);
    let mut prompt = Message::new(Role::User, vec![Part::text("hi")]);
    prompt.id = Some("r".to_owned());
    let answer = Message::new(
        Role::Assistant,
        vec![
            Part::text("one two"),
            Part::reasoning("hm"),
            Part::text("three"),
            Part::Unknown { kind: "undoStop".to_owned(), value: json!({"kind": "undoStop"}) },
        ],
    );
    assert_eq!(messages, [prompt, answer]);
    let turn =
        Turn { request_id: Some("r".to_owned()), state: TurnState::Cancelled, ..Turn::default() };
    assert_eq!(turns, [turn]);
}

#[test]
fn a_request_without_a_message_is_kept_as_it_is() {
    let (messages, _) = decode_requests(&[json!({"x": 1}), json!(7)]);
    assert_eq!(
        messages[0].parts,
        [Part::Unknown { kind: "request".to_owned(), value: json!({"x": 1}) }]
    );
    assert_eq!(messages[2].parts, [Part::Unknown { kind: "request".to_owned(), value: json!(7) }]);
}

proptest! {
    #[test]
    fn there_is_a_piece_for_every_message(
        name in "message|response|result|variableData|timestamp",
        value in prop_oneof![Just(json!(null)), Just(json!(7)), Just(json!("x")), Just(json!([[], {}, 1])), Just(json!({"text": 1, "variables": [1]}))],
    ) {
        let requests = [json!({name: value}), value];
        prop_assert_eq!(decode_requests(&requests).0.len(), pieces_of_requests(&requests).len());
    }
}
