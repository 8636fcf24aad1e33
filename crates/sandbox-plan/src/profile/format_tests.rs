//! Profiles that users wrote for earlier versions. They must stay readable.

use format_fixtures::{Form, fixtures, unread_fields};

use super::{Profile, read};

/// Returns everything that the parser reads from the text, without line numbers.
///
/// Reads the sections without the profile that they extend, because a value may be the same in both. Then there is
/// nothing to remove, so an entry with `!` counts as a new entry.
fn told(text: &str) -> Option<String> {
    let extends = read("ada", text).ok()?.0;
    let alone = text.replace("extends = \"default\"\n", "").replace("\"!", "\"");
    let (_, head, rules) = read("ada", &alone).ok()?;
    let told = format!("{extends:?} {head:?} {rules:?}");
    let mut pieces = told.split("ada.toml:");
    let first = pieces.next().unwrap_or_default().to_owned();
    Some(
        pieces.fold(first, |told, piece| {
            told + piece.trim_start_matches(|c: char| c.is_ascii_digit())
        }),
    )
}

#[test]
fn profiles_of_all_versions_are_read_in_full_and_the_latest_has_every_key() {
    let fixtures = fixtures("*/home/.config/caretaker/profiles/ada.toml");
    for fixture in &fixtures {
        assert_eq!(Profile::parse("ada", &fixture.text()).unwrap().name(), "ada");
        let unread = unread_fields(Form::Toml, [fixture.text()], told);
        assert!(unread.is_empty(), "{}: {unread:#?}", fixture.name);
    }
    let latest = fixtures.last().unwrap().text();
    let told = told(&latest).unwrap();
    assert!(!told.contains("None") && !told.contains("{}"), "the fixture has every key: {told}");
}
