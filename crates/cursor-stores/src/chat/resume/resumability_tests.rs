use std::fs;
use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;
use crate::chat::SubagentOrigin;
use crate::chat::schema::ConversationStateStructure as Root;
use crate::test_store::{ClosedStore, TestStore, picture_of};

/// A store with one root over these messages, without the blobs of the last `n_absent`.
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

fn look_at(store_db: &Path, recorded: Option<BlobId>) -> Result<ResumePoint, NotResumable> {
    resume_point(store_db, recorded, Depth::Whole).map_err(|refused| refused.reason)
}

fn refusal(store: &ClosedStore) -> NotResumable {
    let before = picture_of(store.directory.path());
    let refusal = look_at(&store.path(), None).unwrap_err();
    assert_eq!(picture_of(store.directory.path()), before, "{refusal}");
    refusal
}

#[test]
fn a_complete_store_has_a_resume_point() {
    let (store, root) = store_of(&["one", "two"], 0);
    let before = picture_of(store.directory.path());
    let point = look_at(&store.path(), Some(root)).unwrap();
    assert_eq!(picture_of(store.directory.path()), before);
    assert_eq!((point.state.id, point.state.n_prompt_messages, point.n_unhashed), (root, 2, 0));
    assert_eq!(point.state.workspace_uris, ["file:///srv/shop"]);
    assert_eq!(point.state.pending.tool_calls[0].args["command"], "npm test");
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
fn a_recorded_checkpoint_that_is_gone_means_a_lost_log() {
    let (store, root) = store_of(&["one"], 0);
    let seen = BlobId::of(b"what the log held");
    assert_eq!(
        look_at(&store.path(), Some(seen)).unwrap_err(),
        NotResumable::CheckpointLost { recorded: seen.to_string(), found: Some(root.to_string()) }
    );
    // A new store's tables are only in its log.
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    #[expect(clippy::disallowed_methods, reason = "a database that is not a store")]
    let database = rusqlite::Connection::open(&path).unwrap();
    database.execute_batch("PRAGMA user_version = 1; CREATE TABLE other (x)").unwrap();
    drop(database);
    assert_eq!(look_at(&path, None).unwrap_err(), NotResumable::NotAChat);
    assert_eq!(
        look_at(&path, Some(seen)).unwrap_err(),
        NotResumable::CheckpointLost { recorded: seen.to_string(), found: None }
    );
}

#[test]
fn a_store_diverges_unless_it_continues_the_recorded_checkpoint() {
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
    assert_eq!(look_at(&store.path(), Some(seen)).unwrap().state.id, latest);
    let (recorded, found) = (other.to_string(), latest.to_string());
    assert_eq!(
        look_at(&store.path(), Some(other)).unwrap_err(),
        NotResumable::Diverged { recorded, found }
    );
}

#[test]
fn a_file_that_is_not_a_store_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    assert_eq!(look_at(&path, None).unwrap_err(), NotResumable::NoStore);
    fs::write(&path, "").unwrap();
    assert_eq!(look_at(&path, None).unwrap_err(), NotResumable::EmptyFile);
    let file = fs::File::create(&path).unwrap();
    file.set_len(20 << 30).unwrap();
    let began = Instant::now();
    assert_eq!(look_at(&path, None).unwrap_err(), NotResumable::NotADatabase);
    assert!(began.elapsed() < Duration::from_secs(1));
    fs::remove_file(&path).unwrap();
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let fifo = NotResumable::NotAPlainFile { what: "FIFO".to_owned() };
    assert_eq!(look_at(&path, None).unwrap_err(), fifo);
}

#[test]
fn only_the_newest_messages_of_a_large_prompt_are_hashed() {
    // Two messages fit the budget, a third does not.
    let long = "x".repeat((2 << 20) - 1024);
    let messages: Vec<String> = (0..4).map(|n| format!("{n}{long}")).collect();
    let messages: Vec<&str> = messages.iter().map(String::as_str).collect();
    let (store, _) = store_of(&messages, 0);
    assert_eq!(look_at(&store.path(), None).unwrap().n_unhashed, 2);
}

