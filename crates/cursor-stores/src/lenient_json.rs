//! Parses JSON the way JavaScript writes it. Strict parsers reject some of it.

use std::borrow::Cow;

use ground::surrogates;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;

/// Parses JSON, even if it holds half of a surrogate pair or bytes that are not UTF-8. Both become the replacement
/// character. Programs that cut a text in the middle of an emoji write half a pair.
pub(crate) fn parse(json: &[u8]) -> Result<Json, serde_json::Error> {
    parse_as(json)
}

/// Like [`parse`], but for any type.
pub(crate) fn parse_as<T: DeserializeOwned>(json: &[u8]) -> Result<T, serde_json::Error> {
    match serde_json::from_slice(json) {
        Ok(value) => Ok(value),
        Err(err) => serde_json::from_str(&repair(json).ok_or(err)?),
    }
}

/// Replaces everything that makes a strict parser fail. Returns `None` if there is nothing to replace.
pub(crate) fn repair(json: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(json);
    match (surrogates::mend(&text), text) {
        (Some(mended), _) => Some(mended),
        (None, Cow::Owned(replaced)) => Some(replaced),
        (None, Cow::Borrowed(_)) => None,
    }
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
        fn valid_json_stays_unchanged(text: String) {
            let json = json!({ "text": text });
            prop_assert_eq!(parse(json.to_string().as_bytes()).unwrap(), json);
        }
    }
}
