//! Tests against real stores. They run only if `CARETAKER_CAPTURES` names the folder of the captures.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use pretty_assertions::assert_eq;
use prost::Message;

use super::{
    BlobId, ChatStore, Fidelity, LatestRoot, LatestState, Severity, StoreFinding, check_store,
    decode_message,
};
use crate::chat::schema::references::{BlobKind, visit_references};
use crate::chat::schema::*;
use crate::test_store::picture_of;

const OLD: &str = "aug2025-hey-there.store.db";
const NEW: &str = "feb2026-dir-changer.store.db";

#[expect(clippy::disallowed_methods, reason = "the environment names the folder of captures")]
fn captures() -> Option<PathBuf> {
    let folder =
        std::env::var_os("CARETAKER_CAPTURES").map(|folder| PathBuf::from(folder).join("stores"));
    if folder.is_none() {
        println!("CARETAKER_CAPTURES is not set: skipping the tests against real stores");
    }
    folder
}

fn latest_root(store: &ChatStore) -> BlobId {
    match store.meta().unwrap().unwrap().latest_root() {
        LatestRoot::Blob(id) => id,
        other => panic!("no root: {other:?}"),
    }
}

/// Returns all roots of a store: every root of a conversation begins with the same first prompt message.
fn all_roots(store: &ChatStore) -> BTreeSet<BlobId> {
    let latest = store.blob(latest_root(store)).unwrap().unwrap();
    let beginning = &latest[..34];
    let mut roots = BTreeSet::new();
    for blob in store.inventory().unwrap().0 {
        if store.blob(blob.id).unwrap().unwrap().starts_with(beginning) {
            roots.insert(blob.id);
        }
    }
    roots
}

/// Decodes a blob according to the kind that the referring field gives it. Returns `None` for blobs that are not
/// messages.
fn fidelity(kind: BlobKind, data: &[u8]) -> Option<Fidelity> {
    fn of<M: Message + Default>(data: &[u8]) -> Fidelity {
        decode_message::<M>(data).unwrap().fidelity
    }
    match kind {
        BlobKind::Root => Some(of::<ConversationStateStructure>(data)),
        BlobKind::Turn => Some(of::<ConversationTurnStructure>(data)),
        BlobKind::OldTurn => Some(of::<AgentConversationTurnStructure>(data)),
        BlobKind::UserMessage => Some(of::<UserMessage>(data)),
        BlobKind::Step => Some(of::<ConversationStep>(data)),
        BlobKind::PromptMessage => None,
        other => panic!("the captures have no {other:?}"),
    }
}

/// Walks from all roots and counts blobs by kind. Fails if a blob does not survive a round trip.
fn round_trips(store: &ChatStore) -> BTreeMap<BlobKind, usize> {
    let mut queue: Vec<_> = all_roots(store).into_iter().map(|id| (id, BlobKind::Root)).collect();
    let mut seen: BTreeSet<_> = queue.iter().copied().collect();
    let mut n_by_kind = BTreeMap::new();
    while let Some((id, kind)) = queue.pop() {
        let Some(data) = store.blob(id).unwrap() else { continue };
        assert_eq!(BlobId::of(&data), id);
        let fidelity = fidelity(kind, &data);
        println!("{id} {kind:?} {fidelity:?}");
        assert!(
            fidelity != Some(Fidelity::Differs),
            "{id}, a {kind:?}, encodes differently from Cursor"
        );
        *n_by_kind.entry(kind).or_default() += 1;
        visit_references(kind, &data, &mut |reference| {
            let next = (BlobId::try_from(reference.id).unwrap(), reference.kind);
            if seen.insert(next) {
                queue.push(next);
            }
        })
        .unwrap();
    }
    n_by_kind
}

#[test]
fn every_message_of_the_real_stores_is_encoded_as_cursor_encoded_it() {
    let Some(folder) = captures() else { return };
    let old = ChatStore::open_read_only(&folder.join(OLD)).unwrap();
    let expected = [
        (BlobKind::Root, 2),
        (BlobKind::PromptMessage, 2),
        (BlobKind::OldTurn, 1),
        (BlobKind::UserMessage, 1),
        (BlobKind::Step, 2),
    ];
    assert_eq!(round_trips(&old), expected.into());

    let new = ChatStore::open_read_only(&folder.join(NEW)).unwrap();
    let n_by_kind = round_trips(&new);
    let expected = [
        (BlobKind::Root, 6),
        (BlobKind::PromptMessage, 5),
        (BlobKind::Turn, 4),
        (BlobKind::UserMessage, 1),
        (BlobKind::Step, 2),
    ];
    assert_eq!(n_by_kind, expected.into());
}

