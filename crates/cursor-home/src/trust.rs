//! `.workspace-trusted`: with this marker, the agent starts in a workspace without asking for trust.

use jiff::Timestamp;
use serde_json::json;

use crate::json_file;
use crate::workspace::{WorkspacePath, WorkspacePathError};

/// Returns the bytes of the marker that `--trust` itself writes.
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
fn iso_8601(unix_ms: u64) -> String {
    let time = i64::try_from(unix_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    format!("{:.3}", time.unwrap_or(Timestamp::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

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
            (1_790_971_509_042, "2026-10-02T20:05:09.042Z"),
            (u64::MAX, "9999-12-30T22:00:00.999Z"),
        ] {
            assert_eq!(iso_8601(unix_ms), text);
        }
    }

    proptest! {
        #[test]
        fn later_moments_sort_later(a in 0..253_402_207_200_000u64, b in 0..253_402_207_200_000u64) {
            prop_assert_eq!(a.cmp(&b), iso_8601(a).cmp(&iso_8601(b)));
        }
    }
}
