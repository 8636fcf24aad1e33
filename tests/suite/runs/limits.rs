//! Runs that use too much of the machine: each ends, says why, and leaves other runs alone.
//!
//! The tests run as the current user and, if that is root, as an ordinary user too. Different mechanisms limit a run:
//! root uses cgroup v1 or v2 where they work; an ordinary user uses cgroup v2 if it is delegated or systemd provides
//! scopes; otherwise only per-process limits apply. Each test prints the mechanism that it found.
//!
//! The bombs are those of the abuse suite (`abuse/bombs.rs`). They are small, and each starts only after the test has
//! seen its limits work. The test adds its own second limit around each bomb.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::stage::programs::for_others;
use crate::stage::{Stage, assert_exit, stderr, wait_until, with_context_of};

/// A user id that no known machine uses.
const ORDINARY_UID: u32 = 64_321;
pub(crate) const MIB: u64 = 1 << 20;

/// The user that a run belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caller {
    /// The user who runs the tests.
    Ourselves,
    /// A user without privileges. Only root can become that user.
    Ordinary,
    /// Root, in the workspace of a user without privileges: Caretaker becomes that user.
    RootForOrdinary,
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn callers() -> Vec<Caller> {
    match is_root() {
        true => vec![Caller::Ourselves, Caller::Ordinary],
        false => vec![Caller::Ourselves],
    }
}

/// A stage that belongs to one user, with a safety limit around every process.
pub(crate) struct Guarded {
    pub(crate) stage: Stage,
    caller: Caller,
    program: PathBuf,
    belt: Belt,
}

/// Stops a bomb if Caretaker fails to: a control group for root, or else a limit on the user's processes.
struct Belt {
    groups: Vec<PathBuf>,
}

impl Belt {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let id =
            format!("suite-belt-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let mut groups = Vec::new();
        let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        for (controller, file, value) in
            [("pids", "pids.max", 700), ("memory", "memory.limit_in_bytes", 3_u64 << 30)]
        {
            let line = own.lines().find_map(|line| line.split_once(&format!(":{controller}:")));
            let Some((_, path)) = line else { continue };
            let tree = Path::new("/sys/fs/cgroup").join(controller);
            let group = tree.join(path.trim_start_matches('/')).join(&id);
            if std::fs::create_dir(&group).is_ok() {
                let limit = group.join(file);
                groups.push(group);
                std::fs::write(limit, value.to_string()).unwrap();
            }
        }
        Self { groups }
    }

    /// Returns the words to put before a command so that the safety limit applies to it.
    fn words(&self) -> Vec<String> {
        if !self.groups.is_empty() {
            let join = "for group; do [ \"$group\" = -- ] && break; echo $$ > \"$group/cgroup.procs\"; done; \
                        while [ \"$1\" != -- ]; do shift; done; shift; exec \"$@\"";
            let groups = self.groups.iter().map(|group| group.display().to_string());
            let head = ["sh", "-c", join, "sh"].map(str::to_owned).into_iter();
            return head.chain(groups).chain(["--".to_owned()]).collect();
        }
        // The kernel counts processes for the whole user, so this adds to the current number.
        let tasks = Command::new("sh").args(["-c", "ls -d /proc/[0-9]*/task/* | wc -l"]).output();
        let tasks: u64 = String::from_utf8(tasks.unwrap().stdout).unwrap().trim().parse().unwrap();
        vec!["prlimit".to_owned(), format!("--nproc={}", tasks + 700), "--".to_owned()]
    }
}

impl Drop for Belt {
    fn drop(&mut self) {
        for group in &self.groups {
            let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
            // The group is busy until its last process is gone. Cgroup v1 has no event for that, so try again.
            let removed = loop {
                match std::fs::remove_dir(group) {
                    Err(error)
                        if error.kind() == std::io::ErrorKind::ResourceBusy
                            && std::time::Instant::now() < until =>
                    {
                        std::thread::sleep(std::time::Duration::from_millis(5));
                    }
                    done => break done,
                }
            };
            // This must succeed: each run removes the groups that it made inside this one.
            if !std::thread::panicking() {
                removed.unwrap_or_else(|error| panic!("{}: {error}", group.display()));
            }
        }
    }
}

impl Guarded {
    pub(crate) fn new(caller: Caller) -> Self {
        let stage = Stage::new();
        let ours = stage.caretaker(&[]).get_program().to_owned();
        let guarded = match caller {
            Caller::Ourselves => Self { program: ours.into(), stage, caller, belt: Belt::new() },
            Caller::Ordinary | Caller::RootForOrdinary => {
                let program = for_others(Path::new(&ours), &stage.root());
                Self { program, stage, caller, belt: Belt::new() }
            }
        };
        guarded.give_away();
        guarded
    }

