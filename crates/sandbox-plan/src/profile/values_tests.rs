use std::os::unix::ffi::OsStringExt;

use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;

fn paths(pattern: &str) -> Vec<PathBuf> {
    pattern.parse::<HostPattern>().unwrap().paths(Path::new("/home/ada"))
}

#[test]
fn sizes_are_whole_numbers_of_bytes_kilobytes_megabytes_or_gigabytes() {
    let size = |text: &str| text.parse::<Size>().ok().map(|size| size.0);
    assert_eq!(size("512"), Some(512));
    assert_eq!(size("4K"), Some(4096));
    assert_eq!(size("64M"), Some(64 << 20));
    assert_eq!(size("1G"), Some(1 << 30));
    for wrong in ["", "0", "0M", "M", "-1", "1.5G", "1T", "64 M", "99999999999G"] {
        assert_eq!(size(wrong), None, "{wrong}");
    }
}

#[test]
fn patterns_are_absolute_or_below_the_home() {
    assert_eq!(paths("/usr"), [Path::new("/usr")]);
    assert_eq!(paths("~/.cargo/bin"), [Path::new("/home/ada/.cargo/bin")]);
    let wrong =
        ["", "/", "~", "~/", "usr", "~ada/x", "/a/../b", "/a/./b", "/a//b", "/a/", "/*/b", "/a**"];
    for wrong in wrong {
        assert!(wrong.parse::<HostPattern>().is_err(), "{wrong}");
    }
}

#[test]
fn a_star_stands_for_what_exists() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["java-17-openjdk", "java-21-openjdk", "java-openjdk", "javascript"] {
        std::fs::create_dir(directory.path().join(name)).unwrap();
    }
    let found = |pattern: &str| {
        let pattern = format!("{}/{pattern}", directory.path().display());
        let names = paths(&pattern).into_iter().map(|path| path.file_name().unwrap().to_owned());
        names.map(|name| name.into_string().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(found("java-*-openjdk"), ["java-17-openjdk", "java-21-openjdk"]);
    assert_eq!(found("javas*"), ["javascript"]);
    assert_eq!(found("nothing*"), Vec::<String>::new());
}

#[test]
fn variables_that_carry_code_or_keys_cannot_be_listed() {
    for never in
        ["LD_PRELOAD", "LD_*", "GIT_DIR", "NODE_OPTIONS", "SSH_AUTH_SOCK", "XDG_RUNTIME_DIR"]
    {
        assert!(never.parse::<VariablePattern>().is_err(), "{never}");
    }
    for wrong in ["", "*", "A B", "A*B", "A=B"] {
        assert!(wrong.parse::<VariablePattern>().is_err(), "{wrong}");
    }
    let pattern: VariablePattern = "LC_*".parse().unwrap();
    assert!(pattern.fits(OsStr::new("LC_ALL")) && !pattern.fits(OsStr::new("LCX")));
    let pattern: VariablePattern = "LANG".parse().unwrap();
    assert!(pattern.fits(OsStr::new("LANG")) && !pattern.fits(OsStr::new("LANGUAGE")));
}

proptest! {
    #[test]
    fn every_pattern_stays_below_its_base(text in "[~/.*a\\\\ \n]{0,12}") {
        if let Ok(pattern) = text.parse::<HostPattern>() {
            for path in pattern.paths(Path::new("/home/ada")) {
                prop_assert!(path.is_absolute());
                prop_assert!(path.components().all(|part| !matches!(part, Component::ParentDir)));
                prop_assert!(!text.starts_with('~') || path.starts_with("/home/ada"));
            }
        }
        if let Ok(name) = text.parse::<ShownName>() {
            prop_assert!(name.as_path().is_relative());
            prop_assert_eq!(Path::new("/w").join(name.as_path()).components().count(),
                2 + name.as_path().components().count());
        }
    }

    #[test]
    fn no_pattern_matches_variables_that_must_never_be_inherited(
        prefix in "(LD|GIT|DBUS|XDG)_", rest in "[A-Z]{0,6}", star in "\\*?",
    ) {
        let text = format!("{prefix}{rest}{star}");
        prop_assert!(text.parse::<VariablePattern>().is_err());
    }

    #[test]
    fn a_pattern_is_joined_to_a_home_with_arbitrary_bytes(home in proptest::collection::vec(1u8.., 1..12)) {
        let home = Path::new("/").join(PathBuf::from(std::ffi::OsString::from_vec(home)));
        let pattern: HostPattern = "~/.nvm".parse().unwrap();
        prop_assert_eq!(pattern.paths(&home), [home.join(".nvm")]);
    }
}
