//! Points in time as users write them: `2026-07-01`, `2026-07-01 14:30`, `3d`, `90m`.

use std::str::FromStr;

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

/// Milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PointInTime(pub(crate) i64);

/// Names the valid ways to write a point in time.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "not a time: write a date (2026-07-01), a date and time (2026-07-01T14:30), or how long ago (90m, 12h, 3d, 2w)"
)]
pub(crate) struct NotATime;

impl FromStr for PointInTime {
    type Err = NotATime;

    fn from_str(text: &str) -> Result<Self, NotATime> {
        parse(text.trim(), &Zoned::now()).ok_or(NotATime)
    }
}

fn parse(text: &str, now: &Zoned) -> Option<PointInTime> {
    let zoned =
        |time: DateTime, zone: &TimeZone| Some(time.to_zoned(zone.clone()).ok()?.timestamp());
    let timestamp = if let Ok(timestamp) = text.parse::<Timestamp>() {
        timestamp
    } else if let Ok(time) = text.parse::<DateTime>() {
        zoned(time, now.time_zone())?
    } else if let Ok(date) = text.parse::<Date>() {
        zoned(date.to_datetime(jiff::civil::Time::midnight()), now.time_zone())?
    } else {
        let milliseconds = ago(text)?;
        return Some(PointInTime(now.timestamp().as_millisecond().checked_sub(milliseconds)?));
    };
    Some(PointInTime(timestamp.as_millisecond()))
}

/// `90m`, `12h`, `3d`, `2w` in milliseconds.
fn ago(text: &str) -> Option<i64> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(unit_at);
    let seconds = match unit.trim() {
        "s" => 1,
        "m" | "min" => 60,
        "h" => 3600,
        "d" => 86_400,
        "w" => 7 * 86_400,
        _ => return None,
    };
    number.parse::<i64>().ok()?.checked_mul(seconds)?.checked_mul(1000)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_time_is_a_date_in_the_users_time_zone_or_a_distance_from_now() {
        let now: Zoned = "2026-07-10T12:00:00+02:00[+02:00]".parse().unwrap();
        let at = |text: &str| {
            parse(text, &now).map(|point| Timestamp::from_millisecond(point.0).unwrap().to_string())
        };
        let expected = |text: &str| Some(text.to_owned());
        assert_eq!(at("2026-07-01"), expected("2026-06-30T22:00:00Z"));
        assert_eq!(at("2026-07-01 14:30"), expected("2026-07-01T12:30:00Z"));
        assert_eq!(at("2026-07-01T14:30:00Z"), expected("2026-07-01T14:30:00Z"));
        assert_eq!(at("3d"), expected("2026-07-07T10:00:00Z"));
        assert_eq!(at("90m"), expected("2026-07-10T08:30:00Z"));
        for nonsense in ["", "yesterday", "3", "d", "99999999999999999999d", "2026-13-01"] {
            assert_eq!(at(nonsense), None, "{nonsense}");
        }
    }
}