    /// Gives everything on the stage to the caller.
    fn give_away(&self) {
        if self.caller != Caller::Ourselves {
            let owner = format!("{ORDINARY_UID}:{ORDINARY_UID}");
            let root = self.stage.root();
            assert!(
                Command::new("chown").arg("-R").arg(owner).arg(root).status().unwrap().success()
            );
        }
    }

    fn command(&self, args: &[&str]) -> Command {
        let plain = self.stage.caretaker(args);
        let mut words = self.belt.words();
        // A run that root started for a user belongs to that user, and so do its records.
        let is_theirs = self.caller == Caller::RootForOrdinary && args.first() != Some(&"run");
        if self.caller == Caller::Ordinary || is_theirs {
            let (uid, gid) = (format!("--reuid={ORDINARY_UID}"), format!("--regid={ORDINARY_UID}"));
            words.extend([
                "setpriv".to_owned(),
                uid,
                gid,
                "--clear-groups".to_owned(),
                "--".to_owned(),
            ]);
        }
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg(&self.program);
        with_context_of(command, &plain)
    }

    pub(crate) fn play(&self, script: &str, flags: &[&str]) -> Output {
        let prompt = self.stage.root().join("prompt");
        std::fs::write(&prompt, format!("Play this:\n```agent\n{script}\n```\n")).unwrap();
        self.give_away();
        let args = ["run", "--agent", "simulated", "--file", prompt.to_str().unwrap()];
        self.command(&[&args, flags].concat()).output().unwrap()
    }

    /// Waits until the journal of a run has an event that matches `is_it`. Reads as the caller, who owns the run.
    fn wait_until(&self, run: &str, is_it: impl Fn(&Value) -> bool) {
        wait_until(self.command(&["tail", run, "--follow", "--json"]), is_it);
    }

    pub(crate) fn last_run(&self) -> String {
        self.stage.run_ids().pop().expect("the stage has a run")
    }

    /// Returns the limits in force for the latest run.
    pub(crate) fn in_force(&self) -> Value {
        let journal = self.stage.journal(&self.last_run());
        let ready = journal.iter().find(|entry| entry.line["run"]["kind"] == "sandbox_ready");
        ready.expect("the sandbox started").line["run"].clone()
    }

    /// Returns true if the kernel limits the number of processes. Prints the answer, because the tests depend on it.
    pub(crate) fn holds_processes(&self, most: u64) -> bool {
        let output = self.play("say Nothing yet.", &["--processes", &most.to_string()]);
        assert_exit(&output, 0);
        let limits = self.in_force()["limits"].clone();
        eprintln!("{:?}: {limits}", self.caller);
        limits["held"]["processes"] == json!(most)
    }

    /// Checks that the run ended because of this limit, with the published exit code.
    #[track_caller]
    pub(crate) fn assert_over_limit(&self, output: &Output, limit: &Value, flag: &str) {
        let said = stderr(output);
        assert_eq!(output.status.code(), Some(137), "{:?}: {said}", self.caller);
        let ended = self.stage.ended();
        assert_eq!(ended["outcome"], "quota_exceeded", "{ended}");
        assert_eq!(ended["limit"], *limit, "{ended}");
        let why = ended["why"].as_str().unwrap();
        assert!(why.contains(flag), "{why}");
        let journal = self.stage.journal(&self.last_run());
        let reached =
            journal.iter().filter(|entry| entry.line["run"]["kind"] == "limit_reached").count();
        assert_eq!(reached, 1);
        self.stage.assert_no_survivors("after the limit");
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // A failed test must not leave processes behind either.
        if std::thread::panicking() {
            for run in self.stage.run_ids() {
                self.command(&["kill", &run, "--now"]).output().ok();
            }
        }
    }
}

/// A second run, whose agent does something now and then.
pub(crate) struct Neighbour {
    guarded: Guarded,
    run: String,
}

impl Neighbour {
    pub(crate) fn new(caller: Caller) -> Self {
        let guarded = Guarded::new(caller);
        let script = "shell sleep 0.1\n".repeat(2000);
        let output = guarded.play(&script, &["--detach"]);
        assert_exit(&output, 0);
        let run = guarded.last_run();
        guarded.wait_until(&run, is_tick);
        Self { guarded, run }
    }

