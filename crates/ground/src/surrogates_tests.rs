use proptest::prelude::*;

use super::mend;

#[test]
fn a_lone_half_is_replaced_and_a_pair_is_left_alone() {
    assert_eq!(mend(r#""a\ud83d""#).as_deref(), Some(r#""a\ufffd""#));
    assert_eq!(mend(r#""\udc00\ud83dx""#).as_deref(), Some(r#""\ufffd\ufffdx""#));
    assert_eq!(mend(r#""\ud83d\ude00""#), None);
    assert_eq!(mend(r#""\ud83d\ud83d\ude00""#).as_deref(), Some(r#""\ufffd\ud83d\ude00""#));
}

#[test]
fn an_escaped_backslash_before_a_u_does_not_begin_an_escape() {
    assert_eq!(mend(r#""\\ud83d""#), None);
}

proptest! {
    #[test]
    fn any_sequence_of_utf16_escapes_can_be_read_after_mending(units in proptest::collection::vec(any::<u16>(), 0..20)) {
        let json: String = units.iter().map(|unit| format!("\\u{unit:04x}")).collect();
        let json = format!("\"{json}\"");
        let text: String = serde_json::from_str(mend(&json).as_deref().unwrap_or(&json)).unwrap();
        prop_assert_eq!(text, String::from_utf16_lossy(&units));
    }

    #[test]
    fn arbitrary_text_never_panics(text in any::<String>()) {
        drop(mend(&text));
    }
}
