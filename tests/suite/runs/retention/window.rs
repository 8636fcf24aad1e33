//! A command needs a run after `gc` has decided and before `gc` deletes the run: either `gc` keeps the run, or the
//! command is refused.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};

use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::{play, runs};
use crate::stage::daemon_stage::DaemonStage;
use crate::stage::repository::git;
use crate::stage::{Stage, assert_exit, stderr};

/// A lock that the test holds to stop a command that needs it.
struct Lock {
    path: PathBuf,
    _file: File,
}

impl Lock {
    /// `gc` takes this lock exclusively to decide and to delete; commands that need a run share it.
    fn shared_with_commands(stage: &Stage) -> Self {
        Self::take(stage.root().join("state/removal.lock"), libc::F_RDLCK)
    }

    /// `gc` takes this lock after its last check, to count a run for its group.
    fn of_groups(stage: &Stage) -> Self {
        fs::create_dir_all(stage.root().join("state/groups")).unwrap();
        Self::take(stage.root().join("state/groups/.lock"), libc::F_WRLCK)
    }

    fn take(path: PathBuf, kind: libc::c_int) -> Self {
        let file = File::options().read(true).write(true).create(true).truncate(false).open(&path);
        let file = file.unwrap();
        let whole = libc::flock {
            l_type: kind as libc::c_short,
            l_whence: libc::SEEK_SET as libc::c_short,
            l_start: 0,
            l_len: 0,
            l_pid: 0,
        };
        fcntl(&file, FcntlArg::F_OFD_SETLK(&whole)).unwrap();
        Self { path, _file: file }
    }

    /// Returns once the command is waiting for this lock, or has ended without it.
    fn wait_until_wanted_by(&self, command: &mut Child) {
        wait_until_wanted(&self.path, command);
    }
}

fn wait_until_wanted(lock: &Path, command: &mut Child) {
    while command.try_wait().unwrap().is_none() && !is_waited_for(lock) {
        std::thread::yield_now();
    }
}

/// The kernel marks waiting processes with an arrow.
fn is_waited_for(lock: &Path) -> bool {
    let Ok(metadata) = fs::metadata(lock) else { return false };
    let inode = format!(":{} ", metadata.ino());
    let locks = fs::read_to_string("/proc/locks").unwrap();
    locks.lines().any(|line| line.contains("->") && line.contains(&inode))
}

