//! Today's binary reads a home of format version 1, `fixtures/formats/v1`. Its README says how it was made.
//!
//! The files name `/home/ada`, so the commands run on a copy, in a new mount namespace where that is the home
//! directory. No test changes a byte of a fixture.

use std::fs::{self, Permissions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};

use pretty_assertions::assert_eq;
use serde_json::Value;

use crate::snapshots::Shown;
use crate::stage::daemon_stage::DaemonStage;
use crate::stage::programs::{checkout, program};
use crate::stage::{Stage, assert_exit, stderr};

const FIXTURES: &str = "fixtures/formats/v1";

/// Makes a stage with a copy of Ada's home and state.
fn adas() -> Stage {
    let stage = Stage::of_fixed_width().seen_as(command);
    let from = checkout().join(FIXTURES);
    copy(&from.join("home"), &stage.home());
    copy(&from.join("state"), &stage.root().join("state"));
    copy(&from.join("exports"), &stage.home().join("exports"));
    stage
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), &to).unwrap();
            // Git creates files with this machine's umask, but the snapshots need fixed modes.
            let is_program = entry.metadata().unwrap().permissions().mode() & 0o100 != 0;
            let mode = if is_program { 0o755 } else { 0o644 };
            fs::set_permissions(&to, Permissions::from_mode(mode)).unwrap();
        }
    }
}

/// Starts `caretaker` where the stage's home is `/home/ada`.
fn command(stage: &Stage, args: &[&str]) -> Command {
    let mut command = Command::new("bwrap");
    let (home, state) = (stage.home(), stage.root().join("state"));
    command
        .args(["--dev-bind", "/", "/", "--tmpfs", "/home", "--tmpfs", "/run"])
        .args(["--perms", "0700", "--dir", "/run/user/1000", "--bind"])
        .arg(home)
        .args(["/home/ada", "--bind"])
        .arg(state)
        .args(["/home/ada/.local/state/caretaker", "--ro-bind"])
        .arg(program("caretaker"))
        .args(["/home/ada/.local/bin/caretaker", "--chdir", "/home/ada/project"])
        .arg("/home/ada/.local/bin/caretaker")
        .args(args)
        .env_clear()
        .env("HOME", "/home/ada")
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("XDG_RUNTIME_DIR", "/run/user/1000")
        .stdin(Stdio::null());
    command
}

