use std::fs;
use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;
use crate::chat::schema::ConversationStateStructure as Root;
use crate::test_store::{ClosedStore, TestStore, picture_of};

/// A store with one root over these messages; the blobs of the last `n_absent` are left out.
fn store_of(messages: &[&str], n_absent: usize) -> (ClosedStore, BlobId) {
    let mut store = TestStore::new();
    let n_present = messages.len() - n_absent;
    let ids: Vec<BlobId> = messages
        .iter()
        .enumerate()
        .map(|(n, text)| {
            let message = json!({"role": "user", "content": text}).to_string();
            if n < n_present {
                store.put(message.as_bytes())
            } else {
                BlobId::of(message.as_bytes())
            }
        })
        .collect();
    let root = store.put_root(&Root {
        root_prompt_messages_json: ids.iter().map(|id| id.to_vec()).collect(),
        previous_workspace_uris: vec!["file:///srv/shop".to_owned()],
        pending_tool_calls: vec![
            json!({"role": "assistant", "content": [
                {"type": "tool-call", "toolCallId": "c", "toolName": "Shell", "args": {"command": "npm test"}}
            ]})
            .to_string(),
        ],
        ..Root::default()
    });
    (store.close(), root)
}

fn refusal(store: &ClosedStore) -> NotResumable {
    let before = picture_of(store.directory.path());
    let refusal = resume_point(&store.path(), None).unwrap_err();
    assert_eq!(picture_of(store.directory.path()), before, "{refusal}");
    refusal
}

#[test]
fn a_whole_store_says_what_a_resume_will_find() {
    let (store, root) = store_of(&["one", "two"], 0);
    let before = picture_of(store.directory.path());
    let point = resume_point(&store.path(), Some(root)).unwrap();
    assert_eq!(picture_of(store.directory.path()), before);
    assert_eq!((point.root, point.n_messages, point.n_unhashed), (root, 2, 0));
    assert_eq!(point.workspace_uris, ["file:///srv/shop"]);
    assert_eq!(point.pending.tool_calls[0].args["command"], "npm test");
    assert!(point.ancestry.extends(&point.ancestry));
}

#[test]
fn missing_and_damaged_messages_are_told_apart() {
    let (store, _) = store_of(&["one", "two", "three"], 2);
    let NotResumable::MessagesMissing { n_missing: 2, n_messages: 3, .. } = refusal(&store) else {
        panic!("{}", refusal(&store))
    };
    let mut store = TestStore::new();
    let id = BlobId::of(b"{}");
    store.put_as(id, b"other bytes");
    store.put_root(&Root { root_prompt_messages_json: vec![id.to_vec()], ..Root::default() });
    let store = store.close();
    let expected =
        NotResumable::MessagesDamaged { n_damaged: 1, n_messages: 1, first: id.to_string() };
    assert_eq!(refusal(&store), expected);
}

#[test]
fn every_state_of_the_root_has_its_own_answer() {
    let mut store = TestStore::new();
    store.put_meta();
    assert_eq!(refusal(&store.close()), NotResumable::EmptyRoot);

    store = TestStore::new();
    store.put_root(&Root::default());
    assert_eq!(refusal(&store.close()), NotResumable::EmptyRoot);

    assert_eq!(refusal(&TestStore::new().close()), NotResumable::NoMeta);

    store = TestStore::new();
    store.put_meta_value("zz");
    assert_eq!(refusal(&store.close()), NotResumable::MetaUnreadable);

    store = TestStore::new();
    store.meta.set("latestRootBlobId", "not hex".into());
    store.put_meta();
    assert_eq!(refusal(&store.close()), NotResumable::MalformedRoot);

    for (data, hash_of) in [(None, &b"x"[..]), (Some(&b"y"[..]), b"x"), (Some(b"\xff"), b"\xff")] {
        let mut store = TestStore::new();
        let id = BlobId::of(hash_of);
        if let Some(data) = data {
            store.put_as(id, data);
        }
        store.meta.set_latest_root(id);
        store.put_meta();
        let root = id.to_string();
        let expected = match data {
            None => NotResumable::MissingRoot { root },
            Some(b"y") => NotResumable::RootHashMismatch { root },
            Some(_) => NotResumable::RootUndecodable { root },
        };
        assert_eq!(refusal(&store.close()), expected);
    }
}