fn spawn(stage: &Stage, args: &[&str]) -> Child {
    stage.caretaker(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn spawn_gc(stage: &Stage) -> Child {
    spawn(stage, &["gc", "--older-than", "0s", "--yes", "--json"])
}

fn report(gc: Child) -> Value {
    let output: Output = gc.wait_with_output().unwrap();
    assert_exit(&output, 0);
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_run_that_is_pinned_after_gc_decided_stays_and_so_does_the_run_that_continued_it() {
    let stage = Stage::new();
    let first = play(&stage, "say one", &[]);
    let resumed = stage.resume(&stage.session_of(&first), "say two", &[]);
    assert_exit(&resumed, 0);
    let lock = Lock::shared_with_commands(&stage);
    let mut gc = spawn_gc(&stage);
    lock.wait_until_wanted_by(&mut gc);
    let pinned = stage.output(&["pin", &first]);
    assert_exit(&pinned, 0);
    drop(lock);
    let report = report(gc);
    let all = stage.run_ids();
    assert_eq!((runs(&report, "runs"), runs(&report, "kept")), (vec![], all.clone()));
    assert_eq!((&report["kept"][0]["need"], all.len()), (&json!("pinned"), 2));
    assert_eq!(report["kept"][1]["need"], "successor");
}

#[test]
fn a_pin_that_comes_too_late_says_so() {
    let stage = Stage::new();
    let run = play(&stage, "say one", &["--group", "night"]);
    let lock = Lock::of_groups(&stage);
    let mut gc = spawn_gc(&stage);
    lock.wait_until_wanted_by(&mut gc);
    let mut pin = spawn(&stage, &["pin", &run]);
    wait_until_wanted(&stage.root().join("state/removal.lock"), &mut pin);
    drop(lock);
    assert_eq!(runs(&report(gc), "runs"), [run.as_str()]);
    let pin = pin.wait_with_output().unwrap();
    assert_exit(&pin, 3);
    assert!(!stage.root().join("state/pins").join(&run).exists());
}

#[test]
fn a_run_stays_if_another_run_was_queued_to_follow_it_after_gc_decided() {
    let stage = DaemonStage::new(2);
    let first = stage.queue("one", "say one", &[]);
    assert_eq!(stage.wait_for_end(&first), Some(0));
    let lock = Lock::shared_with_commands(&stage);
    let mut gc = spawn_gc(&stage);
    lock.wait_until_wanted_by(&mut gc);
    assert!(stage.output(&["queue", "pause"]).status.success());
    let follower = stage.queue("two", "say two", &["--after-ok", &first]);
    drop(lock);
    let report = report(gc);
    assert_eq!((runs(&report, "runs"), runs(&report, "kept")), (vec![], vec![first]));
    assert_eq!(report["kept"][0]["need"], "follower");
    assert!(stage.output(&["queue", "resume"]).status.success());
    assert_eq!(stage.wait_for_end(&follower), Some(0), "{}", stage.why(&follower));
}

#[test]
fn a_run_that_should_follow_a_removed_run_is_refused_and_leaves_nothing_behind() {
    let stage = DaemonStage::new(2);
    let first = stage.queue("one", "say one", &["--group", "night"]);
    assert_eq!(stage.wait_for_end(&first), Some(0));
    let lock = Lock::of_groups(&stage);
    let mut gc = spawn_gc(&stage);
    lock.wait_until_wanted_by(&mut gc);
    let mut follower = stage.start_play("say two", &["--detach", "--after-ok", &first]);
    wait_until_wanted(&stage.root().join("state/removal.lock"), &mut follower);
    drop(lock);
    assert_eq!(runs(&report(gc), "runs"), [first.as_str()]);
    let follower = follower.wait_with_output().unwrap();
    assert_exit(&follower, 3);
    assert!(stderr(&follower).contains(&first), "{}", stderr(&follower));
    assert_eq!(stage.run_ids(), Vec::<String>::new());
}

#[test]
fn a_worktree_whose_session_continues_after_gc_decided_stays() {
    let stage = Stage::new();
    let checkout = stage.workspace();
    git(&checkout, &["init", "-q", "-b", "main"]);
    git(&checkout, &["commit", "-q", "--allow-empty", "-m", "one"]);
    let first = play(&stage, "say nothing changed", &["--worktree"]);
    let lock = Lock::shared_with_commands(&stage);
    let mut gc = spawn_gc(&stage);
    lock.wait_until_wanted_by(&mut gc);
    let resumed = stage.resume(&stage.session_of(&first), "say on", &[]);
    assert_exit(&resumed, 0);
    drop(lock);
    let report = report(gc);
    assert_eq!((runs(&report, "runs"), runs(&report, "kept")), (vec![], vec![first]));
    assert_eq!(report["kept"][0]["need"], "worktree");
    assert_eq!(git(&checkout, &["worktree", "list"]).lines().count(), 2);
}

#[test]
fn a_worktree_of_a_queued_run_is_not_discarded() {
    let stage = DaemonStage::new(1);
    let checkout = stage.workspace();
    git(&checkout, &["init", "-q", "-b", "main"]);
    git(&checkout, &["commit", "-q", "--allow-empty", "-m", "one"]);
    let first = stage.detach("say nothing changed", &["--worktree"]);
    assert_eq!(stage.wait_for_end(&first), Some(0), "{}", stage.why(&first));
    assert!(stage.output(&["queue", "pause"]).status.success());
    let lock = Lock::shared_with_commands(&stage);
    let mut discard = spawn(&stage, &["discard", &first]);
    lock.wait_until_wanted_by(&mut discard);
    let queued = stage.resume(&stage.session_of(&first), "say on", &["--detach"]);
    assert_exit(&queued, 0);
    drop(lock);
    let discarded = discard.wait_with_output().unwrap();
    assert_exit(&discarded, 4);
    assert!(stage.output(&["queue", "resume"]).status.success());
    let queued = String::from_utf8(queued.stdout).unwrap().trim().to_owned();
    assert_eq!(stage.wait_for_end(&queued), Some(0), "{}", stage.why(&queued));
}

#[test]
fn a_new_session_id_that_a_run_uses_after_gc_decided_is_kept() {
    let stage = DaemonStage::new(1);
    assert!(stage.output(&["queue", "pause"]).status.success());
    let minted = stage.output(&["sessions", "new"]);
    let session = String::from_utf8(minted.stdout).unwrap().trim().to_owned();
    let lock = Lock::shared_with_commands(&stage);
    let mut gc = spawn_gc(&stage);
    lock.wait_until_wanted_by(&mut gc);
    let run = stage.detach("say hello", &["--session", &session]);
    drop(lock);
    assert_eq!(report(gc)["minted"], json!([]));
    assert!(stage.root().join("state/sessions").join(&session).join("minted.json").exists());
    assert!(stage.output(&["queue", "resume"]).status.success());
    assert_eq!(stage.wait_for_end(&run), Some(0), "{}", stage.why(&run));
}

#[test]
fn a_foreign_entry_among_the_runs_does_not_stop_gc() {
    let stage = Stage::new();
    play(&stage, "say hello", &[]);
    let stray = stage.root().join("state/runs/01a1ec15-f30f-7126-b9e9-8b21165eea6c");
    std::os::unix::fs::symlink("/nowhere", &stray).unwrap();
    let gc = stage.output(&["gc", "--keep", "0", "--yes", "--json"]);
    assert_exit(&gc, 0);
    let report: Value = serde_json::from_slice(&gc.stdout).unwrap();
    assert_eq!(runs(&report, "runs").len(), 1, "{report}");
    assert!(stray.is_symlink());
}
