//! Damaged stores: no hang, no crash, and everything readable is shown.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use prost::Message as _;
use serde_json::json;
use store_fixtures::Closing;
use store_fixtures::chat::{Call, Chat, Generation, Step, StoreWriter, Turn, bucket_of};

use crate::chat::listing::ChatsRoot;
use crate::chat::schema::ConversationStateStructure;
use crate::model::{Activity, Conversation, Message, MessageKind, Role, StoreKind};
use crate::search::{Case, Matcher, Pattern};
use crate::store::{Branches, ConversationStore, Extent};

const ID: &str = "a";

fn key() -> String {
    format!("{}/{ID}", bucket_of("/home/u/project"))
}

fn read(home: &Path) -> Conversation {
    ChatsRoot::new(StoreKind::Cli, home.to_owned()).read(&key(), Extent::default()).unwrap()
}

fn texts(conversation: &Conversation) -> Vec<String> {
    conversation.messages.iter().map(Message::text).filter(|text| !text.is_empty()).collect()
}

fn chat() -> Chat {
    let steps = vec![
        Step::Thinking("hm".to_owned()),
        Step::Text("I look.".to_owned()),
        Step::Call(Call::shell("call_1", "ls", "a.rs")),
        Step::Text("Done.".to_owned()),
    ];
    let turns = vec![
        Turn::Agent { prompt: "list files".to_owned(), steps },
        Turn::plain("second", "Second done."),
    ];
    Chat::new(Generation::Feb2026, ID).with_turns(turns)
}

/// Writes the chat, then changes its database through SQLite.
fn damaged(sql: &str) -> Conversation {
    let home = tempfile::tempdir().unwrap();
    let directory = chat().write_cli(home.path(), Closing::Clean);
    let writer = crate::test_store::open_writer(&directory.join("store.db"));
    writer.execute_batch(sql).unwrap();
    writer.close().unwrap();
    read(home.path())
}

#[test]
fn a_missing_message_is_reported_and_read_from_the_turns() {
    let conversation = damaged(
        "DELETE FROM blobs WHERE CAST(data AS TEXT) LIKE '{\"role\":\"assistant\"%I look.%'",
    );
    assert_eq!(
        texts(&conversation),
        ["You are an agent.", "list files", "I look.", "Done.", "second", "Second done."]
    );
    assert_eq!(conversation.damage.len(), 1);
    assert_eq!(conversation.damage[0].place, "root_prompt_messages_json[3]");
    assert!(conversation.damage[0].what.ends_with("is missing"));
    assert_eq!(conversation.head.activity, Activity::Damaged);
    // A thought, a text and a call, with the result that the prompt still has.
    let answer = &conversation.messages[3];
    assert_eq!((answer.role, answer.parts.len()), (Role::Assistant, 3));
    assert_eq!(answer.tool_calls().next().unwrap().result.as_ref().unwrap().output, json!("a.rs"));
}

#[test]
fn a_truncated_store_shows_the_rest_and_says_so() {
    let said = |who: &str, number: usize| format!("{who}{number} {}", "pad ".repeat(200));
    let turns: Vec<Turn> = (0..100)
        .map(|number| Turn::plain(&said("prompt", number), &said("answer", number)))
        .collect();
    let home = tempfile::tempdir().unwrap();
    let directory =
        Chat::new(Generation::Feb2026, ID).with_turns(turns).write_cli(home.path(), Closing::Clean);
    crate::test_store::cut_off_pages(&directory.join("store.db"), 2);
    let before = crate::test_store::picture_of(&directory);
    let conversation = read(home.path());
    let texts = texts(&conversation);
    let is_there = |who: &str, number: usize| {
        texts.iter().any(|text| text.starts_with(&format!("{who}{number} ")))
    };
    let n_there = (0..100)
        .flat_map(|number| [("prompt", number), ("answer", number)])
        .filter(|(who, number)| is_there(who, *number))
        .count();
    assert!(n_there > 190, "{n_there} of 200: {:?}", conversation.damage);
    let is_told = conversation.damage.iter().any(|damage| damage.what.contains("salvaged"));
    assert!(is_told, "{:?}", conversation.damage);
    let root = ChatsRoot::new(StoreKind::Cli, home.path().to_owned());
    let mut head = root.list().heads.remove(0);
    root.complete(&mut head);
    assert_eq!(head.activity, Activity::Damaged);
    let matcher = Matcher::new(Pattern::Words("answer42"), Case::Smart).unwrap();
    let n_found = std::sync::atomic::AtomicUsize::new(0);
    root.search(&matcher, &|_| {
        n_found.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        ControlFlow::Continue(())
    });
    assert!(n_found.into_inner() >= 1);
    assert_eq!(crate::test_store::picture_of(&directory), before);
}

