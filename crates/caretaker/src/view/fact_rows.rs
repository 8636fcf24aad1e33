//! Facts, one per line: a dim name on the left, then the value.

use std::io::{self, Write};

use admission::words::safe_text::on_one_line;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::styled_line::DIM;

/// The width of the name column.
pub(crate) const NAMES: usize = 11;

/// Prints one fact; nothing if it is empty.
pub(crate) fn row(out: &mut dyn Write, name: &str, value: &str) -> io::Result<()> {
    if value.is_empty() {
        return Ok(());
    }
    writeln!(out, "{DIM}{name:<NAMES$}{DIM:#}{}", on_one_line(value))
}

/// Prints several facts under one name.
pub(crate) fn rows(out: &mut dyn Write, name: &str, values: &[impl AsRef<str>]) -> io::Result<()> {
    let names = std::iter::once(name).chain(std::iter::repeat(" "));
    names.zip(values).try_for_each(|(name, value)| row(out, name, value.as_ref()))
}

/// `2026-09-21 16:13:20` in the user's time zone.
pub(crate) fn moment(at_ms: impl TryInto<i64>) -> String {
    let timestamp = at_ms.try_into().ok().and_then(|at| Timestamp::from_millisecond(at).ok());
    match timestamp {
        Some(timestamp) => {
            timestamp.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string()
        }
        None => "unknown time".to_owned(),
    }
}