    /// Checks that the run has made progress, and still does.
    pub(crate) fn assert_alive(self) {
        let stage = &self.guarded.stage;
        let last = stage.journal(&self.run).last().unwrap().seq;
        self.guarded
            .wait_until(&self.run, |event| is_tick(event) && event["seq"].as_u64().unwrap() > last);
        let killed = self.guarded.command(&["kill", &self.run, "--now"]).output().unwrap();
        assert_exit(&killed, 0);
        self.guarded.wait_until(&self.run, |event| event["kind"] == "run.ended");
        assert_eq!(stage.ended()["outcome"], "cancelled");
    }
}

fn is_tick(event: &Value) -> bool {
    event["kind"] == "agent.tool_completed"
}

#[test]
fn memory_that_many_processes_take_together_counts_together() {
    for caller in callers() {
        let guarded = Guarded::new(caller);
        // No single process is too large, but all of them together are. These processes, and those of the tests below,
        // sleep until the shim kills them.
        let script = "shell for i in 1 2 3 4 5 6; do python3 -c \"b=bytes([7])*(60<<20); import time; time.sleep(600)\" & done; wait";
        let output = guarded.play(script, &["--memory", "256MiB"]);
        guarded.assert_over_limit(
            &output,
            &json!({"limit": "memory", "bytes": 256 * MIB}),
            "--memory",
        );
    }
}

#[test]
fn memory_that_no_process_has_mapped_counts_too() {
    let memfd = "import os,time; f=os.memfd_create('x'); [os.write(f, bytes(1<<20)) for _ in range(600)]; time.sleep(600)";
    // Sixty segments of ten megabytes, written once and detached.
    let segments = "import ctypes as c,time; l=c.CDLL(None); l.shmat.restype=c.c_void_p; l.shmdt.argtypes=[c.c_void_p]; \
                    touch=lambda i:(lambda p:(c.memset(p,1,10<<20), l.shmdt(p)))(l.shmat(i,None,0)); \
                    [touch(l.shmget(0,10<<20,0o1600)) for _ in range(60)]; time.sleep(600)";
    // Each process has its own memory, and none is too large.
    let anonymous = "import mmap,os,time; [os.fork() for _ in range(3)]; m=mmap.mmap(-1,100<<20); m.write(bytes(100<<20)); time.sleep(600)";
    for caller in callers() {
        for program in [memfd, segments, anonymous] {
            let guarded = Guarded::new(caller);
            let script = format!("shell python3 -c \"{program}\"");
            let output = guarded.play(&script, &["--memory", "300MiB", "--timeout", "60s"]);
            let limit = json!({"limit": "memory", "bytes": 300 * MIB});
            guarded.assert_over_limit(&output, &limit, "--memory");
        }
    }
}

#[test]
fn shared_memory_that_is_mapped_counts_once() {
    for caller in callers() {
        let guarded = Guarded::new(caller);
        // Eight processes share the same hundred megabytes, through a descriptor and mapped. They keep it for two
        // seconds, so that the shim counts it several times. There is no event to wait for.
        let program = "import mmap,os; f=os.memfd_create('x'); os.ftruncate(f,100<<20); m=mmap.mmap(f,100<<20); m.write(bytes(100<<20)); \
                       p=[os.fork() for _ in range(3)]; s=sum(m[::4096]); import time; time.sleep(2)";
        let output =
            guarded.play(&format!("shell python3 -c \"{program}\""), &["--memory", "300MiB"]);
        assert!(output.status.success(), "{caller:?}: {}", stderr(&output));
    }
}

#[test]
fn disk_use_counts_for_deleted_files_and_for_the_agents_own_directories() {
    let scripts = [
        "shell python3 -c \"import os,time; f=open('hidden','wb'); os.unlink('hidden'); f.write(b'x'*(80<<20)); f.flush(); time.sleep(600)\"",
        "shell head -c 80000000 /dev/zero > \"$HOME\"/.cursor/projects/filler; sleep 600",
    ];
    for script in scripts {
        let guarded = Guarded::new(Caller::Ourselves);
        let output = guarded.play(script, &["--disk", "32MiB"]);
        guarded.assert_over_limit(&output, &json!({"limit": "disk", "bytes": 32 * MIB}), "--disk");
    }
}

#[test]
fn a_file_that_grows_too_large_is_stopped_by_the_kernel_and_ends_the_run() {
    for caller in callers() {
        let guarded = Guarded::new(caller);
        let script = "shell head -c 80000000 /dev/zero > large; sleep 600";
        let output = guarded.play(script, &["--max-file-size", "8MiB"]);
        let limit = json!({"limit": "file_size", "bytes": 8 * MIB});
        guarded.assert_over_limit(&output, &limit, "--max-file-size");
        let large = std::fs::metadata(guarded.stage.workspace().join("large")).unwrap();
        assert_eq!(large.len(), 8 * MIB);
    }
}

