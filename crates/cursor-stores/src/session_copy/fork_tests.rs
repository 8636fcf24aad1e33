use std::fs;

use pretty_assertions::assert_eq;
use prost::Message;
use store_fixtures::Closing;
use store_fixtures::chat::{Generation, Roots, large_chat};

use super::*;
use crate::chat::LatestRoot;
use crate::session_copy::test_sessions::*;
use crate::session_copy::verify_store;
use crate::test_store::{TestStore, picture_of};

fn fork_of(chats: &Chats, directory: &Path, point: &ForkPoint) -> Result<Forked, CopyError> {
    fork(&directory.join("store.db"), point, &chats.new_session(NEW_ID))
}

#[test]
fn a_fork_has_the_same_conversation_for_every_build_and_leaves_the_original_alone() {
    for generation in GENERATIONS {
        let chats = Chats::new();
        let directory = chats.write(&rich_chat(generation));
        let before = picture_of(&directory);
        let forked = fork_of(&chats, &directory, &ForkPoint::Latest).unwrap();

        assert_eq!(picture_of(&directory), before, "{generation:?}");
        assert_same_talk(&chats.read(NEW_ID), &chats.read(ID));
        let (meta, original) = (meta_of(&forked.directory), meta_of(&directory));
        assert_eq!(meta.agent_id(), Some(NEW_ID));
        assert_eq!(meta.name(), Some("A chat (fork)"));
        assert_eq!(meta.latest_root(), LatestRoot::Blob(forked.root));
        assert!(meta.encryption_key() == original.encryption_key(), "the key stays valid");
        assert_eq!(meta.last_used_model(), original.last_used_model());
        let meta_file = SessionMetaFile::read(&forked.directory.join("meta.json")).unwrap();
        assert_eq!(meta_file.cwd.as_deref(), Some(NEW_WORKSPACE));
        assert_eq!(meta_file.has_conversation, Some(true));
        assert_eq!(meta_file.title.as_deref(), Some("A chat (fork)"));

        let verdict = verify_store(&forked.directory.join("store.db"), &[]).unwrap();
        assert_eq!((verdict.findings, verdict.n_orphans), (vec![], 0), "{generation:?}");
        assert!(forked.tally.n_blobs < forked.tally.n_source_blobs, "earlier roots stay behind");
        assert_eq!(forked.tally.n_damaged, 0);
        assert_eq!(verdict.n_blobs, forked.tally.n_blobs);
        assert_eq!(verdict.n_bytes, forked.tally.n_bytes);
    }
}

#[test]
fn a_fork_includes_the_log_of_a_killed_writer() {
    let chats = Chats::new();
    let directory = rich_chat(Generation::Sep2026).write_cli(&chats.path(), Closing::Killed);
    assert!(directory.join("store.db-wal").exists());
    let wal = fs::read(directory.join("store.db-wal")).unwrap();
    fork_of(&chats, &directory, &ForkPoint::Latest).unwrap();
    assert_same_talk(&chats.read(NEW_ID), &chats.read(ID));
    assert_eq!(fs::read(directory.join("store.db-wal")).unwrap(), wal);
}

