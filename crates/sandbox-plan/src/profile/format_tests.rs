//! A profile of version 1 that a user wrote. It stays readable for ever.

use format_fixtures::{Form, fixtures, unread_fields};

use super::Profile;
use super::raw::RawProfile;

/// All that is read, without where it stood: that changes with every line that is removed.
fn told(text: &str) -> Option<String> {
    let profile: RawProfile = toml::from_str(text).ok()?;
    let told = format!("{profile:?}");
    let mut pieces = told.split("span: ");
    let first = pieces.next().unwrap_or_default().to_owned();
    let rest = pieces.filter_map(|piece| piece.split_once(", value").map(|(_, value)| value));
    Some(rest.fold(first, |told, value| told + value))
}

#[test]
fn a_profile_of_version_1_is_read_whole() {
    let text = fixtures("v1/home/.config/caretaker/profiles/ada.toml")[0].text();
    let profile = Profile::parse("ada", &text).unwrap();
    assert_eq!(profile.name(), "ada");
    let unread = unread_fields(Form::Toml, [text.clone()], told);
    assert!(unread.is_empty(), "{unread:#?}");
    let told = told(&text).unwrap();
    assert!(!told.contains("span") && !told.contains(".."), "places are left out: {told}");
    assert!(
        !told.contains("None") && !told.contains("{}"),
        "it says something of every key: {told}"
    );
}
