use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const LINES: [&str; 2] = [
    r#"{"type":"thinking","subtype":"delta","text":" naïve","session_id":"7b710922-0e62","timestamp_ms":1790994267353}"#,
    r#"{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":" naïve"}]},"session_id":"7b710922-0e62","timestamp_ms":1790994267353}"#,
];

fn shown(event: &AgentEvent<'_>) -> Value {
    serde_json::to_value(event).unwrap()
}

#[test]
fn token_lines_take_the_fast_path() {
    assert_eq!(
        LINES.map(|line| shown(&read(line).unwrap())),
        [
            json!({"kind":"thinking_delta","text":" naïve","session_id":"7b710922-0e62","timestamp_ms":1790994267353_u64}),
            json!({"kind":"assistant","form":"delta_or_before_query","text":" naïve","model_call_id":null,"session_id":"7b710922-0e62","timestamp_ms":1790994267353_u64}),
        ]
    );
}

#[test]
fn other_lines_are_left_to_the_general_parser() {
    for line in LINES {
        for (plain, other) in [
            ("naïve", r"na\nve"),
            ("naïve", "na\tve"),
            ("naïve", r#"na"ve"#),
            ("1790994267353", "01790994267353"),
            ("1790994267353", "1790994267353.5"),
            ("1790994267353", "99999999999999999999"),
            ("1790994267353", ""),
            ("1790994267353", "+1"),
            ("353}", "353,\"more\":1}"),
            ("353}", "353} "),
            ("353}", "353}}"),
            ("\"type\"", "\"Type\""),
        ] {
            let changed = line.replace(plain, other);
            assert_ne!(changed, line);
            assert!(read(&changed).is_none(), "{changed}");
        }
    }
}

/// One of the lines, with a few bytes replaced, inserted or removed.
fn damaged_lines() -> impl Strategy<Value = String> {
    let bytes = prop_oneof!["[\"\\\\{}:,0-9a-f]{0,3}", "\\PC{0,2}", Just("\u{1}".to_owned())];
    (0..LINES.len(), any::<prop::sample::Index>(), 0..3_usize, bytes).prop_map(
        |(line, at, removed, inserted)| {
            let mut letters: Vec<char> = LINES[line].chars().collect();
            let at = at.index(letters.len());
            let end = (at + removed).min(letters.len());
            letters.splice(at..end, inserted.chars());
            letters.into_iter().collect()
        },
    )
}

proptest! {
    #[test]
    fn a_line_read_by_its_layout_gives_the_same_event_as_the_general_parser(line in damaged_lines()) {
        if let Some(event) = read(&line) {
            let general = crate::lines::line_parser::read_event(&line).unwrap();
            prop_assert_eq!(shown(&event), shown(&general));
        }
    }

    /// Short and long texts, with and without a special character at any position.
    #[test]
    fn a_text_is_plain_exactly_if_its_closing_quote_comes_before_any_special_byte(
        length in 0..200_usize,
        odd in proptest::option::of((any::<prop::sample::Index>(), prop_oneof![0..=0x1F_u8, Just(b'\\')])),
        is_closed: bool,
    ) {
        let mut bytes = vec![b'x'; length];
        if let (Some((at, byte)), false) = (&odd, bytes.is_empty()) {
            let at = at.index(length);
            bytes[at] = *byte;
        }
        if is_closed {
            bytes.push(b'"');
        }
        let text = String::from_utf8(bytes).unwrap();
        let end = text.bytes().position(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1F));
        let expected = end.map(|end| text.split_at(end)).filter(|(_, rest)| rest.starts_with('"'));
        prop_assert_eq!(plain_string(&text), expected);
    }
}
