//! JSON as JavaScript writes it, which is not always JSON as others read it.

use serde::de::DeserializeOwned;
use serde_json::Value as Json;

/// Parses JSON, also where it holds half of a surrogate pair or bytes that are no UTF-8: both become the replacement
/// character. A text that was cut between the two halves of an emoji has the former, and programs like to cut texts.
pub(crate) fn parse(json: &[u8]) -> Result<Json, serde_json::Error> {
    parse_as(json)
}

/// As [`parse`], for anything.
pub(crate) fn parse_as<T: DeserializeOwned>(json: &[u8]) -> Result<T, serde_json::Error> {
    match serde_json::from_slice(json) {
        Ok(value) => Ok(value),
        Err(err) => serde_json::from_str(&repair(json).ok_or(err)?),
    }
}

/// Returns the text without what makes a strict reader give up, or `None` if there is nothing of that kind.
pub(crate) fn repair(json: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(json);
    let mut repaired = String::with_capacity(text.len());
    let mut rest = text.as_ref();
    let mut is_changed = matches!(text, std::borrow::Cow::Owned(_));
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        repaired.push_str(before);
        let n_taken = match (unit(escape), escape.get(6..).and_then(unit)) {
            (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => 12,
            (Some(0xD800..=0xDFFF), _) => {
                repaired.push('\u{FFFD}');
                is_changed = true;
                rest = &escape[6..];
                continue;
            }
            // Any other escape is two bytes long, as far as finding the next one goes.
            _ => escape.char_indices().nth(2).map_or(escape.len(), |(end, _)| end),
        };
        let (kept, after) = escape.split_at(n_taken);
        repaired.push_str(kept);
        rest = after;
    }
    repaired.push_str(rest);
    is_changed.then_some(repaired)
}

/// The UTF-16 unit that a text begins with as `\uXXXX`.
fn unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    u16::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn half_a_surrogate_pair_does_not_lose_the_rest() {
        assert_eq!(
            parse(br#"{"a":"x\ud83d","b":"\ud83d\ude00","c":"\\ud83d","d":"\udc00\u0041"}"#)
                .unwrap(),
            json!({"a": "x\u{FFFD}", "b": "😀", "c": "\\ud83d", "d": "\u{FFFD}A"})
        );
    }

    #[test]
    fn a_flipped_bit_in_a_text_does_not_lose_the_rest() {
        assert_eq!(parse(b"{\"a\":\"x\xff\",\"b\":1}").unwrap(), json!({"a": "x\u{FFFD}", "b": 1}));
        assert!(parse(b"{\"a\":").is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_fail(bytes: Vec<u8>, text in r#"(\\u?|[dD8-9a-c]{1,4}|"|é|\{|\})*"#) {
            let _parsed = (parse(&bytes), parse(text.as_bytes()));
        }

        #[test]
        fn what_is_json_stays_what_it_is(text: String) {
            let json = json!({ "text": text });
            prop_assert_eq!(parse(json.to_string().as_bytes()).unwrap(), json);
        }
    }
}