fn json(stage: &Stage, args: &[&str]) -> Value {
    let output = stage.output(args);
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Returns the runs with the names of their snapshots, oldest first. Two runs may have the same name.
fn runs(stage: &Stage) -> Vec<(String, String)> {
    let named = |(place, run): (usize, String)| {
        let spec = fs::read(stage.runs().join(&run).join("spec.json")).unwrap();
        let spec: Value = serde_json::from_slice(&spec).unwrap();
        let name = format!("{:02}-{}", place + 1, spec["name"].as_str().unwrap());
        (run, name)
    };
    stage.run_ids().into_iter().enumerate().map(named).collect()
}

#[test]
fn runs_of_version_1_are_listed_and_shown() {
    let stage = adas();
    let shown = Shown::of(&stage);
    shown.command("formats-v1/ps", &["ps", "--all"]);
    for (run, name) in runs(&stage) {
        shown.json(&format!("formats-v1/show-{name}"), &["show", &run]);
    }
    shown.human("formats-v1/show-tidy", &["show", "tidy"]);
}

#[test]
fn journals_of_version_1_are_printed_in_full() {
    let stage = adas();
    let shown = Shown::of(&stage);
    for (run, name) in runs(&stage) {
        shown.json(&format!("formats-v1/tail-{name}"), &["tail", &run]);
    }
    shown.human("formats-v1/tail-tidy", &["tail", "tidy"]);
    shown.command("formats-v1/net-log", &["sandbox", "net-log", "tidy"]);
}

#[test]
fn a_journal_with_every_kind_of_event_is_printed_in_full() {
    let stage = adas();
    let shown = Shown::of(&stage);
    for (file, run) in [("every-kind", "tidy"), ("every-word", "counting")] {
        let id = json(&stage, &["show", run, "--json"])["run"].as_str().unwrap().to_owned();
        let journal = checkout().join(FIXTURES).join(format!("journal/{file}.jsonl"));
        fs::copy(journal, stage.journal_path(&id)).unwrap();
        shown.command(&format!("formats-v1/{file}"), &["tail", &id]);
    }
}

#[test]
fn messages_queue_groups_logins_and_pins_of_version_1_are_read() {
    let stage = adas();
    let shown = Shown::of(&stage);
    shown.command("formats-v1/inbox", &["inbox"]);
    shown.command("formats-v1/why", &["why", "later"]);
    shown.command("formats-v1/groups", &["group", "ls"]);
    shown.command("formats-v1/group", &["group", "show", "release"]);
    shown.command("formats-v1/logins", &["login", "ls"]);
    // A file's size on disk depends on the file system.
    let shown = Shown::of(&stage).also(r#"("bytes": ?)\d+"#, "${1}<size>");
    shown.json("formats-v1/gc", &["gc", "--keep", "3", "--older-than", "none"]);
}

#[test]
fn a_daemon_remembers_the_queue_of_version_1() {
    let stage = Stage::of_fixed_width();
    fs::create_dir_all(stage.root().join("state")).unwrap();
    let queue = checkout().join(FIXTURES).join("state/queue.json");
    fs::copy(queue, stage.root().join("state/queue.json")).unwrap();
    let stage = DaemonStage::on(stage, 8);
    stage.start_daemon();
    Shown::of(&stage).command("formats-v1/queue", &["queue"]);
}

#[test]
fn workspace_snapshots_of_version_1_are_compared_and_restored() {
    let stage = adas();
    let shown = Shown::of(&stage);
    shown.command("formats-v1/diff", &["diff", "tidy"]);
    shown.command("formats-v1/diff-worktree", &["diff", "side"]);
    // This undo was interrupted when only the last line of its record was missing.
    shown.once("formats-v1/undo-interrupted", &["undo", "other"]);
    assert_eq!(fs::read_to_string(stage.home().join("other/one.txt")).unwrap(), "one\n");
    shown.once("formats-v1/undo-again", &["undo", "scribble"]);
    assert_eq!(
        fs::read_to_string(stage.workspace().join("README.md")).unwrap(),
        "Engine\n======\n"
    );
    shown.once("formats-v1/redo", &["undo", "scribble", "--redo"]);
    assert_eq!(fs::read_to_string(stage.workspace().join("README.md")).unwrap(), "scribble\n");
}

#[test]
fn exports_and_bundles_of_version_1_are_read_back() {
    let stage = adas();
    let shown = Shown::of(&stage);
    for file in ["tidy.json", "tidy.jsonl", "every-part.json", "every-part.jsonl"] {
        let path = format!("/home/ada/exports/{file}");
        let name = file.replace('.', "-");
        shown.json(
            &format!("formats-v1/export-{name}"),
            &["sessions", "show", "-", "--from", &path],
        );
    }
    shown.once("formats-v1/import", &["sessions", "import", "/home/ada/exports/tidy.session"]);
    let (imported, exported) = (
        json(&stage, &["sessions", "show", "-", "--store", "cli", "--json"]),
        json(&stage, &["sessions", "show", "-", "--from", "/home/ada/exports/tidy.json", "--json"]),
    );
    let texts = |conversation: &Value| {
        let messages = conversation["messages"].as_array().unwrap().clone();
        messages.iter().map(|message| message["parts"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(texts(&imported), texts(&exported));
}

#[test]
fn ps_lists_the_same_runs_with_an_index_of_any_version_and_without_one() {
    let stage = adas();
    let list = || json(&stage, &["ps", "--all", "--json"]);
    let expected = list();
    assert!(expected.as_array().is_none_or(|runs| runs.len() == stage.run_ids().len()));
    let index = stage.root().join("state/index.db");
    for version in [0, 6, 8, -1] {
        fs::copy(checkout().join(FIXTURES).join("state/index.db"), &index).unwrap();
        set_version(&index, version);
        assert_eq!(list(), expected, "version {version}");
    }
    fs::remove_file(&index).unwrap();
    assert_eq!(list(), expected);
}

/// Sets a database's version: four bytes at a fixed offset in its first page.
fn set_version(database: &Path, version: i32) {
    let file = fs::OpenOptions::new().write(true).open(database).unwrap();
    file.write_all_at(&version.to_be_bytes(), 60).unwrap();
}

#[test]
fn a_configuration_and_a_profile_of_version_1_are_accepted() {
    let stage = Stage::of_fixed_width();
    let from = checkout().join(FIXTURES).join("home/.config/caretaker");
    copy(&from, &stage.home().join(".config/caretaker"));
    let explained = stage.output(&["sandbox", "explain", "--agent", "simulated"]);
    assert_exit(&explained, 0);
    // Keep only the values from the two files, because the other values depend on this machine.
    let is_of_files = |line: &&str| {
        let is_of_machine = line.contains(" /etc/") || line.contains("/run/caretaker");
        let is_named = line.starts_with("ada.toml") || line.starts_with("config or flag");
        is_named && !is_of_machine || line.starts_with("this run") && line.contains(" network ")
    };
    let lines = String::from_utf8(explained.stdout).unwrap();
    let lines: Vec<&str> = lines.lines().filter(is_of_files).collect();
    Shown::of(&stage).text("formats-v1/explain", &lines.join("\n"));
}
