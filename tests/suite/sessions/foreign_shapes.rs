//! Stores in shapes that our own builders do not write. The tests write them with plain SQL.

use std::fs;
use std::path::Path;

use pretty_assertions::assert_eq;
use rusqlite::Connection;
use rusqlite::types::Value;
use serde_json::{Value as Json, json};
use store_fixtures::chat::StoreWriter;
use store_fixtures::transcript::{Layout, Line, TranscriptProject};
use store_fixtures::{Closing, sdk};

use crate::sessions::every_store::user_dir;
use crate::stage::Stage;

fn database(path: &Path) -> Connection {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let connection = Connection::open(path).unwrap();
    connection
        .execute_batch(
            "CREATE TABLE IF NOT EXISTS ItemTable (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB);
             CREATE TABLE IF NOT EXISTS cursorDiskKV (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB);",
        )
        .unwrap();
    connection
}

/// Writes every second value as bytes, the others as text.
fn put(connection: &Connection, key: &str, value: &str) {
    let n: i64 =
        connection.query_row("SELECT count(*) FROM cursorDiskKV", [], |row| row.get(0)).unwrap();
    let value = match n % 2 {
        0 => Value::Blob(value.as_bytes().to_vec()),
        _ => Value::Text(value.to_owned()),
    };
    connection
        .execute("INSERT INTO cursorDiskKV (key, value) VALUES (?1, ?2)", (key, value))
        .unwrap();
}

