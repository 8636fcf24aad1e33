use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;
use crate::chat::Severity;
use crate::chat::schema::{
    AgentConversationTurnStructure, AssistantMessage, ConversationPlan, ConversationStep,
    ConversationSummary, ConversationSummaryArchive, ConversationTurnStructure, FileState,
    FileStateStructure, ShellCommand, ShellConversationTurnStructure, ShellOutput, Step,
    SubagentPersistedState, TodoItem, Turn, UserMessage,
};
use crate::test_store::TestStore;

fn check(store: &TestStore) -> StoreCheck {
    check_store(&ChatStore::open_read_only(&store.path()).unwrap()).unwrap()
}

fn put_json(store: &TestStore, text: &str) -> BlobId {
    store.put(json!({"role": "user", "content": text}).to_string().as_bytes())
}

fn forget(store: &TestStore, id: BlobId) {
    let n_deleted =
        store.writer.execute("DELETE FROM blobs WHERE id = ?1", [id.to_string()]).unwrap();
    assert_eq!(n_deleted, 1);
}

/// A chat with one agent turn and one shell turn.
fn small_chat(store: &TestStore) -> ConversationStateStructure {
    let before = ConversationStateStructure {
        root_prompt_messages_json: vec![put_json(store, "system").to_vec()],
        ..Default::default()
    };
    let user_message = UserMessage {
        text: "hi".to_owned(),
        conversation_state_blob_id: store.put_message(&before).to_vec(),
        text_blob_id: Some(store.put(b"hi, long").to_vec()),
        ..Default::default()
    };
    let step = ConversationStep {
        message: Some(Step::AssistantMessage(AssistantMessage {
            text: "ho".to_owned(),
            ..Default::default()
        })),
    };
    let agent_turn = AgentConversationTurnStructure {
        user_message: store.put_message(&user_message).to_vec(),
        steps: vec![store.put_message(&step).to_vec()],
        ..Default::default()
    };
    let shell_turn = ShellConversationTurnStructure {
        shell_command: store.put_message(&ShellCommand { command: "ls".to_owned() }).to_vec(),
        shell_output: store
            .put_message(&ShellOutput { stdout: "a".to_owned(), ..Default::default() })
            .to_vec(),
    };
    let turns = [Turn::AgentConversationTurn(agent_turn), Turn::ShellConversationTurn(shell_turn)];
    ConversationStateStructure {
        root_prompt_messages_json: vec![
            put_json(store, "system").to_vec(),
            put_json(store, "hi").to_vec(),
        ],
        turns: turns
            .map(|turn| store.put_message(&ConversationTurnStructure { turn: Some(turn) }).to_vec())
            .to_vec(),
        ..before
    }
}

#[test]
fn a_complete_store_has_no_findings() {
    let mut store = TestStore::new();
    let archive = ConversationSummaryArchive {
        summarized_messages: vec![put_json(&store, "old").to_vec()],
        summary_message: put_json(&store, "summary").to_vec(),
        ..Default::default()
    };
    let nested = ConversationStateStructure {
        root_prompt_messages_json: vec![put_json(&store, "child").to_vec()],
        ..Default::default()
    };
    let subagent =
        SubagentPersistedState { conversation_state: Some(nested), ..Default::default() };
    let root = ConversationStateStructure {
        todos: vec![
            store.put_message(&TodoItem { id: "1".to_owned(), ..Default::default() }).to_vec(),
        ],
        summary: Some(store.put_message(&ConversationSummary { summary: "s".to_owned() }).to_vec()),
        plan: Some(store.put_message(&ConversationPlan { plan: "p".to_owned() }).to_vec()),
        summary_archives: vec![store.put_message(&archive).to_vec()],
        file_states: [(
            "/a".to_owned(),
            store
                .put_message(&FileState { content: Some("c".to_owned()), initial_content: None })
                .to_vec(),
        )]
        .into(),
        file_states_v2: [(
            "/a".to_owned(),
            FileStateStructure {
                content: Some(store.put(b"text").to_vec()),
                initial_content: None,
            },
        )]
        .into(),
        subagent_state_refs: [("s".to_owned(), store.put_message(&subagent).to_vec())].into(),
        ..small_chat(&store)
    };
    let id = store.put_root(&root);
    store.put(b"an orphan");
    assert_eq!(
        check(&store),
        StoreCheck {
            root: Ok(LatestState {
                id,
                n_prompt_messages: 2,
                n_turns: 2,
                pending: PendingMessages::default(),
                workspace_uris: vec![],
            }),
            findings: vec![],
            n_findings: 0,
            n_reached: 21,
        }
    );
}

