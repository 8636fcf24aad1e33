//! `.workspace-trusted`: the marker that lets the agent start in a workspace without the trust question.

use serde_json::json;

use crate::json_file;
use crate::workspace::{WorkspacePath, WorkspacePathError};

/// Returns the bytes of the marker, as `--trust` itself would leave it.
pub fn trust_marker_json(
    workspace: &WorkspacePath,
    trusted_at_unix_ms: u64,
) -> Result<Vec<u8>, WorkspacePathError> {
    Ok(json_file::to_bytes(&json!({
        "trustedAt": iso_8601(trusted_at_unix_ms),
        "workspacePath": workspace.as_utf8()?,
        "trustMethod": "cli-flag",
    })))
}

/// Formats a time as JavaScript's `toISOString` does, such as `2026-10-03T08:05:09.042Z`.
// Written out because a calendar dependency for one time stamp would outweigh these lines.
fn iso_8601(unix_ms: u64) -> String {
    let (days, ms) = (unix_ms / 86_400_000, unix_ms % 86_400_000);
    let (year, month, day) = civil_date(days);
    let (hours, minutes) = (ms / 3_600_000, ms / 60_000 % 60);
    let (seconds, ms) = (ms / 1000 % 60, ms % 1000);
    // Years of more than four digits have a sign and six of them.
    let year = if year > 9999 { format!("+{year:06}") } else { format!("{year:04}") };
    format!("{year}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}.{ms:03}Z")
}

/// Returns year, month and day of a number of days since 1970-01-01, in the Gregorian calendar.
fn civil_date(days_since_1970: u64) -> (u64, u64, u64) {
    const DAYS_IN_400_YEARS: u64 = 146_097;
    const DAYS_FROM_MARCH_0000_TO_1970: u64 = 719_468;
    // Years that begin in March have their leap day at the end, where it disturbs nothing.
    let days = days_since_1970 + DAYS_FROM_MARCH_0000_TO_1970;
    let (cycle, day_of_cycle) = (days / DAYS_IN_400_YEARS, days % DAYS_IN_400_YEARS);
    // Takes out the leap days passed so far, so that every year has 365 days.
    let leap_days = day_of_cycle / 1460 - day_of_cycle / 36_524 + day_of_cycle / 146_096;
    let year_of_cycle = (day_of_cycle - leap_days) / 365;
    let day_of_year =
        day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    // From March on, lengths of months repeat as 31, 30, 31, 30, 31: 153 days for five months.
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = 400 * cycle + year_of_cycle + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    fn n_days(year: u64, month: u64) -> u64 {
        let leap =
            year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        match month {
            2 => 28 + u64::from(leap),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        }
    }

    #[test]
    fn the_marker_says_when_where_and_how() {
        let workspace = WorkspacePath::new(Path::new("/tmp/wörk")).unwrap();
        let marker = trust_marker_json(&workspace, 1_790_971_509_042).unwrap();
        let expected = r#"{
  "trustedAt": "2026-10-02T20:05:09.042Z",
  "workspacePath": "/tmp/wörk",
  "trustMethod": "cli-flag"
}
"#;
        assert_eq!(String::from_utf8(marker).unwrap(), expected);
    }

    #[test]
    fn a_path_that_json_cannot_hold_is_an_error() {
        let path = Path::new(OsStr::from_bytes(b"/tmp/\xff"));
        let error = trust_marker_json(&WorkspacePath::new(path).unwrap(), 0).unwrap_err();
        assert_eq!(error, WorkspacePathError::NotUtf8(path.into()));
    }

    #[test]
    fn known_moments_are_formatted_as_javascript_does() {
        for (unix_ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_000_000_000_000, "2001-09-09T01:46:40.000Z"),
            (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
            (253_402_300_800_000, "+010000-01-01T00:00:00.000Z"),
            (8_640_000_000_000_000, "+275760-09-13T00:00:00.000Z"),
        ] {
            assert_eq!(iso_8601(unix_ms), text);
        }
    }

    #[test]
    fn the_calendar_agrees_with_counting_day_by_day_for_a_thousand_years() {
        let mut date = (1970, 1, 1);
        for days in 0..366_000 {
            assert_eq!(civil_date(days), date);
            let (year, month, day) = date;
            date = match (day == n_days(year, month), month) {
                (false, _) => (year, month, day + 1),
                (true, 12) => (year + 1, 1, 1),
                (true, _) => (year, month + 1, 1),
            };
        }
    }

    proptest! {
        #[test]
        fn later_moments_sort_later(a in 0..253_402_300_800_000u64, b in 0..253_402_300_800_000u64) {
            prop_assert_eq!(a.cmp(&b), iso_8601(a).cmp(&iso_8601(b)));
        }

        #[test]
        fn any_number_is_a_date(unix_ms in any::<u64>()) {
            let (_, month, day) = civil_date(unix_ms / 86_400_000);
            prop_assert!((1..=12).contains(&month) && (1..=31).contains(&day));
        }
    }
}