#[test]
fn a_missing_prompt_is_read_from_the_turns() {
    let conversation =
        damaged("DELETE FROM blobs WHERE CAST(data AS TEXT) LIKE '{\"role\":\"user\"%second%'");
    assert_eq!(
        texts(&conversation),
        ["You are an agent.", "list files", "I look.", "Done.", "second", "Second done."]
    );
}

#[test]
fn a_missing_result_is_read_from_the_turns() {
    let conversation =
        damaged("DELETE FROM blobs WHERE CAST(data AS TEXT) LIKE '{\"role\":\"tool\"%'");
    let call = conversation.messages[3].tool_calls().next().unwrap();
    assert_eq!(call.result.as_ref().unwrap().output, json!({"stdout": "a.rs", "exitCode": 0}));
}

#[test]
fn missing_turns_cost_only_their_times() {
    let conversation =
        damaged("DELETE FROM blobs WHERE CAST(data AS TEXT) NOT LIKE '{%' AND length(data) < 200");
    assert_eq!(
        texts(&conversation),
        ["You are an agent.", "list files", "I look.", "Done.", "second", "Second done."]
    );
    assert!(!conversation.damage.is_empty());
    assert_eq!(conversation.head.activity, Activity::Idle);
}

#[test]
fn a_text_with_a_wrong_hash_is_shown_and_reported() {
    let conversation = damaged(
        "UPDATE blobs SET data = CAST(replace(CAST(data AS TEXT), 'Second done.', 'Zecond done.') AS BLOB) WHERE CAST(data AS TEXT) LIKE '{%Second done.%'",
    );
    assert!(texts(&conversation).contains(&"Zecond done.".to_owned()));
    assert!(
        conversation.damage.iter().any(|damage| damage.what.contains("its hash is not its id"))
    );
    assert_eq!(conversation.head.activity, Activity::Damaged);
}

#[test]
fn a_message_that_is_not_json_is_shown_unchanged() {
    let conversation = damaged(
        "UPDATE blobs SET data = CAST('{\"role\":\"user\" BROKEN' AS BLOB) WHERE CAST(data AS TEXT) LIKE '{\"role\":\"user\"%second%'",
    );
    let shown = serde_json::to_string(&conversation).unwrap();
    assert!(shown.contains("BROKEN"));
    assert!(texts(&conversation).contains(&"second".to_owned()));
}

#[test]
fn without_its_latest_root_a_chat_is_read_from_the_newest_earlier_root() {
    let home = tempfile::tempdir().unwrap();
    let directory = chat().write_cli(home.path(), Closing::Clean);
    let path = directory.join("store.db");
    let meta = crate::chat::ChatStore::open_read_only(&path).unwrap().meta().unwrap().unwrap();
    let crate::chat::LatestRoot::Blob(root) = meta.latest_root() else { panic!() };
    let writer = crate::test_store::open_writer(&path);
    writer.execute("DELETE FROM blobs WHERE id = ?1", [root.to_string()]).unwrap();
    writer.close().unwrap();
    let conversation = read(home.path());
    let expected =
        ["You are an agent.", "list files", "I look.", "Done.", "second", "Second done."];
    assert_eq!(texts(&conversation), expected);
    assert!(
        conversation.damage.iter().any(|damage| damage.what.contains("newest readable checkpoint"))
    );
    assert_eq!(conversation.head.activity, Activity::Damaged);

    // Without any root, messages are shown in the order they were written.
    let writer = crate::test_store::open_writer(&path);
    writer
        .execute_batch("DELETE FROM blobs WHERE CAST(data AS TEXT) NOT LIKE '{%'; DELETE FROM meta")
        .unwrap();
    writer.execute("INSERT INTO meta VALUES ('0', 'nothing of the kind')", []).unwrap();
    writer.close().unwrap();
    let conversation = read(home.path());
    assert!(
        conversation
            .messages
            .iter()
            .all(|message| matches!(message.kind, MessageKind::Orphan | MessageKind::Context))
    );
    for text in expected {
        assert!(texts(&conversation).contains(&text.to_owned()), "{text}");
    }
}