#[test]
fn the_real_stores_are_read_without_leaving_a_trace() {
    let Some(folder) = captures() else { return };
    let before = picture_of(&folder);
    for name in [OLD, NEW] {
        check_store(&ChatStore::open_read_only(&folder.join(name)).unwrap()).unwrap();
    }
    assert_eq!(picture_of(&folder), before);
}

#[test]
fn missing_blobs_of_the_real_stores_are_named() {
    let Some(folder) = captures() else { return };
    let old = check_store(&ChatStore::open_read_only(&folder.join(OLD)).unwrap()).unwrap();
    let LatestState { n_prompt_messages, n_turns, pending, .. } = old.root.unwrap();
    assert_eq!((n_prompt_messages, n_turns, pending.n_messages), (3, 1, 0));
    let [StoreFinding::Dangling { place, .. }] = &old.findings[..] else {
        panic!("{:?}", old.findings)
    };
    assert_eq!((place.field.as_str(), place.is_prompt), ("root_prompt_messages_json[0]", true));

    let new = check_store(&ChatStore::open_read_only(&folder.join(NEW)).unwrap()).unwrap();
    let manifest: serde_json::Value = serde_json::from_slice(
        &std::fs::read(folder.join("feb2026-dir-changer.manifest.json")).unwrap(),
    )
    .unwrap();
    let absent: BTreeSet<BlobId> = manifest["rows_in_source_order"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["bytes_known"] == false)
        .map(|row| row["id"].as_str().unwrap().parse().unwrap())
        .collect();
    let LatestState { n_prompt_messages, n_turns, pending, .. } = new.root.unwrap();
    assert_eq!((n_prompt_messages, n_turns, pending.n_messages), (10, 2, 0));
    assert!(new.findings.iter().any(|finding| finding.severity() == Severity::Memory));
    for finding in &new.findings {
        let StoreFinding::Dangling { id, .. } = finding else { panic!("{finding:?}") };
        assert!(absent.contains(id), "the manifest does not list {id} as missing");
    }
}

#[test]
fn a_real_roots_pending_message_is_read() {
    let Some(folder) = captures() else { return };
    for (name, n_pending_roots) in [(OLD, 1), (NEW, 1)] {
        let store = ChatStore::open_read_only(&folder.join(name)).unwrap();
        let pending: Vec<_> = all_roots(&store)
            .into_iter()
            .map(|id| {
                let root = store.blob(id).unwrap().unwrap();
                let root = ConversationStateStructure::decode(root.as_slice()).unwrap();
                super::parse_pending(&root.pending_tool_calls)
            })
            .filter(|pending| pending.n_messages > 0)
            .collect();
        assert_eq!(pending.len(), n_pending_roots);
        // In both stores this is the final answer, before Cursor committed it to the prompt.
        assert!(
            pending
                .iter()
                .all(|pending| pending.n_unreadable == 0 && pending.tool_calls.is_empty())
        );
    }
}

#[test]
fn the_real_conversations_are_shown_completely() {
    use crate::model::{Message, StoreKind};
    use crate::store::{ConversationStore, Extent};
    let Some(folder) = captures() else { return };
    let home = tempfile::tempdir().unwrap();
    let root =
        crate::chat::listing::chats_root::ChatsRoot::new(StoreKind::Acp, home.path().to_owned());
    let read = |name: &str| {
        let session = home.path().join(name);
        std::fs::create_dir(&session).unwrap();
        std::fs::copy(folder.join(name), session.join("store.db")).unwrap();
        root.read(name, Extent::default()).unwrap()
    };
    let old = read(OLD);
    let texts: Vec<String> = old.messages.iter().map(Message::text).collect();
    assert_eq!(texts.len(), 2);
    assert_eq!(texts[0], "Hey there!");
    assert!(texts[1].starts_with("Hi! How can I help you today?"));
    assert_eq!((old.head.title.as_deref(), old.damage.len()), (Some("Hey there!"), 1));

    let new = read(NEW);
    println!("{}", serde_json::to_string_pretty(&new.messages).unwrap());
    let texts: Vec<String> =
        new.messages.iter().map(Message::text).filter(|text| !text.is_empty()).collect();
    // The JSON of the first answer is lost; its words are in the turns.
    assert_eq!(texts[0], " changedir into foo/bar please!");
    assert_eq!(texts[1], "I'll change directory to `foo/bar` for you.");
    assert!(texts[2].starts_with("Done! I've changed"));
    assert!(texts[3].starts_with("OK, now use your shell tool"));
    assert_eq!(texts.len(), 4);
    assert_eq!(new.head.models, ["claude-4.5-sonnet-thinking"]);
    assert_eq!(
        new.head.workspace.as_ref().map(|workspace| workspace.path.as_str()),
        Some("/Users/sean/Source/SpecStory/compositions/shell-3")
    );
}
