//! Reads times as Cursor writes them into prompts: `Tuesday, Jul 21, 2026, 3:04 PM (UTC+2)`.

use std::sync::LazyLock;

use jiff::civil::DateTime;
use jiff::tz::Offset;
use regex::{Captures, Regex};

use crate::model::Moment;

/// A longer text is not a time.
const MAX_BYTES: usize = 200;
const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

struct Patterns {
    /// `3:04 pm`, `15:04:05.678`, or `3 pm`.
    clock: Regex,
    /// The name of a time zone. An offset may follow.
    zone: Regex,
    /// `+2`, `-03:30` or `+0200`.
    offset: Regex,
}

static PATTERNS: LazyLock<Result<Patterns, regex::Error>> = LazyLock::new(|| {
    let clock = r"(?x) (?<hour>\d{1,2})
        (?: :(?<minute>\d{1,2}) (?: :(?<second>\d{1,2}) (?: \.(?<fraction>\d{1,9})\d* )? )? (?: \s*(?<half>[ap])m?\b )?
          | \s*(?<whole_half>[ap])m?\b )";
    Ok(Patterns {
        clock: Regex::new(clock)?,
        zone: Regex::new(r"\b(?:utc|gmt|z)\b")?,
        offset: Regex::new(r"^\s*(?<sign>[+-])(?<hours>\d{1,2})(?::?(?<minutes>\d{2}))?\b")?,
    })
});

/// Reads a time. The date may come before or after the time of day. Without a zone, the time may be off by a day, so it
/// does not count as recorded.
pub(crate) fn parse_prompt_time(text: &str) -> Option<Moment> {
    if text.len() > MAX_BYTES {
        return None;
    }
    let patterns = PATTERNS.as_ref().ok()?;
    let text = text.to_ascii_lowercase().replace(['\u{2212}', '\u{2013}'], "-");
    let clock = patterns.clock.captures(&text)?;
    let (before, after) = (&text[..clock.get(0)?.start()], &text[clock.get(0)?.end()..]);
    let zone = patterns.zone.find(after);
    let after_zone = zone.map_or(after, |zone| &after[zone.end()..]);
    let offset = patterns.offset.captures(after_zone);
    let rest =
        &after_zone[offset.as_ref().and_then(|offset| offset.get(0)).map_or(0, |all| all.end())..];
    let (year, month, day) = date_in(&format!("{before} {rest}"))?;
    let [minute, second] = ["minute", "second"].map(|part| number(&clock, part).unwrap_or(0));
    let (hour, nanosecond) = (hour_of(&clock)?, nanoseconds_of(&clock));
    let local = DateTime::new(year, month, day, hour, minute, second, nanosecond).ok()?;
    let known = offset.as_ref().and_then(minutes_of);
    let offset = Offset::from_seconds(known.unwrap_or(0) * 60).ok()?;
    let at_ms = offset.to_timestamp(local).ok()?.as_millisecond();
    Some(match zone.is_some() || known.is_some() {
        true => Moment::recorded(at_ms),
        false => Moment::interpolated(at_ms),
    })
}

fn number<T: std::str::FromStr>(captures: &Captures<'_>, part: &str) -> Option<T> {
    captures.name(part)?.as_str().parse().ok()
}

fn hour_of(clock: &Captures<'_>) -> Option<i8> {
    let half = clock.name("half").or_else(|| clock.name("whole_half")).map(|half| half.as_str());
    match (half, number(clock, "hour")?) {
        (Some("a"), hour @ 1..=12) => Some(hour % 12),
        (Some("p"), hour @ 1..=12) => Some(hour % 12 + 12),
        // `15:04 PM` is unambiguous.
        (None, hour) | (Some("p"), hour @ 13..24) => Some(hour),
        _ => None,
    }
}

fn nanoseconds_of(clock: &Captures<'_>) -> i32 {
    let fraction = clock.name("fraction").map_or("", |fraction| fraction.as_str());
    format!("{fraction:0<9}").parse().unwrap_or(0)
}

fn minutes_of(offset: &Captures<'_>) -> Option<i32> {
    let hours: i32 = number(offset, "hours").filter(|hours| *hours <= 18)?;
    let minutes = number(offset, "minutes").unwrap_or(0);
    let sign = if &offset["sign"] == "-" { -1 } else { 1 };
    (minutes < 60).then_some(sign * (hours * 60 + minutes))
}

/// Reads year, month and day from `2026-07-21`, `jul 21, 2026`, `21 july 2026` or `7/21/2026`.
fn date_in(text: &str) -> Option<(i16, i8, i8)> {
    let numbers = text.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty());
    let numbers: Vec<(i64, usize)> =
        numbers.map(|digits| (digits.parse().unwrap_or(i64::MAX), digits.len())).collect();
    let named_month = text.split(|c: char| !c.is_ascii_alphabetic()).find_map(|word| {
        MONTHS.iter().position(|month| word.starts_with(month)).map(|month| month as i64 + 1)
    });
    let (year, month, day) = match (named_month, numbers.as_slice()) {
        (Some(month), [(year, 4), (day, 1 | 2), ..] | [(day, 1 | 2), (year, 4), ..]) => {
            (*year, month, *day)
        }
        (None, [(year, 4), (month, 1 | 2), (day, 1 | 2), ..])
        | (None, [(month, 1 | 2), (day, 1 | 2), (year, 4), ..]) => (*year, *month, *day),
        _ => return None,
    };
    let year = i16::try_from(year).ok().filter(|year| *year >= 1970)?;
    Some((year, i8::try_from(month).ok()?, i8::try_from(day).ok()?))
}

#[cfg(test)]
#[path = "prompt_time_tests.rs"]
mod tests;
