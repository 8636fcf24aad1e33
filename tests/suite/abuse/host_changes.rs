//! The user works in the repository on the host while an agent runs: git replaces its configuration, and the shim must
//! protect the new file before the agent can get a lasting hold on it.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::hostile::{Caller, Hostile, as_caller, is_root};
use super::table::Verdict;
use super::whole_runs::{WholeRun, held, hostile, whole};
use crate::stage::dice::number_from;
use crate::stage::{assert_exit, stderr, stdout};

pub(super) const HOST_CHANGES: &[WholeRun] = &[
    whole(
        "C30a",
        "keeps a descriptor of a configuration file that git on the host wrote",
        |caller| keeps(caller, "descriptor"),
    ),
    whole(
        "C30b",
        "keeps a second name for a configuration file that git on the host wrote",
        |caller| keeps(caller, "link"),
    ),
    whole("C30c", "reopens a kept descriptor of git's configuration for writing", |caller| {
        keeps(caller, "reopen")
    }),
    whole("C30d", "writes git's configuration before the shim can protect it again", |caller| {
        races(caller, 4)
    }),
    whole("C30e", "holds git's lock, so that nothing can be protected again", holds_the_lock),
    whole("C30f", "is stopped while it starts processes that share its memory", starts_many),
];

/// A stage whose repository has a commit and a remote on the same disk.
pub(super) struct Host {
    pub(super) hostile: Hostile,
}

impl Host {
    pub(super) fn new(caller: Caller) -> Self {
        let host = Self { hostile: hostile(caller) };
        let bare = host.hostile.stage.home().join("origin.git");
        fs::remove_file(host.git_dir().join("config.worktree")).unwrap();
        host.hostile.give_away();
        host.does(&["init", "--quiet", "--bare", bare.to_str().unwrap()]);
        host.does(&["commit", "--quiet", "--allow-empty", "-m", "one"]);
        host.does(&["branch", "-M", "main"]);
        host.does(&["config", "core.hooksPath", "/nowhere"]);
        host.does(&["remote", "add", "origin", bare.to_str().unwrap()]);
        host
    }

    pub(super) fn git_dir(&self) -> PathBuf {
        self.hostile.workspace().join(".git")
    }

    fn config(&self) -> String {
        fs::read_to_string(self.git_dir().join("config")).unwrap()
    }

    /// Runs git on the host, as the user whose agent it is.
    pub(super) fn git(&self, words: &[&str]) -> Output {
        let caller = self.hostile.caller;
        let start = as_caller(if caller == Caller::RootForUser { Caller::User } else { caller });
        Command::new(&start[0])
            .args(&start[1..])
            .args(["git", "-c", "user.name=a", "-c", "user.email=a@b"])
            .args(words)
            .current_dir(self.hostile.workspace())
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("HOME", self.hostile.stage.home())
            .output()
            .unwrap()
    }