fn output(stage: &Stage, args: &[&str]) -> String {
    let output = stage.output(&[&["sessions"], args].concat());
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{args:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

fn hits(stage: &Stage, word: &str) -> Vec<Json> {
    let lines = output(stage, &["search", "--json", "--no-index", word]);
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn show(stage: &Stage, id: &str) -> Json {
    serde_json::from_str(&output(stage, &["show", id, "--json"])).unwrap()
}

/// JavaScript may cut a text between the halves of an emoji. It writes the remaining half as `\ud83d`, which strict
/// JSON parsers refuse.
#[test]
fn half_an_emoji_loses_no_message_in_any_store() {
    let stage = Stage::new();
    let cut = |word: &str| format!(r"{word} \ud83d");

    let ide = database(&user_dir(&stage).join("globalStorage/state.vscdb"));
    let id = "e0000000-0000-4000-8000-000000000001";
    let headers = r#"[{"bubbleId":"b0","type":1},{"bubbleId":"b1","type":2}]"#;
    let name = cut("cutnameword");
    put(
        &ide,
        &format!("composerData:{id}"),
        &format!(
            r#"{{"composerId":"{id}","_v":14,"name":"{name}","createdAt":1780000000000,"fullConversationHeadersOnly":{headers}}}"#
        ),
    );
    for (number, word) in ["cutideone", "cutidetwo"].into_iter().enumerate() {
        let kind = number + 1;
        let tool = r#"{"name":"x","rawArgs":"{\"a\":\"cuttoolword \\ud83d\"}"}"#;
        let bubble = format!(
            r#"{{"bubbleId":"b{number}","type":{kind},"text":"{}","toolFormerData":{tool}}}"#,
            cut(word)
        );
        put(&ide, &format!("bubbleId:{id}:b{number}"), &bubble);
    }

    let chat_id = "e0000000-0000-4000-8000-000000000002";
    let chats = stage.home().join(".cursor/chats/0123456789abcdef0123456789abcdef");
    let mut store = StoreWriter::create(&chats.join(chat_id), chat_id, 1_780_000_000_000);
    let message = format!(r#"{{"role":"user","content":"{}"}}"#, cut("cutchatword"));
    let message = store.put(message.as_bytes());
    store.put_root(&cursor_stores::chat::schema::ConversationStateStructure {
        root_prompt_messages_json: vec![message],
        ..Default::default()
    });
    store.close(Closing::Clean);
    let meta = format!(
        r#"{{"schemaVersion":1,"createdAtMs":1780000000000,"hasConversation":true,"updatedAtMs":1780000000000,"cwd":"/srv","title":"{}"}}"#,
        cut("cuttitleword")
    );
    fs::write(chats.join(chat_id).join("meta.json"), meta).unwrap();

    let agent = sdk::Agent::new("agent-e3", "/srv").with(sdk::Run::new("run-e3", Vec::new()));
    let root = sdk::state_root(&stage.home().join(".cursor/projects"), "/srv");
    sdk::write_database(&root, sdk::Generation::September2026, &[agent], Closing::Clean);
    let index = Connection::open(root.join("index.db")).unwrap();
    let payload = format!(
        r#"{{"schemaVersion":1,"type":"sdk_message","agentId":"agent-e3","runId":"run-e3","message":{{"type":"thinking","text":"{}"}}}}"#,
        cut("cutagentword")
    );
    let sql = "INSERT INTO run_events (run_id, seq, offset, event_type, payload_json, created_at) \
               VALUES ('run-e3', 50, '50', 'run_stream_event', ?1, '2026-07-01T00:00:00.000Z')";
    index.execute(sql, [payload]).unwrap();
    drop(index);

    let project = TranscriptProject::new(&stage.home().join(".cursor/projects"), "srv-app");
    let line =
        format!(r#"{{"role":"user","message":{{"content":"{}"}}}}"#, cut("cuttranscriptword"));
    project.transcript(Layout::Nested, "e0000000-0000-4000-8000-000000000004", &[Line::Raw(line)]);

    for (word, session) in [
        ("cutnameword", id),
        ("cutideone", id),
        ("cutidetwo", id),
        ("cutchatword", chat_id),
        ("cuttitleword", chat_id),
        ("cutagentword", "agent-e3"),
        ("cuttranscriptword", "e0000000-0000-4000-8000-000000000004"),
    ] {
        let hits = hits(&stage, word);
        assert_eq!(hits.len(), 1, "{word}: {hits:?}");
        assert_eq!(hits[0]["session"], session, "{word}");
        let shown = show(&stage, session);
        assert!(shown.to_string().contains(word), "{word} is not shown: {shown}");
        assert_eq!(shown.get("damage"), None, "{word}");
    }
    let shown = show(&stage, id);
    assert_eq!(shown["head"]["title"], "cutnameword \u{fffd}");
    assert!(shown.to_string().contains("cuttoolword"));
}

/// OpenAI's call ids contain a line feed, and some builds name sub-agents after calls.
#[test]
fn an_id_with_a_line_end_is_listed_on_one_line_and_can_be_named_as_listed() {
    let stage = Stage::new();
    let ide = database(&user_dir(&stage).join("globalStorage/state.vscdb"));
    let bubble = json!({"bubbleId": "b", "type": 2, "text": "said by a task"}).to_string();
    put(&ide, "bubbleId:task-call_9\nfc_9:b", &bubble);
    drop(ide);
    let listed = output(&stage, &["ls", "--all", "-q"]);
    let ids: Vec<&str> = listed.lines().collect();
    assert_eq!(ids.len(), 1, "{listed:?}");
    assert_eq!(show(&stage, ids[0])["head"]["id"], "task-call_9\nfc_9");
}

/// Some v2 rows have their messages both inside the composer and in separate rows.
#[test]
fn a_message_that_a_store_has_twice_is_shown_and_found_once() {
    let stage = Stage::new();
    let ide = database(&user_dir(&stage).join("globalStorage/state.vscdb"));
    let id = "e0000000-0000-4000-8000-000000000005";
    let bubble = json!({"bubbleId": "b", "type": 1, "text": "twicekeptword"});
    let composer = json!({"composerId": id, "_v": 2, "name": "both", "createdAt": 1_780_000_000_000_i64,
        "conversation": [bubble], "fullConversationHeadersOnly": [{"bubbleId": "b", "type": 1}]});
    put(&ide, &format!("composerData:{id}"), &composer.to_string());
    put(&ide, &format!("bubbleId:{id}:b"), &bubble.to_string());
    drop(ide);
    assert_eq!(hits(&stage, "twicekeptword").len(), 1);
    let shown = show(&stage, id);
    assert_eq!(shown["messages"].as_array().unwrap().len(), 1);
}

/// The prompt's own row was lost, but the model's copy still has it.
#[test]
fn a_prompt_that_only_the_models_copy_has_is_shown() {
    let stage = Stage::new();
    let ide = database(&user_dir(&stage).join("globalStorage/state.vscdb"));
    let id = "e0000000-0000-4000-8000-000000000006";
    let composer = json!({"composerId": id, "_v": 16, "name": "given", "createdAt": 1_780_000_000_000_i64,
        "fullConversationHeadersOnly": [{"bubbleId": "a", "type": 2}]});
    put(&ide, &format!("composerData:{id}"), &composer.to_string());
    let bubble = json!({"bubbleId": "a", "type": 2, "text": "the answer"});
    put(&ide, &format!("bubbleId:{id}:a"), &bubble.to_string());
    let mut root = Vec::new();
    for message in [
        json!({"role": "user", "content": "<user_query>\nonlygivenword\n</user_query>"}),
        json!({"role": "assistant", "content": "the answer"}),
    ] {
        let blob = message.to_string();
        let hash = cursor_stores::chat::BlobId::of(blob.as_bytes());
        put(&ide, &format!("agentKv:blob:{hash}"), &blob);
        root.extend([0x0a, 0x20]);
        let digits = hash.to_string();
        root.extend((0..32).map(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).unwrap()));
    }
    let hash = cursor_stores::chat::BlobId::of(&root);
    ide.execute(
        "INSERT INTO cursorDiskKV (key, value) VALUES (?1, ?2)",
        (format!("agentKv:blob:{hash}"), root),
    )
    .unwrap();
    put(&ide, &format!("agentKv:checkpoint:{id}"), &hash.to_string());
    drop(ide);
    let shown = show(&stage, id);
    let texts: Vec<&str> = shown["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["parts"][0]["text"].as_str().unwrap())
        .collect();
    assert_eq!(texts, ["onlygivenword", "the answer"]);
}
