use super::*;

#[test]
fn the_first_run_writes_the_defaults_and_a_model_is_remembered() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("config/cli-config.json");
    let mut settings = Settings::load(&path).unwrap();
    assert!(settings.model().is_none());
    settings.remember_model(&models::find("gpt-5-mini").unwrap(), &path).unwrap();
    let again = Settings::load(&path).unwrap();
    assert_eq!(again.model().unwrap().display_name, "GPT-5 Mini");
    assert_eq!(again.value["permissions"]["allow"], json!(["Shell(ls)"]));
    assert_eq!(again.value["hasChangedDefaultModel"], json!(true));
    assert!(!path.with_extension("json.tmp").exists());
}

#[test]
fn a_lost_race_is_worded_as_node_words_it() {
    let ending = lost_race(Path::new("/c/cli-config.json"));
    assert_eq!(ending.exit_code, 1);
    assert_eq!(
        ending.stderr,
        "Error: ENOENT: no such file or directory, rename '/c/cli-config.json.tmp' -> '/c/cli-config.json'\n"
    );
}

#[test]
fn a_file_that_cannot_be_renamed_names_the_reason() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("cli-config.json");
    fs::create_dir_all(path.join("in the way")).unwrap();
    let ending = Settings { value: defaults() }.save(&path).unwrap_err();
    assert!(ending.stderr.starts_with("Error: EISDIR: is a directory, rename '"), "{ending:?}");
}

#[test]
fn damaged_settings_are_ignored_and_the_defaults_apply() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("cli-config.json");
    fs::write(&path, "{ not json").unwrap();
    assert!(Settings::load(&path).unwrap().model().is_none());
}
