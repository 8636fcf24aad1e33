use nix::unistd::geteuid;

use super::*;

/// An environment with these variables, in `/`.
pub fn environment_of(variables: &[(&str, &Path)]) -> Environment {
    let variables =
        variables.iter().map(|(name, value)| (OsString::from(name), value.as_os_str().into()));
    Environment::new(variables, PathBuf::from("/"), geteuid()).unwrap()
}

#[test]
fn empty_and_relative_values_count_as_unset() {
    let environment = environment_of(&[
        ("HOME", Path::new("/home/ada")),
        ("XDG_STATE_HOME", Path::new("state")),
        ("XDG_CONFIG_HOME", Path::new("")),
    ]);
    assert_eq!(environment.absolute_path("XDG_STATE_HOME"), None);
    assert_eq!(environment.variable("XDG_CONFIG_HOME"), None);
    assert_eq!(environment.home, Path::new("/home/ada"));
}

#[test]
fn without_the_variable_the_home_comes_from_the_user_database() {
    let user = User::from_uid(geteuid()).unwrap().unwrap();
    assert_eq!(environment_of(&[]).home, user.dir);
}

#[test]
fn a_relative_home_is_refused() {
    let variables = [(OsString::from("HOME"), OsString::from("here"))];
    let error = Environment::new(variables, PathBuf::from("/"), geteuid()).unwrap_err();
    assert_eq!(error.exit_code(), ExitCode::Usage);
}
