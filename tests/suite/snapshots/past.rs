//! Runs of the past, with fixed ids and times: what the commands that read runs are tried on.
//!
//! The directories in `past` were written by real runs of the simulated agent in September 2020, or so their times say:
//! old enough that an age has four digits for a long time to come.

use std::path::Path;

use crate::programs::checkout;
use crate::stage::Stage;

/// It succeeded, with a thought, four tool calls and an answer.
pub(super) const TIDY: &str = "01740000-0000-7000-8000-00000000a001";
/// It failed: the service had no capacity. In the group `release`, with a label.
pub(super) const PUBLISH: &str = "01740000-0000-7000-8000-00000000a002";
/// It reported progress and a result.
pub(super) const REPORTER: &str = "01740000-0000-7000-8000-00000000a003";
/// It continued the session of [`TIDY`], and has no name.
pub(super) const COUNTING: &str = "01740000-0000-7000-8000-00000000a004";
/// It was killed while a command ran.
pub(super) const WATCHER: &str = "01740000-0000-7000-8000-00000000a005";
/// It was suspended while a command ran.
pub(super) const CHANGELOG: &str = "01740000-0000-7000-8000-00000000a006";
/// Its supervisor died.
pub(super) const CUT_OFF: &str = "01740000-0000-7000-8000-00000000a007";

/// It asked two things and ended; a letter waits for its session.
pub(super) const ASKER: &str = "01740000-0000-7000-8000-00000000a008";
/// The questions of [`ASKER`].
pub(super) const QUESTION: &str = "q-c1b6afc2";
/// Two that wait in the queue, in the group `nightly`.
pub(super) const QUEUED: &str = "01740000-0000-7000-8000-00000000a009";
const QUEUED_TOO: &str = "01740000-0000-7000-8000-00000000a010";

const RUNS: [(&str, &str); 7] = [
    ("tidy", TIDY),
    ("publish", PUBLISH),
    ("reporter", REPORTER),
    ("counting", COUNTING),
    ("watcher", WATCHER),
    ("changelog", CHANGELOG),
    ("cut-off", CUT_OFF),
];

/// All of them on a stage. It costs a few milliseconds, so every test has one of its own.
pub(super) fn stage() -> Stage {
    let stage = Stage::of_fixed_width();
    for (name, id) in RUNS {
        add_run(&stage, name, id);
    }
    stage
}

/// Those of [`stage`], and a run that asks, with its inbox.
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

/// Those of [`stage`], and two that wait in a queue that is paused.
pub(super) fn queued() -> Stage {
    let stage = stage();
    add_run(&stage, "q1", QUEUED);
    add_run(&stage, "q2", QUEUED_TOO);
    let queue = r#"{"gate":"paused","caps":null,"lowered":{}}"#;
    std::fs::write(stage.root().join("state/queue.json"), queue).unwrap();
    stage
}

fn add_run(stage: &Stage, name: &str, id: &str) {
    let from = checkout().join("tests/suite/snapshots/past").join(name);
    let to = stage.runs().join(id);
    std::fs::create_dir_all(&to).unwrap();
    for file in ["spec.json", "events.jsonl", "prompt"] {
        let text = std::fs::read_to_string(from.join(file)).unwrap();
        let text = at(&text, "{HOME}", &stage.home());
        let text = at(&text, "{RUNTIME}", &stage.root().join("run"));
        std::fs::write(to.join(file), text).unwrap();
    }
}

fn at(text: &str, name: &str, path: &Path) -> String {
    text.replace(name, path.to_str().unwrap())
}
