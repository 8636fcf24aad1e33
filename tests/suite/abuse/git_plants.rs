//! Traps that an agent leaves in a `.git` for users of git on the host: links, FIFOs, and a `.git` that names another
//! repository. A test with git alone shows that each would do harm without Caretaker.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::hostile::{Caller, Hostile};
use super::table::Verdict;
use super::whole_runs::{WholeRun, held, hostile, whole};
use crate::stage::repository::make_repository;
use crate::stage::{assert_exit, stderr};

/// Places below `.git` where the agent plants a link. Git writes to them when it makes a worktree.
const BRANCH: &str = "refs/heads/caretaker";
const REFLOG: &str = "logs/refs/heads/caretaker";

pub(super) const GIT_PLANTS: &[WholeRun] = &[
    whole(
        "C21a",
        "plants a link where git on the host writes the next worktree's branch",
        |caller| planted_for_worktree(caller, BRANCH),
    ),
    whole(
        "C21b",
        "plants a link where git on the host writes the next worktree's reflog",
        |caller| planted_for_worktree(caller, REFLOG),
    ),
    whole(
        "C22",
        "makes git's log a link, so that the user's git writes to a file outside",
        |caller| led_to_a_file(caller, "true"),
    ),
    whole("C22b", "the same, in a directory that cannot be listed", |caller| {
        led_to_a_file(caller, "chmod 300 .git/logs")
    }),
    whole("C23", "leaves a FIFO where git on the host reads", fifo_on_the_host),
    whole("C23b", "leaves a FIFO in a directory that cannot be listed", fifo_in_a_closed_directory),
    whole("C24", "names another of the user's repositories as its own", foreign_repository),
    whole("C25", "deletes one of the user's branches from a worktree", |caller| {
        deleted_branch(caller, "rm \"$(git rev-parse --git-common-dir)/refs/heads/precious\"")
    }),
    whole("C25b", "the same, with git", |caller| {
        deleted_branch(caller, "git update-ref -d refs/heads/precious")
    }),
];

/// Runs git on the host, without the user's configuration. Kills it after three seconds, because a FIFO can block it.
fn git(directory: &Path, words: &[&str]) -> Output {
    let identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "safe.directory=*"];
    let mut command = Command::new("timeout");
    command.args(["--signal=KILL", "3", "git"]).args(identity).args(words);
    command.current_dir(directory).env("GIT_CONFIG_GLOBAL", "/dev/null").output().unwrap()
}

