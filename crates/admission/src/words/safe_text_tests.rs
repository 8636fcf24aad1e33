use super::*;

#[test]
fn escape_sequences_and_direction_overrides_become_visible() {
    assert_eq!(on_lines("a\u{1b}[31mb\r\nc\td"), "a␛[31mb\nc\td");
    assert_eq!(on_lines("\u{202e}txt.exe\u{9b}1m\u{7f}"), "<U+202E>txt.exe<U+009B>1m␡");
    assert_eq!(on_one_line("call_1\nfc_2"), "call_1␊fc_2");
}

#[test]
fn json_keeps_its_meaning_without_control_characters() {
    let json = serde_json::to_string("a\u{9b}1m\u{7f}\u{202e}b\n").unwrap();
    let safe = in_json(&json);
    assert_eq!(safe, r#""a\u009b1m\u007f\u202eb\n""#);
    assert_eq!(
        serde_json::from_str::<String>(&safe).unwrap(),
        serde_json::from_str::<String>(&json).unwrap()
    );
}

#[test]
fn ordinary_text_is_not_copied() {
    assert!(matches!(on_lines("plain — ünïcode 👩‍👩‍👧\n"), Cow::Borrowed(_)));
}
