use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;

use super::wire_json;

#[test]
fn texts_and_numbers_of_an_unknown_message_are_shown() {
    // {1: "src", 2: {1: "a", 1: "b"}, 3: 300, 4: bytes}
    let bytes = b"\x0a\x03src\x12\x06\x0a\x01a\x0a\x01b\x18\xac\x02\x22\x02\xff\x00";
    assert_eq!(
        wire_json(bytes),
        json!({"1": "src", "2": {"1": ["a", "b"]}, "3": 300, "4": {"n_bytes": 2}})
    );
    assert_eq!(wire_json(b"just text"), json!("just text"));
    assert_eq!(wire_json(b"\x0a\x04word"), json!({"1": "word"}));
    assert_eq!(wire_json(b""), json!(""));
}

proptest! {
    #[test]
    fn no_bytes_make_it_fail(bytes: Vec<u8>) {
        wire_json(&bytes);
    }
}
