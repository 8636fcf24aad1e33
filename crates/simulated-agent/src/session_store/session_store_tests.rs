use std::path::Path;

use cursor_home::WorkspacePath;
use cursor_stores::chat::schema::ConversationStateStructure;
use pretty_assertions::assert_eq;
use prost::Message;
use serde_json::json;

use super::test_bench::{Bench, Dump, play_turn, shell_call};
use super::*;

fn roles(prompt: &[Value]) -> Vec<&str> {
    prompt.iter().map(|message| message["role"].as_str().unwrap()).collect()
}

#[test]
fn five_turns_give_a_store_in_which_every_hash_and_every_reference_holds() {
    for generation in [Generation::V2026_01, Generation::V2026_09] {
        let bench = Bench::after_turns(5, generation);
        let dump = bench.dump();
        let reached = dump.walk();
        let prompt = dump.prompt();
        assert_eq!(
            roles(&prompt)[..8],
            ["system", "user", "user", "assistant", "tool", "tool", "assistant", "user"]
        );
        assert_eq!(prompt.len(), 2 + 5 * 5);
        let root = ConversationStateStructure::decode(dump.blob(dump.latest_root())).unwrap();
        assert_eq!(root.turns.len(), 5);
        assert_eq!(root.pending_tool_calls, Vec::<String>::new());

        let check = bench.check();
        assert_eq!(check.findings, []);
        assert_eq!(check.n_reached, reached.len());
    }
}

#[test]
fn the_prompt_of_a_turn_begins_with_the_prompt_of_the_previous_turn() {
    let bench = Bench::new(Generation::V2026_09);
    let mut before = Vec::new();
    for n in 0..4 {
        let mut store = bench.open();
        play_turn(&mut store, n);
        store.close(Closing::Clean).unwrap();
        let now = bench.dump().prompt_ids();
        assert!(now.len() > before.len());
        assert_eq!(now[..before.len()], before);
        before = now;
    }
}

