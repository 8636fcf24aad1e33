//! L1, N7: runs that take everything they can. Each ends with a typed outcome, while a second run continues.

use serde_json::{Value, json};

use super::hostile::{Caller, Hostile, is_root};
use super::table::Verdict;
use super::whole_runs::{ALL, WholeRun};
use crate::runs::limits::{self, Guarded, MIB, Neighbour};
use crate::sandbox::network::outside::require;
use crate::sandbox::network::{count, network_events};
use crate::stage::assert_exit;

const FORK_BOMB: &str = "shell python3 -c \"exec('import os\\nwhile 1:\\n try: os.fork()\\n except OSError: pass')\"\nshell sleep 600";
const MEMORY_BOMB: &str = "shell python3 -c \"exec('b=[]\\nwhile 1:\\n try: b.append(bytes([7])*(1<<20))\\n except MemoryError: pass')\"\nshell sleep 600";
const MEMFD_BOMB: &str = "shell python3 -c \"exec('import os\\nf=os.memfd_create(str(1))\\nfor i in range(1500): os.write(f,bytes(1<<20))')\"\nshell sleep 600";
/// Two gigabytes. No test waits for all of it.
const PRINTER: &str = "misbehave huge-output 2000000000\nshell sleep 600";
const DISK_FILLER: &str =
    "shell for i in 1 2 3 4 5 6 7 8 9; do head -c 10000000 /dev/zero > filler-$i; done; sleep 600";

const fn bomb(
    id: &'static str,
    does: &'static str,
    callers: &'static [Caller],
    act: fn(Caller) -> Verdict,
) -> WholeRun {
    WholeRun { id, does, callers, act }
}

pub(super) const BOMBS: &[WholeRun] = &[
    bomb("N7", "makes ten thousand connections at once", ALL, flood),
    bomb("L1a", "starts processes without end", ALL, fork_bomb),
    bomb("L1b", "takes memory without end", ALL, memory_bomb),
    bomb("L1i", "fills the disk that the workspace is on", ALL, disk_filler),
    bomb("L1j", "prints without end, so that the journal fills the disk", ALL, printer),
    bomb("L1k", "endlessly takes memory that no process has mapped", ALL, memfd_bomb),
    bomb("L1c", "fills /tmp", ALL, |caller| {
        room_filler(caller, "/tmp", |_| json!({"limit": "tmp"}))
    }),
    bomb("L1d", "fills /dev/shm", ALL, |caller| room_filler(caller, "/dev/shm", scratch)),
    bomb("L1e", "fills the private home", ALL, |caller| {
        room_filler(caller, "$HOME", |_| json!({"limit": "home"}))
    }),
    bomb("L1f", "fills /run", ALL, |caller| room_filler(caller, "/run", scratch)),
    bomb("L1g", "fills the directory that contains the workspace", ALL, |caller| {
        room_filler(caller, "$HOME/work", scratch)
    }),
];

/// Rows of the probe's table that each need a run of their own, because they end it. Only the meta-test uses the
/// probe's version.
pub(super) const END_THEIR_RUN: &[&str] = &["L1c", "L1d", "L1e", "L1f", "L1g"];

fn scratch(path: &str) -> Value {
    json!({"limit": "scratch", "path": path})
}

/// The same caller, as the limit tests call it.
fn guarded(caller: Caller) -> limits::Caller {
    match caller {
        Caller::User if is_root() => limits::Caller::Ordinary,
        Caller::User | Caller::Root => limits::Caller::Ourselves,
        Caller::RootForUser => limits::Caller::RootForOrdinary,
    }
}

fn fork_bomb(caller: Caller) -> Verdict {
    let caller = guarded(caller);
    let guarded = Guarded::new(caller);
    if !guarded.holds_processes(64) {
        let why = "nothing limits the number of processes here, so the test started no bomb";
        return Verdict::NotHere(why.to_owned());
    }
    let neighbour = Neighbour::new(caller);
    let output = guarded.play(FORK_BOMB, &["--processes", "64"]);
    let limit = json!({"limit": "processes", "most": 64});
    guarded.assert_over_limit(&output, &limit, "--processes");
    neighbour.assert_alive();
    Verdict::Held("the process limit".to_owned())
}

fn memory_bomb(caller: Caller) -> Verdict {
    let caller = guarded(caller);
    let guarded = Guarded::new(caller);
    let output = guarded.play("say Nothing yet.", &["--memory", "128MiB"]);
    assert_exit(&output, 0);
    let limits = guarded.in_force()["limits"].clone();
    assert_eq!(limits["held"]["memory_bytes"], json!(128 * MIB), "{limits}");
    let neighbour = Neighbour::new(caller);
    let output = guarded.play(MEMORY_BOMB, &["--memory", "128MiB"]);
    let limit = json!({"limit": "memory", "bytes": 128 * MIB});
    guarded.assert_over_limit(&output, &limit, "--memory");
    neighbour.assert_alive();
    Verdict::Held("the memory limit".to_owned())
}

