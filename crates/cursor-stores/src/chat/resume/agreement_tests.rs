//! All checks agree on whether a session can be resumed, for stores of every shape.

use proptest::prelude::*;
use serde_json::json;

use crate::chat::schema::ConversationStateStructure as Root;
use crate::chat::{BlobId, Depth, NotResumable, SubagentOrigin, resume_point};
use crate::session_copy::{StoreFinding, verify_store};
use crate::test_store::{ClosedStore, TestStore};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Row {
    Whole,
    Absent,
    Garbage,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Pointer {
    Absent,
    Malformed,
    ToRoot,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Content {
    Whole,
    Missing,
    /// Its hash is not its id.
    Another,
    /// The hash is right, but the content is not.
    NotOfKind,
    /// A row without data.
    Null,
    /// The reference is not a blob id.
    Malformed,
}

/// A store, described by its parts.
#[derive(Debug, Clone)]
struct Shape {
    row: Row,
    pointer: Pointer,
    root: Content,
    messages: Vec<Content>,
    turns: Vec<Content>,
    has_archive: bool,
    is_subagent: bool,
}

fn content() -> impl Strategy<Value = Content> {
    prop_oneof![
        8 => Just(Content::Whole),
        1 => Just(Content::Missing),
        1 => Just(Content::Another),
        1 => Just(Content::NotOfKind),
        1 => Just(Content::Null),
        1 => Just(Content::Malformed),
    ]
}

fn shape() -> impl Strategy<Value = Shape> {
    let row = prop_oneof![8 => Just(Row::Whole), 1 => Just(Row::Absent), 1 => Just(Row::Garbage)];
    let pointer = prop_oneof![
        8 => Just(Pointer::ToRoot), 1 => Just(Pointer::Absent), 1 => Just(Pointer::Malformed)
    ];
    let root = prop_oneof![
        8 => Just(Content::Whole),
        1 => Just(Content::Missing),
        1 => Just(Content::Another),
        1 => Just(Content::NotOfKind),
    ];
    let messages = prop::collection::vec(content(), 0..4);
    let turns = prop::collection::vec(content(), 0..3);
    (row, pointer, root, messages, turns, any::<bool>(), prop::bool::weighted(0.1)).prop_map(
        |(row, pointer, root, messages, turns, has_archive, is_subagent)| Shape {
            row,
            pointer,
            root,
            messages,
            turns,
            has_archive,
            is_subagent,
        },
    )
}

impl Shape {
    fn whole(n_messages: usize) -> Self {
        Self {
            row: Row::Whole,
            pointer: Pointer::ToRoot,
            root: Content::Whole,
            messages: vec![Content::Whole; n_messages],
            turns: Vec::new(),
            has_archive: false,
            is_subagent: false,
        }
    }

    fn store(&self) -> ClosedStore {
        let mut store = TestStore::new();
        let put = |content: Content, data: &[u8]| -> Vec<u8> {
            let id = BlobId::of(data);
            match content {
                Content::Whole => store.put_as(id, data),
                Content::Missing => {}
                Content::Another => store.put_as(id, b"another"),
                Content::NotOfKind => return store.put(b"\xff\xff\xff not of any kind").to_vec(),
                Content::Null => {
                    let insert = "INSERT OR REPLACE INTO blobs (id, data) VALUES (?1, NULL)";
                    store.writer.execute(insert, [id.to_string()]).unwrap();
                }
                Content::Malformed => return vec![1, 2, 3],
            }
            id.to_vec()
        };
        let message = |n: usize| json!({"role": "user", "content": n}).to_string().into_bytes();
        let messages = self.messages.iter().enumerate();
        let turns = self.turns.iter().enumerate();
        let root = Root {
            root_prompt_messages_json: messages.map(|(n, it)| put(*it, &message(n))).collect(),
            turns: turns.map(|(n, it)| put(*it, &[0x98, 0x06, n as u8 + 1])).collect(),
            summary_archive: self.has_archive.then(|| put(Content::Whole, b"")),
            mode: Some(1),
            ..Root::default()
        };
        let root = put(self.root, &prost::Message::encode_to_vec(&root));
        match self.pointer {
            Pointer::Absent => {}
            Pointer::Malformed => store.meta.set("latestRootBlobId", json!("no id")),
            Pointer::ToRoot => {
                store.meta.set_latest_root(BlobId::try_from(root.as_slice()).unwrap());
            }
        }
        if self.is_subagent {
            store.meta.set_subagent_origin(&SubagentOrigin::default());
        }
        match self.row {
            Row::Whole => store.put_meta(),
            Row::Absent => {}
            Row::Garbage => store.put_meta_value("garbage"),
        }
        store.close()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn every_check_gives_the_same_answer(shape in shape()) {
        let store = shape.store();
        let whole = resume_point(&store.path(), None, Depth::Whole);
        prop_assert_eq!(&whole, &resume_point(&store.path(), None, Depth::Glance));
        let reason = whole.err().map(|refused| refused.reason);
        let verified = verify_store(&store.path(), &[]).unwrap();
        // Verify accepts a sub-agent's store, and a session that just began.
        let is_well = match &reason {
            None | Some(NotResumable::Subagent { .. }) => true,
            Some(NotResumable::EmptyRoot) => verified.n_blobs == 0,
            Some(_) => false,
        };
        prop_assert_eq!(verified.keeps_memory(), is_well, "{:?}: {:?}", reason, verified.findings);
    }
}

#[test]
fn verify_reports_a_checkpoint_without_a_conversation() {
    let store = Shape::whole(0).store();
    let refused = resume_point(&store.path(), None, Depth::Whole).unwrap_err();
    assert_eq!(refused.reason, NotResumable::EmptyRoot);
    let verified = verify_store(&store.path(), &[]).unwrap();
    assert!(!verified.keeps_memory());
    let why = NotResumable::EmptyRoot;
    assert!(verified.findings.contains(&StoreFinding::NotResumable { why }), "{verified:?}");
}