pub(super) fn git_does(directory: &Path, words: &[&str]) -> String {
    let output = git(directory, words);
    assert!(output.status.success(), "git {words:?}: {}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// A stage whose repository has a commit, and a directory and a file that must not be written.
pub(super) fn with_commit(caller: Caller) -> (Hostile, PathBuf) {
    let hostile = hostile(caller);
    let victim = add_commit_and_victim(&hostile);
    (hostile, victim)
}

pub(super) fn add_commit_and_victim(hostile: &Hostile) -> PathBuf {
    let main = hostile.workspace();
    fs::remove_file(main.join(".git/config.worktree")).unwrap();
    git_does(&main, &["commit", "--quiet", "--allow-empty", "-m", "one"]);
    let victim = hostile.stage.home().join("victim");
    fs::create_dir(&victim).unwrap();
    fs::write(victim.join("start-up"), "harmless\n").unwrap();
    hostile.give_away();
    victim
}

/// Starts a run whose first tool has ended and whose second is running.
fn while_it_works(hostile: &Hostile, script: &str) -> String {
    let run = hostile.detach(&format!("{script}\nshell sleep 600"), &[]);
    let mut tail = hostile.command(&["tail", &run, "--follow", "--json"]);
    let mut tail = tail.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(tail.stdout.take().unwrap()).lines();
    let n_begun = lines.filter(|line| line.as_ref().unwrap().contains("agent.tool_started"));
    assert_eq!(n_begun.take(2).count(), 2, "the run ended before its second tool ran");
    tail.kill().ok();
    tail.wait().unwrap();
    run
}

pub(super) fn assert_untouched(victim: &Path) {
    let names: Vec<_> =
        fs::read_dir(victim).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["start-up"], "something was written to the victim's directory");
    assert_eq!(fs::read_to_string(victim.join("start-up")).unwrap(), "harmless\n");
}

/// The user makes a worktree of the repository while the agent is still working.
fn planted_for_worktree(caller: Caller, place: &str) -> Verdict {
    let (hostile, victim) = with_commit(caller);
    let plant = format!(
        "shell mkdir -p .git/$(dirname {place}) && ln -s {} .git/{place}",
        victim.display()
    );
    let run = while_it_works(&hostile, &plant);
    let output = hostile.play("shell touch it-ran", &["--worktree"]);
    assert!(!output.status.success());
    let link = hostile.workspace().join(".git").join(place);
    let named = format!("`{}` is a link", link.display());
    assert!(stderr(&output).contains(&named), "{}", stderr(&output));
    assert_untouched(&victim);
    hostile.command(&["kill", "--now", &run]).output().unwrap();
    assert!(link.symlink_metadata().is_err(), "the link is still there after the run");
    held("a check before Caretaker runs git")
}

/// The agent replaces git's log with a link to a file that a shell executes, and adds a branch whose name is a command.
/// The user's next checkout would write that name into the file. `hide` runs more commands to hide the link.
fn led_to_a_file(caller: Caller, hide: &str) -> Verdict {
    let (hostile, victim) = with_commit(caller);
    let script = format!(
        "shell rm -f .git/logs/HEAD && ln -s {} .git/logs/HEAD && git branch '$(evil)' && {hide}\nsay done",
        victim.join("start-up").display()
    );
    let output = hostile.play(&script, &[]);
    assert_exit(&output, 0);
    git_does(&hostile.workspace(), &["checkout", "--quiet", "$(evil)"]);
    assert_untouched(&victim);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("link in .git, removed: .git/logs/HEAD"), "{said}");
    held("the check at the end of the run")
}

fn fifo_on_the_host(caller: Caller) -> Verdict {
    let (hostile, _victim) = with_commit(caller);
    let fifos = ["packed-refs", "objects/info/alternates", "shallow"];
    let plant = format!(
        "shell cd .git && mkdir -p objects/info && rm -f {0} && mkfifo {0}",
        fifos.join(" ")
    );
    let run = while_it_works(&hostile, &plant);
    let workspace = hostile.workspace();
    let args = ["sessions", "at", "HEAD", "-C", workspace.to_str().unwrap()];
    let output = hostile.command(&args).output().unwrap();
    assert!(stderr(&output).contains("is a FIFO"), "{}", stderr(&output));
    let output = hostile.play("shell touch it-ran", &["--worktree"]);
    assert!(stderr(&output).contains("is a FIFO"), "{}", stderr(&output));
    hostile.command(&["kill", "--now", &run]).output().unwrap();
    git_does(&workspace, &["log", "--oneline"]);
    held("a check before git runs, and another at the end of the run")
}

/// Git opens known names even in a directory that it cannot list. Modes do not stop root, so root finds the FIFO
/// itself.
fn fifo_in_a_closed_directory(caller: Caller) -> Verdict {
    let (hostile, _victim) = with_commit(caller);
    let plant =
        "shell cd .git/objects/info && rm -f alternates && mkfifo alternates && chmod 300 .";
    let run = while_it_works(&hostile, plant);
    let workspace = hostile.workspace();
    let closed = workspace.join(".git/objects/info");
    let named = [
        format!("`{}` is a directory that cannot be read", closed.display()),
        format!("`{}` is a FIFO", closed.join("alternates").display()),
    ];
    let args = ["sessions", "at", "HEAD", "-C", workspace.to_str().unwrap()];
    let at = hostile.command(&args).output().unwrap();
    let worktree = hostile.play("shell touch it-ran", &["--worktree"]);
    for output in [at, worktree] {
        let said = stderr(&output);
        assert!(named.iter().any(|named| said.contains(named)), "{said}");
    }
    hostile.command(&["kill", "--now", &run]).output().unwrap();
    git_does(&workspace, &["log", "--oneline"]);
    held("a check before git runs, and another at the end of the run")
}

