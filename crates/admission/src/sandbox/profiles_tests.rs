use std::path::Path;

use super::*;
use crate::host::environment::tests::environment_of;

fn places(config: &Path) -> Places {
    Places::of(&environment_of(&[("HOME", config), ("XDG_CONFIG_HOME", config)]))
}

#[test]
fn a_users_own_profile_wins_over_a_built_in_one() {
    let directory = tempfile::tempdir().unwrap();
    let places = places(directory.path());
    let find = |name: &str| find(&places, name, NamedBy::Configuration);
    assert_eq!(find("default").unwrap().file, None);
    assert_eq!(find("strict").unwrap().file, None);

    let file = places.config.join("profiles/default.toml");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "extends = \"default\"\ndescription = \"mine\"\n").unwrap();
    let found = find("default").unwrap();
    assert_eq!((found.file, found.profile.description()), (Some(file), "mine"));
}

#[test]
fn a_profile_with_a_built_in_name_must_extend_the_built_in_one() {
    let directory = tempfile::tempdir().unwrap();
    let places = places(directory.path());
    let file = places.config.join("profiles/strict.toml");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "extends = \"default\"\n").unwrap();
    let error = find(&places, "strict", NamedBy::CommandLine).unwrap_err();
    assert_eq!(error.exit_code(), ExitCode::Usage);
    assert!(error.text().contains("extends = \"strict\""), "{}", error.text());
    fs::write(&file, "extends = \"strict\"\n").unwrap();
    assert_eq!(find(&places, "strict", NamedBy::CommandLine).unwrap().file, Some(file));
}

#[test]
fn unknown_invalid_and_unconfined_profiles_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let places = places(directory.path());
    let profiles = places.config.join("profiles");
    fs::create_dir_all(&profiles).unwrap();
    fs::write(profiles.join("typo.toml"), "extends = \"default\"\n\nnetwrok = 1\n").unwrap();
    fs::write(profiles.join("mine.toml"), "extends = \"off\"\n").unwrap();
    for (name, part) in [
        ("nope", "there is no profile `nope`"),
        ("../default", "cannot be the name"),
        ("", "cannot be the name"),
        ("off", "only the command line can remove the sandbox"),
        ("mine", "has no sandbox"),
        ("typo", "typo.toml:3"),
    ] {
        let error = find(&places, name, NamedBy::Configuration).unwrap_err();
        assert_eq!(error.exit_code(), ExitCode::Usage, "{name}");
        assert!(error.text().contains(part), "{name}: {}", error.text());
    }
}

#[test]
fn only_the_command_line_can_remove_the_sandbox_and_only_by_the_name_off() {
    let directory = tempfile::tempdir().unwrap();
    let places = places(directory.path());
    let found = find(&places, OFF, NamedBy::CommandLine).unwrap();
    assert_eq!(found.profile.confinement(), Confinement::None);

    let profiles = places.config.join("profiles");
    fs::create_dir_all(&profiles).unwrap();
    fs::write(profiles.join("mine.toml"), "extends = \"off\"\n").unwrap();
    assert!(find(&places, "mine", NamedBy::CommandLine).is_err());
    fs::write(profiles.join("off.toml"), "extends = \"default\"\n").unwrap();
    let error = find(&places, OFF, NamedBy::CommandLine).unwrap_err();
    assert!(error.text().contains("give it another name"), "{}", error.text());
    fs::remove_file(profiles.join("off.toml")).unwrap();
    let error = find(&places, OFF, NamedBy::EarlierRun).unwrap_err();
    assert!(error.text().contains("the last run had no sandbox"), "{}", error.text());
}