#[test]
fn a_missing_prompt_message_is_named_and_marked_as_prompt() {
    let mut store = TestStore::new();
    let chat = small_chat(&store);
    let root = store.put_root(&chat);
    let message = put_json(&store, "hi");
    forget(&store, message);
    let check = check(&store);
    assert_eq!(
        check.findings,
        [StoreFinding::Dangling {
            id: message,
            place: Place {
                blob: root,
                field: "root_prompt_messages_json[1]".to_owned(),
                is_prompt: true,
            },
        }]
    );
}

#[test]
fn a_missing_turn_is_named_but_leaves_the_prompt_intact() {
    let mut store = TestStore::new();
    let chat = small_chat(&store);
    let root = store.put_root(&chat);
    let turn = BlobId::try_from(chat.turns[0].as_slice()).unwrap();
    forget(&store, turn);
    let check = check(&store);
    assert_eq!(
        check.findings,
        [StoreFinding::Dangling {
            id: turn,
            place: Place { blob: root, field: "turns[0]".to_owned(), is_prompt: false },
        }]
    );
}

#[test]
fn a_message_missing_only_from_an_older_root_leaves_the_prompt_intact() {
    let mut store = TestStore::new();
    let mut chat = small_chat(&store);
    // As after a compaction: the older root still names a message that the latest root does not.
    chat.root_prompt_messages_json.remove(0);
    store.put_root(&chat);
    forget(&store, put_json(&store, "system"));
    let check = check(&store);
    assert_eq!(check.n_findings, 1);
    assert_eq!(check.findings[0].severity(), Severity::History);
}

#[test]
fn damaged_blobs_are_told_apart() {
    let mut store = TestStore::new();
    let (swapped, not_json, not_a_turn) =
        (put_json(&store, "x"), store.put(b"[1]"), store.put(&[0x0b]));
    store.put_as(swapped, b"something else");
    let root = store.put_root(&ConversationStateStructure {
        root_prompt_messages_json: vec![swapped.to_vec(), not_json.to_vec(), vec![1, 2, 3]],
        turns: vec![not_a_turn.to_vec()],
        ..Default::default()
    });
    let check = check(&store);
    let in_prompt = |index: usize| Place {
        blob: root,
        field: format!("root_prompt_messages_json[{index}]"),
        is_prompt: true,
    };
    let [malformed, mismatch, no_json, no_turn] = &check.findings[..] else {
        panic!("{:?}", check.findings)
    };
    assert_eq!(*malformed, StoreFinding::MalformedId { n_bytes: 3, place: in_prompt(2) });
    assert_eq!(*mismatch, StoreFinding::HashMismatch { id: swapped, place: in_prompt(0) });
    let why = "not a JSON object".to_owned();
    assert_eq!(*no_json, StoreFinding::NotOfKind { id: not_json, why, place: in_prompt(1) });
    let StoreFinding::NotOfKind { id, why, place } = no_turn else { panic!("{no_turn:?}") };
    assert_eq!((*id, place.blob, place.is_prompt), (not_a_turn, root, false));
    assert!(why.starts_with("not the expected message: "), "{why}");
}

#[test]
fn a_root_that_cannot_be_used_says_why() {
    let mut store = TestStore::new();
    assert_eq!(check(&store).root, Err(StoreFinding::RootAbsent));
    store.put_meta();
    assert_eq!(check(&store).root, Err(StoreFinding::RootAbsent));
    store.meta.set("latestRootBlobId", "zz".into());
    store.put_meta();
    assert_eq!(check(&store).root, Err(StoreFinding::RootMalformed { text: "zz".to_owned() }));

    let id = BlobId::of(&[0x0b]);
    store.meta.set_latest_root(id);
    store.put_meta();
    assert_eq!(check(&store).root, Err(StoreFinding::RootMissing { id }));
    store.put_as(id, b"encrypted");
    assert_eq!(check(&store).root, Err(StoreFinding::RootDamaged { id }));
    store.put(&[0x0b]);
    let undecodable = check(&store).root.unwrap_err();
    assert!(
        matches!(undecodable, StoreFinding::RootUndecodable { id: actual, .. } if actual == id)
    );
    let sql = "UPDATE blobs SET data = zeroblob(64 * 1024 * 1024 + 1) WHERE id = ?1";
    store.writer.execute(sql, [id.to_string()]).unwrap();
    assert_eq!(check(&store).root, Err(StoreFinding::RootDamaged { id }));
}

