//! Reads values that may have any type.

use serde_json::Value as Json;

use crate::json_values::time;
use crate::model::{Moment, TokenUsage};

/// Returns a string, unless it is empty.
pub(crate) fn words(value: Option<&Json>) -> Option<String> {
    value.and_then(Json::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
}

/// Reads a point in time: ISO 8601 in the database, milliseconds in the documents.
pub(crate) fn at_ms(value: Option<&Json>) -> Option<i64> {
    value.and_then(time)
}

/// Reads four counts that do not overlap, and the reasoning tokens, which are part of the output. Ignores the total.
pub(crate) fn token_usage(usage: &Json) -> Option<TokenUsage> {
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

pub(crate) fn recorded(at: Option<i64>) -> Option<Moment> {
    at.map(Moment::recorded)
}

/// Returns an error's message: a string, or an object that contains one.
pub(crate) fn error_text(error: &Json) -> String {
    match error {
        Json::String(text) => text.clone(),
        error => ["message", "error", "errorMessage"]
            .into_iter()
            .find_map(|name| words(error.get(name)))
            .unwrap_or_else(|| error.to_string()),
    }
}
