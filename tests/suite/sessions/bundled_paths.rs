//! A bundle reveals nothing about its source machine, except in messages. The tests check every blob.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;

use cursor_stores::chat::BlobId;
use cursor_stores::chat::references::{BlobKind, visit_references};
use cursor_stores::chat::schema::{
    ConversationStateStructure, PlanRegistryEntry, SubagentPersistedState, SubagentRunState,
    TrackedGitRepo,
};
use pretty_assertions::assert_eq;
use prost::Message;
use serde_json::Value;
use store_fixtures::Closing;
use store_fixtures::chat::{Call, Chat, Generation, MetaForm, Step, StoreWriter, Turn};

use crate::stage::{Stage, assert_exit, printed, stderr};

const SESSION: &str = "7a9d2c1e-93b0-4b8f-8a51-1d7b4f2c6e00";

/// A bundle, unpacked without our own reader or writer.
struct Opened {
    header: Value,
    blobs: HashMap<BlobId, Vec<u8>>,
}

impl Opened {
    fn read(file: &Path) -> Self {
        let bytes = fs::read(file).unwrap();
        let end = bytes.iter().position(|byte| *byte == b'\n').unwrap();
        let header = serde_json::from_slice(&bytes[..end]).unwrap();
        let mut rest = &bytes[end + 1..bytes.len() - 32];
        let mut blobs = HashMap::new();
        while let Some((length, after)) = rest.split_first_chunk() {
            let (data, after) =
                after.split_at(usize::try_from(u64::from_le_bytes(*length)).unwrap());
            blobs.insert(BlobId::of(data), data.to_vec());
            rest = after;
        }
        Self { header, blobs }
    }

    fn root(&self) -> BlobId {
        self.header["root"].as_str().unwrap().parse().unwrap()
    }

    /// Returns every blob with the kind of each reference that leads to it from the root.
    fn kinds(&self) -> HashSet<(BlobId, BlobKind)> {
        let mut kinds = HashSet::new();
        let mut rest = vec![(self.root(), BlobKind::Root)];
        while let Some((id, kind)) = rest.pop() {
            if !kinds.insert((id, kind)) {
                continue;
            }
            let data = &self.blobs[&id];
            visit_references(kind, data, &mut |reference| {
                rest.push((BlobId::try_from(reference.id).unwrap(), reference.kind));
            })
            .unwrap();
        }
        kinds
    }

    /// Fails if a path from the first machine is anywhere but in a message. Returns the number of blobs whose messages
    /// contain one.
    #[track_caller]
    fn assert_told_only_in_messages(&self, stage: &Stage) -> usize {
        let home = stage.home().to_str().unwrap().to_owned();
        let names = |data: &[u8]| String::from_utf8_lossy(data).contains(&home);
        assert!(!names(self.header.to_string().as_bytes()), "{}", self.header);
        let kinds = self.kinds();
        let known: HashSet<BlobId> = kinds.iter().map(|(id, _)| *id).collect();
        assert_eq!(known.len(), self.blobs.len(), "something refers to every blob");
        let mut n_told = 0;
        for (id, kind) in kinds {
            let data = &self.blobs[&id];
            if !names(data) {
                continue;
            }
            n_told += 1;
            match kind {
                BlobKind::PromptMessage | BlobKind::UserMessage | BlobKind::Step => {}
                BlobKind::Root => {
                    let mut state = ConversationStateStructure::decode(data.as_slice()).unwrap();
                    without_messages(&mut state);
                    let beside = state.encode_to_vec();
                    assert!(!names(&beside), "{}", String::from_utf8_lossy(&beside));
                }
                _ => panic!("{kind:?}: {}", String::from_utf8_lossy(data)),
            }
        }
        n_told
    }
}

/// Removes the one kind of message that a root itself contains.
fn without_messages(state: &mut ConversationStateStructure) {
    state.pending_tool_calls.clear();
    for subagent in state.subagent_states.values_mut() {
        subagent.conversation_state.as_mut().into_iter().for_each(without_messages);
    }
}

#[track_caller]
/// Returns the latest state of a session in the store.
fn state_of(stage: &Stage, session: &str) -> ConversationStateStructure {
    let shown = stage.output(&["resume", "--check", session, "--json"]);
    let check: Value = serde_json::from_slice(&shown.stdout).unwrap();
    let root: BlobId = check["root"].as_str().unwrap_or_else(|| panic!("{check}")).parse().unwrap();
    let connection =
        rusqlite::Connection::open(stage.session_dir(session).join("store.db")).unwrap();
    let sql = "SELECT data FROM blobs WHERE id = ?1";
    let data: Vec<u8> = connection.query_row(sql, [root.to_string()], |row| row.get(0)).unwrap();
    ConversationStateStructure::decode(data.as_slice()).unwrap()
}

