//! Past runs with fixed ids and times, for the commands that read runs.
//!
//! Real runs of the simulated agent wrote the directories in `past`. They are dated September 2020, so that their age
//! in days will have four digits for a long time.

use std::fs::File;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use regex::Regex;

use crate::stage::Stage;
use crate::stage::programs::checkout;

/// This run succeeded, with a thought, four tool calls and an answer.
pub(super) const TIDY: &str = "01740000-0000-7000-8000-00000000a001";
/// This run failed, because the service had no capacity. It is in the group `release`, and has a label.
pub(super) const PUBLISH: &str = "01740000-0000-7000-8000-00000000a002";
/// This run reported progress and a result.
pub(super) const REPORTER: &str = "01740000-0000-7000-8000-00000000a003";
/// This run continued the session of [`TIDY`], and has no name.
pub(super) const COUNTING: &str = "01740000-0000-7000-8000-00000000a004";
/// This run was killed while a command was running.
pub(super) const WATCHER: &str = "01740000-0000-7000-8000-00000000a005";
/// This run was suspended while a command was running.
pub(super) const CHANGELOG: &str = "01740000-0000-7000-8000-00000000a006";
/// This run's shim died.
pub(super) const CUT_OFF: &str = "01740000-0000-7000-8000-00000000a007";

/// This run asked two questions and ended; a message is waiting for its session.
pub(super) const ASKER: &str = "01740000-0000-7000-8000-00000000a008";
/// The questions of [`ASKER`].
pub(super) const QUESTION: &str = "q-c1b6afc2";
/// Two runs waiting in the queue, in the group `nightly`.
pub(super) const QUEUED: &str = "01740000-0000-7000-8000-00000000a009";
const QUEUED_TOO: &str = "01740000-0000-7000-8000-00000000a010";

/// A live run: a process holds its lock.
pub(super) const RUNNING: &str = "01740000-0000-7000-8000-00000000a011";

/// This run has one event of each kind in its journal.
pub(super) const EVERYTHING: &str = "01740000-0000-7000-8000-00000000a012";
/// This run was interrupted a few hours ago.
pub(super) const JUST_CUT_OFF: &str = "01740000-0000-7000-8000-00000000a013";

const RUNS: [(&str, &str); 7] = [
    ("tidy", TIDY),
    ("publish", PUBLISH),
    ("reporter", REPORTER),
    ("counting", COUNTING),
    ("watcher", WATCHER),
    ("changelog", CHANGELOG),
    ("cut-off", CUT_OFF),
];

/// Makes a stage with all of these runs. It takes a few milliseconds, so every test has its own.
pub(super) fn stage() -> Stage {
    let stage = Stage::of_fixed_width();
    for (name, id) in RUNS {
        add_run(&stage, name, id);
    }
    stage
}

/// Like [`stage`], but with another run that asks questions, and its inbox.
pub(super) fn asking() -> Stage {
    let stage = stage();
    add_run(&stage, "asker", ASKER);
    let inbox = stage.root().join("state/inbox");
    std::fs::create_dir_all(&inbox).unwrap();
    let session = ASKER.replace("01740000-0000-7", "5e550000-0000-4").replace("0a008", "0b008");
    let from = checkout().join("tests/suite/snapshots/past/asker/inbox.jsonl");
    std::fs::copy(from, inbox.join(session).with_extension("jsonl")).unwrap();
    stage
}

/// Like [`stage`], but with two more runs in a paused queue.
pub(super) fn queued() -> Stage {
    let stage = stage();
    add_run(&stage, "q1", QUEUED);
    add_run(&stage, "q2", QUEUED_TOO);
    let queue = r#"{"gate":"paused","caps":null,"lowered":{}}"#;
    std::fs::write(stage.root().join("state/queue.json"), queue).unwrap();
    stage
}

/// Like [`stage`], but with another run that is live as long as the file is open. No shim answers for it.
pub(super) fn running() -> (Stage, File) {
    let stage = stage();
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    add_run_as(&stage, "cut-off", RUNNING, |text| {
        text.replace("00000000a007", "00000000a011")
            .replace("00000000b007", "00000000b011")
            .replace("\"cut-off\"", "\"builder\"")
            .replace("4e900000-0000-4000-8000-00000000c700", boot.trim())
    });
    let lock = File::create(stage.runs().join(RUNNING).join("run.lock")).unwrap();
    let whole_file = libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    fcntl(&lock, FcntlArg::F_OFD_SETLK(&whole_file)).unwrap();
    (stage, lock)
}

/// Makes a stage with a run whose journal has every kind of our own events, from the event schema.
pub(super) fn everything() -> Stage {
    let stage = Stage::of_fixed_width();
    add_run_as(&stage, "tidy", EVERYTHING, |text| text.replace("00000000a001", "00000000a012"));
    let journal = stage.journal_path(EVERYTHING);
    let text = std::fs::read_to_string(&journal).unwrap();
    let mut lines = vec![text.lines().next().unwrap().to_owned()];
    let schema = checkout().join("fixtures/events/schema-v1.jsonl");
    let schema = std::fs::read_to_string(schema).unwrap();
    let bodies = schema.lines().filter_map(|line| line.split_once(r#","kind":""#));
    let is_end = |kind: &str| kind.starts_with("run.ended");
    let (ends, others): (Vec<_>, Vec<_>) =
        bodies.map(|(_, body)| body).partition(|body| is_end(body));
    let ours = |body: &&str| body.starts_with("run.") || body.starts_with("net.");
    for body in others.into_iter().chain(ends).filter(ours) {
        let seq = lines.len();
        let at = 1_600_000_000_000 + 1000 * seq;
        let body = body.strip_prefix("run.").unwrap_or(body);
        lines.push(format!(r#"{{"seq":{seq},"at":{at},"run":{{"kind":"{body}}}"#));
    }
    std::fs::write(journal, lines.join("\n") + "\n").unwrap();
    stage
}

/// Like [`stage`], but with another run that was interrupted three and a half hours ago.
pub(super) fn just_cut_off() -> Stage {
    let stage = stage();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    let shift = now - 3 * 3_600_000 - 1_800_000 - 1_600_021_600_000;
    let milliseconds = Regex::new(r"\b16000\d{8}\b").unwrap();
    add_run_as(&stage, "cut-off", JUST_CUT_OFF, |text| {
        let text =
            text.replace("00000000a007", "00000000a013").replace("00000000b007", "00000000b013");
        let later =
            |found: &regex::Captures<'_>| (found[0].parse::<u128>().unwrap() + shift).to_string();
        milliseconds.replace_all(&text, later).into_owned()
    });
    stage
}

fn add_run(stage: &Stage, name: &str, id: &str) {
    add_run_as(stage, name, id, |text| text);
}

fn add_run_as(stage: &Stage, name: &str, id: &str, change: impl Fn(String) -> String) {
    let from = checkout().join("tests/suite/snapshots/past").join(name);
    let to = stage.runs().join(id);
    std::fs::create_dir_all(&to).unwrap();
    for file in ["spec.json", "events.jsonl", "prompt"] {
        let text = std::fs::read_to_string(from.join(file)).unwrap();
        let text = at(&text, "{HOME}", &stage.home());
        let text = at(&text, "{RUNTIME}", &stage.root().join("run"));
        std::fs::write(to.join(file), change(text)).unwrap();
    }
}

fn at(text: &str, name: &str, path: &Path) -> String {
    text.replace(name, path.to_str().unwrap())
}
