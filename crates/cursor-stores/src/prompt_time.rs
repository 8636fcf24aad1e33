//! The time that stands in a prompt in human words: `Tuesday, Jul 21, 2026, 3:04 PM (UTC+2)`.

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/// Reads a time, in milliseconds since 1970. `None` if it does not say in which time zone it is: half a day off is no
/// recorded time.
pub(crate) fn parse_prompt_time(text: &str) -> Option<i64> {
    let text = text.trim();
    // Nothing of this kind is long, and what is has not been written by Cursor.
    if text.len() > 100 {
        return None;
    }
    let (date, rest) = iso_date(text).or_else(|| human_date(text).map(|date| (date, text)))?;
    let (minutes, seconds) = time_of_day(rest)?;
    let offset = offset_minutes(rest)?;
    let ms = (days_since_1970(date) * 24 * 60 + minutes - offset) * 60_000 + seconds * 1_000;
    Some(ms)
}

#[derive(Clone, Copy)]
struct Date {
    year: i64,
    month: i64,
    day: i64,
}

impl Date {
    fn checked(year: i64, month: i64, day: i64) -> Option<Self> {
        let is_one =
            (1970..=9999).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
        is_one.then_some(Self { year, month, day })
    }
}

/// `2026-07-21`, and what follows it.
fn iso_date(text: &str) -> Option<(Date, &str)> {
    let (date, rest) = text.split_at_checked(10)?;
    let mut numbers = date.split('-').map(str::parse::<i64>);
    let date = Date::checked(numbers.next()?.ok()?, numbers.next()?.ok()?, numbers.next()?.ok()?)?;
    Some((date, rest))
}

/// A month by name, a day and a year, in any order.
fn human_date(text: &str) -> Option<Date> {
    let words =
        || text.split(|c: char| !c.is_alphanumeric() && c != ':').filter(|word| !word.is_empty());
    let month = words().find_map(|word| {
        let beginning = word.get(..3)?.to_ascii_lowercase();
        MONTHS.iter().position(|month| *month == beginning)
    })?;
    let numbers = || words().filter_map(|word| word.parse::<i64>().ok());
    let year = numbers().find(|number| *number >= 1970)?;
    let day = numbers().find(|number| (1..=31).contains(number))?;
    Date::checked(year, i64::try_from(month).ok()? + 1, day)
}

/// Minutes since midnight, and seconds.
fn time_of_day(text: &str) -> Option<(i64, i64)> {
    let word =
        text.split(|c: char| !c.is_ascii_digit() && c != ':').find(|word| word.contains(':'))?;
    let mut numbers = word.split(':').map(str::parse::<i64>);
    let (hour, minute) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    let second = numbers.next().and_then(Result::ok).unwrap_or(0);
    let lower = text.to_ascii_lowercase();
    let is_word = |word: &str| lower.split(|c: char| !c.is_alphabetic()).any(|other| other == word);
    let hour = match hour {
        12 if is_word("am") => 0,
        1..=11 if is_word("pm") => hour + 12,
        hour => hour,
    };
    let is_time = (0..24).contains(&hour) && (0..60).contains(&minute) && (0..61).contains(&second);
    is_time.then_some((hour * 60 + minute, second))
}

/// `UTC+2`, `GMT-03:30`, `+0200` after a time, `UTC`, `Z`.
fn offset_minutes(text: &str) -> Option<i64> {
    let zone = ["UTC", "GMT"].iter().find_map(|name| Some(&text[text.find(name)? + 3..]));
    let offset = match zone {
        Some(zone) => zone,
        None if text.ends_with('Z') => "",
        None => {
            let after_time = &text[text.rfind(':').filter(|at| *at > 0)?.saturating_sub(3)..];
            &after_time[after_time.find(['+', '-'])?..]
        }
    };
    let (sign, digits) = match offset.chars().next() {
        Some('+') => (1, &offset[1..]),
        Some('-') => (-1, &offset[1..]),
        _ => return Some(0),
    };
    let end = digits.find(|c: char| !c.is_ascii_digit() && c != ':').unwrap_or(digits.len());
    let digits: String = digits[..end].chars().filter(char::is_ascii_digit).collect();
    let number: i64 = digits.parse().ok()?;
    let (hours, minutes) =
        if digits.len() <= 2 { (number, 0) } else { (number / 100, number % 100) };
    (hours <= 14 && minutes < 60).then_some(sign * (hours * 60 + minutes))
}

/// Days of the proleptic Gregorian calendar, counted from March so that the leap day is the last of its year.
fn days_since_1970(Date { year, month, day }: Date) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year / 400, year % 400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::parse_prompt_time;

    #[test]
    fn a_time_with_its_zone_is_read() {
        let expected = Some(1_784_639_040_000);
        for text in [
            "Tuesday, Jul 21, 2026, 3:04 PM (UTC+2)",
            "Tuesday, July 21, 2026 at 15:04 UTC+02:00",
            "21 Jul 2026 13:04:00 GMT",
            "2026-07-21T13:04:00Z",
            "2026-07-21T13:04:00.250Z",
            "2026-07-21 15:04:00+0200",
            "2026-07-21T09:34:00-03:30",
        ] {
            assert_eq!(parse_prompt_time(text), expected, "{text}");
        }
        assert_eq!(parse_prompt_time("Thu, Jan 1, 1970, 12:00 AM (UTC)"), Some(0));
        assert_eq!(parse_prompt_time("Feb 29, 2024, 12:30 PM (UTC-7)"), Some(1_709_235_000_000));
    }

    #[test]
    fn half_a_time_is_none() {
        for text in [
            "",
            "Tuesday",
            "Tuesday, Jul 21, 2026",
            "Jul 21, 2026, 3:04 PM",
            "99:99 UTC",
            "2026-13-45T00:00Z",
        ] {
            assert_eq!(parse_prompt_time(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_fail(text in "\\PC{0,60}", words in prop::collection::vec("[0-9]{1,12}|:|-|\\+|UTC|Jul|é| |Z", 0..20)) {
            parse_prompt_time(&text);
            parse_prompt_time(&words.concat());
        }
    }
}
