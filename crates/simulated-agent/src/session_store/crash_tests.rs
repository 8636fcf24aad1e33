//! The files that a killed process leaves behind, at every point where it may die.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::ValueEnum;
use cursor_stores::chat::{StoreCheck, StoreFinding};
use pretty_assertions::assert_eq;
use serde_json::Value;

use super::test_bench::{Bench, Dump, fields, play_turn, shell_call};
use super::{Closing, CrashPoint, Role, SessionStore};
use crate::tools::Generation;

/// Two turns with a compaction between them: passes every crash point.
fn play_session(store: &mut SessionStore) {
    play_turn(store, 0);
    store.compact("the story so far").unwrap();
    play_turn(store, 1);
}

/// Plays the session until it passes a point that `is_meant` for the n-th time, and returns the files on disk.
fn kill_at(
    generation: Generation,
    occurrence: usize,
    is_meant: impl Fn(CrashPoint) -> bool + Send + 'static,
) -> Option<(CrashPoint, Bench)> {
    let bench = Bench::new(generation);
    let mut store = bench.open();
    let passed = AtomicUsize::new(0);
    store.on_crash_point(move |point| {
        if is_meant(point) && passed.fetch_add(1, Ordering::Relaxed) == occurrence {
            // Unwind without a panic message.
            resume_unwind(Box::new(point));
        }
    });
    let death = catch_unwind(AssertUnwindSafe(|| play_session(&mut store))).err()?;
    // The connection is still open, so SQLite has neither checkpointed the log nor cleaned up.
    Some((*death.downcast().unwrap(), bench.killed_now()))
}

fn killed_at(point: CrashPoint, occurrence: usize) -> Bench {
    let (_, bench) =
        kill_at(Generation::V2026_09, occurrence, move |passed| passed == point).unwrap();
    bench
}

fn prompts_said(store: &SessionStore) -> Vec<&str> {
    let said = store.history().iter().filter(|message| message.role == Role::User);
    said.map(|message| message.text.as_str()).collect()
}

fn pending_tool_names(check: &StoreCheck) -> Vec<&str> {
    let latest = check.root.as_ref().unwrap();
    latest.pending.tool_calls.iter().map(|call| call.tool_name.as_str()).collect()
}

/// Checks that every call in the prompt is answered exactly once and immediately, as providers require.
fn assert_calls_are_answered(prompt: &[Value]) {
    let mut open: Vec<&Value> = Vec::new();
    for message in prompt {
        if message["role"] == "tool" {
            let answered = &message["content"][0]["toolCallId"];
            let position = open.iter().position(|call| *call == answered).unwrap();
            open.remove(position);
            continue;
        }
        assert_eq!(open, Vec::<&Value>::new(), "a call has no result");
        let parts = message["content"].as_array().into_iter().flatten();
        open.extend(
            parts.filter(|part| part["type"] == "tool-call").map(|call| &call["toolCallId"]),
        );
    }
    assert_eq!(open, Vec::<&Value>::new(), "a call has no result");
}

#[test]
fn every_point_is_passed_and_has_a_name_of_its_own() {
    for (point, name) in CrashPoint::value_variants().iter().zip(CrashPoint::names()) {
        killed_at(*point, 0);
        assert_eq!(CrashPoint::from_name(&name), Some(*point));
    }
    assert_eq!(CrashPoint::from_name("sometime"), None);
}

#[test]
fn a_session_killed_anywhere_is_whole_and_continues() {
    for generation in [Generation::V2026_01, Generation::V2026_09] {
        let mut n_deaths = 0;
        while let Some((point, bench)) = kill_at(generation, n_deaths, |_| true) {
            n_deaths += 1;
            let check = bench.check();
            assert_eq!(check.findings, [], "{point:?}");
            let before = match check.root {
                Ok(_) => bench.dump().prompt_ids(),
                Err(StoreFinding::RootAbsent) => Vec::new(),
                other => panic!("{point:?}: {other:?}"),
            };
            let mut store = bench.open();
            play_turn(&mut store, 8);
            store.close(Closing::Clean).unwrap();
            let dump = bench.dump();
            assert_eq!(dump.prompt_ids()[..before.len()], before, "{point:?}");
            assert_calls_are_answered(&dump.prompt());
            assert_eq!(dump.pending(), Vec::<Value>::new());
            dump.walk();
            assert_eq!(bench.check().findings, [], "{point:?}");
        }
        assert!(n_deaths > 25, "{n_deaths}");
    }
}

