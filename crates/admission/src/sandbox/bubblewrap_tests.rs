use std::os::unix::fs::PermissionsExt;

use pretty_assertions::assert_eq;

use super::*;
use crate::host::environment::tests::environment_of;

/// A script that answers like bubblewrap. Root does not own it, so `find` would refuse it, but a trial works.
fn program(directory: &Path, script: &str) -> Bubblewrap {
    let path = directory.join("bwrap");
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    Bubblewrap { path }
}

const HELP: &str = "--args --add-seccomp-fd --block-fd --chmod --clearenv --die-with-parent \
    --disable-userns --json-status-fd --new-session --perms --size --unshare-cgroup-try";

#[test]
fn a_refused_namespace_is_reported_in_bubblewraps_own_words() {
    let directory = tempfile::tempdir().unwrap();
    let complaint = "bwrap: No permissions to create new namespace, likely because the kernel does not allow it";
    let script =
        format!("case $1 in --help) echo '{HELP}';; *) echo '{complaint}' >&2; exit 1;; esac");
    let bubblewrap = program(directory.path(), &script);
    match bubblewrap.try_out() {
        Err(BubblewrapError::Trial { problem, complaint: said, .. }) => {
            assert_eq!((problem, said.as_str()), (BwrapProblem::NamespacesForbidden, complaint));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_old_bubblewrap_is_recognised_by_missing_options() {
    let directory = tempfile::tempdir().unwrap();
    let bubblewrap = program(directory.path(), "echo '--args --size'");
    let error = CommandError::from(bubblewrap.try_out().unwrap_err());
    assert_eq!(error.exit_code(), ExitCode::SupervisorFailed);
    assert!(error.text().contains("--disable-userns"), "{}", error.text());
}

#[test]
fn a_trial_that_passed_is_not_repeated_until_something_changes() {
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path();
    let log = state.join("log");
    let script = format!("echo \"$1\" >> '{}'; echo '{HELP}'", log.display());
    let bubblewrap = program(directory.path(), &script);
    let n_starts = || fs::read_to_string(&log).unwrap_or_default().lines().count();

    let trial = bubblewrap.try_out_once(state).unwrap();
    assert_eq!(n_starts(), 2);
    trial.remember(state);
    assert_eq!(bubblewrap.try_out_once(state).unwrap(), Trial::PassedBefore);
    assert_eq!(n_starts(), 2);

    program(directory.path(), &format!("{script}; true"));
    assert!(matches!(bubblewrap.try_out_once(state).unwrap(), Trial::Passed { .. }));
    assert_eq!(n_starts(), 4);
}

#[test]
fn another_users_program_on_the_path_is_not_trusted() {
    let directory = tempfile::tempdir().unwrap();
    let bubblewrap = program(directory.path(), "");
    fs::set_permissions(&bubblewrap.path, fs::Permissions::from_mode(0o777)).unwrap();
    let environment = environment_of(&[("PATH", directory.path())]);
    let error = Bubblewrap::find(&environment, None).unwrap_err();
    assert!(matches!(error, BubblewrapError::File(_)), "{error}");
}

#[test]
fn the_hint_names_the_setting_that_forbids_it_here() {
    let settings = |clone: &str, max: &str, apparmor: &str| KernelSettings {
        unprivileged_userns_clone: Some(clone.to_owned()),
        max_user_namespaces: Some(max.to_owned()),
        apparmor_restricts: Some(apparmor.to_owned()),
    };
    let forbidden = BwrapProblem::NamespacesForbidden;
    for (problem, settings, part) in [
        (&forbidden, settings("0", "1000", "0"), "kernel.unprivileged_userns_clone=1"),
        (&forbidden, settings("1", "0", "0"), "user.max_user_namespaces=15000"),
        (&forbidden, settings("1", "1000", "1"), "/etc/apparmor.d/bwrap"),
        (&BwrapProblem::AppArmor, settings("1", "1000", "1"), "apparmor_parser"),
        (&BwrapProblem::TooManyNamespaces, KernelSettings::default(), "user.max_user_namespaces"),
        (&BwrapProblem::Other, KernelSettings::default(), "caretaker doctor"),
    ] {
        let hint = hint_for(problem, Path::new("/usr/bin/bwrap"), &settings);
        assert!(hint.contains(part), "{problem:?}: {hint}");
    }
}

#[test]
fn the_remedy_for_apparmor_names_this_bubblewrap_and_what_else_it_frees() {
    let hint =
        hint_for(&BwrapProblem::AppArmor, Path::new("/opt/bwrap"), &KernelSettings::default());
    for part in [
        "profile bwrap /opt/bwrap flags=(unconfined) {\n  userns,\n}",
        "frees more than Caretaker",
        "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
    ] {
        assert!(hint.contains(part), "{part}: {hint}");
    }
}

#[test]
fn a_bubblewrap_is_judged_by_what_it_does_and_not_by_its_version() {
    let old = BwrapVersion { major: 0, minor: 9, patch: 0 };
    let directory = tempfile::tempdir().unwrap();
    // It creates the directory after `--dir` on the host, as an old bubblewrap does.
    let script = "while [ \"$1\" != --dir ]; do shift; done
        path=$(readlink \"${2%/*}\"); mkdir \"${path#/oldroot}/${2##*/}\"";
    let vulnerable = program(directory.path(), script);
    assert_eq!(vulnerable.known_holes(old), [KnownHole::SymlinkDestination]);
    let fixed = program(directory.path(), "echo \"bwrap: Can't mkdir parents for $2\" >&2; exit 1");
    assert_eq!(fixed.known_holes(old), []);
    let new = BwrapVersion { major: 0, minor: 12, patch: 0 };
    assert_eq!(vulnerable.known_holes(new), [], "this version needs no trial");
    let silent = Bubblewrap { path: directory.path().join("no-such-program") };
    assert_eq!(
        silent.known_holes(old),
        [KnownHole::SymlinkDestination],
        "only the version is known"
    );
}
