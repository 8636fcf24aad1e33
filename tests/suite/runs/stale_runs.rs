//! Runs that lose their session's lease or their own directory while they run.

use std::fs;
use std::path::{Path, PathBuf};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::stage::{Entry, Stage, assert_exit, stderr};

/// The agent continues once the test creates `go`.
const SCRIPT: &str =
    "# heron\nsay One.\nshell while [ ! -e go ]; do sleep 0.02; done\nsay Two.\nshell true";

struct Scene {
    stage: Stage,
    run: String,
    session: String,
}

impl Scene {
    /// Starts a run, and returns when its agent is in the middle of a tool call.
    fn new() -> Self {
        let stage = Stage::new();
        let run = stage.detach(SCRIPT, &[]);
        stage.wait_until(&run, |line| line["kind"] == "agent.tool_started");
        let session = stage.session_of(&run);
        Self { stage, run, session }
    }

    fn lease(&self) -> PathBuf {
        self.stage.root().join("state/sessions").join(&self.session).join("lease.lock")
    }

    fn note(&self) -> Value {
        serde_json::from_slice(&fs::read(self.lease()).unwrap()).unwrap()
    }

    /// Lets the agent continue.
    fn go(&self) {
        fs::write(self.stage.workspace().join("go"), "").unwrap();
    }

    fn ended(&self) -> Value {
        self.stage.journal(&self.run).pop().unwrap().line["run"].clone()
    }
}

fn lines(entries: &[Entry]) -> Vec<String> {
    entries.iter().map(|entry| entry.line.to_string()).collect()
}

/// Something that happens to the files of a run's session.
type Change = fn(&Scene);

fn replace(path: &Path, content: &[u8]) {
    let beside = path.with_extension("new");
    fs::write(&beside, content).unwrap();
    fs::rename(beside, path).unwrap();
}

#[test]
fn a_run_that_lost_its_lease_records_only_its_end() {
    let changes: [(&str, Change); 4] = [
        ("deleted", |scene| fs::remove_file(scene.lease()).unwrap()),
        ("its directory deleted", |scene| {
            // The agent still writes into the directory, so removing it file by file might find it not empty.
            let lease = scene.lease();
            fs::rename(lease.parent().unwrap(), scene.stage.root().join("removed")).unwrap();
        }),
        ("restored from a backup, as another file", |scene| {
            replace(&scene.lease(), &fs::read(scene.lease()).unwrap());
        }),
        ("taken by a later run", |scene| {
            let mut note = scene.note();
            note["generation"] = json!(7);
            note["run"] = json!("01a00000-0000-7000-8000-000000000000");
            fs::write(scene.lease(), note.to_string()).unwrap();
        }),
    ];
    for (what, change) in changes {
        let scene = Scene::new();
        let stage = &scene.stage;
        let before = stage.journal(&scene.run);
        change(&scene);
        // The agent's further output comes too late.
        scene.go();
        let waited = stage.output(&["wait", &scene.run]);
        assert_eq!(waited.status.code(), Some(4), "{what}: {}", stderr(&waited));
        stage.assert_no_survivors(what);
        let after = stage.journal(&scene.run);
        assert!(lines(&after).starts_with(&lines(&before)), "{what}: an event changed");
        let added = &after[before.len()..];
        assert!(added.iter().all(|entry| entry.line.get("run").is_some()), "{what}");
        assert_eq!(scene.ended()["outcome"], "lease_lost", "{what}: {}", scene.ended());
        let is_checkpoint = |entry: &Entry| entry.line["run"]["kind"] == "checkpoint";
        assert!(
            !added.iter().any(is_checkpoint),
            "{what}: the run reported on a session that it no longer holds"
        );
        let show = stage.output(&["show", &scene.run]);
        assert!(String::from_utf8_lossy(&show.stdout).contains("lease lost"), "{what}");

        // The next run gets the session with its content.
        let output = stage.resume(&scene.session, "recall", &[]);
        assert_eq!(output.status.code(), Some(0), "{what}: {}", stderr(&output));
        assert!(String::from_utf8_lossy(&output.stdout).contains("# heron"), "{what}");
    }
}

#[test]
fn an_old_lease_record_from_a_backup_does_no_harm() {
    let scene = Scene::new();
    let ours = scene.note();
    let mut old = ours.clone();
    old["generation"] = json!(0);
    fs::write(scene.lease(), old.to_string()).unwrap();
    scene.go();
    let waited = scene.stage.output(&["wait", &scene.run]);
    assert_exit(&waited, 0);
    assert_eq!(scene.note(), ours, "the run still holds the lock, and wrote its note again");
}

#[test]
fn a_run_whose_directory_is_deleted_ends() {
    let scene = Scene::new();
    fs::remove_dir_all(scene.stage.runs().join(&scene.run)).unwrap();
    scene.stage.assert_no_survivors("its directory is deleted");

    let scene = Scene::new();
    let moved = scene.stage.root().join("moved");
    fs::rename(scene.stage.runs().join(&scene.run), &moved).unwrap();
    scene.stage.assert_no_survivors("its directory is moved");
    let journal = fs::read_to_string(moved.join("events.jsonl")).unwrap();
    let last: Value = serde_json::from_str(journal.lines().last().unwrap()).unwrap();
    assert_eq!(last["run"]["outcome"], "journal_failed", "{last}");
    assert!(!journal.contains("disk_full"), "{journal}");
}