#[test]
fn a_young_killed_store_has_everything_in_its_log_and_nothing_in_its_main_file() {
    let bench = killed_at(CrashPoint::BeforeFirstRoot, 0);
    assert_eq!(std::fs::metadata(bench.store_db()).unwrap().len(), 4096);
    assert!(bench.wal_bytes().unwrap() > 0);
    let alone = bench.session_dir().join("alone.db");
    std::fs::copy(bench.store_db(), &alone).unwrap();
    #[expect(clippy::disallowed_methods, reason = "the test reads the file independently")]
    let database = rusqlite::Connection::open(alone).unwrap();
    let err = database.prepare("SELECT * FROM meta").unwrap_err();
    assert!(err.to_string().contains("no such table"), "{err}");
}

#[test]
fn a_kill_once_the_store_exists_leaves_only_a_meta_row() {
    let dump = killed_at(CrashPoint::StoreCreated, 0).dump();
    assert_eq!(dump.latest_root(), "");
    assert_eq!(dump.rows, []);
}

#[test]
fn a_kill_before_the_first_root_leaves_a_prompt_that_is_forgotten() {
    let bench = killed_at(CrashPoint::BeforeFirstRoot, 0);
    let dump = bench.dump();
    assert_eq!(dump.latest_root(), "");
    assert_eq!(dump.rows.len(), 5);
    assert_eq!(bench.meta_json()["hasConversation"], false);
    assert_eq!(bench.open().history(), []);
    // The first messages are the same again. Writing them again moves them to the end.
    let mut store = bench.open();
    store.begin_turn("second try", "request").unwrap();
    assert_eq!(bench.dump().rows.len(), 7);
}

#[test]
fn after_a_kill_at_a_later_prompt_the_conversation_goes_on_without_that_prompt() {
    let bench = killed_at(CrashPoint::AfterUserMessage, 0);
    let dump = bench.dump();
    assert!(dump.rows.iter().any(|(_, data)| data.windows(8).any(|text| text == b"prompt 1")));
    assert_eq!(prompts_said(&bench.open()), ["<summary>\nthe story so far\n</summary>"]);
}

#[test]
fn a_kill_after_the_blobs_of_an_answer_leaves_the_previous_root() {
    let bench = killed_at(CrashPoint::AfterBlobsBeforeRoot, 0);
    assert_eq!(bench.dump().latest_root(), "");
    assert!(bench.dump().rows.len() > 5);
    // The second answer ends the first turn: the results before it are committed.
    let bench = killed_at(CrashPoint::AfterBlobsBeforeRoot, 1);
    assert_eq!(bench.dump().pending(), Vec::<Value>::new());
    assert_eq!(bench.open().history().last().unwrap().role, Role::Tool);
}

#[test]
fn a_kill_between_root_and_meta_leaves_a_newer_root_that_nothing_names() {
    for occurrence in 0..9 {
        let bench = killed_at(CrashPoint::BetweenRootAndMeta, occurrence);
        let dump = bench.dump();
        let (newest, data) = dump.rows.last().unwrap();
        assert_ne!(newest, dump.latest_root());
        let is_root = |data: &[u8]| {
            let numbers: Vec<_> = fields(data).iter().map(|(number, _)| *number).collect();
            numbers.contains(&1) && numbers.contains(&8) && numbers.contains(&10)
        };
        assert!(is_root(data));
        assert!(bench.check().findings.is_empty());
    }
}