fn disk_filler(caller: Caller) -> Verdict {
    let caller = guarded(caller);
    let guarded = Guarded::new(caller);
    // Files from before the run do not count.
    std::fs::write(guarded.stage.workspace().join("before"), vec![7; 40 << 20]).unwrap();
    let neighbour = Neighbour::new(caller);
    let output = guarded.play(DISK_FILLER, &["--disk", "32MiB"]);
    guarded.assert_over_limit(&output, &json!({"limit": "disk", "bytes": 32 * MIB}), "--disk");
    neighbour.assert_alive();
    Verdict::Held("the disk limit".to_owned())
}

/// Everything that the shim writes for a run counts against the run's disk limit, even its last event.
fn printer(caller: Caller) -> Verdict {
    let caller = guarded(caller);
    let guarded = Guarded::new(caller);
    let neighbour = Neighbour::new(caller);
    for (flag, limit) in [("--disk", "disk"), ("--journal", "journal")] {
        let output = guarded.play(PRINTER, &[flag, "16MiB"]);
        guarded.assert_over_limit(&output, &json!({"limit": limit, "bytes": 16 * MIB}), flag);
        let journal = guarded.stage.runs().join(guarded.last_run()).join("events.jsonl");
        let length = std::fs::metadata(journal).unwrap().len();
        assert!(length < 20 * MIB, "{length}");
    }
    neighbour.assert_alive();
    Verdict::Held("the disk and journal limits".to_owned())
}

/// The bomb ends on its own, so that the test can start it even where only polling limits memory.
fn memfd_bomb(caller: Caller) -> Verdict {
    let caller = guarded(caller);
    let guarded = Guarded::new(caller);
    let neighbour = Neighbour::new(caller);
    let output = guarded.play(MEMFD_BOMB, &["--memory", "128MiB"]);
    let limit = json!({"limit": "memory", "bytes": 128 * MIB});
    guarded.assert_over_limit(&output, &limit, "--memory");
    neighbour.assert_alive();
    Verdict::Held("the memory limit".to_owned())
}

/// The kernel refuses writes to a full file system. The shim ends a run that gets this error and stays at the limit.
fn room_filler(caller: Caller, directory: &str, limit: fn(&str) -> Value) -> Verdict {
    let mut hostile = Hostile::new(caller).expect("this process can act as the caller");
    let neighbour = Neighbour::new(guarded(caller));
    let script = format!(
        "shell head -c 9000000 /dev/zero > \"{directory}\"/filler 2> refused; sleep 600\nsay done"
    );
    let output = hostile.play(&script, &[]);
    assert_exit(&output, 137);
    let refused = std::fs::read_to_string(hostile.workspace().join("refused")).unwrap();
    assert!(refused.contains("No space left"), "{refused}");
    let home = hostile.stage.home().display().to_string();
    let mut limit = limit(&directory.replace("$HOME", &home));
    limit["bytes"] = json!(if directory == "/run" { MIB } else { 4 * MIB });
    let ended = hostile.stage.ended();
    assert_eq!((&ended["outcome"], &ended["limit"]), (&json!("quota_exceeded"), &limit));
    assert!(ended["why"].as_str().unwrap().contains("a profile's `["), "{ended}");
    hostile.dismiss_neighbour();
    hostile.stage.assert_no_survivors("after the run ended");
    neighbour.assert_alive();
    Verdict::Held("the size of the directory".to_owned())
}

/// The shim refuses connections beyond the limit and records them in a few events. It ends a run that does not stop
/// trying.
fn flood(caller: Caller) -> Verdict {
    require(&["node"]);
    let caller = guarded(caller);
    let guarded = Guarded::new(caller);
    let stage = &guarded.stage;
    let program = include_str!("../sandbox/network/flood.js");
    std::fs::write(stage.workspace().join("flood.js"), program).unwrap();
    let neighbour = Neighbour::new(caller);
    // The accepted connections send nothing, so the shim closes them after this time.
    let profiles = stage.home().join(".config/caretaker/profiles");
    std::fs::create_dir_all(&profiles).unwrap();
    let impatient = "extends = \"default\"\n[network]\nhandshake = \"2s\"\n";
    std::fs::write(profiles.join("impatient.toml"), impatient).unwrap();
    let script = "shell[timeout=300s] node flood.js > results\nsay done";
    let output = guarded.play(script, &["--profile", "impatient"]);
    let limit = json!({"limit": "connections", "most": 256});
    guarded.assert_over_limit(&output, &limit, "`[network]`");
    let events = network_events(&stage.journal(&guarded.last_run()));
    assert!(events.len() < 20, "{} events", events.len());
    let n_told = count(&events, |event| event["reason"] == "too_many_connections");
    assert!(n_told >= 1_000, "{events:#?}");
    neighbour.assert_alive();
    Verdict::Held("the connection limit".to_owned())
}