#[test]
fn a_bundle_names_its_machine_only_in_messages_and_the_agent_remembers_on_another() {
    let (first, second) = (Stage::new(), Stage::new());
    let session = first.begin_session();
    let script = "say The second turn.\nwrite notes.txt <<END\nblue\nEND\nread notes.txt";
    printed(&first.play(script, &["--session", &session]));
    // Suspend the run during a tool call, so that a message is pending too.
    let run = first.detach("say The third turn.\nshell sleep 60", &["--session", &session]);
    first.wait_until(&run, |line| line["kind"] == "agent.tool_started");
    assert!(first.output(&["suspend", &run]).status.success());
    let before = state_of(&first, &session);
    assert!(!before.pending_tool_calls.is_empty());
    assert_eq!((before.read_paths.len(), before.file_states_v2.len()), (1, 1), "{before:?}");

    let file = first.root().join("talk.session");
    let args = ["sessions", "bundle", &session, "-o", file.to_str().unwrap(), "--json"];
    let bundled = first.output(&args);
    let report: Value = serde_json::from_str(&printed(&bundled)).unwrap();
    let opened = Opened::read(&file);
    let n_told = opened.assert_told_only_in_messages(&first);
    assert!(n_told > 0, "the agent knows its workspace");
    assert_eq!(report["naming_paths"]["n_messages"], n_told);
    assert_eq!(report["naming_paths"]["n_unknown"], 0);
    assert_eq!(report["left_out"], serde_json::json!({ "n_paths": 0, "n_contents": 0 }));
    let said = stderr(&bundled);
    assert!(said.contains(&format!("{n_told} pieces name your home")), "{said}");

    assert_eq!(printed(&second.output(&["sessions", "import", file.to_str().unwrap()])), session);
    let after = state_of(&second, &session);
    let workspace = second.workspace().to_str().unwrap().to_owned();
    assert_eq!(after.previous_workspace_uris, [format!("file://{workspace}")]);
    assert_eq!(after.read_paths, [format!("{workspace}/notes.txt")]);
    assert!(after.file_states_v2.contains_key(&format!("{workspace}/notes.txt")), "{after:?}");
    assert_eq!(after.root_prompt_messages_json, before.root_prompt_messages_json);
    assert_eq!(after.pending_tool_calls, before.pending_tool_calls);
    let recalled = printed(&second.resume(&session, "recall", &[]));
    for text in ["The first turn.", "The second turn.", "The third turn."] {
        assert!(recalled.contains(text), "{text}: {recalled}");
    }
    assert_eq!(second.output(&["sessions", "verify", &session]).status.code(), Some(0));

    // The session comes back to the first machine, with the turns from the second.
    let back = second.root().join("back.session");
    let args = ["sessions", "bundle", &session, "-o", back.to_str().unwrap()];
    printed(&second.output(&args));
    let args = ["sessions", "import", back.to_str().unwrap(), "--json"];
    let report: Value = serde_json::from_str(&printed(&first.output(&args))).unwrap();
    assert_eq!(report["outcome"], "extended", "{report}");
    let recalled = printed(&first.resume(&session, "recall", &[]));
    assert!(recalled.contains("recall"), "the turns from the second machine: {recalled}");
}

