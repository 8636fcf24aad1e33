//! A chat with a unique word in every field.

use std::path::Path;

use cursor_stores::chat::schema::{
    ConversationStateStructure, PlanRegistryEntry, SubagentPersistedState, SubagentRunState,
    TrackedGitRepo,
};
use prost::Message;
use serde_json::json;

use super::{Call, Chat, Generation, Outcome, Step, StoreWriter, Todo, Turn};
use crate::Closing;

/// Words, each with the field that contains it.
#[derive(Debug, Default)]
pub struct Planted {
    pub words: Vec<(String, String)>,
}

impl Planted {
    /// A new word for a field.
    pub fn word(&mut self, field: &str) -> String {
        let word = format!("planted{:03}x", self.words.len());
        self.words.push((word.clone(), field.to_owned()));
        word
    }
}

/// Writes a chat below a `chats` directory, with a word in every field, whether Cursor shows, keeps or abandons it.
/// Returns the chat's directory.
pub fn planted_chat(chats: &Path, id: &str, planted: &mut Planted) -> std::path::PathBuf {
    let mut chat = Chat::new(Generation::Sep2026, id);
    chat.name = planted.word("name");
    chat.workspace = format!("/home/u/{}", planted.word("workspace"));
    let failing = Call {
        id: "call_2".to_owned(),
        tool: planted.word("toolName"),
        args: json!({ "deep": [{ "er": planted.word("args") }] }),
        result: Some(Outcome::Error(planted.word("error"))),
    };
    chat.turns = vec![
        Turn::Agent {
            prompt: planted.word("prompt"),
            steps: vec![
                Step::Thinking(planted.word("thinking")),
                Step::Text(planted.word("text")),
                Step::Call(Call::shell(
                    "call_1",
                    &planted.word("command"),
                    &planted.word("result"),
                )),
                Step::Call(failing),
                Step::Text(planted.word("answer")),
            ],
        },
        Turn::Shell {
            command: planted.word("shell command"),
            stdout: planted.word("stdout"),
            stderr: planted.word("stderr"),
            exit_code: 1,
        },
        Turn::plain(&planted.word("prompt after the summary"), "fine"),
    ];
    chat.compaction = Some((2, planted.word("summary")));
    chat.pending = vec![Step::Call(Call {
        id: "call_3".to_owned(),
        tool: "Shell".to_owned(),
        args: json!({ "command": planted.word("pending") }),
        result: None,
    })];
    chat.todos = vec![(planted.word("todo"), Todo::Pending)];
    chat.plan = Some(planted.word("plan"));
    chat.files = vec![(
        format!("/src/{}", planted.word("file path")),
        planted.word("file before"),
        planted.word("file now"),
    )];
    chat.more = more_state(planted).encode_to_vec();
    let directory = chat.write_cli(chats, Closing::Clean);
    add_abandoned(&directory, id, planted);
    directory
}

/// The inline fields of a root.
fn more_state(planted: &mut Planted) -> ConversationStateStructure {
    let mut state = ConversationStateStructure {
        read_paths: vec![planted.word("read path")],
        active_branch_name: Some(planted.word("branch")),
        ..ConversationStateStructure::default()
    };
    state.plans.insert(
        "p".to_owned(),
        PlanRegistryEntry { id: "p".to_owned(), path: planted.word("plan path") },
    );
    let repo =
        TrackedGitRepo { repo_path: planted.word("repository"), branch_name: "main".to_owned() };
    state.tracked_git_repo_branches.push(repo);
    let run =
        SubagentRunState { title: Some(planted.word("run title")), ..SubagentRunState::default() };
    state.subagent_runs_by_parent_tool_call_id.insert("call_9".to_owned(), run);
    let inner = ConversationStateStructure {
        pending_tool_calls: vec![
            json!({"role": "assistant", "content": planted.word("sub-agent")}).to_string(),
        ],
        ..ConversationStateStructure::default()
    };
    let subagent = SubagentPersistedState {
        conversation_state: Some(inner),
        ..SubagentPersistedState::default()
    };
    state.subagent_states.insert("explore".to_owned(), subagent);
    state
}

/// Blobs that no root refers to, in all the forms that messages have.
fn add_abandoned(directory: &Path, id: &str, planted: &mut Planted) {
    let store = StoreWriter::create(directory, id, 0);
    store.put_json(&json!({ "role": "user", "content": planted.word("orphan") }));
    let escaped: String = planted
        .word("escaped orphan")
        .chars()
        .map(|c| format!("\\u{:04x}", u32::from(c)))
        .collect();
    store.put(format!(r#"{{"role":"user","content":"{escaped}"}}"#).as_bytes());
    store.put(format!("\n\u{5}\u{1}{}", planted.word("abandoned step")).as_bytes());
    store.close(Closing::Clean);
}