#[test]
fn a_prompt_that_was_never_checkpointed_is_pending() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join(bucket_of("/home/u/project")).join(ID);
    let store = StoreWriter::create(&directory, ID, 0);
    store.put_json(&json!({"role": "system", "content": "s"}));
    store.put_json(&json!({"role": "user", "content": "hi"}));
    store.put_meta(store_fixtures::chat::MetaForm::Hex);
    store.close(Closing::Killed);
    let conversation = read(home.path());
    let kinds: Vec<_> = conversation.messages.iter().map(|message| message.kind).collect();
    assert_eq!(kinds, [MessageKind::Context, MessageKind::Pending]);
    assert_eq!(conversation.damage, []);
}

#[test]
fn a_tree_of_links_that_looks_like_turns_is_read_by_its_links() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join(bucket_of("/home/u/project")).join(ID);
    let mut store = StoreWriter::create(&directory, ID, 0);
    let message = |role: &str, text: &str| store.put_json(&json!({"role": role, "content": text}));
    let link = |tag: u8, id: &[u8]| [&[tag, 0x20], id].concat();
    let turn = |prompt: &str, answer: &str| {
        store.put(
            &[link(0x0a, &message("user", prompt)), link(0x12, &message("assistant", answer))]
                .concat(),
        )
    };
    let root =
        store.put(&[link(0x12, &turn("one", "two")), link(0x12, &turn("three", "four"))].concat());
    store.set_meta("latestRootBlobId", hex::encode(&root));
    store.put_meta(store_fixtures::chat::MetaForm::Hex);
    store.close(Closing::Clean);
    let conversation = read(home.path());
    assert_eq!(texts(&conversation), ["one", "two", "three", "four"]);
    assert_eq!(conversation.damage, []);
    let chats = ChatsRoot::new(StoreKind::Cli, home.path().to_owned());
    let mut head = chats.list().heads.remove(0);
    chats.complete(&mut head);
    assert_eq!((head.n_messages, head.activity), (Some(4), Activity::Idle));
}

#[test]
fn a_root_that_does_not_decode_is_read_by_its_links() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join(bucket_of("/home/u/project")).join(ID);
    let mut store = StoreWriter::create(&directory, ID, 0);
    let message = |text: &str| store.put_json(&json!({"role": "user", "content": text}));
    let link = |tag: u8, id: &[u8]| [&[tag, 0x20], id].concat();
    let child = store
        .put(&[link(0x0a, &message("in a child")), link(0x0a, &message("and another"))].concat());
    let first = link(0x0a, &message("first"));
    let undecodable = [first, link(0x12, &child), b"\xff\xff\xff".to_vec()].concat();
    assert!(ConversationStateStructure::decode(undecodable.as_slice()).is_err());
    let root = store.put(&undecodable);
    store.set_meta("latestRootBlobId", hex::encode(root));
    store.put_meta(store_fixtures::chat::MetaForm::Hex);
    store.close(Closing::Clean);
    let conversation = read(home.path());
    assert_eq!(texts(&conversation), ["first", "in a child", "and another"]);
    assert!(conversation.damage[0].what.starts_with("does not decode"));
}

#[test]
fn a_message_list_of_links_to_links_is_followed() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join(bucket_of("/home/u/project")).join(ID);
    let mut store = StoreWriter::create(&directory, ID, 0);
    let message = store.put_json(&json!({"role": "user", "content": "inside"}));
    let node = store.put(&[&[0x0a, 0x20], message.as_slice()].concat());
    store.put_root(&ConversationStateStructure {
        root_prompt_messages_json: vec![node, vec![1, 2, 3]],
        ..Default::default()
    });
    store.close(Closing::Clean);
    let conversation = read(home.path());
    assert_eq!(texts(&conversation), ["inside"]);
    assert_eq!(conversation.damage[0].what, "its reference has 3 bytes and is not a blob id");
}

