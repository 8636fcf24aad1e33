//! Copies of sessions: the simulated agent writes and continues the sessions, and `caretaker` copies them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Output;

use pretty_assertions::assert_eq;
use serde_json::Value;

use store_fixtures::Closing;
use store_fixtures::ide::{IdeHome, assistant_bubble, composer, header, user_bubble};

use crate::stage::{Stage, assert_exit, printed, stderr};

#[track_caller]
fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", stderr(output)))
}

/// Plays three turns with tools in the stage's workspace, and returns the session.
fn talk(stage: &Stage) -> String {
    let session = stage.begin_session();
    for script in [
        "say The second turn.\nwrite notes.txt <<END\nblue\nEND\nread notes.txt",
        "say The third turn.",
    ] {
        printed(&stage.play(script, &["--session", &session]));
    }
    session
}

fn recall(stage: &Stage, session: &str) -> String {
    printed(&stage.play("recall", &["--session", session]))
}

fn messages(stage: &Stage, session: &str) -> Value {
    let mut shown: Value =
        serde_json::from_str(&printed(&stage.output(&["sessions", "show", session, "--json"])))
            .unwrap();
    // Guessed times depend on the file's modification time.
    for message in shown["messages"].as_array_mut().unwrap() {
        message.as_object_mut().unwrap().remove("at");
    }
    shown["messages"].take()
}

fn directory_of(stage: &Stage, session: &str) -> PathBuf {
    let workspace = cursor_home::WorkspacePath::new(&stage.workspace()).unwrap();
    stage.home().join(".cursor/chats").join(workspace.bucket()).join(session)
}

fn files_of(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()))
        .collect()
}

/// Removes the checkpoint from a store, as if its writer had been killed before it recorded one.
fn forget_root(store: &Path) {
    let connection = rusqlite::Connection::open(store).unwrap();
    let row: String = connection.query_row("SELECT value FROM meta", [], |row| row.get(0)).unwrap();
    let bytes: Vec<u8> = (0..row.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&row[at..at + 2], 16).unwrap())
        .collect();
    let mut meta: Value = serde_json::from_slice(&bytes).unwrap();
    meta["latestRootBlobId"] = "".into();
    let row: String = meta.to_string().bytes().map(|byte| format!("{byte:02x}")).collect();
    connection.execute("UPDATE meta SET value = ?1", [row]).unwrap();
    connection.close().unwrap();
}

#[test]
fn a_fork_remembers_everything_or_everything_before_a_turn_and_the_original_is_untouched() {
    let stage = Stage::new();
    let session = talk(&stage);
    let before = files_of(&directory_of(&stage, &session));
    let output = stage.output(&["sessions", "fork", &session]);
    let copy = printed(&output);
    assert_eq!(files_of(&directory_of(&stage, &session)), before);
    assert_eq!(messages(&stage, &copy), messages(&stage, &session));

    let earlier = printed(&stage.output(&["sessions", "fork", &session, "--at", "3"]));
    let said = recall(&stage, &copy);
    for text in ["The first turn.", "The second turn.", "The third turn."] {
        assert!(said.contains(text), "{text}: {said}");
    }
    let said = recall(&stage, &earlier);
    assert!(said.contains("The second turn.") && !said.contains("The third turn."), "{said}");

    // From now on, the two sessions differ.
    assert_eq!(files_of(&directory_of(&stage, &session)), before);
    let verified = stage.output(&["sessions", "verify", "--all", "--json"]);
    let verdict = json(&verified);
    assert_eq!(verified.status.code(), Some(0), "{verdict}");
    assert_eq!(verdict["sessions"].as_array().unwrap().len(), 3);

    let refused = stage.output(&["sessions", "fork", &session, "--at", "9"]);
    assert_exit(&refused, 3);
    let unknown = stage.output(&["sessions", "fork", "0123"]);
    assert_exit(&unknown, 3);
}

