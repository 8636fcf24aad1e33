use pretty_assertions::assert_eq;

use super::*;

#[test]
fn ages_are_days_weeks_or_durations() {
    const DAY: u64 = 24 * 3600 * 1000;
    for (text, ms) in [("30d", 30 * DAY), ("2w", 14 * DAY), ("12h", DAY / 2)] {
        assert_eq!(text.parse(), Ok(Age(Some(ms))), "{text}");
    }
    for text in ["", "d", "-1d", "soon", "1.5d", "99999999999999d"] {
        assert_eq!(text.parse::<Age>(), Err(NotAnAge(text.to_owned())), "{text}");
    }
}

#[test]
fn zero_is_a_number_and_none_is_not() {
    for text in ["0", "0s", "0d"] {
        assert_eq!(text.parse(), Ok(Age(Some(0))), "{text}");
    }
    assert_eq!("0".parse::<Keep>().unwrap(), Keep(Some(0)));
    assert_eq!("0".parse::<MaxSize>().unwrap(), MaxSize(Some(0)));
    assert_eq!("none".parse(), Ok(Age(None)));
    assert_eq!("none".parse::<Keep>().unwrap(), Keep(None));
    assert_eq!("none".parse::<MaxSize>().unwrap(), MaxSize(None));
}
