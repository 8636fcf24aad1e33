//! An error as one line, for reports that keep no errors.

use std::error::Error;

/// Says an error with all that caused it.
pub(crate) fn describe(err: &dyn Error) -> String {
    let mut text = err.to_string();
    let mut source = err.source();
    while let Some(err) = source {
        text.push_str(": ");
        text.push_str(&err.to_string());
        source = err.source();
    }
    text
}