#[test]
fn a_session_is_forked_into_another_workspace_while_its_agent_works() {
    let stage = Stage::new();
    let session = stage.begin_session();
    let run = stage.detach("say At work.\nshell sleep 60", &["--session", &session]);
    stage.wait_until(&run, |line| line["kind"] == "agent.tool_started");
    let other = stage.home().join("other");
    fs::create_dir(&other).unwrap();
    let args = ["sessions", "fork", &session, "--workspace", other.to_str().unwrap(), "--json"];
    let report = json(&stage.output(&args));
    assert_eq!(report["workspace"], other.to_str().unwrap());
    let copy = report["session"].as_str().unwrap();
    // A session in use is neither repaired nor cleaned up.
    let tidied = stage.output(&["sessions", "gc", &session, "--yes", "--json"]);
    let untouchable = &json(&tidied)["sessions"][0]["untouchable"];
    assert!(untouchable.is_string(), "{}", String::from_utf8_lossy(&tidied.stdout));
    stage.output(&["kill", "--now", &run]);

    let flags = ["--session", copy, "--workspace", other.to_str().unwrap()];
    let said = printed(&stage.play("recall", &flags));
    assert!(said.contains("The first turn."), "{said}");
}

#[test]
fn a_bundle_says_the_same_under_another_home_and_is_continued_there() {
    let (first, second) = (Stage::new(), Stage::new());
    let session = talk(&first);
    let file = first.root().join("talk.session");
    let file = file.to_str().unwrap();
    let bundled = first.output(&["sessions", "bundle", &session, "-o", file]);
    assert_exit(&bundled, 0);
    assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    let again = first.output(&["sessions", "bundle", &session, "-o", file]);
    assert_exit(&again, 4);

    let bytes = fs::read(file).unwrap();
    let header = bytes.split(|byte| *byte == b'\n').next().unwrap();
    let header = String::from_utf8(header.to_vec()).unwrap();
    let home = first.home();
    assert!(!header.contains(home.to_str().unwrap()) && !header.contains("ncryption"), "{header}");

    assert_eq!(printed(&second.output(&["sessions", "import", file])), session);
    assert_eq!(messages(&second, &session), messages(&first, &session));
    let said = recall(&second, &session);
    for text in ["The first turn.", "The second turn.", "The third turn."] {
        assert!(said.contains(text), "{text}: {said}");
    }
    // The session here has continued, and has everything that is in the bundle.
    let older = json(&second.output(&["sessions", "import", file, "--json"]));
    assert_eq!(older["outcome"], "nothing_new");

    // An id belongs to one workspace.
    let other = second.home().join("other");
    fs::create_dir(&other).unwrap();
    let args = ["sessions", "import", file, "--workspace", other.to_str().unwrap()];
    let refused = second.output(&args);
    assert_exit(&refused, 4);
    let beside = printed(&second.output(&[&args[..], &["--as-new"]].concat()));
    assert_ne!(beside, session);
}

#[test]
fn a_bundle_that_cannot_be_written_or_read_is_an_error_with_a_hint() {
    let stage = Stage::new();
    let session = stage.begin_session();
    let home = stage.home();
    let nowhere = home.join("nowhere/talk");
    for (output, code) in [("-", 2), (home.to_str().unwrap(), 2), (nowhere.to_str().unwrap(), 3)] {
        let refused = stage.output(&["sessions", "bundle", &session, "-o", output, "--force"]);
        assert_eq!(refused.status.code(), Some(code), "{output}: {}", stderr(&refused));
        assert!(stderr(&refused).contains("hint: "), "{output}: {}", stderr(&refused));
    }
    assert_eq!(fs::read_dir(stage.workspace()).unwrap().count(), 0, "a refused bundle left a file");

    let file = stage.root().join("talk.session");
    let name = file.to_str().unwrap();
    printed(&stage.output(&["sessions", "bundle", &session, "-o", name, "--json"]));
    let whole = fs::read(&file).unwrap();
    for (bytes, why) in [
        (b"no bundle".as_slice(), "not a session bundle"),
        (&whole[..whole.len() / 2], "ends too early"),
        (&[&whole[..whole.len() - 40], &[0; 40]].concat(), "damaged or changed"),
    ] {
        fs::write(&file, bytes).unwrap();
        let refused = stage.output(&["sessions", "import", name, "--as-new"]);
        assert_eq!(refused.status.code(), Some(1), "{why}: {}", stderr(&refused));
        let said = stderr(&refused);
        assert!(said.contains(why) && said.contains("hint: "), "{why}: {said}");
    }
    let missing = stage.output(&["sessions", "import", "nowhere"]);
    assert_exit(&missing, 3);
}