    pub(super) fn does(&self, words: &[&str]) -> String {
        let output = self.git(words);
        assert!(output.status.success(), "git {words:?}: {}", stderr(&output));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn n_restored(&self, run: &str) -> usize {
        let journal = self.hostile.stage.journal(run);
        journal.iter().filter(|entry| entry.line["run"]["kind"] == "protection_restored").count()
    }

    /// Waits until the journal has an event that matches.
    fn wait(&self, run: &str, is_it: impl Fn(&Value) -> bool) {
        crate::stage::wait_until(self.hostile.command(&["tail", run, "--follow", "--json"]), is_it);
    }

    /// Waits until the protection is back for the `n`th time, or the run has ended.
    fn settled(&self, run: &str, n: usize) -> bool {
        let n_seen = std::cell::Cell::new(0);
        self.wait(run, |line| {
            n_seen.set(n_seen.get() + usize::from(line["kind"] == "run.protection_restored"));
            n_seen.get() == n || line["kind"] == "run.ended"
        });
        self.n_restored(run) >= n
    }

    fn has_ended(&self, run: &str) -> bool {
        let journal = self.hostile.stage.journal(run);
        journal.iter().any(|entry| entry.line["run"]["kind"] == "ended")
    }

    fn finish(&self, run: &str) -> Value {
        let words = ["wait", run];
        self.hostile.command(&words).output().unwrap();
        self.hostile.stage.ended()
    }

    fn kill(&self, run: &str) {
        self.hostile.command(&["kill", "--now", run]).output().unwrap();
    }
}

/// The change that the user makes.
const CHANGE: [&str; 3] = ["config", "branch.main.vscode-merge-base", "origin/main"];

/// An agent that waits for the moment when it can write git's configuration. The kernel may also let it open the old
/// file, which no longer has a name and which no program reads again.
pub(super) const CATCH: &str = "\
import os, sys
config, how = '.git/config', sys.argv[1]
append = os.O_WRONLY | os.O_APPEND
def can_write():
    try:
        os.close(os.open(config, append))
        return True
    except OSError:
        return False
open('ready', 'w').close()
while True:
    if how != 'race' and os.path.exists('too-late'):
        open('missed', 'w').close()
        sys.exit()
    try:
        kept = os.open(config, append)
        if os.fstat(kept).st_nlink == 0:
            os.close(kept)
            continue
        if how == 'race':
            os.write(kept, b'[core]\\n\\tfsmonitor = evil\\n')
            os.close(kept)
            continue
        if how == 'link':
            os.link(config, '.git/kept')
        if how == 'reopen':
            kept = os.open(config, os.O_RDONLY)
        break
    except OSError:
        pass
open('caught', 'w').close()
while can_write():
    pass
again = {'descriptor': '/dev/null', 'link': '.git/kept', 'reopen': f'/proc/self/fd/{kept}'}[how]
again = os.open(again, append)
os.write(kept if how == 'descriptor' else again, b'evil = evil\\n')
open('wrote', 'w').close()
";

impl Host {
    /// Starts an agent that plays [`CATCH`].
    fn catch(&self, how: &str) -> String {
        for name in ["ready", "too-late", "missed", "caught", "wrote", ".git/kept"] {
            fs::remove_file(self.hostile.workspace().join(name)).ok();
        }
        fs::write(self.hostile.workspace().join("catch.py"), CATCH).unwrap();
        let script = format!("shell[timeout=300s] python3 catch.py {how}; sleep 600");
        let run = self.hostile.detach(&script, &[]);
        self.wait_for(&["ready"]);
        run
    }

    /// Waits until one of these files is in the workspace, and returns its name.
    fn wait_for<'a>(&self, names: &[&'a str]) -> &'a str {
        let is_there = |name: &&&str| self.hostile.workspace().join(name).exists();
        within_a_minute("the agent does nothing", || names.iter().any(|name| is_there(&name)));
        names.iter().find(is_there).unwrap()
    }
}

fn within_a_minute(otherwise: &str, is_true: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !is_true() {
        assert!(Instant::now() < until, "{otherwise}");
        std::thread::yield_now();
    }
}

/// The agent catches the new file, and writes to it once it is protected again.
fn keeps(caller: Caller, how: &str) -> Verdict {
    let host = Host::new(caller);
    for number in 0..TRIES {
        let value = format!("origin/{number}");
        let run = host.catch(how);
        host.does(&["config", CHANGE[1], &value]);
        assert!(host.settled(&run, 1), "{}", host.finish(&run));
        fs::write(host.hostile.workspace().join("too-late"), "").unwrap();
        let has_caught = host.wait_for(&["missed", "wrote"]) == "wrote";
        assert!(!host.config().contains("evil"), "{}", host.config());
        assert_eq!(host.does(&["config", CHANGE[1]]), value);
        host.kill(&run);
        if has_caught {
            return held("a new file");
        }
    }
    held("the freeze, before the agent could catch the file")
}

/// An agent must win a race to catch the file.
const TRIES: usize = 10;

