use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::search::{search_bytes, search_json, search_text};

fn matcher(words: &str) -> Matcher {
    Matcher::new(Pattern::Words(words), Case::Smart).unwrap()
}

#[test]
fn all_words_must_occur_in_any_order_and_in_any_field() {
    let value = json!({"text": "the second half", "tool": {"result": "came first"}}).to_string();
    assert!(search_json(&matcher("first second"), value.as_bytes()).is_some());
    assert!(search_json(&matcher("first third"), value.as_bytes()).is_none());
    let found = search_json(&matcher("first"), value.as_bytes()).unwrap();
    assert_eq!((found.field.as_str(), found.snippet.before.as_str()), ("tool.result", "came "));
}

#[test]
fn text_in_quotes_is_one_phrase() {
    assert_eq!(words(r#"one "two three" four"#), ["one", "two three", "four"]);
    assert!(search_text(&matcher(r#""second half""#), "text", "the second half").is_some());
    assert!(search_text(&matcher(r#""half second""#), "text", "the second half").is_none());
}

#[test]
fn a_capital_letter_makes_case_matter() {
    assert!(search_text(&matcher("word"), "text", "WORD").is_some());
    assert!(search_text(&matcher("Word"), "text", "WORD").is_none());
    let ignoring = Matcher::new(Pattern::Words("Word"), Case::Ignored).unwrap();
    assert!(search_text(&ignoring, "text", "WORD").is_some());
}

#[test]
fn escapes_do_not_hide_a_word() {
    let escaped = br#"{"text":"caf\u00e9 \u006fpen"}"#;
    for word in ["café", "open"] {
        assert!(search_json(&matcher(word), escaped).is_some(), "{word}");
    }
    // JSON in a string of JSON, like the arguments of tools.
    let nested = json!({"params": r#"{"path":"caf\u00e9/\"quoted\""}"#}).to_string();
    for word in ["café", r#"quoted"#, "café/"] {
        assert!(search_json(&matcher(word), nested.as_bytes()).is_some(), "{word}");
    }
}

#[test]
fn a_regular_expression_sees_the_decoded_text() {
    let matcher = Matcher::new(Pattern::Regex("caf.? o\\w+n"), Case::Smart).unwrap();
    assert!(search_json(&matcher, br#"{"text":"caf\u00e9 open"}"#).is_some());
    assert!(Matcher::new(Pattern::Regex("("), Case::Smart).is_err());
}

#[test]
fn a_key_to_encrypted_blobs_is_never_found() {
    let value = json!({"blobEncryptionKey": "c0ffee", "name": "c0ffee break"}).to_string();
    assert_eq!(search_json(&matcher("c0ffee"), value.as_bytes()).unwrap().field, "name");
    assert!(search_json(&matcher("c0ffee"), br#"{"blobEncryptionKey":"c0ffee"}"#).is_none());
    assert!(search_json(&matcher("c0ffee"), br#"{"blobEncryptionKey":"c0ffee"#).is_none());
}

#[test]
fn an_empty_pattern_is_refused() {
    for pattern in [Pattern::Words("  \"\" "), Pattern::Phrase(""), Pattern::Regex("")] {
        assert!(matches!(Matcher::new(pattern, Case::Smart), Err(PatternError::Empty)));
    }
}

#[test]
fn text_is_found_between_bytes_that_are_not_text() {
    let found = search_bytes(&matcher("needle"), "blob", b"\x0a\xff\x06needle\x12").unwrap();
    assert_eq!(found.snippet.found, "needle");
}

proptest! {
    #[test]
    fn a_word_is_found_in_json_however_the_json_escapes_it(word in "[a-zé\"/\\\\]{1,4}", text in "\\PC{0,40}", is_ascii: bool) {
        let text = format!("{text}{word}{text}");
        let plain = json!({"a": [{"b": text}]}).to_string();
        let escaped: String = if is_ascii {
            plain.chars().map(|c| if c.is_ascii() { c.to_string() } else {
                c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect()
            }).collect()
        } else { plain };
        let matcher = Matcher::new(Pattern::Phrase(&word), Case::Smart).unwrap();
        prop_assert!(search_json(&matcher, escaped.as_bytes()).is_some());
    }

    #[test]
    fn no_bytes_make_a_search_fail(bytes: Vec<u8>, word in "\\PC{1,8}") {
        let matcher = Matcher::new(Pattern::Phrase(&word), Case::Smart).unwrap();
        let _found = (search_json(&matcher, &bytes), search_bytes(&matcher, "", &bytes));
    }
}