#[test]
fn a_newer_bundle_updates_the_session_unless_a_run_holds_it() {
    let (first, second) = (Stage::new(), Stage::new());
    let session = first.begin_session();
    let bundle = |name: &str| {
        let file = first.root().join(name).to_str().unwrap().to_owned();
        let bundled = first.output(&["sessions", "bundle", &session, "-o", &file]);
        assert_exit(&bundled, 0);
        file
    };
    let older = bundle("older");
    printed(&first.play("say The second turn.", &["--session", &session]));
    let newer = bundle("newer");
    printed(&second.output(&["sessions", "import", &older]));
    // A run holds the session, but has said nothing yet that would make it a different conversation.
    let run = second.detach("shell sleep 60", &["--session", &session]);
    second.wait_until(&run, |line| line["kind"] == "agent.tool_started");
    let refused = second.output(&["sessions", "import", &newer]);
    assert_exit(&refused, 4);
    assert!(stderr(&refused).contains(&run), "the error names the holder: {}", stderr(&refused));
    second.output(&["kill", "--now", &run]);
    // Now the two copies have diverged.
    let refused = second.output(&["sessions", "import", &newer]);
    assert_exit(&refused, 4);
    assert!(stderr(&refused).contains("have diverged"), "{}", stderr(&refused));

    let third = Stage::new();
    printed(&third.output(&["sessions", "import", &older]));
    let report = json(&third.output(&["sessions", "import", &newer, "--json"]));
    assert_eq!(report["outcome"], "extended", "{report}");
    assert!(recall(&third, &session).contains("The second turn."));
}

#[test]
fn a_lost_checkpoint_is_reported_and_repaired_only_on_request() {
    let stage = Stage::new();
    let session = talk(&stage);
    let whole = messages(&stage, &session);
    let store = directory_of(&stage, &session).join("store.db");
    forget_root(&store);
    let verified = stage.output(&["sessions", "verify", &session, "--json"]);
    assert_exit(&verified, 1);
    let verdict = &json(&verified)["sessions"][0];
    assert_eq!(verdict["findings"][0]["kind"], "root_absent");
    assert!(verdict["candidate"]["id"].is_string(), "{verdict}");

    let ill = fs::read(&store).unwrap();
    let planned = stage.output(&["sessions", "repair", &session]);
    assert!(printed(&planned).contains("checkpoint"), "{}", stderr(&planned));
    assert_eq!(fs::read(&store).unwrap(), ill, "nothing was done");
    let done = json(&stage.output(&["sessions", "repair", &session, "--yes", "--json"]));
    let backup = Path::new(done["backup"].as_str().unwrap());
    assert_eq!(fs::read(backup.join("store.db")).unwrap(), ill);
    assert_eq!(messages(&stage, &session), whole);
    assert!(recall(&stage, &session).contains("The third turn."));
    assert_eq!(stage.output(&["sessions", "verify", &session]).status.code(), Some(0));
}