#[test]
fn after_a_kill_while_tools_run_the_next_prompt_finds_the_pending_calls_interrupted() {
    let bench = killed_at(CrashPoint::MidTool, 0);
    assert_eq!(pending_tool_names(&bench.check()), ["Shell", "Shell"]);
    let prompt_before = bench.dump().prompt();
    assert_eq!(prompt_before.len(), 3);

    let mut store = bench.open();
    let pending = store.pending().to_vec();
    assert_eq!(pending.len(), 2);
    assert_eq!(pending[0].call_id, "call_0a\nfc_0");
    assert!(pending.iter().all(|call| call.started_ms.is_some()));
    store.begin_turn("what happened?", "request-9").unwrap();
    store.end_turn(None, "you were interrupted").unwrap();
    store.close(Closing::Clean).unwrap();

    let dump = bench.dump();
    let prompt = dump.prompt();
    assert_eq!(prompt[..3], prompt_before);
    let keys: Vec<_> = prompt[3].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["role", "content", "id", "providerOptions"]);
    for (message, call) in prompt[4..6].iter().zip(&pending) {
        assert_eq!(message["id"], call.call_id);
        let result = message["content"][0]["result"].as_str().unwrap();
        let (before, after) = result.split_once(" after ").unwrap();
        assert_eq!(before, "Error: Shell command was interrupted by the user");
        let ms = after.strip_suffix(" ms before it completed.").unwrap();
        ms.parse::<u64>().unwrap();
        let high_level = &message["providerOptions"]["cursor"]["highLevelToolCallResult"];
        assert_eq!(high_level["isError"], true);
    }
    assert_eq!(prompt[6]["content"][0]["text"], "<user_query>\nwhat happened?\n</user_query>");
    assert_eq!(bench.check().findings, []);
    dump.walk();
}

#[test]
fn after_a_kill_the_store_does_not_show_that_the_tools_ran() {
    let before = killed_at(CrashPoint::MidTool, 0);
    let after_tool = killed_at(CrashPoint::AfterToolBeforeResult, 0);
    assert_eq!(after_tool.dump().rows.len(), before.dump().rows.len());
    let after_result = killed_at(CrashPoint::AfterResultBeforeCommit, 0);
    assert!(after_result.dump().rows.len() > before.dump().rows.len());
    for bench in [after_tool, after_result] {
        assert_eq!(pending_tool_names(&bench.check()), ["Shell", "Shell"]);
        assert_eq!(bench.dump().prompt().len(), 3);
    }
}

#[test]
fn a_kill_before_the_last_answer_is_committed_leaves_it_pending_but_not_lost() {
    let bench = killed_at(CrashPoint::FinalPending, 0);
    assert_eq!(bench.dump().pending().len(), 1);
    assert_eq!(pending_tool_names(&bench.check()), Vec::<&str>::new());
    let mut store = bench.open();
    assert_eq!(store.pending(), []);
    store.begin_turn("go on", "request").unwrap();
    store.end_turn(None, "yes").unwrap();
    let prompt = bench.dump().prompt();
    assert_eq!(prompt[6]["content"][1]["text"], "answer 0");
    assert_eq!(prompt[7]["role"], "user");
}

#[test]
fn after_a_kill_before_meta_json_that_file_is_older_than_the_store() {
    let bench = killed_at(CrashPoint::BetweenMetaAndMetaJson, 0);
    assert_eq!(bench.dump().meta["name"], "prompt 0");
    assert_eq!(bench.meta_json()["title"], Value::Null);
    assert_eq!(bench.dump().prompt().len(), 7);
}

#[test]
fn a_kill_during_a_compaction_leaves_the_conversation_unchanged() {
    let bench = killed_at(CrashPoint::MidCompaction, 0);
    assert_eq!(bench.dump().prompt().len(), 7);
    assert_eq!(prompts_said(&bench.open()), ["prompt 0"]);
}

#[test]
fn a_call_that_an_early_build_left_pending_has_no_time_and_counts_as_interrupted_at_once() {
    let (_, bench) =
        kill_at(Generation::V2026_01, 0, |point| point == CrashPoint::MidTool).unwrap();
    let mut store = bench.open();
    assert_eq!(store.pending()[0].started_ms, None);
    store.begin_turn("what happened?", "request").unwrap();
    store.model_step(None, None, &[shell_call("again", "echo a")]).unwrap();
    let results: Vec<_> = Dump::read(&bench.store_db()).prompt()[4..6]
        .iter()
        .map(|message| message["content"][0]["result"].clone())
        .collect();
    let text = "Error: Shell command was interrupted by the user after 0 ms before it completed.";
    assert_eq!(results, [text, text]);
}
