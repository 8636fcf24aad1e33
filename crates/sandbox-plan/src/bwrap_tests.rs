use std::fs;
use std::os::unix::fs::PermissionsExt;

use pretty_assertions::assert_eq;

use super::*;

#[test]
fn versions_are_read_and_compared() {
    let version = |text: &str| BwrapVersion::parse(text).map(|version| version.to_string());
    assert_eq!(version("bubblewrap 0.8.0\n").as_deref(), Some("0.8.0"));
    assert_eq!(version("bubblewrap 0.12").as_deref(), Some("0.12.0"));
    assert_eq!(version("bubblewrap 0.13.1-rc2").as_deref(), Some("0.13.1"));
    for other in ["", "bwrap 0.8.0", "bubblewrap", "bubblewrap x.y"] {
        assert_eq!(version(other), None, "{other}");
    }
    let holes = |text: &str| BwrapVersion::parse(text).unwrap().known_holes();
    assert_eq!(holes("bubblewrap 0.8.0"), [KnownHole::SymlinkDestination]);
    assert_eq!(holes("bubblewrap 0.11.1"), [KnownHole::SymlinkDestination]);
    assert_eq!(holes("bubblewrap 0.12.0"), []);
}

#[test]
fn options_that_are_missing_are_named() {
    let help: String =
        NEEDED_OPTIONS.iter().map(|option| format!("    {option} X   text\n")).collect();
    assert_eq!(missing_bwrap_options(&help), Vec::<&str>::new());
    assert_eq!(missing_bwrap_options(&help.replace("--size", "--sizes")), ["--size"]);
    assert_eq!(missing_bwrap_options("").len(), NEEDED_OPTIONS.len());
}

#[test]
fn complaints_are_told_apart() {
    let cases = [
        (
            "bwrap: Creating new namespace failed: nesting depth or /proc/sys/user/max_*_namespaces exceeded (ENOSPC)",
            BwrapProblem::TooManyNamespaces,
        ),
        (
            "bwrap: No permissions to create new namespace, likely because the kernel does not allow non-privileged user namespaces.",
            BwrapProblem::NamespacesForbidden,
        ),
        ("bwrap: setting up uid map: Permission denied", BwrapProblem::AppArmor),
        ("bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted", BwrapProblem::AppArmor),
        (
            "bwrap: Can't mount proc on /newroot/proc: Operation not permitted",
            BwrapProblem::MaskedProc,
        ),
        ("bwrap: Can't find source path /nowhere: No such file or directory", BwrapProblem::Mount),
        ("bwrap: Can't create file at /w/.cursor/x: Read-only file system", BwrapProblem::Mount),
        ("bwrap: Unknown option --disable-userns", BwrapProblem::UnknownOption),
        ("bwrap: Invalid seccomp data, must be multiple of 8", BwrapProblem::Seccomp),
        ("bwrap: execvp /none: No such file or directory", BwrapProblem::Exec),
        ("bwrap: something new", BwrapProblem::Other),
    ];
    for (stderr, expected) in cases {
        assert_eq!(BwrapProblem::classify(stderr), expected, "{stderr}");
    }
    // Problems that an administrator can fix have a hint.
    for problem in
        [BwrapProblem::TooManyNamespaces, BwrapProblem::NamespacesForbidden, BwrapProblem::AppArmor]
    {
        assert!(problem.hint().is_some());
    }
}

#[test]
fn a_program_that_others_could_have_changed_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(directory.path()).unwrap();
    let program = root.join("bwrap");
    fs::write(&program, "").unwrap();
    let check = |mode: u32| {
        fs::set_permissions(&program, fs::Permissions::from_mode(mode)).unwrap();
        check_bwrap_file(&program, None)
    };
    assert!(matches!(check(0o4755), Err(BwrapFileError::SetUserId(_))));
    assert!(matches!(check(0o644), Err(BwrapFileError::NotExecutable(_))));
    if rustix::process::getuid().is_root() {
        assert!(matches!(check(0o775), Err(BwrapFileError::WritableByOthers(_))));
        assert_eq!(check(0o755).unwrap(), program);
    } else {
        assert!(matches!(check(0o755), Err(BwrapFileError::NotRoots { .. })));
    }
    assert!(matches!(check_bwrap_file(&program, Some(&root)), Err(BwrapFileError::InWorkspace(_))));
    assert!(matches!(check_bwrap_file(&root, None), Err(BwrapFileError::NotAFile { .. })));
    assert!(matches!(check_bwrap_file(&root.join("x"), None), Err(BwrapFileError::Missing(_))));
    assert!(matches!(
        check_bwrap_file(Path::new("bwrap"), None),
        Err(BwrapFileError::NotAbsolute(_))
    ));
}
