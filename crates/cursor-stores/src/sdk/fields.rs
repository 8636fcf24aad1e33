//! Reading values that may have any type.

use serde_json::Value as Json;

use crate::model::{Moment, TokenUsage};

/// Other numbers are no milliseconds since 1970 but something else: from 1973, to the year 9999.
const PLAUSIBLE_MS: std::ops::Range<i64> = 100_000_000_000..253_402_300_800_000;

/// A text that says something.
pub(super) fn words(value: Option<&Json>) -> Option<String> {
    value.and_then(Json::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
}

/// A point in time: ISO 8601 as the database has it, or milliseconds as the documents do.
pub(super) fn at_ms(value: Option<&Json>) -> Option<i64> {
    match value? {
        Json::String(text) => match text.parse::<jiff::Timestamp>() {
            Ok(timestamp) => Some(timestamp.as_millisecond()),
            Err(_) => text.parse().ok().filter(|ms| PLAUSIBLE_MS.contains(ms)),
        },
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a float that is out of range saturates"
        )]
        Json::Number(number) => number
            .as_i64()
            .or_else(|| number.as_f64().map(|ms| ms as i64))
            .filter(|ms| PLAUSIBLE_MS.contains(ms)),
        _ => None,
    }
}

/// Four buckets that do not overlap, and the reasoning, which is a part of the output. The total says nothing more.
pub(super) fn token_usage(usage: &Json) -> Option<TokenUsage> {
    let count = |name: &str| usage.get(name).and_then(Json::as_u64);
    let usage = TokenUsage {
        input: count("inputTokens"),
        output: count("outputTokens"),
        cache_read: count("cacheReadTokens"),
        cache_write: count("cacheWriteTokens"),
        reasoning: count("reasoningTokens"),
        ..TokenUsage::default()
    };
    (!usage.is_unknown()).then_some(usage)
}

pub(super) fn recorded(at: Option<i64>) -> Option<Moment> {
    at.map(Moment::recorded)
}

/// What went wrong, in words: a text, or an object that has one.
pub(super) fn error_text(error: &Json) -> String {
    match error {
        Json::String(text) => text.clone(),
        error => ["message", "error", "errorMessage"]
            .into_iter()
            .find_map(|name| words(error.get(name)))
            .unwrap_or_else(|| error.to_string()),
    }
}
