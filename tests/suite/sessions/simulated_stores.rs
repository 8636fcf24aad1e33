//! Stores that the simulated agent wrote, checked by readers that do not share its code.

use std::collections::BTreeSet;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use cursor_stores::chat::{
    BlobId, ChatStore, LatestRoot, LatestState, StoreCheck, StoreFinding, check_store,
};
use pretty_assertions::assert_eq;
use rusqlite::{Connection, OpenFlags};

use crate::stage::simulated::{Home, Play};

const SESSION: &str = "6f1d9c3e-5a52-4f0b-9a1e-2b7c8d9e0f11";
const FLAGS: &[&str] = &["--force", "--resume", SESSION];

fn store_of(home: &Home) -> PathBuf {
    let workspace = cursor_home::WorkspacePath::new(&home.workspace()).unwrap();
    home.dot_cursor().join("chats").join(workspace.bucket()).join(SESSION).join("store.db")
}

fn check(home: &Home) -> StoreCheck {
    check_store(&ChatStore::open_read_only(&store_of(home)).unwrap()).unwrap()
}

#[track_caller]
fn latest(home: &Home) -> LatestState {
    check(home).root.expect("a root")
}

/// Plays five turns that use every tool that works without a server.
fn play_five_turns(home: &Home) {
    for script in [
        "say Writing.\nwrite notes.txt <<END\none\ntwo\nEND\nsay Wrote notes.txt.\n",
        "think Where was it?\nsay Reading.\nread notes.txt\nshell wc -l notes.txt\nsay Two lines.\n",
        "parallel\nshell sleep 0.05\ngrep two\nglob *.txt\nls .\nend\nsay Looked around.\n",
        "edit notes.txt <<END\ntwo\n===\nthree\nEND\ntodos <<END\n[x] edit\n[ ] delete\nEND\nshell exit 3\nsay Edited.\n",
        "delete notes.txt\nrecall\n",
    ] {
        home.play_well(&Play::script(script).flags(FLAGS));
    }
}