#[test]
fn unreachable_blobs_are_dropped_only_on_request() {
    let stage = Stage::new();
    let session = talk(&stage);
    let store = directory_of(&stage, &session).join("store.db");
    let before = fs::read(&store).unwrap();
    let told = json(&stage.output(&["sessions", "gc", "--json"]));
    assert_eq!(told["sessions"][0]["session"], session.as_str());
    assert_eq!(fs::read(&store).unwrap(), before);
    let whole = messages(&stage, &session);
    let done = stage.output(&["sessions", "gc", "--yes", "--json"]);
    assert_eq!(json(&done)["sessions"][0]["is_dropped"], true);
    assert_eq!(json(&done)["n_bytes"], told["n_bytes"]);
    let backup = json(&done)["backups"][0].as_str().unwrap().to_owned();
    assert_eq!(
        fs::read(Path::new(&backup).join("store.db")).unwrap(),
        before,
        "the original is kept"
    );
    assert!(fs::metadata(&store).unwrap().len() < before.len() as u64);
    assert_eq!(messages(&stage, &session), whole);
    let after = json(&stage.output(&["sessions", "gc", "--json"]));
    assert_eq!(after["sessions"].as_array().unwrap().len(), 0, "{after}");
    assert!(recall(&stage, &session).contains("The third turn."));
}

#[test]
fn blobs_that_our_own_record_needs_are_not_dropped() {
    let stage = Stage::new();
    let session = talk(&stage);
    let store = directory_of(&stage, &session).join("store.db");
    // The store no longer refers to this checkpoint, as if the user's own agent had continued from it.
    let earlier = b"\x52\x00";
    let id = cursor_stores::chat::BlobId::of(earlier).to_string();
    let connection = rusqlite::Connection::open(&store).unwrap();
    connection.execute("INSERT INTO blobs VALUES (?1, ?2)", (&id, earlier)).unwrap();
    connection.close().unwrap();
    let path = stage.root().join("state/sessions").join(&session).join("session.json");
    let mut record: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    record["checkpoint"]["root"] = id.as_str().into();
    fs::write(&path, record.to_string()).unwrap();

    printed(&stage.output(&["sessions", "gc", &session, "--yes", "--no-backup"]));
    assert!(!stage.root().join("state/backups").exists(), "there was no original to keep");
    let checked = stage.output(&["resume", "--check", &session]);
    assert_exit(&checked, 0);
    assert_eq!(json(&stage.output(&["sessions", "gc", "--json"]))["n_bytes"], 0);
    let nothing = stage.output(&["sessions", "gc"]);
    assert_eq!(printed(&nothing), "");

    // Something else removed the checkpoint: the command says so, and its hint works.
    let connection = rusqlite::Connection::open(&store).unwrap();
    connection.execute("DELETE FROM blobs WHERE id = ?1", [&id]).unwrap();
    connection.close().unwrap();
    let refused = stage.output(&["resume", "--check", &session]);
    assert_exit(&refused, 6);
    assert!(stderr(&refused).contains("sessions fork"), "{}", stderr(&refused));
    let verified = stage.output(&["sessions", "verify", &session, "--json"]);
    assert_eq!(verified.status.code(), Some(1));
    assert_eq!(json(&verified)["sessions"][0]["checkpoint_lost"], id.as_str());
    // There is nothing to repair, but something to report.
    let mended = stage.output(&["sessions", "repair", &session, "--yes"]);
    assert_exit(&mended, 1);
    assert!(stderr(&mended).contains(&format!("checkpoint {id}")), "{}", stderr(&mended));
    let forked = printed(&stage.output(&["sessions", "fork", &session]));
    assert!(recall(&stage, &forked).contains("The third turn."));
}

#[test]
fn a_session_that_a_run_holds_is_neither_cleaned_up_nor_repaired() {
    let stage = Stage::new();
    let session = talk(&stage);
    let run = stage.detach("say Held.\nshell sleep 60", &["--session", &session]);
    stage.wait_until(&run, |line| line["kind"] == "agent.tool_started");
    let told = json(&stage.output(&["sessions", "gc", &session, "--json"]));
    assert_eq!(told["sessions"][0]["untouchable"], "in_use", "{told}");
    let refused = stage.output(&["sessions", "gc", &session, "--yes"]);
    assert_exit(&refused, 4);
    // A gc of all sessions skips this one.
    printed(&stage.output(&["sessions", "gc", "--yes"]));
    assert!(!stage.root().join("state/backups").exists());
    assert!(stage.output(&["kill", &run]).status.success());
}

