//! A database of the size that users complain about, for the benchmark.

use std::fmt::Write;
use std::path::Path;

use cursor_stores::chat::schema::ConversationStateStructure;
use prost::Message;
use rusqlite::Connection;
use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};

use super::{assistant_bubble, composer, create_tables, tool_bubble, user_bubble};
use crate::{iso, open_writer};

const CREATED_MS: i64 = 1_790_000_000_000;

/// Writes a `state.vscdb` at `path` of about `n_bytes`: conversations with bubbles and blobs in equal parts, made of the
/// same few words. `word` is in one bubble in the middle, and in one blob.
pub fn generate_large(
    path: &Path,
    n_composers: usize,
    n_bubbles: usize,
    n_blobs: usize,
    n_bytes: u64,
    word: Option<&str>,
) {
    let connection = open_writer(path);
    connection.execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;").unwrap();
    create_tables(&connection);
    connection.execute_batch(super::HEADERS_SQL).unwrap();
    connection.execute_batch("BEGIN").unwrap();
    let n_rows = n_bubbles + n_blobs;
    // Pages are never quite full, and every row has some overhead.
    let n_text = usize::try_from(n_bytes).unwrap() / n_rows.max(1) * 94 / 100;
    let mut words = Words::new(n_text);
    for number in 0..n_composers {
        let share =
            |total: usize| total * (number + 1) / n_composers - total * number / n_composers;
        write_conversation(&connection, number, share(n_bubbles), share(n_blobs), &mut words);
    }
    if let Some(word) = word {
        let id = uuid(n_composers as u64 / 2);
        let bubble = assistant_bubble("rare", &format!("here is the {word}")).to_string();
        let blob = json!({"role": "tool", "content": format!("and the {word} again")}).to_string();
        let hash = hex::encode(Sha256::digest(&blob));
        let rows =
            [(format!("bubbleId:{id}:rare"), bubble), (format!("agentKv:blob:{hash}"), blob)];
        for (key, value) in rows {
            let sql = "INSERT INTO cursorDiskKV (key, value) VALUES (?1, ?2)";
            connection.execute(sql, (key, value)).unwrap();
        }
    }
    connection.execute_batch("COMMIT; PRAGMA journal_mode = WAL;").unwrap();
    connection.close().unwrap();
}

fn write_conversation(
    connection: &Connection,
    number: usize,
    n_bubbles: usize,
    n_blobs: usize,
    words: &mut Words,
) {
    let id = uuid(number as u64);
    let mut put =
        connection.prepare_cached("INSERT INTO cursorDiskKV (key, value) VALUES (?1, ?2)").unwrap();
    let mut headers = Vec::new();
    for place in 0..n_bubbles {
        let bubble_id = uuid(((number as u64) << 32) | (place as u64 + 1));
        let created = CREATED_MS + (number * 1000 + place) as i64 * 1000;
        let mut bubble = match place % 8 {
            0 => user_bubble(&bubble_id, words.some(300)),
            1..=3 => assistant_bubble(&bubble_id, words.some(words.length.saturating_sub(1800))),
            _ => {
                let result =
                    json!({"output": words.some(words.length.saturating_sub(2200)), "exitCode": 0});
                let args = json!({"command": words.some(80)});
                tool_bubble(
                    &bubble_id,
                    &format!("toolu_{number}_{place}"),
                    "run_terminal_cmd",
                    &args,
                    &result,
                )
            }
        };
        bubble["createdAt"] = json!(iso(created));
        bubble["requestId"] =
            json!(uuid(((number as u64) << 32) | ((place as u64 / 8) << 16) | 0xffff));
        headers
            .push(json!({"bubbleId": bubble_id, "type": bubble["type"], "createdAt": iso(created),
            "grouping": {"isRenderable": true, "hasText": true}}));
        put.execute((format!("bubbleId:{id}:{bubble_id}"), bubble.to_string())).unwrap();
    }
    let mut prompt_ids = Vec::new();
    for place in 0..n_blobs {
        // Every fourth blob is JSON.
        let content = if place % 4 == 0 {
            let role = if place % 8 == 0 { "user" } else { "assistant" };
            let text = words.some(words.length);
            json!({"role": role, "content": [{"type": "text", "text": format!("{number} {place} {text}")}]}).to_string()
        } else {
            format!("\u{a}\u{12}{number} {place} {}", words.some(words.length))
        };
        let hash: [u8; 32] = Sha256::digest(&content).into();
        if place % 4 == 0 {
            prompt_ids.push(hash.to_vec());
        }
        put.execute((format!("agentKv:blob:{}", hex::encode(hash)), content.as_bytes())).unwrap();
    }
    let root =
        ConversationStateStructure { root_prompt_messages_json: prompt_ids, ..Default::default() }
            .encode_to_vec();
    let hash: [u8; 32] = Sha256::digest(&root).into();
    put.execute((format!("agentKv:blob:{}", hex::encode(hash)), root)).unwrap();
    put.execute((format!("agentKv:checkpoint:{id}"), hex::encode(hash))).unwrap();
    let mut data = composer(&id, 16, &headers);
    let name = format!("Conversation {number}: {}", words.some(30));
    data["name"] = json!(name);
    data["createdAt"] = json!(CREATED_MS + number as i64 * 1_000_000);
    data["conversationState"] = json!("~");
    data["workspaceIdentifier"] = json!({"id": "a1", "uri": {"fsPath": format!("/srv/p{}", number % 20), "scheme": "file",
        "external": format!("file:///srv/p{}", number % 20)}});
    put.execute((format!("composerData:{id}"), data.to_string())).unwrap();
    let head: Json =
        json!({"type": "head", "composerId": id, "name": name, "unifiedMode": "agent"});
    connection
        .execute(
            "INSERT INTO composerHeaders (composerId, createdAt, lastUpdatedAt, isArchived, isSubagent, recency, value) \
             VALUES (?1, ?2, ?2, 0, 0, ?2, ?3)",
            (&id, CREATED_MS + number as i64 * 1_000_000, head.to_string()),
        )
        .unwrap();
}

/// A well-formed id with the digits of a hash, so that ids sort like random ones.
fn uuid(number: u64) -> String {
    let digest = hex::encode(Sha256::digest(number.to_le_bytes()));
    format!(
        "{}-{}-4{}-8{}-{}",
        &digest[..8],
        &digest[8..12],
        &digest[12..15],
        &digest[15..18],
        &digest[18..30]
    )
}

/// Texts of all lengths, cut from one long text, so that they need no allocation.
struct Words {
    text: String,
    at: usize,
    length: usize,
}

impl Words {
    fn new(length: usize) -> Self {
        const WORDS: &str = "the parser returns an error when its input ends early; please check src/main.rs and run tests\n";
        let words: Vec<&str> = WORDS.split(' ').collect();
        let mut text = String::new();
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        while text.len() < 4 * 1024 * 1024 + 2 * length {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            write!(text, "{} ", words[(state >> 60) as usize]).unwrap();
        }
        Self { text, at: 0, length }
    }

    fn some(&mut self, length: usize) -> &str {
        self.at = (self.at + 7919) % (4 * 1024 * 1024);
        &self.text[self.at..self.at + length]
    }
}
