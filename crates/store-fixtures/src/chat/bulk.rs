//! Many chats, and a huge one, for benchmarks.

use std::path::{Path, PathBuf};

use cursor_stores::chat::schema::ConversationStateStructure;

use super::{Call, Chat, Generation, Step, StoreWriter, Turn, bucket_of};
use crate::Closing;

/// Chats have had a `meta.json` since mid-2026.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetaFiles {
    Present,
    Absent,
}

/// Writes many small chats, twenty to a workspace, all with the same content.
pub fn many_chats(chats: &Path, n_chats: usize, meta_files: MetaFiles) {
    let template = chats.join("template");
    let call = Call::shell("call_1", "ls", "README.md");
    let steps = vec![
        Step::Text("Let me look.".to_owned()),
        Step::Call(call),
        Step::Text("Done.".to_owned()),
    ];
    let chat = Chat::new(Generation::Jul2026, "template")
        .with_turns(vec![Turn::Agent { prompt: "What is here?".to_owned(), steps }]);
    let template = chat.write_into(&template, Closing::Clean);
    for number in 0..n_chats {
        let workspace = format!("/home/u/project-{}", number / 20);
        let id = format!("{number:08x}-0000-4000-8000-000000000000");
        let directory = chats.join(bucket_of(&workspace)).join(&id);
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::copy(template.join("store.db"), directory.join("store.db")).unwrap();
        if meta_files == MetaFiles::Present {
            let created_ms = 1_780_000_000_000 + number * 60_000;
            let meta = serde_json::json!({
                "schemaVersion": 1, "createdAtMs": created_ms, "hasConversation": true,
                "updatedAtMs": created_ms + 30_000, "cwd": workspace, "title": format!("Chat number {number}"),
            });
            std::fs::write(directory.join("meta.json"), meta.to_string()).unwrap();
        }
    }
    std::fs::remove_dir_all(template).unwrap();
}

/// Writes one chat with `n_steps`, and a root after each step, like Cursor. Its size grows with the square of
/// `n_steps`. Returns its directory. `word` is in one message near the beginning.
pub fn large_chat(chats: &Path, id: &str, n_steps: usize, word: &str) -> PathBuf {
    let directory = chats.join(bucket_of("/home/u/large")).join(id);
    let mut store = StoreWriter::create(&directory, id, 1_780_000_000_000);
    store.set_meta("name", "A very long chat");
    store.connection().execute_batch("PRAGMA synchronous = OFF; BEGIN").unwrap();
    let mut root = ConversationStateStructure::default();
    let output = "line of output from a tool\n".repeat(60);
    for number in 0..n_steps {
        let text = if number == 10 {
            format!("here is the {word}")
        } else {
            format!("Step {number} of many.")
        };
        let messages = match number % 40 {
            0 => vec![
                serde_json::json!({"role": "user", "content": [{"type": "text", "text": format!("<user_query>\nGo on {number}\n</user_query>")}],
                "providerOptions": {"cursor": {"requestId": format!("r{number}")}}}),
            ],
            _ => vec![
                serde_json::json!({"role": "assistant", "id": "1", "content": [{"type": "text", "text": text},
                    {"type": "tool-call", "toolCallId": format!("call_{number}"), "toolName": "Shell", "args": {"command": format!("step {number}")}}]}),
                serde_json::json!({"role": "tool", "id": format!("call_{number}"), "content": [{"type": "tool-result", "toolCallId": format!("call_{number}"),
                    "toolName": "Shell", "result": format!("{number}: {output}")}]}),
            ],
        };
        for message in messages {
            root.root_prompt_messages_json.push(store.put_json(&message));
        }
        store.put_message(&root);
        if number % 500 == 499 {
            store.connection().execute_batch("COMMIT; BEGIN").unwrap();
        }
    }
    store.put_root(&root);
    store.connection().execute_batch("COMMIT").unwrap();
    store.close(Closing::Clean);
    directory
}

/// Writes one chat with `n_messages` of `n_bytes` each. Every `prompt_every`-th message is in the prompt, the others
/// are unreferenced. Returns its directory.
pub fn wide_chat(
    chats: &Path,
    workspace: &Path,
    id: &str,
    n_messages: usize,
    n_bytes: usize,
    prompt_every: usize,
) -> PathBuf {
    let workspace = workspace.to_str().unwrap();
    let directory = chats.join(bucket_of(workspace)).join(id);
    let mut store = StoreWriter::create(&directory, id, 1_780_000_000_000);
    store.connection().execute_batch("PRAGMA synchronous = OFF; BEGIN").unwrap();
    let mut root = ConversationStateStructure::default();
    let filler = "some words of a long answer ".repeat(n_bytes / 28);
    for number in 0..n_messages {
        let role = if number % 2 == 0 { "user" } else { "assistant" };
        let text = format!("{number} {filler}");
        let message =
            serde_json::json!({"role": role, "content": [{"type": "text", "text": text}]});
        let message = store.put_json(&message);
        if number % prompt_every == 0 {
            root.root_prompt_messages_json.push(message);
        }
    }
    store.put_root(&root);
    store.connection().execute_batch("COMMIT").unwrap();
    store.close(Closing::Clean);
    let meta = serde_json::json!({
        "schemaVersion": 1, "createdAtMs": 1_780_000_000_000_i64, "hasConversation": true,
        "updatedAtMs": 1_780_000_000_000_i64, "cwd": workspace, "title": "A wide chat",
    });
    std::fs::write(directory.join("meta.json"), meta.to_string()).unwrap();
    directory
}