/// Allocates memory, starts threads and children, opens files, and writes a report to a file.
const NODE_CHECK: &str = "\
const { Worker } = require('node:worker_threads');
const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const held = [];
for (let i = 0; i < 300; i++) held.push(Buffer.alloc(1 << 20, 7));
const big = new Array(5e6).fill(0).map((_, i) => ({ i }));
const files = Array.from({ length: 500 }, () => fs.openSync(__filename));
const work = () => new Promise((resolve, reject) => {
  const worker = new Worker(\"const { parentPort } = require('node:worker_threads'); parentPort.postMessage(new Array(1e6).fill(1).length)\", { eval: true });
  worker.once('message', resolve);
  worker.once('error', reject);
});
Promise.all(Array.from({ length: 8 }, work)).then((sums) => {
  const children = Array.from({ length: 8 }, (_, i) =>
    execFileSync(process.execPath, ['-e', `process.stdout.write(String(${i}))`]).toString());
  fs.writeFileSync('node-says', [process.versions.node.split('.')[0], held.length, big.length, files.length, sums.length, children.join('')].join(' '));
});
";

#[test]
fn node_starts_allocates_and_spawns_under_the_default_limits() {
    if !Path::new("/usr/bin/node").exists() {
        eprintln!("there is no node in /usr/bin, so nothing was tested");
        return;
    }
    for caller in callers() {
        let guarded = Guarded::new(caller);
        let workspace = guarded.stage.workspace();
        std::fs::write(workspace.join("check.cjs"), NODE_CHECK).unwrap();
        let output = guarded.play("shell /usr/bin/node check.cjs", &[]);
        assert_exit(&output, 0);
        let limits = guarded.in_force()["limits"].clone();
        eprintln!("{caller:?}: {limits}");
        let held = &limits["held"];
        // The profile says `auto`: at least this much, and more on a large machine.
        assert!(held["memory_bytes"].as_u64().unwrap() >= 2048 * MIB, "{limits}");
        let said = std::fs::read_to_string(workspace.join("node-says")).unwrap_or_default();
        let (_, said) = said.split_once(' ').expect("node finished");
        assert_eq!(said, "300 5000000 500 8 01234567", "{limits}");
    }
}

#[test]
fn the_limits_of_single_processes_are_set_and_cannot_be_raised() {
    for caller in callers() {
        let guarded = Guarded::new(caller);
        let script = "shell ulimit -Hn > said; ulimit -Hc >> said; ulimit -n 100000 2>/dev/null && echo raised >> said; true";
        let output = guarded.play(script, &[]);
        assert_exit(&output, 0);
        let said = std::fs::read_to_string(guarded.stage.workspace().join("said")).unwrap();
        assert_eq!(said, "4096\n0\n");
    }
}

/// Writes a profile that refuses to run if neither memory nor processes are limited.
fn require_limits(guarded: &Guarded) {
    let profiles = guarded.stage.home().join(".config/caretaker/profiles");
    std::fs::create_dir_all(&profiles).unwrap();
    let text = "extends = \"default\"\ndescription = \"held\"\n[limits]\nrequired = true\n";
    std::fs::write(profiles.join("held.toml"), text).unwrap();
}

#[test]
fn a_profile_that_requires_limits_is_refused_where_none_hold() {
    for caller in callers() {
        let guarded = Guarded::new(caller);
        require_limits(&guarded);
        let plain = guarded.play("say Nothing yet.", &[]);
        assert_exit(&plain, 0);
        let backend = guarded.in_force()["limits"]["backend"].clone();
        let runs_before = guarded.stage.run_ids();
        let output = guarded.play("say Nothing yet.", &["--profile", "held"]);
        let said = stderr(&output);
        if backend == "rlimits" {
            let warnings = guarded.in_force()["warnings"].to_string();
            assert!(warnings.contains("no cgroup enforces the limits of this run"), "{warnings}");
            assert_eq!(output.status.code(), Some(125), "{said}");
            assert!(said.contains("requires enforced limits"), "{said}");
            assert!(said.contains("hint: ") && said.contains("caretaker doctor"), "{said}");
            assert_eq!(guarded.stage.run_ids(), runs_before);
            let in_workspace = std::fs::read_dir(guarded.stage.workspace()).unwrap().count();
            assert_eq!(in_workspace, 0);
        } else {
            assert!(output.status.success(), "{said}");
        }
        eprintln!("{caller:?}: {backend}");
    }
}

/// Finds all control groups of a run.
fn groups_of(run: &str) -> Vec<PathBuf> {
    let found = Command::new("find")
        .args(["/sys/fs/cgroup", "-type", "d", "-name", &format!("caretaker-{run}*")])
        .output()
        .unwrap();
    String::from_utf8(found.stdout).unwrap().lines().map(PathBuf::from).collect()
}

#[test]
fn no_control_group_outlives_its_run_even_if_its_shim_is_killed() {
    let guarded = Guarded::new(Caller::Ourselves);
    let output = guarded.play("shell sleep 600", &["--detach"]);
    assert_exit(&output, 0);
    let run = guarded.last_run();
    guarded.stage.wait_until(&run, |event| event["kind"] == "agent.tool_started");
    if guarded.in_force()["limits"]["backend"] != "rlimits" {
        assert!(!groups_of(&run).is_empty());
    }
    let shim = guarded.stage.shim_pid(&run);
    let shim = rustix::process::Pid::from_raw(i32::try_from(shim).unwrap()).unwrap();
    rustix::process::kill_process(shim, rustix::process::Signal::KILL).unwrap();
    guarded.stage.assert_no_survivors("after its supervisor died");
    // Another run or `doctor` may have cleaned up already. After this `doctor`, nothing may be left.
    let doctor = guarded.command(&["doctor", "--agent", "simulated", "--json"]).output().unwrap();
    let report: Value = serde_json::from_slice(&doctor.stdout).unwrap();
    let checks = report["checks"].as_array().unwrap();
    let limits =
        checks.iter().find(|check| check["id"] == "limits").expect("`doctor` has a line on limits");
    eprintln!("{limits}");
    assert_eq!(groups_of(&run), Vec::<PathBuf>::new());

    let output = guarded.play("say Once more.", &[]);
    assert_exit(&output, 0);
    assert_eq!(groups_of(&guarded.last_run()), Vec::<PathBuf>::new());
}

/// Returns how often a process and all its threads have read something.
fn n_reads(pid: u64) -> u64 {
    let account = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap();
    let reads = account.lines().find_map(|line| line.strip_prefix("syscr: ")).unwrap();
    reads.parse().unwrap()
}

#[test]
fn a_shim_rarely_polls_an_idle_agent() {
    const SECONDS: u64 = 8;
    let guarded = Guarded::new(Caller::Ourselves);
    let output = guarded.play("shell sleep 600", &["--detach"]);
    assert_exit(&output, 0);
    let run = guarded.last_run();
    guarded.stage.wait_until(&run, |event| event["kind"] == "agent.tool_started");
    // Without a control group, nothing shows whether the agent has run, so the shim checks everything each time.
    if guarded.in_force()["limits"]["backend"] == "rlimits" {
        return;
    }
    let shim = guarded.stage.shim_pid(&run);
    // The test counts reads during a period of time, so it sleeps. The first period may still include startup work.
    let reads_in_a_stretch = || {
        let before = n_reads(shim);
        std::thread::sleep(std::time::Duration::from_secs(SECONDS));
        n_reads(shim) - before
    };
    let fewest = (0..3).map(|_| reads_in_a_stretch()).min().unwrap();
    assert!(fewest <= 6 * SECONDS, "{fewest} reads in {SECONDS} s");
    let killed = guarded.command(&["kill", &run]).output().unwrap();
    assert_exit(&killed, 0);
}

#[test]
fn explain_names_the_source_of_each_limit() {
    let stage = Stage::new();
    stage.configure("[limits]\ndisk = \"5GiB\"\n");
    let args = ["sandbox", "explain", "--agent", "simulated", "--json", "--memory", "1GiB"];
    let output = stage.output(&args);
    assert_exit(&output, 0);
    let explained: Value = serde_json::from_slice(&output.stdout).unwrap();
    let parts = explained["parts"].as_array().unwrap().iter();
    let limits: Vec<(&str, &str)> = parts
        .filter(|part| part["what"] == "limit")
        .map(|part| (part["detail"].as_str().unwrap(), part["origin"].as_str().unwrap()))
        .collect();
    assert_eq!(limits[0], ("memory at most 1.0 GiB", "config or flag"));
    assert!(limits[1].0 == "processes at most 512" && limits[1].1.starts_with("default.toml:"));
    assert!(limits.contains(&("growth on disk at most 5.0 GiB", "config or flag")), "{limits:?}");
    assert!(limits.last().unwrap().0.starts_with("enforced by "), "{limits:?}");
}
