//! Mends `\ud83d` without its other half, so that the rest of such a line can be read.
//!
//! JavaScript strings may hold half a surrogate pair, `JSON.stringify` writes it as an escape, and Rust's strings
//! cannot hold it. A model that was cut in the middle of an emoji produces exactly this.

/// Replaces every lone surrogate escape by `\ufffd`; `None` where there is none.
///
/// Called on every line: one without a backslash costs a single quick pass.
pub fn mend(json: &str) -> Option<String> {
    let bytes = json.as_bytes();
    let mut mended = String::new();
    let mut copied_to = 0;
    let mut at = 0;
    while let Some(found) = memchr::memchr(b'\\', &bytes[at..]) {
        let escape = at + found;
        match unit_at(bytes, escape) {
            Some(0xD800..=0xDBFF)
                if matches!(unit_at(bytes, escape + 6), Some(0xDC00..=0xDFFF)) =>
            {
                at = escape + 12;
            }
            Some(0xD800..=0xDFFF) => {
                mended.push_str(&json[copied_to..escape]);
                mended.push_str("\\ufffd");
                at = escape + 6;
                copied_to = at;
            }
            // Skips the escaped character too: the second backslash of `\\u` begins nothing.
            _ => at = (escape + 2).min(bytes.len()),
        }
    }
    (copied_to > 0).then(|| {
        mended.push_str(&json[copied_to..]);
        mended
    })
}

/// The UTF-16 unit that `\uXXXX` at this place stands for.
fn unit_at(bytes: &[u8], at: usize) -> Option<u16> {
    // Nearly all escapes are line feeds and quotes.
    if bytes.get(at + 1) != Some(&b'u') {
        return None;
    }
    let escape = bytes.get(at..at + 6)?;
    let digits =
        escape.strip_prefix(b"\\u").filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
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
    fn an_escaped_backslash_before_a_u_begins_no_escape() {
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
}
