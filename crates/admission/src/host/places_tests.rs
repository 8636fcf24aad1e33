use pretty_assertions::assert_eq;

use super::*;
use crate::host::environment::tests::environment_of;

#[test]
fn everything_is_below_the_xdg_directories_or_their_defaults() {
    let places = Places::of(&environment_of(&[("HOME", Path::new("/home/ada"))]));
    assert_eq!(
        (places.state.to_str(), places.config.to_str()),
        (Some("/home/ada/.local/state/caretaker"), Some("/home/ada/.config/caretaker"))
    );
    assert_eq!(places.sockets, Path::new(&format!("/tmp/caretaker-{}", nix::unistd::geteuid())));

    let runtime = tempfile::tempdir().unwrap();
    let places = Places::of(&environment_of(&[
        ("HOME", Path::new("/home/ada")),
        ("XDG_STATE_HOME", Path::new("/s")),
        ("XDG_CONFIG_HOME", Path::new("/c")),
        ("XDG_RUNTIME_DIR", runtime.path()),
    ]));
    assert_eq!(
        (places.state.to_str(), places.config.to_str()),
        (Some("/s/caretaker"), Some("/c/caretaker"))
    );
    assert_eq!(places.sockets, runtime.path().join("caretaker"));
}

#[test]
fn caretaker_home_moves_the_state_and_may_be_relative() {
    let places = Places::of(&environment_of(&[
        ("HOME", Path::new("/home/ada")),
        ("CARETAKER_HOME", Path::new("scratch")),
    ]));
    assert_eq!(places.state, Path::new("/scratch"));
}

#[test]
fn a_missing_runtime_directory_is_not_used() {
    let places = Places::of(&environment_of(&[("XDG_RUNTIME_DIR", Path::new("/no/such"))]));
    assert!(places.sockets.starts_with("/tmp"));
}
