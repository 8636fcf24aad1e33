use super::*;
use pretty_assertions::assert_eq;
use proptest::prelude::*;

fn host(pairs: &[(&str, &str)]) -> HostEnvironment {
    let value = |name: &str| {
        pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value))
    };
    HostEnvironment {
        home: value("HOME"),
        cursor_config_dir: value("CURSOR_CONFIG_DIR"),
        xdg_config_home: value("XDG_CONFIG_HOME"),
        cursor_data_dir: value("CURSOR_DATA_DIR"),
        cwd: value("cwd").map(PathBuf::from),
    }
}

fn roots(pairs: &[(&str, &str)]) -> CursorRoots {
    CursorRoots::of_host(&host(pairs)).unwrap()
}

#[test]
fn with_only_a_home_everything_is_below_dot_cursor() {
    let roots = roots(&[("HOME", "/home/ada")]);
    assert_eq!(roots.config(), Path::new("/home/ada/.cursor"));
    assert_eq!(roots.data(), Path::new("/home/ada/.cursor"));
    assert_eq!(roots.chats(), Path::new("/home/ada/.cursor/chats"));
    assert_eq!(roots.projects(), Path::new("/home/ada/.cursor/projects"));
    assert_eq!(roots.cli_config(), Path::new("/home/ada/.cursor/cli-config.json"));
    assert_eq!(roots.agent_cli_state(), Path::new("/home/ada/.cursor/agent-cli-state.json"));
    assert_eq!(roots.acp_sessions(), [Path::new("/home/ada/.cursor/acp-sessions")]);
}

#[test]
fn the_xdg_directory_moves_the_config_root_only() {
    let roots = roots(&[("HOME", "/home/ada"), ("XDG_CONFIG_HOME", "/cfg")]);
    assert_eq!(roots.config(), Path::new("/cfg/cursor"));
    assert_eq!(roots.data(), Path::new("/home/ada/.cursor"));
    assert_eq!(roots.user_mcp_json(), Path::new("/home/ada/.cursor/mcp.json"));
}

#[test]
fn cursors_own_variable_wins_over_xdg_and_names_the_root_itself() {
    let roots = roots(&[
        ("HOME", "/home/ada"),
        ("XDG_CONFIG_HOME", "/cfg"),
        ("CURSOR_CONFIG_DIR", "/own"),
        ("CURSOR_DATA_DIR", "/bulk"),
    ]);
    assert_eq!(roots.chats(), Path::new("/own/chats"));
    assert_eq!(roots.projects(), Path::new("/bulk/projects"));
    assert_eq!(roots.dot_cursor(), Path::new("/home/ada/.cursor"));
    assert_eq!(
        roots.acp_sessions(),
        [Path::new("/home/ada/.cursor/acp-sessions"), Path::new("/own/acp-sessions")]
    );
}

#[test]
fn a_variable_set_to_nothing_counts_as_unset() {
    let with_empty = roots(&[
        ("HOME", "/home/ada"),
        ("CURSOR_CONFIG_DIR", ""),
        ("XDG_CONFIG_HOME", ""),
        ("CURSOR_DATA_DIR", ""),
    ]);
    assert_eq!(with_empty, roots(&[("HOME", "/home/ada")]));
    assert_eq!(CursorRoots::of_host(&host(&[("HOME", "")])), Err(RootsError::NoHome));
}

#[test]
fn a_relative_value_resolves_against_the_working_directory() {
    let roots = roots(&[
        ("HOME", "/home/ada"),
        ("CURSOR_CONFIG_DIR", "../conf/./x"),
        ("CURSOR_DATA_DIR", "data/"),
        ("cwd", "/srv/job"),
    ]);
    assert_eq!(roots.config(), Path::new("/srv/conf/x"));
    assert_eq!(roots.data(), Path::new("/srv/job/data"));
}

#[test]
fn a_relative_value_without_a_working_directory_is_an_error_that_names_the_variable() {
    let error = CursorRoots::of_host(&host(&[("HOME", "/h"), ("CURSOR_DATA_DIR", "data")]));
    assert_eq!(
        error.unwrap_err().to_string(),
        "`CURSOR_DATA_DIR` is the relative path `data`, and the working directory is not known"
    );
}

#[test]
fn xdg_decides_where_the_login_file_is_looked_for_first() {
    let plain = roots(&[("HOME", "/h")]);
    assert_eq!(
        plain.auth_files(),
        [Path::new("/h/.config/cursor/auth.json"), Path::new("/h/.cursor/auth.json")]
    );
    let moved = roots(&[("HOME", "/h"), ("XDG_CONFIG_HOME", "/cfg")]);
    assert_eq!(moved.auth_files()[0], Path::new("/cfg/cursor/auth.json"));
    let same = roots(&[("HOME", "/h"), ("XDG_CONFIG_HOME", "/h/.config")]);
    assert_eq!(same.auth_files(), plain.auth_files());
}

#[test]
fn inside_a_sandbox_both_roots_are_dot_cursor() {
    let inside = CursorRoots::in_sandbox(Path::new("/home/ada"));
    assert_eq!(inside, roots(&[("HOME", "/home/ada")]));
}

proptest! {
    #[test]
    fn a_root_is_always_absolute_and_free_of_dots(value in "[a-c./]{0,20}", cwd in "/[a-c/]{0,10}") {
        let roots = roots(&[("HOME", "/h"), ("CURSOR_CONFIG_DIR", &value), ("cwd", &cwd)]);
        prop_assert!(roots.config().is_absolute());
        let text = roots.config().to_str().unwrap();
        prop_assert!(!text.contains("//"));
        prop_assert!(text.split('/').all(|part| part != "." && part != ".."));
    }
}