#[test]
fn rows_are_found_in_spite_of_a_damaged_index() {
    let home = tempfile::tempdir().unwrap();
    let directory = chat().write_cli(home.path(), Closing::Clean);
    let path = directory.join("store.db");
    let root_page: i64 = crate::test_store::open_writer(&path)
        .query_row(
            "SELECT rootpage FROM sqlite_schema WHERE name = 'sqlite_autoindex_blobs_1'",
            [],
            |row| row.get(0),
        )
        .unwrap();
    let mut bytes = fs::read(&path).unwrap();
    let page = usize::try_from(root_page - 1).unwrap() * 4096;
    bytes[page..page + 4096].fill(0xee);
    fs::write(&path, bytes).unwrap();
    let conversation = read(home.path());
    assert_eq!(
        texts(&conversation),
        ["You are an agent.", "list files", "I look.", "Done.", "second", "Second done."]
    );
    // Nothing is missing, but the store is damaged: Cursor would not find these rows.
    let damage: Vec<&str> = conversation.damage.iter().map(|damage| &*damage.place).collect();
    assert_eq!(damage, ["store.db"]);
}

/// Calls everything that a store offers.
fn do_everything(home: &Path) {
    let root = ChatsRoot::new(StoreKind::Cli, home.to_owned());
    for mut head in root.list().heads {
        root.complete(&mut head);
        let key = head.origins[0].key.clone().unwrap();
        root.stamp(&key);
        for extent in [
            Extent { last: Some(2), branches: Branches::Current },
            Extent { last: None, branches: Branches::WithOrphans },
        ] {
            root.read(&key, extent).ok();
        }
    }
    let matcher = Matcher::new(Pattern::Words("done"), Case::Smart).unwrap();
    root.search(&matcher, &|_| ControlFlow::Continue(()));
    root.account();
}

fn store_bytes(closing: Closing) -> Vec<(PathBuf, Vec<u8>)> {
    let home = tempfile::tempdir().unwrap();
    let directory = chat().write_cli(home.path(), closing);
    let names = ["store.db", "store.db-wal"];
    names
        .iter()
        .filter_map(|name| Some((PathBuf::from(name), fs::read(directory.join(name)).ok()?)))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn reading_damaged_files_never_panics_and_leaves_them_unchanged(
        is_killed: bool,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..60),
        length in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join(bucket_of("/home/u/project")).join(ID);
        fs::create_dir_all(&directory).unwrap();
        let mut files = store_bytes(if is_killed { Closing::Killed } else { Closing::Clean });
        let (_, bytes) = files.last_mut().unwrap();
        for (index, byte) in damage {
            let index = index.index(bytes.len());
            bytes[index] = byte;
        }
        if let Some(length) = length {
            bytes.truncate(length.index(bytes.len()));
        }
        for (name, bytes) in &files {
            fs::write(directory.join(name), bytes).unwrap();
        }
        do_everything(home.path());
        for (name, bytes) in &files {
            prop_assert_eq!(&fs::read(directory.join(name)).unwrap(), bytes);
        }
    }

    #[test]
    fn no_blobs_make_reading_panic(
        blobs in prop::collection::vec(prop_oneof![
            prop::collection::vec(any::<u8>(), 0..80),
            "\\{\"role\":\"(user|assistant|tool)\",\"content\":(\"x\"|\\[\\{\"type\":\"(text|tool-call|tool-result)\",\"toolCallId\":\"c\"\\}\\])\\}".prop_map(String::into_bytes),
        ], 1..12),
        fields in prop::collection::vec((1..40_u8, any::<prop::sample::Index>()), 0..30),
        junk in prop::collection::vec(any::<u8>(), 0..6),
    ) {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join(bucket_of("/home/u/project")).join(ID);
        let mut store = StoreWriter::create(&directory, ID, 0);
        let ids: Vec<_> = blobs.iter().map(|blob| store.put(blob)).collect();
        // References in every field, to anything, including themselves.
        let mut root = Vec::new();
        for (field, index) in fields {
            prost::encoding::encode_varint(u64::from(field) << 3 | 2, &mut root);
            root.push(0x20);
            root.extend(&ids[index.index(ids.len())]);
        }
        root.extend(junk);
        let id = store.put(&root);
        store.set_meta("latestRootBlobId", hex::encode(id));
        store.put_meta(store_fixtures::chat::MetaForm::Hex);
        store.close(Closing::Clean);
        do_everything(home.path());
    }
}
