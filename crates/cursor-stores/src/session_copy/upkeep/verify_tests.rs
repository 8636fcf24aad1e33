use std::fs;
use std::path::PathBuf;

use pretty_assertions::assert_eq;
use prost::Message;
use store_fixtures::chat::Generation;

use super::*;
use crate::chat::schema::ConversationStateStructure;
use crate::chat::{ChatStore, LatestRoot, Place};
use crate::session_copy::test_sessions::*;
use crate::test_store::picture_of;

fn written() -> (Chats, PathBuf) {
    let chats = Chats::new();
    let directory = chats.write(&rich_chat(Generation::Sep2026));
    (chats, directory)
}

fn verdict(directory: &Path) -> StoreVerdict {
    verify_store(&directory.join("store.db"), &[]).unwrap()
}

fn root_of(directory: &Path) -> (BlobId, ConversationStateStructure) {
    let LatestRoot::Blob(id) = meta_of(directory).latest_root() else { panic!("no root") };
    let store = ChatStore::open_read_only(&directory.join("store.db")).unwrap();
    let data = store.blob(id).unwrap().unwrap();
    (id, ConversationStateStructure::decode(data.as_slice()).unwrap())
}

fn id_of(bytes: &[u8]) -> BlobId {
    BlobId::try_from(bytes).unwrap()
}

#[test]
fn a_sound_store_is_unchanged_and_its_orphans_are_counted() {
    for generation in GENERATIONS {
        let chats = Chats::new();
        let directory = chats.write(&rich_chat(generation));
        let before = picture_of(&directory);
        let verdict = verdict(&directory);
        assert!(verdict.is_sound(), "{generation:?}: {:?}", verdict.findings);
        assert_eq!(verdict.n_turns, Some(3));
        assert!(verdict.n_orphans > 0 && verdict.n_orphan_bytes < verdict.n_bytes);
        assert_eq!(verdict.candidate, None);
        assert_eq!(picture_of(&directory), before);
    }
}

#[test]
fn a_missing_message_costs_the_memory_and_a_missing_step_only_history() {
    let (_chats, directory) = written();
    let (root, state) = root_of(&directory);
    let message = id_of(&state.root_prompt_messages_json[2]);
    damage(&directory, &format!("DELETE FROM blobs WHERE id = '{message}'"));
    let found = verdict(&directory);
    let place =
        Place { blob: root, field: "root_prompt_messages_json[2]".to_owned(), is_prompt: true };
    assert_eq!(found.findings, [StoreFinding::Dangling { id: message, place }]);
    assert!(!found.keeps_memory());

    let (_chats, directory) = written();
    let (_, state) = root_of(&directory);
    let turn = id_of(&state.turns[0]);
    damage(&directory, &format!("UPDATE blobs SET data = 'no turn' WHERE id = '{turn}'"));
    let found = verdict(&directory);
    assert!(
        matches!(found.findings[0], StoreFinding::HashMismatch { id, .. } if id == turn),
        "{:?}",
        found.findings
    );
    assert_eq!(found.n_findings, found.findings.len());
    assert!(found.keeps_memory() && !found.is_sound());
}

#[test]
fn a_store_without_a_root_is_reported_with_the_latest_candidate() {
    for generation in GENERATIONS {
        let chats = Chats::new();
        let directory = chats.write(&rich_chat(generation));
        let (root, state) = root_of(&directory);
        forget_root(&directory);
        let verdict = verdict(&directory);
        assert_eq!(verdict.findings, [StoreFinding::RootAbsent]);
        let candidate = verdict.candidate.unwrap();
        assert_eq!(candidate.id, root, "{generation:?}");
        assert_eq!(candidate.n_prompt_messages, state.root_prompt_messages_json.len());
    }
}

#[test]
fn each_way_to_lose_the_root_has_its_own_finding() {
    let lost = |sql: &dyn Fn(BlobId) -> String| {
        let (_chats, directory) = written();
        let (root, _) = root_of(&directory);
        damage(&directory, &sql(root));
        let verdict = verdict(&directory);
        assert!(verdict.candidate.is_some(), "an earlier root exists");
        assert_ne!(verdict.candidate.map(|candidate| candidate.id), Some(root));
        (root, verdict.findings)
    };
    let (root, findings) = lost(&|root| format!("DELETE FROM blobs WHERE id = '{root}'"));
    assert_eq!(findings, [StoreFinding::RootMissing { id: root }]);
    let (root, findings) =
        lost(&|root| format!("UPDATE blobs SET data = x'00' WHERE id = '{root}'"));
    assert_eq!(findings, [StoreFinding::RootDamaged { id: root }]);

    let (_chats, directory) = written();
    damage(&directory, "UPDATE meta SET value = 'no hex'");
    let found = verdict(&directory);
    assert!(matches!(found.findings[..], [StoreFinding::MetaUnreadable { .. }]));
    assert!(found.candidate.is_some());
    damage(&directory, "DELETE FROM meta");
    assert_eq!(verdict(&directory).findings, [StoreFinding::MetaMissing]);
}

#[test]
fn a_file_that_is_not_a_store_is_unreadable_and_a_damaged_page_is_found() {
    let (_chats, directory) = written();
    let path = directory.join("store.db");
    let whole = fs::read(&path).unwrap();
    // A page in the middle, from a table or an index.
    let mut torn = whole.clone();
    let at = (whole.len() / 4096 / 2) * 4096;
    torn[at..at + 4096].fill(0x5a);
    fs::write(&path, torn).unwrap();
    let found = verdict(&directory);
    assert!(
        found.findings.iter().any(|finding| matches!(
            finding,
            StoreFinding::FileDamaged { .. } | StoreFinding::Unreadable { .. }
        )),
        "{:?}",
        found.findings
    );
    fs::write(&path, "garbage").unwrap();
    assert!(matches!(verdict(&directory).findings[..], [StoreFinding::Unreadable { .. }]));
    fs::remove_file(&path).unwrap();
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert!(matches!(verdict(&directory).findings[..], [StoreFinding::Unreadable { .. }]));
}

#[test]
fn a_store_in_the_directory_of_another_session_is_reported() {
    let (chats, directory) = written();
    let other = directory.with_file_name(NEW_ID);
    fs::rename(&directory, &other).unwrap();
    let found = verdict(&other);
    assert_eq!(found.findings, [StoreFinding::AgentIdDiffers { agent_id: ID.to_owned() }]);
    drop(chats);
}
