use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;

/// 2026-07-21 13:04 UTC.
const AT: i64 = 1_784_639_040_000;

#[test]
fn all_known_ways_to_write_a_time_give_the_same_time() {
    for text in [
        "Tuesday, Jul 21, 2026, 3:04 PM (UTC+2)",
        "Tuesday, July 21, 2026 at 3:04\u{202f}PM (UTC+02:00)",
        "Tuesday, Jul 21, 2026, 1:04 PM (UTC)",
        "Tuesday, Jul 21, 2026, 9:34 AM (UTC-3:30)",
        "Tuesday, Jul 21, 2026, 9:34 AM (UTC\u{2212}3:30)",
        "Tue, 21 Jul 2026 13:04:00 GMT",
        "Tue Jul 21 2026 15:04:00 GMT+0200 (Central European Summer Time)",
        "21 July 2026, 15:04 GMT+2",
        "7/21/2026, 3:04:00 PM UTC+2",
        "2026-07-21T13:04:00.000Z",
        "2026-07-21T15:04:00+02:00",
        "2026-07-21 15:04 +0200",
        "Jul 21, 2026, 3 PM (UTC+1:56)",
    ] {
        assert_eq!(parse_prompt_time(text), Some(Moment::recorded(AT)), "{text}");
    }
    assert_eq!(parse_prompt_time("2026-07-21T13:04:05.678Z"), Some(Moment::recorded(AT + 5_678)));
}

#[test]
fn midnight_and_noon_are_distinguished() {
    let day = AT - (13 * 60 + 4) * 60_000;
    for (text, hour) in [("12:00 AM", 0), ("12:00 PM", 12), ("1:00 AM", 1), ("11:00 PM", 23)] {
        let text = format!("Tuesday, Jul 21, 2026, {text} (UTC)");
        assert_eq!(
            parse_prompt_time(&text),
            Some(Moment::recorded(day + hour * 3_600_000)),
            "{text}"
        );
    }
}

#[test]
fn a_time_without_a_zone_does_not_count_as_exact() {
    let text = "Tuesday, Jul 21, 2026, 1:04 PM";
    assert_eq!(parse_prompt_time(text), Some(Moment::interpolated(AT)));
}

#[test]
fn text_that_is_not_a_time_gives_none() {
    for text in [
        "",
        "yesterday",
        "Jul 21, 2026",
        "3:04 PM",
        "Feb 30, 2026, 3:04 PM",
        "Jul 21, 2026, 25:04 (UTC)",
        "Jul 21, 2026, 13:61 (UTC)",
        "Jul 21, 1926, 3:04 PM (UTC)",
        "99999999999999999999-01-01T00:00:00Z",
    ] {
        assert_eq!(parse_prompt_time(text), None, "{text}");
    }
    assert_eq!(parse_prompt_time(&"Jul 21, 2026, 3:04 PM ".repeat(20)), None);
}

proptest! {
    #[test]
    fn no_text_makes_it_fail(text: String, like in "([A-Za-z]{1,4}|[0-9]{1,5}|[ :,+()./-]){0,40}") {
        let _parsed = (parse_prompt_time(&text), parse_prompt_time(&like));
    }

    #[test]
    fn a_written_time_is_read_back(minute in 1440_i64..100_000_000, offset in -14_i64 * 60..=14 * 60) {
        let at_ms = minute * 60_000;
        let text = written(minute + offset, offset);
        prop_assert_eq!(parse_prompt_time(&text), Some(Moment::recorded(at_ms)), "{}", text);
    }
}

/// Writes a local time as Cursor does. Counts days to find the date, unlike the code under test.
fn written(local_minute: i64, offset: i64) -> String {
    let (mut day, minute) = (local_minute.div_euclid(1440), local_minute.rem_euclid(1440));
    let weekday = ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"]
        [usize::try_from(day.rem_euclid(7)).unwrap()];
    let mut year = 1970;
    let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    while day >= 365 + i64::from(is_leap(year)) {
        day -= 365 + i64::from(is_leap(year));
        year += 1;
    }
    let lengths = [31, 28 + i64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while day >= lengths[month] {
        day -= lengths[month];
        month += 1;
    }
    let name =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"][month];
    let (hour, minute) = (minute / 60, minute % 60);
    let (half, hour) = (if hour < 12 { "AM" } else { "PM" }, (hour + 11) % 12 + 1);
    let sign = if offset < 0 { '-' } else { '+' };
    let zone = match (offset.abs() / 60, offset.abs() % 60) {
        (0, 0) => "UTC".to_owned(),
        (hours, 0) => format!("UTC{sign}{hours}"),
        (hours, minutes) => format!("UTC{sign}{hours}:{minutes:02}"),
    };
    format!("{weekday}, {name} {}, {year}, {hour}:{minute:02} {half} ({zone})", day + 1)
}