/// Makes a chat with a path in every field that can hold one, both inside and outside the workspace.
fn chat_with_paths(stage: &Stage, generation: Generation) -> Chat {
    let home = stage.home().to_str().unwrap().to_owned();
    let workspace = stage.workspace().to_str().unwrap().to_owned();
    let mut chat = Chat::new(generation, SESSION);
    chat.workspace.clone_from(&workspace);
    chat.name = format!("Look into {workspace}");
    chat.turns = vec![
        Turn::plain("The first turn.", "Fine."),
        Turn::Agent {
            prompt: format!("What is in {home}/notes?"),
            steps: vec![
                Step::Call(Call::shell("call_1", &format!("cat {home}/notes"), "blue")),
                Step::Text(format!("{home}/notes says blue.")),
            ],
        },
    ];
    chat.files = vec![
        (format!("{workspace}/in.txt"), "before".to_owned(), "now".to_owned()),
        (format!("{workspace}/telling.txt"), "before".to_owned(), format!("at {home}")),
        (format!("{home}/.netrc"), "password hunter2".to_owned(), "password hunter3".to_owned()),
    ];
    let plan = PlanRegistryEntry { id: "p".to_owned(), path: format!("{home}/.cursor/plans/p") };
    let run = SubagentRunState {
        transcript_path: Some(format!("{home}/.cursor/projects/x/t.jsonl")),
        ..SubagentRunState::default()
    };
    let inner = ConversationStateStructure {
        previous_workspace_uris: vec![format!("file://{workspace}")],
        pending_tool_calls: vec![format!(r#"{{"role":"assistant","content":"{home}"}}"#)],
        ..ConversationStateStructure::default()
    };
    let subagent = SubagentPersistedState {
        conversation_state: Some(inner),
        ..SubagentPersistedState::default()
    };
    chat.more = ConversationStateStructure {
        read_paths: vec![format!("{workspace}/a"), format!("{home}/b"), "/etc/c".to_owned()],
        plans: [("p".to_owned(), plan)].into(),
        tracked_git_repo_branches: vec![TrackedGitRepo {
            repo_path: home,
            branch_name: "main".to_owned(),
        }],
        subagent_runs_by_parent_tool_call_id: [("call_1".to_owned(), run)].into(),
        subagent_states: [("explore".to_owned(), subagent)].into(),
        ..ConversationStateStructure::default()
    }
    .encode_to_vec();
    chat
}

#[test]
fn no_field_of_any_generation_carries_a_path_away() {
    for generation in
        [Generation::Aug2025, Generation::Feb2026, Generation::Jul2026, Generation::Sep2026]
    {
        let (first, second) = (Stage::new(), Stage::new());
        chat_with_paths(&first, generation)
            .write_cli(&first.home().join(".cursor/chats"), Closing::Clean);
        let file = first.root().join("talk.session");
        // Builds from 2025 record the workspace only in messages, and this chat has none of those.
        let is_known = generation != Generation::Aug2025;
        let args = ["sessions", "bundle", SESSION, "-o", file.to_str().unwrap()];
        let bundled = first.output(&args);
        assert_exit(&bundled, 0);
        let said = stderr(&bundled);
        assert!(said.contains("left out") && said.contains("outside the workspace"), "{said}");
        let opened = Opened::read(&file);
        assert!(opened.assert_told_only_in_messages(&first) > 0);
        for data in opened.blobs.values() {
            assert!(!String::from_utf8_lossy(data).contains("hunter"), "{generation:?}");
        }
        printed(&second.output(&["sessions", "import", file.to_str().unwrap()]));
        let after = state_of(&second, SESSION);
        let workspace = second.workspace().to_str().unwrap().to_owned();
        let expected = if is_known { vec![format!("{workspace}/a")] } else { Vec::new() };
        assert_eq!(after.read_paths, expected, "{generation:?}");
        let recalled = printed(&second.resume(SESSION, "recall", &[]));
        assert!(recalled.contains("The first turn."), "{recalled}");
    }
}

#[test]
fn unknown_fields_are_reported_and_not_lost() {
    let stage = Stage::new();
    let workspace = stage.workspace().to_str().unwrap().to_owned();
    let mut chat = Chat::new(Generation::Sep2026, SESSION);
    chat.workspace.clone_from(&workspace);
    chat.turns = vec![Turn::plain("The first turn.", "Fine.")];
    let directory = chat.write_cli(&stage.home().join(".cursor/chats"), Closing::Clean);
    let mut root = state_of(&stage, SESSION).encode_to_vec();
    let unknown = format!("see {workspace}");
    prost::encoding::string::encode(900, &unknown, &mut root);
    let mut store = StoreWriter::create(&directory, SESSION, 1_790_000_000_000);
    store.put(&root);
    store.set_meta("latestRootBlobId", BlobId::of(&root).to_string());
    store.put_meta(MetaForm::Hex);
    store.close(Closing::Clean);

    let file = stage.root().join("talk.session");
    let args = ["sessions", "bundle", SESSION, "-o", file.to_str().unwrap(), "--json"];
    let bundled = stage.output(&args);
    let report: Value = serde_json::from_str(&printed(&bundled)).unwrap();
    assert_eq!(report["naming_paths"]["n_unknown"], 1, "{report}");
    let said = stderr(&bundled);
    assert!(said.contains("1 blob names your home directory or the workspace in fields"), "{said}");
    let opened = Opened::read(&file);
    let data = &opened.blobs[&opened.root()];
    assert!(data.ends_with(unknown.as_bytes()), "{}", String::from_utf8_lossy(data));
}
