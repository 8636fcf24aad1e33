//! The files below `fixtures/formats`, for tests only: how a test reads them, and how it proves that it reads every field.
//!
//! ```text
//!   fixture ─► its hash is in SHA256SUMS: the file is unchanged
//!      ├─────► parse ─► value ─► written again: the same bytes, so nothing is lost
//!      └─────► each field removed in turn ─► parse: must fail, or give another value, so every field is read
//! ```
//!
//! Formats that Caretaker only reads (configuration, profiles) have a snapshot of the read values instead.

mod fields;
mod files;

use serde::Serialize;
use serde::de::DeserializeOwned;

pub use fields::{Form, unread_fields};
pub use files::{Fixture, directory, fixtures};

/// The layout of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// One JSON value without white space.
    Compact,
    /// One JSON value, indented.
    Pretty,
    /// One JSON value per line.
    Lines,
}

/// Reads every fixture that matches the patterns as a `T`, and writes it again. No byte may differ, and `T` must read
/// every field.
///
/// # Panics
///
/// If a byte differs or a field is unread.
pub fn check<T: DeserializeOwned + Serialize>(patterns: &[&str], layout: Layout) {
    let fixtures: Vec<Fixture> = patterns.iter().flat_map(|pattern| fixtures(pattern)).collect();
    check_these::<T>(&fixtures, layout);
}

/// Like [`check`], but only for these fixtures.
///
/// # Panics
///
/// If a byte differs, a field is unread, or there is no fixture.
pub fn check_these<T: DeserializeOwned + Serialize>(fixtures: &[Fixture], layout: Layout) {
    assert!(!fixtures.is_empty(), "there is nothing to read");
    for fixture in fixtures {
        let text = fixture.text();
        let rewritten = rewrite::<T>(&text, layout);
        assert_eq!(rewritten.as_deref(), Ok(text.as_str()), "{} written again", fixture.name);
    }
    let texts: Vec<String> = match layout {
        Layout::Compact | Layout::Pretty => fixtures.iter().map(Fixture::text).collect(),
        Layout::Lines => fixtures.iter().flat_map(Fixture::lines).collect(),
    };
    let tell = |text: &str| rewrite::<T>(text, Layout::Compact).ok();
    let unread = unread_fields(Form::Json, texts, tell);
    assert!(unread.is_empty(), "nothing reads these fields: {unread:#?}");
}

/// Reads the text and writes it again.
fn rewrite<T: DeserializeOwned + Serialize>(text: &str, layout: Layout) -> Result<String, String> {
    let broken = |error: serde_json::Error| error.to_string();
    let one = |text: &str| serde_json::from_str::<T>(text).map_err(broken);
    match layout {
        Layout::Compact => serde_json::to_string(&one(text)?).map_err(broken),
        Layout::Pretty => serde_json::to_string_pretty(&one(text)?).map_err(broken),
        Layout::Lines => text
            .lines()
            .map(|line| Ok(serde_json::to_string(&one(line)?).map_err(broken)? + "\n"))
            .collect(),
    }
}