#[test]
fn a_blob_in_a_damaged_part_of_the_file_is_named_and_the_rest_is_still_checked() {
    let mut store = TestStore::new();
    let text = store.put(&[b'x'; 40_000]);
    let file = FileStateStructure { content: Some(text.to_vec()), initial_content: None };
    let chat = ConversationStateStructure {
        file_states_v2: [("/a".to_owned(), file)].into(),
        ..small_chat(&store)
    };
    store.put_root(&chat);
    let closed = store.close();
    // A blob of this size is a chain of pages, each of which begins with the number of the next.
    let mut bytes = std::fs::read(closed.path()).unwrap();
    let page =
        bytes.chunks_mut(4096).find(|page| page[4..].iter().all(|byte| *byte == b'x')).unwrap();
    page[..4].copy_from_slice(&[0xff; 4]);
    std::fs::write(closed.path(), bytes).unwrap();

    let check = check_store(&ChatStore::open_read_only(&closed.path()).unwrap()).unwrap();
    let [StoreFinding::BlobUnreadable { id, place }] = &check.findings[..] else {
        panic!("{:?}", check.findings)
    };
    assert_eq!((*id, place.is_prompt), (text, false));
    assert_eq!(place.field, "file_states_v2.content[/a]");
}

#[test]
fn pending_calls_are_reported() {
    let mut store = TestStore::new();
    let message = json!({
        "role": "assistant",
        "content": [{"type": "tool-call", "toolCallId": "t", "toolName": "Shell", "args": {"command": "sleep 9"}}],
    });
    let chat = ConversationStateStructure {
        pending_tool_calls: vec![message.to_string()],
        ..small_chat(&store)
    };
    store.put_root(&chat);
    let latest = check(&store).root.unwrap();
    assert_eq!(latest.pending.tool_calls.len(), 1);
    assert_eq!(latest.pending.tool_calls[0].args, json!({"command": "sleep 9"}));
}

#[test]
fn a_long_history_of_roots_is_walked_once() {
    let mut store = TestStore::new();
    let mut root = ConversationStateStructure::default();
    store.writer.execute_batch("BEGIN").unwrap();
    for number in 0..400 {
        let message = UserMessage {
            text: number.to_string(),
            conversation_state_blob_id: store.put_message(&root).to_vec(),
            ..Default::default()
        };
        let turn = AgentConversationTurnStructure {
            user_message: store.put_message(&message).to_vec(),
            ..Default::default()
        };
        root.turns_old.push(store.put_message(&turn).to_vec());
    }
    store.put_root(&root);
    store.writer.execute_batch("COMMIT").unwrap();
    let check = check(&store);
    assert_eq!((check.n_findings, check.n_reached), (0, 400 * 3 + 1));
}

#[test]
fn a_store_with_more_references_than_any_real_one_is_cut_short() {
    let mut store = TestStore::new();
    let ids = (0..2_000_u64).map(|number| {
        let mut id = vec![0; 32];
        id[..8].copy_from_slice(&number.to_le_bytes());
        id
    });
    store.put_root(&ConversationStateStructure { turns: ids.collect(), ..Default::default() });
    let check = check_within(&ChatStore::open_read_only(&store.path()).unwrap(), 1_500).unwrap();
    assert_eq!(check.findings.last(), Some(&StoreFinding::CutShort));
    // The root itself is the first reference.
    assert_eq!(check.n_findings, 1_499 + 1);
    assert_eq!(check.findings.len(), MAX_FINDINGS + 1);
}

#[test]
fn the_index_alone_finds_the_same_missing_blobs_as_the_whole_walk() {
    let mut store = TestStore::new();
    let chat = small_chat(&store);
    store.put_root(&chat);
    let missing = |store: &TestStore| {
        let root = store.meta.latest_root().blob().unwrap();
        missing_history(&ChatStore::open_read_only(&store.path()).unwrap(), root).unwrap()
    };
    assert_eq!(missing(&store), []);
    forget(&store, BlobId::of(b"hi, long"));
    assert_eq!(missing(&store), check(&store).findings);
    assert_eq!(missing(&store).len(), 1);
    // `resume_point` judges the messages of the prompt.
    forget(&store, put_json(&store, "hi"));
    assert_eq!(missing(&store).len(), 1);
}