/// Each round, the user's git changes its configuration, and the agent tries to write a setting into the new file. It
/// may succeed, and then the run is suspended without that setting.
fn races(caller: Caller, n_rounds: usize) -> Verdict {
    let host = Host::new(caller);
    let (mut n_back, mut n_won) = (0, 0);
    let mut run = host.catch("race");
    for round in 0..n_rounds {
        let (value, branch) = (format!("origin/main{round}"), format!("b{round}"));
        host.does(&["branch", &branch]);
        let n_before = host.n_restored(&run);
        match round % 4 {
            0 => host.does(&["config", CHANGE[1], &value]),
            1 => host.does(&["branch", "--quiet", "-D", &branch]),
            2 => host.does(&["push", "--quiet", "-u", "origin", &branch]),
            _ => host.does(&["config", "branch.main.rebase", "true"]),
        };
        host.settled(&run, n_before + 1);
        // Git may have replaced the file twice, and then the shim may still be at work.
        within_a_minute("the agent's setting survives", || !host.config().contains("evil"));
        let is_kept = match round % 4 {
            0 => stdout(&host.git(&["config", CHANGE[1]])).trim() == value,
            2 => host.git(&["config", &format!("branch.{branch}.merge")]).status.success(),
            _ => true,
        };
        if is_kept && !host.has_ended(&run) {
            n_back += 1;
            continue;
        }
        within_a_minute("the user's value is lost", || host.has_ended(&run));
        assert_refused(&host, &run);
        n_won += 1;
        run = host.catch("race");
    }
    host.kill(&run);
    held(&format!("a new file {n_back} times, a suspension {n_won} times"))
}

/// Checks that a run was suspended, and that the user finds the refused text.
fn assert_refused(host: &Host, run: &str) {
    let ended = host.finish(run);
    assert_eq!(ended["outcome"], "suspended", "{ended}");
    let refused = host.hostile.stage.runs().join(run).join("refused-config-1");
    assert!(fs::read_to_string(refused).unwrap().contains("evil"), "{ended}");
    assert!(!host.git_dir().join("config.lock").exists());
}

/// The agent takes git's lock and keeps it: the user's git refuses to work, and a change by another program suspends
/// the run.
fn holds_the_lock(caller: Caller) -> Verdict {
    let host = Host::new(caller);
    let run = host.hostile.detach("shell touch .git/config.lock; sleep 600", &[]);
    host.wait_for(&[".git/config.lock"]);
    let refused = host.git(&CHANGE);
    assert!(stderr(&refused).contains("could not lock config file"), "{}", stderr(&refused));
    assert_eq!(host.n_restored(&run), 0);
    let (config, new) = (host.git_dir().join("config"), host.git_dir().join("new"));
    let before = host.config();
    fs::write(&new, format!("{before}[core]\n\teditor = x\n")).unwrap();
    fs::rename(&new, &config).unwrap();
    let ended = host.finish(&run);
    assert_eq!(ended["outcome"], "suspended", "{ended}");
    assert_eq!(host.config(), before);
    held("the end of the run")
}

/// A process in `vfork` does not stop before its child lets it continue.
fn starts_many(caller: Caller) -> Verdict {
    let host = Host::new(caller);
    let script =
        "shell[timeout=300s] for i in 1 2 3 4; do (while :; do /bin/true; done) & done; wait";
    let run = host.hostile.detach(script, &[]);
    for round in 1..=5 {
        let value = format!("origin/{round}");
        host.does(&["config", CHANGE[1], &value]);
        assert!(host.settled(&run, round), "{}", host.finish(&run));
        assert_eq!(host.does(&["config", CHANGE[1]]), value);
    }
    host.kill(&run);
    held("a freeze of every process")
}

/// An agent that tries to write the configuration whenever the user asks it to, and reports whether it could.
const TRIES_ON_REQUEST: &str = "shell[timeout=300s] while :; do [ -e try ] && { (echo evil >> .git/config) 2> /dev/null && \
                                echo wrote > tried || echo failed > tried; rm try; }; done";

