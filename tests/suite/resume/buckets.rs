//! An agent that names its directory of sessions differently: the run still ends resumable, and the user's own sessions
//! stay where they are.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use cursor_home::{BucketHash, WorkspacePath};
use pretty_assertions::assert_eq;
use serde_json::Value;

use crate::stage::{Stage, assert_exit, stderr, stdout};

const SHA256: &str = "misbehave sha256-bucket\n";

/// The name of the workspace's bucket by SHA-256.
fn by_sha256(stage: &Stage) -> String {
    WorkspacePath::new(&stage.workspace()).unwrap().bucket_by(BucketHash::Sha256)
}

fn chats(stage: &Stage) -> PathBuf {
    stage.home().join(".cursor/chats")
}

fn users(stage: &Stage, session: &str) -> PathBuf {
    chats(stage).join(by_sha256(stage)).join(session)
}

fn ours(stage: &Stage, session: &str) -> PathBuf {
    stage.root().join("state/chats").join(by_sha256(stage)).join(session)
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Plays a new session and returns its id.
fn play(stage: &Stage, script: &str) -> String {
    let output = stage.play(script, &[]);
    assert_exit(&output, 0);
    stage.session_of(&stage.run_ids().pop().unwrap())
}

/// The last run's events of a kind.
fn events(stage: &Stage, kind: &str) -> Vec<Value> {
    let run = stage.run_ids().pop().unwrap();
    let events = stage.journal(&run).into_iter().map(|entry| entry.line["run"].clone());
    events.filter(|event| event["kind"] == kind).collect()
}

#[track_caller]
fn remembers(output: &Output, words: &[&str]) {
    assert_exit(output, 0);
    for word in words {
        assert!(stdout(output).contains(word), "{word}: {}", stdout(output));
    }
}

/// The ids of the listed command line sessions.
fn listed(stage: &Stage) -> Vec<String> {
    let output = stage.output(&["sessions", "ls", "--all", "--json"]);
    assert_exit(&output, 0);
    let listed: Value = serde_json::from_slice(&output.stdout).unwrap();
    let is_chat = |head: &&Value| head["origins"][0]["store"] == "cli";
    let heads = listed["sessions"].as_array().unwrap().iter().filter(is_chat);
    let mut ids: Vec<String> = heads.map(|head| head["id"].as_str().unwrap().to_owned()).collect();
    ids.sort();
    ids
}

fn sorted<const N: usize>(ids: [&String; N]) -> Vec<String> {
    let mut ids: Vec<String> = ids.into_iter().cloned().collect();
    ids.sort();
    ids
}

#[test]
fn an_agent_that_uses_sha256_ends_resumable_and_remembers() {
    let stage = Stage::new();
    let own = stage.begin_session();
    let session = play(&stage, &format!("{SHA256}# heron\nsay One."));
    assert_eq!(events(&stage, "checkpoint")[0]["resumable"], "yes");
    let [drift] = events(&stage, "bucket_drift").try_into().unwrap();
    assert_eq!(drift["bucket"], by_sha256(&stage));
    assert_eq!(drift["directory"].as_str().unwrap(), ours(&stage, &session).to_str().unwrap());
    assert!(ours(&stage, &session).join("store.db").is_file());
    // The user's own agent would find only the new bucket if there were one.
    assert_eq!(names(&chats(&stage)).len(), 1);
    let shown = stdout(&stage.output(&["tail", "-"]));
    assert!(shown.contains("your own cursor-agent does not see this session"), "{shown}");

    let checked = stage.output(&["resume", "--check", "--json", &session]);
    assert_exit(&checked, 0);
    let resumed = stage.resume(&session, &format!("{SHA256}recall\nsay Two."), &[]);
    remembers(&resumed, &["heron", "One."]);
    // An older version of the agent continues it too.
    remembers(&stage.resume(&session, "recall", &[]), &["heron", "Two."]);
    // Another session is not disturbed, whatever its agent calls the bucket.
    let resumed = stage.resume(&own, &format!("{SHA256}recall\nsay Three."), &[]);
    remembers(&resumed, &["The first turn."]);
    assert_eq!(events(&stage, "bucket_drift"), [] as [Value; 0]);
    assert_eq!(names(&chats(&stage)).len(), 1);
    assert_eq!(listed(&stage), sorted([&own, &session]));
}

#[test]
fn a_session_that_caretaker_keeps_can_be_read_checked_and_copied() {
    let stage = Stage::new();
    let session = play(&stage, &format!("{SHA256}# heron\nsay One."));
    for command in [&["sessions", "show", &session], &["sessions", "tail", &session]] {
        let output = stage.output(command);
        assert!(stdout(&output).contains("One."), "{command:?}: {}", stderr(&output));
    }
    for command in [
        &["sessions", "verify", &session][..],
        &["sessions", "gc", &session, "--yes"],
        &["sessions", "bundle", &session, "-o", "bundle"],
        &["sessions", "import", "bundle"],
    ] {
        assert_exit(&stage.output(command), 0);
    }
    // The import found the session, and made no second one.
    assert_eq!(listed(&stage), sorted([&session]));
    remembers(&stage.resume(&session, &format!("{SHA256}recall"), &[]), &["heron"]);
    // A copy is where the user's own agent finds it.
    let copy = stdout(&stage.output(&["sessions", "fork", &session])).trim().to_owned();
    assert!(stage.session_dir(&copy).join("store.db").is_file());
    remembers(&stage.resume(&copy, &format!("{SHA256}recall"), &[]), &["heron"]);
    assert_eq!(events(&stage, "bucket_drift"), [] as [Value; 0]);
}

#[test]
fn a_session_goes_to_the_users_new_bucket_once_the_users_own_agent_has_one() {
    let stage = Stage::new();
    let kept = play(&stage, &format!("{SHA256}# heron\nsay One."));
    let other = "6f1d0000-0000-4000-8000-000000000001";
    fs::create_dir_all(users(&stage, other)).unwrap();
    fs::write(users(&stage, other).join("store.db"), "the user's").unwrap();

    // A new session is there from the start, and sees no other.
    let script = format!(
        "{SHA256}shell cat ~/.cursor/chats/*/{other}/store.db && touch seen; true\nsay Two."
    );
    let new = play(&stage, &script);
    assert_eq!(events(&stage, "bucket_drift"), [] as [Value; 0]);
    assert!(!stage.workspace().join("seen").exists());
    assert_eq!(names(&chats(&stage)), [by_sha256(&stage)]);
    // The next run in the workspace moves the earlier session there, and each of its own runs would do so too.
    assert_eq!(names(&users(&stage, "")), sorted([&new, &kept, &other.to_owned()]));
    assert_eq!(names(&stage.root().join("state/chats")), [] as [String; 0]);
    for session in [&new, &kept] {
        let resumed = stage.resume(session, &format!("{SHA256}recall"), &[]);
        remembers(&resumed, &["misbehave"]);
        assert_eq!(events(&stage, "bucket_drift"), [] as [Value; 0]);
    }
    // Now an agent of an older version is the one that differs.
    let old = play(&stage, "say Three.");
    assert_eq!(events(&stage, "bucket_drift").len(), 1);
    remembers(&stage.resume(&old, "recall", &[]), &["Three."]);
    assert_eq!(names(&chats(&stage)), [by_sha256(&stage)]);
}

#[test]
fn an_agent_that_renames_the_bucket_fails_to_and_ends_resumable() {
    let stage = Stage::new();
    let script = "misbehave renamed-bucket\nrecall\nsay One.";
    let session = play(&stage, script);
    let [ended] = events(&stage, "ended").try_into().unwrap();
    assert!(ended["stderr_tail"].as_str().unwrap().contains("Device or resource busy"), "{ended}");
    assert_eq!(events(&stage, "checkpoint")[0]["resumable"], "yes");
    remembers(&stage.resume(&session, script, &[]), &["One."]);
    // The same for a session of the user's own agent, which the agent on the host then renames.
    let own = stage.begin_session();
    remembers(&stage.resume(&own, script, &[]), &["The first turn."]);
    fs::rename(stage.session_dir(""), users(&stage, "")).unwrap();
    assert_eq!(listed(&stage), sorted([&own, &session]));
    assert_exit(&stage.output(&["sessions", "verify", &own]), 0);
    remembers(&stage.resume(&own, script, &[]), &["The first turn.", "One."]);
    assert_eq!(names(&chats(&stage)), [by_sha256(&stage)]);
}

#[test]
fn an_agent_on_the_host_may_rename_the_bucket_while_a_run_is_on() {
    let stage = Stage::new();
    let gate = stage.workspace().join("gate");
    nix::unistd::mkfifo(&gate, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let run = stage.detach("# heron\nshell cat gate\nsay One.", &[]);
    let session = stage.session_of(&run);
    stage.wait_until(&run, |line| line["kind"] == "agent.tool_started");
    fs::rename(stage.session_dir(""), users(&stage, "")).unwrap();
    fs::write(&gate, "renamed").unwrap();
    assert_exit(&stage.output(&["wait", &run]), 0);
    assert_eq!(events(&stage, "checkpoint")[0]["resumable"], "yes");
    assert_eq!(names(&users(&stage, "")), sorted([&session]));
    remembers(&stage.resume(&session, "recall", &[]), &["heron", "One."]);
}

#[test]
fn a_session_under_both_names_is_one_conversation_unless_the_two_differ() {
    let stage = Stage::new();
    let session = stage.begin_session();
    let copy = |from: &Path, to: &Path| {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    };
    copy(&stage.session_dir(&session), &users(&stage, &session));
    assert_eq!(listed(&stage), sorted([&session]));
    // The run continues the copy that cursor-agent would use, and it is the one that counts from then on.
    remembers(&stage.resume(&session, &format!("{SHA256}recall\nsay Two."), &[]), &["first turn"]);
    assert_eq!(listed(&stage), sorted([&session]));
    assert_exit(&stage.output(&["sessions", "verify", &session]), 0);
    remembers(&stage.resume(&session, "recall\nsay Three.", &[]), &["Two."]);

    // Two different conversations: nothing is hidden, and nothing is guessed.
    let other = stage.begin_session();
    let directory = stage.session_dir(&session);
    fs::remove_dir_all(&directory).unwrap();
    copy(&stage.session_dir(&other), &directory);
    assert_eq!(listed(&stage).len(), 3, "{:?}", listed(&stage));
    let refused = stage.output(&["resume", "--check", "--json", &session]);
    assert_exit(&refused, 6);
    let refused: Value = serde_json::from_slice(&refused.stdout).unwrap();
    assert_eq!(refused["reason"]["kind"], "several_buckets");
}

#[test]
fn an_agent_that_uses_an_unknown_name_loses_its_session_and_the_run_says_why() {
    let stage = Stage::new();
    let session = play(&stage, "misbehave unknown-bucket\nsay One.");
    let [checkpoint] = events(&stage, "checkpoint").try_into().unwrap();
    let why = checkpoint["reason"].as_str().unwrap();
    assert!(why.contains("its version may use another one"), "{checkpoint}");
    assert!(stdout(&stage.output(&["show", "-"])).contains("its version may use another one"));
    assert_exit(&stage.output(&["resume", "--check", &session]), 6);
    assert_eq!(names(&chats(&stage)), [] as [String; 0]);
    assert_eq!(names(&stage.root().join("state/chats")), [] as [String; 0]);
    // It cannot damage a session that it resumes.
    let own = stage.begin_session();
    let resumed = stage.resume(&own, "misbehave unknown-bucket\nsay Two.", &[]);
    assert_exit(&resumed, 7);
    remembers(&stage.resume(&own, "recall", &[]), &["The first turn."]);
}

#[test]
fn an_agent_without_a_sandbox_may_use_any_known_name() {
    let stage = Stage::new();
    let off = ["--sandbox", "off", "--force"];
    let output = stage.play(&format!("{SHA256}# heron\nsay One."), &off);
    assert_exit(&output, 0);
    let session = stage.session_of(&stage.run_ids().pop().unwrap());
    assert!(users(&stage, &session).join("store.db").is_file());
    assert_eq!(events(&stage, "bucket_drift"), [] as [Value; 0]);
    remembers(&stage.resume(&session, &format!("{SHA256}recall"), &off), &["heron"]);
    remembers(&stage.resume(&session, "recall", &["--profile", "default"]), &["heron"]);
}

#[test]
fn a_killed_runs_session_is_found_in_caretakers_chats() {
    let stage = Stage::new();
    let run = stage.detach(&format!("{SHA256}# heron\nsay One.\nshell sleep 600"), &[]);
    let session = stage.session_of(&run);
    stage.wait_until(&run, |line| line["kind"] == "agent.tool_started");
    let shim =
        rustix::process::Pid::from_raw(i32::try_from(stage.shim_pid(&run)).unwrap()).unwrap();
    rustix::process::kill_process(shim, rustix::process::Signal::KILL).unwrap();
    stage.output(&["wait", &run]);
    stage.assert_no_survivors("after the kill");
    assert_eq!(listed(&stage), sorted([&session]));
    let resumed = stage.resume(&session, &format!("{SHA256}recall"), &[]);
    remembers(&resumed, &["heron"]);
    assert_eq!(names(&chats(&stage)), [] as [String; 0]);
}
