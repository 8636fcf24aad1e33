use format_fixtures::{Form, fixtures, unread_fields};
use pretty_assertions::assert_eq;
use run_protocol::StopLadder;

use super::*;
use crate::host::environment::tests::environment_of;

#[test]
fn the_default_file_says_what_the_defaults_are() {
    let parsed = Config::parse(DEFAULT_FILE).unwrap();
    assert_eq!(parsed.run_limits(), RunLimits::default());
    assert_eq!(Config::default().run_limits(), RunLimits::default());
    assert_eq!(parsed.request().unwrap(), Config::default().request().unwrap());
    let (limits, stop) = (Limits::default(), Stop::default());
    assert_eq!(Config { limits, stop, ..parsed }, Config::default());
}

/// The keys of a table, as the parser lists them in its error about an unknown key.
fn keys_of(table: &str) -> Vec<String> {
    let text = if table.is_empty() { "?".to_owned() } else { format!("[{table}]\n?") };
    let error = Config::parse(&text.replace('?', "no_such_key = 1")).unwrap_err();
    let (_, list) = error.message.split_once("expected ").unwrap();
    // "`a` or `b`", "one of `a`, `b`, `c`": take the text between the backticks.
    list.split('`').skip(1).step_by(2).map(ToOwned::to_owned).collect()
}

#[test]
fn the_default_file_mentions_every_key_there_is() {
    let mut n_keys = 0;
    for table in ["", "limits", "stop"] {
        for key in keys_of(table) {
            n_keys += 1;
            let is_mentioned = DEFAULT_FILE.lines().any(|line| {
                let line = line.strip_prefix("# ").unwrap_or(line);
                line == format!("[{key}]")
                    || line == format!("[[{key}]]")
                    || line.starts_with(&format!("[{key}."))
                    || line.starts_with(&format!("{key} = "))
            });
            assert!(is_mentioned, "`{key}` in `[{table}]` is missing");
        }
    }
    assert!(n_keys >= 21, "{n_keys}");
}

#[test]
fn settings_in_the_file_are_used() {
    let config = Config::parse(
        "profile = 'mine'\nmodel = 'gpt-5'\nlabels = { team = 'core' }\nmin_free = '0'\n\
         [limits]\nidle = '90s'\nwall = '3h'\n[stop]\nkill_after = '1s'\n",
    )
    .unwrap();
    let defaults = RunLimits::default();
    assert_eq!(
        config.run_limits(),
        RunLimits {
            idle_ms: 90_000,
            wall_ms: 3 * 3_600_000,
            ladder: StopLadder { kill_after_ms: 1_000, ..defaults.ladder.clone() },
            ..defaults
        }
    );
    assert_eq!((config.profile.as_str(), config.model.as_deref()), ("mine", Some("gpt-5")));
    assert_eq!(config.labels["team"], "core");
    assert_eq!(config.min_free, ByteSize(0));
}

#[test]
fn an_unusable_setting_is_reported_with_its_line() {
    for (text, line, part) in [
        ("profile = 'x'\nmodle = 'y'\n", 2, "unknown field `modle`"),
        ("[limits]\n\nidel = '3m'\n", 3, "unknown field `idel`"),
        ("[limits]\nidle = '3 parsecs'\n", 2, "`3 parsecs` is not a duration"),
        ("[limits]\nidle = 3\n", 2, "expected a string"),
        ("profile = \n", 1, ""),
        ("[unknown]\n", 1, "unknown field `unknown`"),
    ] {
        let error = Config::parse(text).unwrap_err();
        assert_eq!(error.line, line, "{text:?}: {error}");
        assert!(error.message.contains(part), "{text:?}: {error}");
    }
}

#[test]
fn a_named_file_must_exist_and_its_paths_are_relative_to_it() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("mine.toml");
    let environment =
        environment_of(&[("HOME", Path::new("/home/ada")), ("CARETAKER_CONFIG", &file)]);
    let places = Places::of(&environment);
    assert_eq!(
        Config::load(&environment, &places).unwrap_err().exit_code(),
        ExitCode::Usage,
        "a named file is missing"
    );

    fs::write(&file, "agent = 'bin/agent'\nexpose = ['~/tools', 'shared', '/opt/x']\n").unwrap();
    let config = Config::load(&environment, &places).unwrap();
    assert_eq!(config.agent, Some(directory.path().join("bin/agent")));
    assert_eq!(
        config.expose,
        [PathBuf::from("/home/ada/tools"), directory.path().join("shared"), "/opt/x".into()]
    );
}

#[test]
fn without_a_file_every_setting_has_its_default() {
    let environment = environment_of(&[("HOME", Path::new("/no/such/home"))]);
    let places = Places::of(&environment);
    assert_eq!(Config::load(&environment, &places).unwrap(), Config::default());
}

#[test]
fn configurations_of_all_versions_are_read_in_full_and_the_latest_has_every_key() {
    let fixtures = fixtures("*/home/.config/caretaker/config.toml");
    let tell = |text: &str| Config::parse(text).ok().map(|config| format!("{config:?}"));
    for fixture in &fixtures {
        let config = Config::parse(&fixture.text()).unwrap();
        fixture.compare_with_snapshot(&format!("{config:#?}"));
        let unread = unread_fields(Form::Toml, [fixture.text()], tell);
        assert!(unread.is_empty(), "{}: {unread:#?}", fixture.name);
    }
    let text = fixtures.last().unwrap().text();
    let tables = ["", "limits", "stop", "queue", "budgets", "budgets.day", "budgets.group"];
    for table in tables.into_iter().chain(["retention", "children", "worktree"]) {
        for key in keys_of(table) {
            let is_there = [format!("\n{key} = "), format!("[{key}"), format!("[{table}.{key}]")];
            assert!(is_there.iter().any(|it| text.contains(it)), "`{key}` of `[{table}]`");
        }
    }
}