#[test]
fn the_latest_root_moves_four_times_in_a_turn_with_one_model_step_and_a_last_answer() {
    let bench = Bench::new(Generation::V2026_09);
    let mut store = bench.open();
    let moves = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counter = moves.clone();
    store.on_crash_point(move |point| {
        if point == CrashPoint::BetweenRootAndMeta {
            counter.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    });
    play_turn(&mut store, 0);
    assert_eq!(moves.load(std::sync::atomic::Ordering::Relaxed), 4);
}

#[test]
fn the_file_has_the_schema_and_the_pragmas_of_a_real_one() {
    let bench = Bench::after_turns(1, Generation::V2026_09);
    #[expect(clippy::disallowed_methods, reason = "the test reads the file independently")]
    let database = rusqlite::Connection::open(bench.store_db()).unwrap();
    let text = |query: &str| database.query_row(query, [], |row| row.get::<_, String>(0)).unwrap();
    let number = |query: &str| database.query_row(query, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(text("PRAGMA journal_mode"), "wal");
    assert_eq!(number("PRAGMA user_version"), 1);
    assert_eq!(number("PRAGMA page_size"), 4096);
    assert_eq!(
        text("SELECT sql FROM sqlite_master WHERE name = 'blobs'"),
        "CREATE TABLE blobs (id TEXT PRIMARY KEY, data BLOB)"
    );
    assert_eq!(
        text("SELECT sql FROM sqlite_master WHERE name = 'meta'"),
        "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT)"
    );
    assert_eq!(number("SELECT count(*) FROM meta"), 1);
    assert_eq!(text("SELECT typeof(value) FROM meta"), "text");
    assert_eq!(text("SELECT typeof(data) FROM blobs"), "blob");
}

#[test]
fn the_meta_row_is_that_of_its_generation() {
    let old = Bench::after_turns(1, Generation::V2026_01);
    let keys = |dump: &Dump| dump.meta.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(
        keys(&old.dump()),
        ["agentId", "latestRootBlobId", "name", "mode", "createdAt", "lastUsedModel"]
    );
    assert!(!old.session_dir().join("meta.json").exists());

    let new = Bench::after_turns(1, Generation::V2026_09);
    let meta = new.dump().meta;
    assert_eq!(meta["agentId"], new.session_id.to_string());
    assert_eq!(meta["isRunEverything"], true);
    assert_eq!(meta["name"], "prompt 0");
    assert_eq!(meta["createdAt"], 1_790_000_000_000_u64);
    assert_eq!(hex::decode(meta["blobEncryptionKey"].as_str().unwrap()).unwrap().len(), 32);
    assert_ne!(
        meta["blobEncryptionKey"],
        Bench::after_turns(1, Generation::V2026_09).dump().meta["blobEncryptionKey"]
    );
}

#[test]
fn meta_json_is_there_before_the_database_and_follows_the_conversation() {
    let bench = Bench::new(Generation::V2026_09);
    let mut store = bench.open();
    assert!(!bench.store_db().exists());
    assert_eq!(
        bench.meta_json(),
        json!({
            "schemaVersion": 1, "createdAtMs": 1_790_000_000_000_u64, "hasConversation": false,
            "updatedAtMs": 1_790_000_000_000_u64, "cwd": "/srv/my shop",
        })
    );
    store.begin_turn("hello", "request").unwrap();
    assert!(bench.store_db().exists());
    assert_eq!(bench.meta_json()["hasConversation"], false);
    store.model_step(None, Some("hi"), &[]).unwrap();
    assert_eq!(bench.meta_json()["hasConversation"], true);
    store.end_turn(None, "").unwrap();
    assert_eq!(bench.meta_json()["title"], "hello");
}

#[test]
fn a_root_says_where_when_and_in_which_mode_the_session_works() {
    let bench = Bench::after_turns(1, Generation::V2026_09);
    let dump = bench.dump();
    let root = ConversationStateStructure::decode(dump.blob(dump.latest_root())).unwrap();
    assert_eq!(root.previous_workspace_uris, ["file:///srv/my%20shop"]);
    assert_eq!(root.mode, Some(1));
    assert_eq!(root.conversation_started_timestamp_ms, Some(1_790_000_000_000));
    assert_eq!(root.conversation_started_time_zone.as_deref(), Some("Europe/Paris"));
    assert_eq!(root.turn_timings.len(), 1);
    let tokens = root.token_details.unwrap();
    assert!(tokens.used_tokens > 12_000 && tokens.max_tokens == 200_000);
}

#[test]
fn a_resumed_session_remembers_who_said_what() {
    let bench = Bench::after_turns(1, Generation::V2026_09);
    let store = bench.open();
    let said: Vec<_> =
        store.history().iter().map(|message| (message.role, message.text.as_str())).collect();
    let output = |letter| format!("Exit code: 0\n\nCommand output:\n\n```\n{letter}\n\n```");
    assert_eq!(
        said,
        [
            (Role::User, "prompt 0"),
            (Role::Assistant, "trying 0"),
            (Role::Tool, output("a").as_str()),
            (Role::Tool, output("b").as_str()),
            (Role::Assistant, "answer 0"),
        ]
    );
}

#[test]
fn a_known_id_in_another_workspace_silently_starts_a_new_session() {
    let bench = Bench::after_turns(1, Generation::V2026_09);
    let elsewhere = WorkspacePath::new(Path::new("/elsewhere")).unwrap();
    let bucket = bench.roots.chats_of(&elsewhere);
    let mut store =
        SessionStore::open(&bucket, &elsewhere, bench.session_id, bench.facts()).unwrap();
    assert_eq!(store.history(), []);
    play_turn(&mut store, 7);
    assert_eq!(bench.dump().prompt().len(), 7);
    assert!(SessionStore::exists(&bucket, bench.session_id));
}

#[test]
fn damage_to_the_root_or_the_meta_row_reads_as_an_empty_conversation() {
    let damages = [
        "DELETE FROM blobs WHERE id = (SELECT id FROM blobs ORDER BY rowid DESC LIMIT 1)",
        "UPDATE blobs SET data = x'ffffff' WHERE id = (SELECT id FROM blobs ORDER BY rowid DESC LIMIT 1)",
        "UPDATE meta SET value = 'not hex'",
        "DELETE FROM meta",
    ];
    for damage in damages {
        let bench = Bench::after_turns(2, Generation::V2026_09);
        #[expect(clippy::disallowed_methods, reason = "the test damages the file")]
        let database = rusqlite::Connection::open(bench.store_db()).unwrap();
        assert!(database.execute(damage, []).unwrap() == 1, "{damage}");
        drop(database);
        let mut store = bench.open();
        assert_eq!(store.history(), [], "{damage}");
        play_turn(&mut store, 9);
        store.close(Closing::Clean).unwrap();
        assert_eq!(bench.dump().prompt().len(), 7, "{damage}");
        assert_eq!(bench.check().findings, [], "{damage}");
    }
}

#[test]
fn a_message_that_is_missing_from_the_prompt_makes_every_turn_fail() {
    let bench = Bench::after_turns(2, Generation::V2026_09);
    let lost = bench.dump().prompt_ids()[2].clone();
    #[expect(clippy::disallowed_methods, reason = "the test damages the file")]
    let database = rusqlite::Connection::open(bench.store_db()).unwrap();
    database.execute("DELETE FROM blobs WHERE id = ?1", [&lost]).unwrap();
    drop(database);
    let before = bench.dump().meta;
    let mut store = bench.open();
    let err = store.begin_turn("and now?", "request").unwrap_err();
    assert!(matches!(err, SessionError::BlobNotFound { id } if id.to_string() == lost));
    assert_eq!(bench.dump().meta, before);
}

#[test]
fn a_clean_close_leaves_one_file_and_an_abrupt_one_leaves_the_log() {
    let bench = Bench::new(Generation::V2026_01);
    let mut store = bench.open();
    play_turn(&mut store, 0);
    assert!(bench.wal_bytes().unwrap() > 0);
    store.close(Closing::LeaveWal).unwrap();
    assert!(bench.wal_bytes().unwrap() > 0);
    assert!(bench.session_dir().join("store.db-shm").exists());
    let store = bench.open();
    assert_eq!(store.history().len(), 5);
    store.close(Closing::Clean).unwrap();
    assert_eq!(bench.wal_bytes(), None);
    assert_eq!(bench.dump().prompt().len(), 7);
}

#[test]
fn a_session_in_which_nothing_was_said_is_deleted_on_a_clean_close_only() {
    let bench = Bench::new(Generation::V2026_09);
    bench.open().close(Closing::LeaveWal).unwrap();
    assert!(bench.session_dir().exists());
    bench.open().close(Closing::Clean).unwrap();
    assert!(!bench.session_dir().exists());

    // Later builds keep a prompt without an answer; earlier ones deleted it.
    for (generation, is_kept) in [(Generation::V2026_09, true), (Generation::V2026_01, false)] {
        let bench = Bench::new(generation);
        let mut store = bench.open();
        store.begin_turn("hello", "request").unwrap();
        store.close(Closing::Clean).unwrap();
        assert_eq!(bench.session_dir().exists(), is_kept);
    }
}

#[test]
fn a_prompt_refers_to_the_root_that_was_the_latest_before_it_and_is_still_stored() {
    let bench = Bench::after_turns(1, Generation::V2026_09);
    let root_before = bench.dump().latest_root().to_owned();
    let n_rows = bench.dump().rows.len();
    let mut store = bench.open();
    store.begin_turn("again", "request").unwrap();
    let dump = bench.dump();
    let user_message = super::test_bench::fields(&dump.rows[n_rows].1);
    let (_, state_before) = user_message.iter().find(|(number, _)| *number == 10).unwrap();
    assert_eq!(hex::encode(state_before.bytes()), root_before);
    dump.blob(&root_before);
}

#[test]
fn a_call_without_a_result_counts_as_interrupted_and_calls_out_of_order_are_refused() {
    let bench = Bench::new(Generation::V2026_09);
    let mut store = bench.open();
    assert!(matches!(store.model_step(None, Some("hi"), &[]), Err(SessionError::NoTurn)));
    store.begin_turn("work", "request").unwrap();
    assert!(matches!(store.tools_finished(&[]), Err(SessionError::NoTurn)));
    store.model_step(None, None, &[shell_call("c", "sleep 9")]).unwrap();
    store.end_turn(None, "gave up").unwrap();
    let prompt = bench.dump().prompt();
    assert_eq!(roles(&prompt)[3..], ["assistant", "tool", "assistant"]);
    let text = prompt[4]["content"][0]["result"].as_str().unwrap();
    assert!(text.starts_with("Error: Shell command was interrupted by the user after "), "{text}");
    bench.dump().walk();
}

#[test]
fn if_two_processes_write_to_one_session_the_last_one_wins_without_an_error() {
    let bench = Bench::after_turns(1, Generation::V2026_09);
    let (mut one, mut other) = (bench.open(), bench.open());
    one.begin_turn("from one", "request-1").unwrap();
    other.begin_turn("from the other", "request-2").unwrap();
    one.end_turn(None, "said one").unwrap();
    other.end_turn(None, "said the other").unwrap();
    let store = bench.open();
    let said: Vec<_> = store.history().iter().map(|message| message.text.as_str()).collect();
    assert_eq!(said[5..], ["from the other", "said the other"]);
    assert_eq!(bench.check().findings, []);
}

#[test]
fn an_early_build_drops_the_keys_of_a_later_one_from_the_meta_row() {
    let mut bench = Bench::after_turns(1, Generation::V2026_09);
    bench.generation = Generation::V2026_01;
    let mut store = bench.open();
    assert_eq!(store.history().len(), 5);
    play_turn(&mut store, 1);
    let meta = bench.dump().meta;
    assert_eq!(meta["agentId"], bench.session_id.to_string());
    assert_eq!(
        (&meta["blobEncryptionKey"], &meta["isRunEverything"]),
        (&Value::Null, &Value::Null)
    );
}