#[test]
fn a_fork_ignores_an_open_transaction() {
    let chats = Chats::new();
    let mut store = TestStore::new();
    let root = crate::chat::schema::ConversationStateStructure {
        root_prompt_messages_json: vec![store.put(br#"{"role":"user","content":"hi"}"#).to_vec()],
        ..Default::default()
    };
    store.put_root(&root);
    // Open for writing, in a transaction.
    store.writer.execute_batch("BEGIN IMMEDIATE; DELETE FROM blobs").unwrap();
    let forked = fork(&store.path(), &ForkPoint::Latest, &chats.new_session(NEW_ID)).unwrap();
    store.writer.execute_batch("ROLLBACK").unwrap();
    assert_eq!((forked.n_prompt_messages, forked.tally.n_blobs), (1, 2));
    store.put_root(&root);
}

#[test]
fn a_fork_at_a_turn_has_everything_before_its_prompt() {
    for generation in [Generation::Feb2026, Generation::Sep2026] {
        let chats = Chats::new();
        let directory = chats.write(&rich_chat(generation));
        let all = chats.read(ID);
        let forked = fork_of(&chats, &directory, &ForkPoint::BeforeTurn(3)).unwrap();
        let copy = chats.read(NEW_ID);
        assert_eq!((forked.n_turns, copy.turns.len()), (2, 2));
        let n_before = all.messages.iter().take_while(|message| message.turn != Some(2)).count();
        assert_eq!(copy.messages.len(), n_before);
        let texts = serde_json::to_string(&copy.messages).unwrap();
        assert!(texts.contains("They say one and two.") && !texts.contains("Thanks."), "{texts}");
        assert_eq!(verify_store(&forked.directory.join("store.db"), &[]).unwrap().findings, []);
    }
}

#[test]
fn a_fork_at_a_message_begins_before_its_turn() {
    let chats = Chats::new();
    let directory = chats.write(&rich_chat(Generation::Sep2026));
    let all = chats.read(ID);
    let names: Vec<String> = all
        .messages
        .iter()
        .filter(|message| message.turn == Some(1))
        .filter_map(|message| message.id.clone())
        .collect();
    assert!(!names.is_empty());
    for (number, name) in names.iter().enumerate() {
        let target = chats.new_session(&format!("0b0e7a10-1111-4222-8333-{number:012}"));
        // The beginning of an id is enough.
        let point = ForkPoint::At(name.split('/').next().unwrap()[..16].to_owned());
        let forked = fork(&directory.join("store.db"), &point, &target).unwrap();
        assert_eq!(forked.n_turns, 1, "{name}");
    }
    // The checkpoint itself can be named.
    let before = fork_of(&chats, &directory, &ForkPoint::BeforeTurn(2)).unwrap().root;
    let target = chats.new_session("0b0e7a10-1111-4222-8333-999999999999");
    let point = ForkPoint::At(before.to_string());
    assert_eq!(fork(&directory.join("store.db"), &point, &target).unwrap().root, before);
}

#[test]
fn an_unknown_fork_point_is_refused_and_leaves_nothing() {
    let chats = Chats::new();
    let directory = chats.write(&rich_chat(Generation::Sep2026));
    let before = chats.names();
    let refused = |point: ForkPoint| match fork_of(&chats, &directory, &point) {
        Err(err) => err,
        other => panic!("{other:?}"),
    };
    assert!(matches!(
        refused(ForkPoint::BeforeTurn(4)),
        CopyError::NoSuchTurn { turn: 4, n_turns: 3 }
    ));
    assert!(matches!(refused(ForkPoint::BeforeTurn(0)), CopyError::NoSuchTurn { .. }));
    let name = "0123456789abcdef".to_owned();
    assert!(matches!(refused(ForkPoint::At(name)), CopyError::NoSuchMessage { .. }));
    assert_eq!(chats.names(), before);
}

#[test]
fn a_damaged_prompt_is_not_forked() {
    let chats = Chats::new();
    let directory = chats.write(&rich_chat(Generation::Sep2026));
    let root = match meta_of(&directory).latest_root() {
        LatestRoot::Blob(root) => root,
        other => panic!("{other:?}"),
    };
    let store = crate::chat::ChatStore::open_read_only(&directory.join("store.db")).unwrap();
    let data = store.blob(root).unwrap().unwrap();
    drop(store);
    let state = crate::chat::schema::ConversationStateStructure::decode(data.as_slice()).unwrap();
    let lost = BlobId::try_from(state.root_prompt_messages_json[3].as_slice()).unwrap();
    damage(&directory, &format!("DELETE FROM blobs WHERE id = '{lost}'"));
    let before = chats.names();
    match fork_of(&chats, &directory, &ForkPoint::Latest) {
        Err(CopyError::PromptDamaged { index: 3, id }) => assert_eq!(id, Some(lost)),
        other => panic!("{other:?}"),
    }
    damage(&directory, &format!("UPDATE blobs SET data = 'x' WHERE id = '{root}'"));
    let err = fork_of(&chats, &directory, &ForkPoint::Latest).unwrap_err();
    assert!(matches!(err, CopyError::RootDamaged { .. }), "{err:?}");
    forget_root(&directory);
    let err = fork_of(&chats, &directory, &ForkPoint::Latest).unwrap_err();
    assert!(matches!(err, CopyError::NoRoot), "{err:?}");
    assert_eq!(chats.names(), before);
}

#[test]
fn a_fork_never_replaces_a_session() {
    let chats = Chats::new();
    let directory = chats.write(&rich_chat(Generation::Sep2026));
    fork_of(&chats, &directory, &ForkPoint::Latest).unwrap();
    let before = chats.names();
    let err = fork_of(&chats, &directory, &ForkPoint::BeforeTurn(2)).unwrap_err();
    assert!(matches!(err, CopyError::Place { .. }), "{err:?}");
    assert_eq!(chats.names(), before);
    let mut target = chats.new_session("../../../elsewhere");
    let err = fork(&directory.join("store.db"), &ForkPoint::Latest, &target).unwrap_err();
    assert!(matches!(err, CopyError::Name { .. }), "{err:?}");
    target.id = NEW_ID.to_owned();
    target.bucket = "..".to_owned();
    let err = fork(&directory.join("store.db"), &ForkPoint::Latest, &target).unwrap_err();
    assert!(matches!(err, CopyError::Name { .. }), "{err:?}");
}

#[test]
fn acp_sessions_and_sub_agent_sessions_become_command_line_sessions() {
    let chats = Chats::new();
    let mut chat = rich_chat(Generation::Sep2026);
    let directory = chat.write_acp(&chats.path().with_file_name("acp-sessions"), Closing::Clean);
    fork_of(&chats, &directory, &ForkPoint::Latest).unwrap();
    assert_same_talk(&chats.read(NEW_ID), &chats.read(ID));

    let chats = Chats::new();
    chat.subagent_of = Some((NEW_ID.to_owned(), "call_9".to_owned(), "explore".to_owned()));
    let directory = chats.write(&chat);
    let forked = fork_of(&chats, &directory, &ForkPoint::Latest).unwrap();
    assert_eq!(meta_of(&forked.directory).subagent_origin(), None);
}

#[test]
fn a_bloated_store_shrinks() {
    let chats = Chats::new();
    let directory = large_chat(&chats.path(), ID, 400, "needle");
    let forked = fork_of(&chats, &directory, &ForkPoint::Latest).unwrap();
    assert_eq!(forked.tally.n_source_blobs - forked.tally.n_blobs, 399, "all roots but the last");
    assert!(forked.tally.n_bytes * 3 < forked.tally.n_source_bytes);
    assert_same_talk(&chats.read(NEW_ID), &chats.read(ID));
}

#[test]
fn a_chat_with_one_root_is_copied_completely() {
    let chats = Chats::new();
    let mut chat = rich_chat(Generation::Feb2026);
    chat.roots = Roots::Last;
    chat.pending = vec![store_fixtures::chat::Step::Call(store_fixtures::chat::Call {
        result: None,
        ..store_fixtures::chat::Call::shell("call_9", "sleep 60", "")
    })];
    let directory = chats.write(&chat);
    let forked = fork_of(&chats, &directory, &ForkPoint::Latest).unwrap();
    assert_eq!(forked.pending.tool_calls.len(), 1);
    assert_eq!(chats.read(NEW_ID).head.pending, chats.read(ID).head.pending);
}