#[test]
fn a_conversation_of_five_turns_leaves_a_consistent_store() {
    let home = Home::new();
    play_five_turns(&home);
    let found = check(&home);
    assert_eq!(found.n_findings, 0, "{:?}", found.findings);
    let state = latest(&home);
    assert_eq!(state.n_turns, 5);
    assert!(state.pending.tool_calls.is_empty());
    assert!(state.n_prompt_messages > 15);

    // Checked with plain SQLite and a separate hash: every id is the SHA-256 of its data, and the tables are the same
    // as the real ones.
    let database =
        Connection::open_with_flags(store_of(&home), OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let mut rows = database.prepare("SELECT id, data FROM blobs").unwrap();
    let blobs: Vec<(String, Vec<u8>)> = rows
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert!(blobs.len() > 50);
    for (id, data) in &blobs {
        assert_eq!(*id, BlobId::of(data).to_string());
    }
    let tables: Vec<String> = database
        .prepare("SELECT sql FROM sqlite_schema WHERE type = 'table' ORDER BY name")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(
        tables,
        [
            "CREATE TABLE blobs (id TEXT PRIMARY KEY, data BLOB)",
            "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT)"
        ]
    );
    let version: i64 = database.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    assert_eq!(version, 1);
}

/// Compares the field numbers, from an independent decoder, with the published schema. Only stores from September 2026
/// or later have dates.
#[test]
fn every_message_has_the_field_numbers_of_the_schema() {
    let home = Home::new();
    play_five_turns(&home);
    let store = ChatStore::open_read_only(&store_of(&home)).unwrap();
    let blob = |id: &[u8]| store.blob(BlobId::try_from(id).unwrap()).unwrap().unwrap();
    let LatestRoot::Blob(root_id) = store.meta().unwrap().unwrap().latest_root() else {
        panic!("no root");
    };
    let root = store.blob(root_id).unwrap().unwrap();
    // Prompt, todos, tokens, turns, workspace, mode, timings, files, paths read, start time and place. Nothing is
    // pending.
    assert_eq!(numbers(&root), BTreeSet::from([1, 3, 5, 8, 9, 10, 14, 15, 18, 26, 27]));

    let mut steps = Vec::new();
    for turn in members(&root, 8).into_iter().map(blob) {
        assert_eq!(numbers(&turn), BTreeSet::from([1]), "an agent's turn, wrapped");
        let [agent_turn] = members(&turn, 1)[..] else { panic!("not one turn") };
        // User message, steps, request id, and the message's own id.
        assert_eq!(numbers(agent_turn), BTreeSet::from([1, 2, 3, 10]));
        let [user_message] = members(agent_turn, 1)[..] else { panic!("not one user message") };
        // Text, id, an empty selection, mode, the state before it, and its date.
        assert_eq!(numbers(&blob(user_message)), BTreeSet::from([1, 2, 3, 4, 10, 25]));
        steps.extend(members(agent_turn, 2).into_iter().map(blob));
    }

    let mut n_steps_of_kind = [0; 3];
    let mut tools = BTreeSet::new();
    for step in &steps {
        let kind = sole(&numbers(step));
        let [inside] = members(step, kind)[..] else { panic!("not one message") };
        n_steps_of_kind[kind as usize - 1] += 1;
        let mut found = numbers(inside);
        match kind {
            // Text and two dates.
            1 => assert_eq!(found, BTreeSet::from([1, 2, 3])),
            // The tool, the call's id and two dates.
            2 => {
                assert_eq!(found.split_off(&57), BTreeSet::from([57, 59, 60]));
                tools.insert(sole(&found));
            }
            // Text, the duration unless it is zero, and two dates.
            _ => {
                found.remove(&2);
                assert_eq!(found, BTreeSet::from([1, 3, 4]));
            }
        }
    }
    assert_eq!(n_steps_of_kind, [7, 11, 1], "texts, tool calls and thoughts");
    // Shell, delete, glob, grep, read, update todos, edit and ls.
    assert_eq!(tools, BTreeSet::from([1, 3, 4, 5, 8, 9, 12, 13]));

    let shell = steps.iter().find_map(|step| {
        let call = *members(step, 2).first()?;
        members(call, 1).first().copied()
    });
    let shell = shell.expect("the turns call a shell");
    assert_eq!(numbers(shell), BTreeSet::from([1, 2, 3]), "arguments, result, description");
    // Command, timeout, call id, programs and the threshold for long output; the directory is empty.
    assert_eq!(numbers(members(shell, 1)[0]), BTreeSet::from([1, 3, 4, 5, 10]));
    // Success, and a flag that says it is not in the background.
    assert_eq!(numbers(members(shell, 2)[0]), BTreeSet::from([1, 102]));
}

fn sole(numbers: &BTreeSet<u32>) -> u32 {
    assert_eq!(numbers.len(), 1, "{numbers:?}");
    *numbers.first().unwrap()
}

/// Returns the contents of a bytes field from the wire format, because a raw decoder does not print ids unchanged.
fn members(mut message: &[u8], wanted: u32) -> Vec<&[u8]> {
    let mut found = Vec::new();
    while !message.is_empty() {
        let key = varint(&mut message);
        let value = varint(&mut message);
        match key & 7 {
            0 => {}
            2 => {
                let (content, rest) = message.split_at(usize::try_from(value).unwrap());
                message = rest;
                if key >> 3 == u64::from(wanted) {
                    found.push(content);
                }
            }
            other => panic!("wire type {other} is not used in these messages"),
        }
    }
    found
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first().unwrap();
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return value;
        }
    }
    panic!("a number of more than 64 bits")
}

/// Returns the numbers of a message's top-level fields, as protoc finds them.
fn numbers(message: &[u8]) -> BTreeSet<u32> {
    let text = raw_text(message);
    let top_level =
        text.lines().filter(|line| line.starts_with(|first: char| first.is_ascii_digit()));
    top_level.map(|line| line.split([':', ' ']).next().unwrap().parse().unwrap()).collect()
}

