//! Sessions to copy, from every generation, and helpers to compare them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use store_fixtures::Closing;
use store_fixtures::chat::{Call, Chat, Generation, Step, Todo, Turn, bucket_of};
use tempfile::TempDir;

use super::NewSession;
use crate::chat::{ChatMeta, ChatStore};
use crate::model::{Confidence, Conversation, Moment};
use crate::{Catalogue, Extent, StorePlaces};

pub(crate) const ID: &str = "6f1d9c3e-5a52-4f0b-9a1e-2b7c8d9e0f11";
pub(crate) const NEW_ID: &str = "0b0e7a10-1111-4222-8333-444455556666";
pub(crate) const NEW_WORKSPACE: &str = "/home/u/elsewhere";
pub(crate) const GENERATIONS: [Generation; 4] =
    [Generation::Aug2025, Generation::Feb2026, Generation::Jul2026, Generation::Sep2026];

/// Three turns with everything that a root can refer to.
pub(crate) fn rich_chat(generation: Generation) -> Chat {
    let mut chat = Chat::new(generation, ID).with_turns(vec![
        Turn::Agent {
            prompt: "Look around.".to_owned(),
            steps: vec![
                Step::Thinking("Where to begin?".to_owned()),
                Step::Call(Call::shell("call_1", "ls", "a.txt\nb.txt")),
                Step::Text("There are two files.".to_owned()),
            ],
        },
        Turn::Agent {
            prompt: "Read them.".to_owned(),
            steps: vec![
                Step::Call(Call::shell("call_2", "cat a.txt b.txt", "one\ntwo")),
                Step::Text("They say one and two.".to_owned()),
            ],
        },
        Turn::plain("Thanks.", "You are welcome."),
    ]);
    chat.todos = vec![("Look".to_owned(), Todo::Completed), ("Read".to_owned(), Todo::Pending)];
    chat.plan = Some("First look, then read.".to_owned());
    chat.files = vec![("a.txt".to_owned(), "zero".to_owned(), "one".to_owned())];
    chat
}

/// A `chats` directory.
pub(crate) struct Chats(TempDir);

impl Chats {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.0.path().canonicalize().unwrap().join("chats")
    }

    pub(crate) fn write(&self, chat: &Chat) -> PathBuf {
        chat.write_cli(&self.path(), Closing::Clean)
    }

    pub(crate) fn new_session(&self, id: &str) -> NewSession {
        NewSession {
            chats: self.path(),
            bucket: bucket_of(NEW_WORKSPACE),
            id: id.to_owned(),
            workspace: NEW_WORKSPACE.to_owned(),
            now_ms: 1_795_000_000_000,
        }
    }

    /// Returns all files and directories below it, by name.
    pub(crate) fn names(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut rest = vec![self.path()];
        while let Some(directory) = rest.pop() {
            for entry in fs::read_dir(directory).into_iter().flatten() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    rest.push(path.clone());
                }
                found.push(path);
            }
        }
        found.sort();
        found
    }

    #[track_caller]
    pub(crate) fn read(&self, id: &str) -> Conversation {
        let places = StorePlaces {
            chats: vec![self.path()],
            acp_sessions: vec![self.path().with_file_name("acp-sessions")],
            ..StorePlaces::default()
        };
        let catalogue = Catalogue::open(&places, &[]);
        let head = catalogue.list().heads.into_iter().find(|head| head.id == id);
        catalogue.read(&head.expect("the session is listed"), Extent::default()).unwrap()
    }
}

pub(crate) fn meta_of(directory: &Path) -> ChatMeta {
    ChatStore::open_read_only(&directory.join("store.db")).unwrap().meta().unwrap().unwrap()
}

/// Asserts that a copy has the same content as its original, and no damage. Their ids and titles may differ.
#[track_caller]
pub(crate) fn assert_same_talk(copy: &Conversation, original: &Conversation) {
    let (copy, original) = (&with_recorded_times(copy), &with_recorded_times(original));
    pretty_assertions::assert_eq!(copy.messages, original.messages);
    pretty_assertions::assert_eq!(copy.turns, original.turns);
    pretty_assertions::assert_eq!(copy.todos, original.todos);
    pretty_assertions::assert_eq!(copy.plan, original.plan);
    pretty_assertions::assert_eq!(copy.files, original.files);
    assert_eq!(copy.damage, []);
}

/// Guessed times depend on a session's last change, and a copy is newer.
fn with_recorded_times(conversation: &Conversation) -> Conversation {
    let mut conversation = conversation.clone();
    let recorded =
        |at: &mut Option<Moment>| *at = at.filter(|at| at.confidence == Confidence::Recorded);
    conversation.messages.iter_mut().for_each(|message| recorded(&mut message.at));
    for turn in &mut conversation.turns {
        recorded(&mut turn.started);
        recorded(&mut turn.ended);
    }
    conversation
}

/// Another process that has a file open for writing, until it is dropped.
pub(crate) struct OtherWriter(Child);

impl OtherWriter {
    pub(crate) fn of(path: &Path) -> Self {
        let file = fs::OpenOptions::new().append(true).open(path).unwrap();
        let child = Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(file)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self(child)
    }
}

impl Drop for OtherWriter {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Damages a store with SQL.
pub(crate) fn damage(directory: &Path, sql: &str) {
    let connection = store_fixtures::open_writer(&directory.join("store.db"));
    connection.execute_batch(sql).unwrap();
    connection.close().unwrap();
}

/// Removes the root from the meta row, as if the writer had been killed before it recorded its first checkpoint.
pub(crate) fn forget_root(directory: &Path) {
    let mut meta = meta_of(directory);
    meta.set("latestRootBlobId", "".into());
    damage(directory, &format!("UPDATE meta SET value = '{}'", meta.to_hex_row()));
}
