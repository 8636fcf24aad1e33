//! If root starts a run in another user's workspace, the run becomes that user's. Only root can test this.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use pretty_assertions::assert_eq;

use crate::sandbox::strict::{ORDINARY_USER as OWNER, extend_strict, give_away};
use crate::stage::{Stage, assert_exit, stderr};

/// Makes a stage whose workspace, home and state belong to an ordinary user. Returns `None` if the test is not root.
fn stage_of_another() -> Option<Stage> {
    if !rustix::process::getuid().is_root() {
        eprintln!("we are not root, so nothing was tested");
        return None;
    }
    let stage = Stage::new();
    fs::create_dir_all(stage.root().join("state")).unwrap();
    give_away(&stage.root(), OWNER);
    Some(stage)
}

fn check_owner(directory: &Path) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let found = fs::symlink_metadata(&path).unwrap();
        assert_eq!((found.uid(), found.gid()), (OWNER, OWNER), "{}", path.display());
        if found.is_dir() {
            check_owner(&path);
        }
    }
}

#[test]
fn a_run_that_root_starts_in_a_users_workspace_belongs_to_the_user() {
    let Some(stage) = stage_of_another() else { return };
    let script = "\
shell echo made > file; id -u; id -G; cp /bin/true copy; chmod u+s copy 2>/dev/null; chmod 4755 copy 2>/dev/null; true
shell (echo '|/tmp/evil' > /proc/sys/kernel/core_pattern) 2>/dev/null && echo CORE_PATTERN; true
say done";
    let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap();
    let output = stage.play(script, &[]);
    assert_exit(&output, 0);
    assert!(stderr(&output).contains("nobody (user 65534)"), "{}", stderr(&output));
    assert!(!stderr(&output).contains("you are root, so the files"));
    check_owner(&stage.workspace());
    check_owner(&stage.root().join("state"));
    check_owner(&stage.home().join(".cursor"));
    let mode = fs::metadata(stage.workspace().join("copy")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7000, 0, "{mode:o}");
    assert_eq!(fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap(), pattern);
    let run = stage.run_ids().pop().unwrap();
    let journal = fs::read_to_string(stage.journal_path(&run)).unwrap();
    assert!(journal.contains(&format!("{OWNER}\\n{OWNER}\\n")), "{journal}");
    assert!(!journal.contains("you are root"), "{journal}");
    stage.assert_no_survivors("after the run");
}

#[test]
fn strict_accepts_a_run_that_root_starts_for_a_user() {
    let Some(stage) = stage_of_another() else { return };
    extend_strict(&stage, "strict-here", "[limits]\nrequired = false\n");
    give_away(&stage.root(), OWNER);
    let output = stage.play("shell id -u\nsay done", &["--profile", "strict-here"]);
    assert_exit(&output, 0);
}

#[test]
fn a_run_in_roots_own_workspace_warns() {
    if !rustix::process::getuid().is_root() {
        return;
    }
    let stage = Stage::new();
    let script = "shell (echo x > /proc/sys/kernel/core_pattern) 2>/dev/null && echo CORE; cp /bin/true copy; chmod u+s copy; true\nsay done";
    let output = stage.play(script, &[]);
    assert_exit(&output, 0);
    let run = stage.run_ids().pop().unwrap();
    let journal = fs::read_to_string(stage.journal_path(&run)).unwrap();
    assert!(journal.contains("you are root"), "{journal}");
    let mode = fs::metadata(stage.workspace().join("copy")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7000, 0, "{mode:o}");
}

#[test]
fn a_program_that_the_owner_cannot_reach_is_named() {
    let Some(stage) = stage_of_another() else { return };
    let closed = tempfile::tempdir().unwrap();
    fs::set_permissions(closed.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let copy = closed.path().join("caretaker");
    fs::copy(crate::stage::programs::program("caretaker"), &copy).unwrap();
    let asked = stage.caretaker(&["run", "--agent", "simulated", "go"]);
    let output = std::process::Command::new(&copy)
        .args(asked.get_args())
        .env_clear()
        .envs(asked.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .current_dir(stage.workspace())
        .output()
        .unwrap();
    assert_exit(&output, 125);
    let said = stderr(&output);
    assert!(said.contains("as nobody (user 65534)") && said.contains("/usr/local/bin"), "{said}");
    assert_eq!(stage.run_ids(), Vec::<String>::new());
}