#[test]
fn a_missing_message_is_reported_however_old_it_is() {
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
fn reasons_have_a_kind_and_a_sentence() {
    let reason = NotResumable::MissingRoot { root: "ab".to_owned() };
    let typed = serde_json::to_value(&reason).unwrap();
    assert_eq!(typed, json!({"kind": "missing_root", "root": "ab"}));
    assert_eq!(reason.to_string(), "the session's latest checkpoint is missing from its store");
}

#[test]
fn only_the_parent_continues_a_sub_agent() {
    let mut store = TestStore::new();
    let message = store.put(br#"{"role":"user","content":"look around"}"#);
    store.meta.set_subagent_origin(&SubagentOrigin {
        parent_agent_id: Some("the parent".to_owned()),
        ..SubagentOrigin::default()
    });
    let root = store
        .put_root(&Root { root_prompt_messages_json: vec![message.to_vec()], ..Root::default() });
    let refused = resume_point(&store.close().path(), None, Depth::Whole).unwrap_err();
    assert_eq!(refused.reason, NotResumable::Subagent { parent: "the parent".to_owned() });
    assert_eq!((refused.root, refused.state.unwrap().n_prompt_messages), (Some(root), 1));
}

#[test]
fn a_refusal_still_says_what_the_checkpoint_holds() {
    let (store, root) = store_of(&["one", "two"], 1);
    let refused = resume_point(&store.path(), None, Depth::Whole).unwrap_err();
    let state = refused.state.unwrap();
    assert_eq!((refused.root, state.id, state.n_prompt_messages), (Some(root), root, 2));
    assert_eq!(state.pending.tool_calls.len(), 1);
}

#[test]
fn a_check_that_never_ends_is_left_behind() {
    let (release, released) = mpsc::channel::<()>();
    let late = within(Duration::from_millis(10), move || {
        released.recv().ok();
        Err(NotResumable::NoStore.into())
    });
    assert_eq!(late.unwrap_err().reason, NotResumable::TookTooLong { seconds: 0 });
    drop(release);
    let failed = within(TIME_LIMIT, || panic!("a bug"));
    assert_eq!(failed.unwrap_err().reason, NotResumable::CheckFailed);
}

#[test]
fn a_store_that_began_again_since_the_last_run_has_lost_its_checkpoint() {
    let seen = BlobId::of(b"what the last run left");
    let store = TestStore::new();
    store.put_meta();
    let lost = NotResumable::CheckpointLost { recorded: seen.to_string(), found: None };
    assert_eq!(look_at(&store.path(), Some(seen)).unwrap_err(), lost);
    assert_eq!(look_at(&store.path(), None).unwrap_err(), NotResumable::EmptyRoot);
}

/// Turns the table at a page into a tree where every branch leads to the same page: few pages, endless rows.
fn share_pages(store: &mut Vec<u8>, root_page: usize, n_branches: &[u16]) {
    const PAGE: usize = 4096;
    let branch_page = |n_cells: u16, child: u32| {
        let first_cell = PAGE - usize::from(n_cells) * 5;
        let mut page = vec![0; PAGE];
        page[0] = 5;
        page[3..5].copy_from_slice(&n_cells.to_be_bytes());
        page[5..7].copy_from_slice(&u16::try_from(first_cell).unwrap().to_be_bytes());
        page[8..12].copy_from_slice(&child.to_be_bytes());
        for n in 0..usize::from(n_cells) {
            let cell = first_cell + n * 5;
            page[12 + n * 2..14 + n * 2]
                .copy_from_slice(&u16::try_from(cell).unwrap().to_be_bytes());
            page[cell..cell + 4].copy_from_slice(&child.to_be_bytes());
            page[cell + 4] = 1;
        }
        page
    };
    let mut leaf = vec![0; PAGE];
    leaf[..8].copy_from_slice(&[13, 0, 0, 0, 1, 0x0f, 0xfb, 0]);
    leaf[8..10].copy_from_slice(&[0x0f, 0xfb]);
    // One row: number 1, two nulls.
    leaf[PAGE - 5..].copy_from_slice(&[3, 1, 3, 0, 0]);
    let first_new = u32::try_from(store.len() / PAGE).unwrap() + 1;
    // Each further level adds a page at the end.
    store[(root_page - 1) * PAGE..root_page * PAGE]
        .copy_from_slice(&branch_page(n_branches[0], first_new));
    let mut number = first_new;
    for n_cells in &n_branches[1..] {
        number += 1;
        store.extend_from_slice(&branch_page(*n_cells, number));
    }
    store.extend_from_slice(&leaf);
    store[28..32].copy_from_slice(&number.to_be_bytes());
}

#[test]
fn a_store_that_never_ends_is_refused_in_time() {
    let (store, root) = store_of(&["one"], 0);
    let bytes = fs::read(store.path()).unwrap();
    // Pages two and three hold the blobs table and its index, pages four and five the meta table and its index.
    let hostile = |root_page: usize| {
        let mut bytes = bytes.clone();
        // Four million rows in three more pages; more levels would take years.
        share_pages(&mut bytes, root_page, &[500, 200, 40]);
        fs::write(store.path(), bytes).unwrap();
        store.path()
    };
    let path = hostile(4);
    let looked =
        within(Duration::from_millis(20), move || check_until_unchanged(&path, None, HASHED_BYTES));
    assert_eq!(looked.unwrap_err().reason, NotResumable::TookTooLong { seconds: 0 });
    // The check asks for blobs by id, so it never walks all rows.
    let began = Instant::now();
    let refused = resume_point(&hostile(2), None, Depth::Whole).unwrap_err();
    assert_eq!(refused.reason, NotResumable::RootUnreadable { root: root.to_string() });
    assert!(began.elapsed() < Duration::from_secs(5));
}