fn raw_text(blob: &[u8]) -> String {
    let mut protoc = Command::new("protoc")
        .arg("--decode_raw")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("protoc is one of the packages that `cargo xtask test` installs");
    protoc.stdin.take().unwrap().write_all(blob).unwrap();
    let output = protoc.wait_with_output().unwrap();
    assert!(output.status.success(), "protoc refused the blob");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_resumed_session_extends_its_store() {
    let home = Home::new();
    home.play_well(&Play::script("say My word is larkspur.\n").flags(FLAGS));
    let before = latest(&home);
    let played = home.play_well(&Play::script("recall\n").flags(FLAGS));
    assert!(played.stdout.contains("My word is larkspur"), "{}", played.stdout);
    let after = latest(&home);
    assert!(after.n_prompt_messages > before.n_prompt_messages);
    assert_eq!((before.n_turns, after.n_turns), (1, 2));
}

/// Makes the agent kill itself with SIGKILL at a point in its second turn.
fn kill_at(home: &Home, point: &str) {
    home.play_well(&Play::script("say The first turn.\n").flags(FLAGS));
    let script = "say Let me see.\nshell true\nsay The second turn.\ncompact 1ms\n";
    let play = Play::script(script).flags(FLAGS).misbehaving(&format!("kill-at={point}"));
    let played = home.play(&play);
    assert_eq!(played.status.signal(), Some(9), "{point}: {}", played.stderr);
    assert!(!played.stdout.contains("\"type\":\"result\""), "{point}");
}

#[test]
fn after_sigkill_at_each_point_of_a_later_turn_the_store_is_whole_and_has_the_pending_calls() {
    // Point → (turns, pending tool calls).
    for (point, n_turns, pending) in [
        ("after-user-message", 1, &[] as &[&str]),
        ("after-blobs-before-root", 1, &[]),
        ("between-root-and-meta", 1, &[]),
        ("mid-tool", 2, &["Shell"]),
        ("after-tool-before-result", 2, &["Shell"]),
        ("after-result-before-commit", 2, &["Shell"]),
        ("final-pending", 2, &[]),
        ("between-meta-and-meta-json", 2, &[]),
        ("mid-compaction", 2, &[]),
    ] {
        let home = Home::new();
        kill_at(&home, point);
        let found = check(&home);
        assert_eq!(found.n_findings, 0, "{point}: {:?}", found.findings);
        let state = latest(&home);
        let calls: Vec<&str> =
            state.pending.tool_calls.iter().map(|call| call.tool_name.as_str()).collect();
        assert_eq!((state.n_turns, calls.as_slice()), (n_turns, pending), "{point}");

        let played = home.play_well(&Play::script("recall\n").flags(FLAGS));
        assert!(played.stdout.contains("The first turn"), "{point}: {}", played.stdout);
        assert_eq!(check(&home).n_findings, 0, "{point}, resumed");
        assert!(latest(&home).pending.tool_calls.is_empty(), "{point}, resumed");
    }
}

#[test]
fn after_sigkill_in_the_first_turn_there_is_no_root_and_a_resume_silently_starts_over() {
    for point in ["store-created", "before-first-root"] {
        let home = Home::new();
        let play =
            Play::script("say Hello.\n").flags(FLAGS).misbehaving(&format!("kill-at={point}"));
        assert_eq!(home.play(&play).status.signal(), Some(9), "{point}");
        assert_eq!(check(&home).root, Err(StoreFinding::RootAbsent), "{point}");
        let main_file = std::fs::metadata(store_of(&home)).unwrap().len();
        assert_eq!(main_file, 4096, "{point}: everything is in the write-ahead log");

        let played = home.play_well(&Play::script("recall\n").flags(FLAGS));
        assert!(played.stdout.contains("I remember nothing"), "{point}: {}", played.stdout);
    }
}