/// In a workspace without a repository, the agent makes a `.git` that names one of the user's repositories. A worktree
/// of that repository would show its content to the agent.
fn foreign_repository(caller: Caller) -> Verdict {
    let hostile = hostile(caller);
    let (plain, secret) = (hostile.stage.home().join("plain"), hostile.stage.home().join("secret"));
    for directory in [&plain, &secret] {
        fs::create_dir(directory).unwrap();
    }
    make_repository(&secret);
    hostile.give_away();
    let plain_name = plain.to_str().unwrap();
    let script = format!("shell echo 'gitdir: {}/.git' > .git\nsay done", secret.display());
    let output = hostile.play(&script, &["--workspace", plain_name]);
    assert_exit(&output, 0);
    let output = hostile.play("shell touch it-ran", &["--worktree", "--workspace", plain_name]);
    assert!(!output.status.success());
    assert!(
        stderr(&output).contains("does not say that this is its checkout"),
        "{}",
        stderr(&output)
    );
    assert_eq!(git_does(&secret, &["worktree", "list"]).lines().count(), 1);
    assert_eq!(git_does(&secret, &["branch", "--format=%(refname)"]), "refs/heads/main\n");
    held("the check that the repository names the checkout")
}

fn deleted_branch(caller: Caller, delete: &str) -> Verdict {
    let (hostile, _victim) = with_commit(caller);
    let main = hostile.workspace();
    git_does(&main, &["branch", "precious"]);
    hostile.give_away();
    let before = git_does(&main, &["rev-parse", "precious"]);
    let output = hostile.play(&format!("shell {delete}\nsay done"), &["--worktree"]);
    assert_exit(&output, 0);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains(&format!("deleted branch: precious (was {}", &before[..12])), "{said}");
    let run = hostile.stage.run_ids().pop().unwrap();
    let undone = hostile.command(&["undo", &run]).output().unwrap();
    assert_exit(&undone, 0);
    assert_eq!(git_does(&main, &["rev-parse", "precious"]), before);
    held("the audit after the run, and undo")
}

#[test]
fn each_trap_does_harm_without_caretaker() {
    let repository = || {
        let directory = tempfile::tempdir().unwrap();
        let (main, victim) = (directory.path().join("main"), directory.path().join("victim"));
        fs::create_dir(&main).unwrap();
        fs::create_dir(&victim).unwrap();
        make_repository(&main);
        (directory, main, victim)
    };
    // C21a and C21b: git makes the branch and its log through the links.
    for place in [BRANCH, REFLOG] {
        let (directory, main, victim) = repository();
        let link = main.join(".git").join(place);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(&victim, link).unwrap();
        let worktree = directory.path().join("worktree");
        git_does(
            &main,
            &["worktree", "add", "-q", "-b", "caretaker/x", worktree.to_str().unwrap()],
        );
        assert!(victim.join("x").exists(), "{place}: git wrote nothing there");
    }
    // C22: git writes the name of the branch into the file.
    let (_directory, main, victim) = repository();
    let (file, log) = (victim.join("start-up"), main.join(".git/logs/HEAD"));
    fs::write(&file, "harmless\n").unwrap();
    fs::remove_file(&log).unwrap();
    std::os::unix::fs::symlink(&file, &log).unwrap();
    git_does(&main, &["checkout", "-q", "-b", "$(evil)"]);
    assert!(fs::read_to_string(&file).unwrap().contains("$(evil)"));
    // C23: git waits forever.
    let (_directory, main, _victim) = repository();
    let fifo = main.join(".git/packed-refs");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let killed = git(&main, &["log"]);
    assert!(!killed.status.success() && killed.stdout.is_empty(), "git did not wait");
    // C24: git makes the worktree, and its content can be read.
    let (directory, secret, plain) = repository();
    fs::write(plain.join(".git"), format!("gitdir: {}\n", secret.join(".git").display())).unwrap();
    let worktree = directory.path().join("worktree");
    git_does(&plain, &["worktree", "add", "-q", worktree.to_str().unwrap()]);
    assert_eq!(fs::read_to_string(worktree.join("plain")).unwrap(), "plain\n");
}