#[test]
fn a_checkpoint_that_was_seen_and_is_gone_is_a_lost_log() {
    let (store, root) = store_of(&["one"], 0);
    let seen = BlobId::of(b"what the log held");
    assert_eq!(
        resume_point(&store.path(), Some(seen)).unwrap_err(),
        NotResumable::CheckpointLost { recorded: seen.to_string(), found: Some(root.to_string()) }
    );
    // A young store has nothing but its log.
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    #[expect(clippy::disallowed_methods, reason = "a database that is no store")]
    let database = rusqlite::Connection::open(&path).unwrap();
    database.execute_batch("PRAGMA user_version = 1; CREATE TABLE other (x)").unwrap();
    drop(database);
    assert_eq!(resume_point(&path, None).unwrap_err(), NotResumable::NotAChat);
    assert_eq!(
        resume_point(&path, Some(seen)).unwrap_err(),
        NotResumable::CheckpointLost { recorded: seen.to_string(), found: None }
    );
}

#[test]
fn a_store_that_leads_away_from_what_was_seen_has_diverged_and_one_that_goes_on_has_not() {
    let mut store = TestStore::new();
    let ids: Vec<Vec<u8>> = ["one", "two", "three"]
        .map(|text| store.put(json!({"role": "user", "content": text}).to_string().as_bytes()))
        .map(BlobId::to_vec)
        .to_vec();
    let root_of =
        |ids: &[Vec<u8>]| Root { root_prompt_messages_json: ids.to_vec(), ..Root::default() };
    let other = store.put_root(&root_of(&ids[2..]));
    let seen = store.put_root(&root_of(&ids[..2]));
    let latest = store.put_root(&root_of(&ids));
    let store = store.close();
    assert_eq!(resume_point(&store.path(), Some(seen)).unwrap().root, latest);
    let (recorded, found) = (other.to_string(), latest.to_string());
    assert_eq!(
        resume_point(&store.path(), Some(other)).unwrap_err(),
        NotResumable::Diverged { recorded, found }
    );
}

#[test]
fn what_is_no_store_is_refused_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    assert_eq!(resume_point(&path, None).unwrap_err(), NotResumable::NoStore);
    fs::write(&path, "").unwrap();
    assert_eq!(resume_point(&path, None).unwrap_err(), NotResumable::EmptyFile);
    let file = fs::File::create(&path).unwrap();
    file.set_len(20 << 30).unwrap();
    let began = Instant::now();
    assert_eq!(resume_point(&path, None).unwrap_err(), NotResumable::NotADatabase);
    assert!(began.elapsed() < Duration::from_secs(1));
    fs::remove_file(&path).unwrap();
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let fifo = NotResumable::NotAPlainFile { what: "FIFO".to_owned() };
    assert_eq!(resume_point(&path, None).unwrap_err(), fifo);
}

#[test]
fn of_a_large_prompt_the_newest_is_hashed() {
    // Two of them, and no third.
    let long = "x".repeat((2 << 20) - 1024);
    let messages: Vec<String> = (0..4).map(|n| format!("{n}{long}")).collect();
    let messages: Vec<&str> = messages.iter().map(String::as_str).collect();
    let (store, _) = store_of(&messages, 0);
    assert_eq!(resume_point(&store.path(), None).unwrap().n_unhashed, 2);
}

#[test]
fn a_missing_message_is_told_however_old_it_is() {
    let mut store = TestStore::new();
    let long = "x".repeat((2 << 20) - 1024);
    let gone = BlobId::of(b"never written");
    let message = |n: usize| json!({"role": "user", "content": format!("{n}{long}")}).to_string();
    let mut prompt = vec![gone.to_vec()];
    prompt.extend((0..3).map(|n| store.put(message(n).as_bytes()).to_vec()));
    store.put_root(&Root { root_prompt_messages_json: prompt, ..Root::default() });
    let expected =
        NotResumable::MessagesMissing { n_missing: 1, n_messages: 4, first: gone.to_string() };
    assert_eq!(refusal(&store.close()), expected);
}

#[test]
fn reasons_are_typed_and_sentences() {
    let reason = NotResumable::MissingRoot { root: "ab".to_owned() };
    let typed = serde_json::to_value(&reason).unwrap();
    assert_eq!(typed, json!({"kind": "missing_root", "root": "ab"}));
    assert_eq!(reason.to_string(), "the session's latest checkpoint is missing from its store");
}