fn every_ordinary_change(caller: Caller) {
    if caller != Caller::User && !is_root() {
        return;
    }
    let host = Host::new(caller);
    host.does(&["branch", "old"]);
    host.does(&["branch", "older"]);
    let run = host.hostile.detach(TRIES_ON_REQUEST, &[]);
    let workspace = host.hostile.workspace();
    // The last two leave the configuration as it is.
    let changes: [(&[&str], &str, &str); 6] = [
        (&["config", "branch.main.rebase", "true"], "branch.main.rebase", "true"),
        (&["branch", "-D", "old"], "branch.main.rebase", "true"),
        (&["push", "--quiet", "-u", "origin", "main"], "branch.main.remote", "origin"),
        (&CHANGE, CHANGE[1], CHANGE[2]),
        (&["gc", "--quiet"], CHANGE[1], CHANGE[2]),
        (&["worktree", "prune", "--expire=now"], "branch.main.merge", "refs/heads/main"),
    ];
    for (number, (words, key, value)) in changes.into_iter().enumerate() {
        host.does(words);
        let is_back = host.settled(&run, (number + 1).min(4));
        assert!(is_back, "git {words:?}: {}", host.finish(&run));
        assert_eq!(host.does(&["config", key]), value, "git {words:?}");
        fs::write(workspace.join("try"), "").unwrap();
        within_a_minute("the agent does nothing", || !workspace.join("try").exists());
        assert_eq!(
            fs::read_to_string(workspace.join("tried")).unwrap(),
            "failed\n",
            "git {words:?}"
        );
        assert!(!host.config().contains("evil"));
    }
    assert_eq!(host.n_restored(&run), 4);
    assert!(host.git_dir().join("worktrees/caretaker/locked").exists());
    host.kill(&run);
    assert!(!host.git_dir().join("worktrees/caretaker").exists(), "a mount point is left over");
}

#[test]
fn ordinary_changes_on_the_host_do_not_end_a_users_run() {
    every_ordinary_change(Caller::User);
}

#[test]
fn ordinary_changes_on_the_host_do_not_end_roots_run() {
    every_ordinary_change(Caller::Root);
}

#[test]
fn a_dangerous_change_on_the_host_suspends_the_run_and_resume_continues_it() {
    let mut host = Host::new(Caller::User);
    let run = host.hostile.detach("# heron\nshell sleep 600", &[]);
    let before = host.config();
    host.does(&["config", "core.fsmonitor", "x"]);
    let ended = host.finish(&run);
    assert_eq!(ended["outcome"], "suspended", "{ended}");
    let why = ended["why"].as_str().unwrap();
    assert!(why.contains("`core.fsmonitor` changed"), "{why}");
    let journal = host.hostile.stage.journal(&run);
    assert!(journal.iter().any(|entry| entry.line["run"]["kind"] == "protection_lost"));
    assert_eq!(host.config(), before);
    let refused = host.hostile.stage.runs().join(&run).join("refused-config-1");
    assert!(fs::read_to_string(refused).unwrap().contains("fsmonitor = x"));
    let session = host.hostile.stage.session_of(&run);
    let prompt = "```agent\nrecall\n```\n";
    let resumed = host.hostile.command(&["resume", &session, prompt, "--agent", "simulated"]);
    let resumed = { resumed }.output().unwrap();
    assert_exit(&resumed, 0);
    assert!(String::from_utf8_lossy(&resumed.stdout).contains("heron"), "{}", stderr(&resumed));
    host.hostile.dismiss_neighbour();
    host.hostile.stage.assert_no_survivors("after the resumed run");
}

#[test]
fn no_agents_setting_survives_a_storm_of_changes_on_the_host() {
    let n_rounds = number_from("HOST_CHANGE_ROUNDS", 8);
    for caller in Caller::ALL {
        if caller == Caller::User || is_root() {
            eprintln!("{caller:?}: {:?}", races(caller, n_rounds));
        }
    }
}