#[test]
fn repair_forgets_a_checkpoint_that_is_gone() {
    let stage = Stage::new();
    let session = talk(&stage);
    let store = directory_of(&stage, &session).join("store.db");
    let path = stage.root().join("state/sessions").join(&session).join("session.json");
    let record: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let connection = rusqlite::Connection::open(&store).unwrap();
    let root = record["checkpoint"]["root"].as_str().unwrap();
    assert_eq!(connection.execute("DELETE FROM blobs WHERE id = ?1", [root]).unwrap(), 1);
    connection.close().unwrap();
    let refused = stage.output(&["resume", "--check", &session]);
    assert_exit(&refused, 6);
    printed(&stage.output(&["sessions", "repair", &session, "--yes"]));
    assert!(recall(&stage, &session).contains("The second turn."));
}

#[test]
fn an_ide_conversation_continues_as_a_command_line_session() {
    let stage = Stage::new();
    let id = "3b3b3b3b-1111-4222-8333-444444444444";
    let ide = IdeHome::new(&stage.home().join(".config/Cursor/User"));
    let bubbles = [
        user_bubble("b1", "Why is the basket empty?"),
        assistant_bubble("b2", "Because of the heliotrope race."),
    ];
    let headers: Vec<Value> = bubbles.iter().map(header).collect();
    ide.put_conversation(&composer(id, 10, &headers), &bubbles);
    ide.close(Closing::Clean);

    let refused = stage.output(&["resume", "--agent", "simulated", "--json", id, "go on"]);
    assert_exit(&refused, 6);
    let said = stderr(&refused);
    assert!(said.contains(&format!("caretaker sessions fork {id}")), "{said}");

    let at = stage.output(&["sessions", "fork", id, "-C", ".", "--at", "1"]);
    assert_exit(&at, 2);
    let forked = stage.output(&["sessions", "fork", id, "-C", "."]);
    assert_exit(&forked, 0);
    let session = printed(&forked).trim().to_owned();
    let recalled = stage.resume(&session, "recall", &[]);
    assert_exit(&recalled, 0);
    let recalled = printed(&recalled);
    assert!(recalled.contains("You said: Why is the basket empty?"), "{recalled}");
    let shown = printed(&stage.output(&["sessions", "show", &session]));
    assert!(shown.contains("heliotrope"), "{shown}");
    let verified = stage.output(&["sessions", "verify", &session]);
    assert_eq!(verified.status.code(), Some(0), "{}", printed(&verified));
}

#[test]
fn an_empty_session_stays_while_a_run_holds_it() {
    let stage = Stage::new();
    let mut agent = stage.caretaker(&["run", "--agent", "simulated", "--detach", "go"]);
    let output = agent.env("SIMULATED_AGENT_MISBEHAVE", "auth-hang").output().unwrap();
    let run = printed(&output);
    stage.wait_until(&run, |line| line["kind"] == "run.released");
    let meta = stage.session_dir(&stage.session_of(&run)).join("meta.json");
    let workspace = stage.workspace();
    fs::write(&meta, serde_json::json!({"schemaVersion": 1, "cwd": workspace}).to_string())
        .unwrap();
    let two_days_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(48 * 3600);
    fs::File::options().write(true).open(&meta).unwrap().set_modified(two_days_ago).unwrap();
    let told = json(&stage.output(&["sessions", "gc", "--json"]));
    assert_eq!(told["empty_sessions"].as_array().unwrap().len(), 1, "{told}");
    let done = json(&stage.output(&["sessions", "gc", "--yes", "--json"]));
    assert_eq!(done["empty_sessions"], serde_json::json!([]));
    assert!(meta.exists());
    assert!(stage.output(&["kill", "--now", &run]).status.success());
}
