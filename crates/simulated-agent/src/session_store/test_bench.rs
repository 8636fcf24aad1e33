//! Shared parts of the store's tests: a separate home, a scripted turn, and a reader of the bytes that is independent
//! of the code under test.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use cursor_home::{CursorRoots, WorkspacePath};
use cursor_stores::chat::{ChatStore, StoreCheck, check_store};
use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tempfile::TempDir;
use uuid::Uuid;

use super::{Closing, SessionFacts, SessionMode, SessionStore, ToolCallRecord, ToolResultRecord};
use crate::tools::Generation;

pub(super) struct Bench {
    home: TempDir,
    pub(super) roots: CursorRoots,
    pub(super) workspace: WorkspacePath,
    pub(super) session_id: Uuid,
    pub(super) generation: Generation,
}

impl Bench {
    pub(super) fn new(generation: Generation) -> Self {
        Self::of(tempfile::tempdir().unwrap(), Uuid::new_v4(), generation)
    }

    fn of(home: TempDir, session_id: Uuid, generation: Generation) -> Self {
        let roots = CursorRoots::in_sandbox(home.path());
        // The bucket depends on the path alone, so a copy of the home keeps its sessions.
        let workspace = WorkspacePath::new(Path::new("/srv/my shop")).unwrap();
        Self { home, roots, workspace, session_id, generation }
    }

    /// Plays turns, each as if in its own process: opened, played, closed.
    pub(super) fn after_turns(n_turns: usize, generation: Generation) -> Self {
        let bench = Self::new(generation);
        for n in 0..n_turns {
            let mut store = bench.open();
            play_turn(&mut store, n);
            store.close(Closing::Clean).unwrap();
        }
        bench
    }

    pub(super) fn open(&self) -> SessionStore {
        let bucket = self.roots.chats_of(&self.workspace);
        SessionStore::open(&bucket, &self.workspace, self.session_id, self.facts()).unwrap()
    }

    pub(super) fn facts(&self) -> SessionFacts {
        SessionFacts {
            model: "gpt-5.2".to_owned(),
            mode: SessionMode::Agent,
            started_ms: 1_790_000_000_000,
            time_zone: "Europe/Paris".to_owned(),
            generation: self.generation,
            run_everything: true,
        }
    }

    /// Copies the files while the session is still open, as a killed process would leave them.
    pub(super) fn killed_now(&self) -> Self {
        let home = tempfile::tempdir().unwrap();
        copy_tree(self.home.path(), home.path());
        Self::of(home, self.session_id, self.generation)
    }

    pub(super) fn session_dir(&self) -> PathBuf {
        self.roots.session_dir(&self.workspace, self.session_id).path().to_path_buf()
    }

    pub(super) fn store_db(&self) -> PathBuf {
        self.session_dir().join("store.db")
    }

    pub(super) fn wal_bytes(&self) -> Option<u64> {
        fs::metadata(self.session_dir().join("store.db-wal")).ok().map(|wal| wal.len())
    }

    pub(super) fn meta_json(&self) -> Value {
        serde_json::from_slice(&fs::read(self.session_dir().join("meta.json")).unwrap()).unwrap()
    }

    /// Checks the store with the reader that the product uses.
    pub(super) fn check(&self) -> StoreCheck {
        check_store(&ChatStore::open_read_only(&self.store_db()).unwrap()).unwrap()
    }

    pub(super) fn dump(&self) -> Dump {
        Dump::read(&self.store_db())
    }
}

fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_tree(&entry.path(), &target);
        } else if entry.file_name() != "store.db-shm" {
            // Shared memory does not survive a boot; SQLite restores it from the log.
            fs::copy(entry.path(), &target).unwrap();
        }
    }
}

pub(super) fn shell_call(call_id: &str, command: &str) -> ToolCallRecord {
    ToolCallRecord {
        call_id: call_id.to_owned(),
        key: "shellToolCall".to_owned(),
        tool_name: "Shell".to_owned(),
        args: json!({
            "command": command, "workingDirectory": "", "timeout": 30000, "toolCallId": call_id,
            "simpleCommands": ["echo"], "fileOutputThresholdBytes": "40000", "isBackground": false,
            "description": "Says it",
        }),
        model_args: json!({ "command": command, "description": "Says it" }),
    }
}

pub(super) fn shell_result(call_id: &str, command: &str, stdout: &str) -> ToolResultRecord {
    ToolResultRecord {
        call_id: call_id.to_owned(),
        result: json!({
            "success": {
                "command": command, "workingDirectory": "", "exitCode": 0, "signal": "", "stdout": stdout,
                "stderr": "", "executionTime": 12, "interleavedOutput": stdout,
            },
            "isBackground": false,
        }),
        for_model: format!("Exit code: 0\n\nCommand output:\n\n```\n{stdout}\n```"),
        is_error: false,
    }
}

/// A whole turn with two parallel calls and a last answer.
pub(super) fn play_turn(store: &mut SessionStore, n: usize) {
    let (first, second) = (format!("call_{n}a\nfc_{n}"), format!("call_{n}b\nfc_{n}"));
    store.begin_turn(&format!("prompt {n}"), &format!("request-{n}")).unwrap();
    let calls = [shell_call(&first, "echo a"), shell_call(&second, "echo b")];
    store.model_step(Some("let me see"), Some(&format!("trying {n}")), &calls).unwrap();
    // Parallel calls finish in any order.
    let results = [shell_result(&second, "echo b", "b\n"), shell_result(&first, "echo a", "a\n")];
    store.tools_finished(&results).unwrap();
    store.end_turn(Some("that was it"), &format!("answer {n}")).unwrap();
}

/// Everything in a store, read without the product's code.
pub(super) struct Dump {
    pub(super) meta: Value,
    /// In row order.
    pub(super) rows: Vec<(String, Vec<u8>)>,
}

impl Dump {
    pub(super) fn read(path: &Path) -> Self {
        #[expect(clippy::disallowed_methods, reason = "the test reads the file independently")]
        let database = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        let meta: String = database
            .query_row("SELECT value FROM meta WHERE key = '0'", [], |row| row.get(0))
            .unwrap();
        let rows = database
            .prepare("SELECT id, data FROM blobs ORDER BY rowid")
            .unwrap()
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
            .unwrap()
            .map(Result::unwrap)
            .collect();
        Self { meta: serde_json::from_slice(&hex::decode(meta).unwrap()).unwrap(), rows }
    }

    pub(super) fn latest_root(&self) -> &str {
        self.meta["latestRootBlobId"].as_str().unwrap()
    }

    pub(super) fn blob(&self, id: &str) -> &[u8] {
        let (_, data) = self
            .rows
            .iter()
            .find(|(found, _)| found == id)
            .unwrap_or_else(|| panic!("{id} is missing"));
        data
    }

    /// Returns the ids of the prompt's messages, in order.
    pub(super) fn prompt_ids(&self) -> Vec<String> {
        ids_in(&fields(self.blob(self.latest_root())), 1)
    }

    pub(super) fn prompt(&self) -> Vec<Value> {
        self.prompt_ids().iter().map(|id| serde_json::from_slice(self.blob(id)).unwrap()).collect()
    }

    /// Returns the texts of the latest root's field 4.
    pub(super) fn pending(&self) -> Vec<Value> {
        let root = fields(self.blob(self.latest_root()));
        let pending = root.iter().filter(|(number, _)| *number == 4);
        pending.map(|(_, text)| serde_json::from_slice(text.bytes()).unwrap()).collect()
    }

    /// Checks every hash, follows every reference from the latest root by hand, and returns the reached blobs.
    pub(super) fn walk(&self) -> BTreeMap<String, &'static str> {
        for (id, data) in &self.rows {
            assert_eq!(*id, hex::encode(Sha256::digest(data)), "a blob does not match its id");
        }
        let mut reached = BTreeMap::new();
        let mut open = BTreeSet::from([(self.latest_root().to_owned(), "root")]);
        while let Some((id, kind)) = open.pop_first() {
            let data = self.blob(&id);
            if reached.insert(id, kind).is_none() {
                open.extend(references(kind, data));
            }
        }
        reached
    }
}

/// Returns the blob ids in a blob, each with its kind.
fn references(kind: &str, data: &[u8]) -> Vec<(String, &'static str)> {
    let tagged = |found: &[(u32, Field)], number: u32, kind: &'static str| {
        ids_in(found, number).into_iter().map(move |id| (id, kind)).collect::<Vec<_>>()
    };
    match kind {
        "json" => {
            serde_json::from_slice::<Value>(data).unwrap();
            Vec::new()
        }
        "root" => {
            let root = fields(data);
            let mut found = Vec::new();
            for (number, kind) in [
                (1, "json"),
                (3, "leaf"),
                (6, "leaf"),
                (8, "turn"),
                (11, "archive"),
                (13, "archive"),
            ] {
                found.extend(tagged(&root, number, kind));
            }
            for (_, entry) in root.iter().filter(|(number, _)| *number == 15) {
                let value =
                    fields(entry.bytes()).into_iter().find(|(number, _)| *number == 2).unwrap().1;
                found.extend(tagged(&fields(value.bytes()), 1, "text"));
                found.extend(tagged(&fields(value.bytes()), 2, "text"));
            }
            found
        }
        "turn" => {
            let turn = fields(data);
            let agent_turn = fields(turn[0].1.bytes());
            [tagged(&agent_turn, 1, "user message"), tagged(&agent_turn, 2, "leaf")].concat()
        }
        "user message" => tagged(&fields(data), 10, "root"),
        "archive" => [tagged(&fields(data), 1, "json"), tagged(&fields(data), 4, "json")].concat(),
        "text" => Vec::new(),
        _ => {
            fields(data);
            Vec::new()
        }
    }
}

/// One field of a protobuf message.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Field {
    Number(u64),
    Bytes(Vec<u8>),
}

impl Field {
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Number(number) => panic!("expected bytes, found {number}"),
        }
    }
}

/// Splits a message into its fields; knows only the wire format.
pub(super) fn fields(mut data: &[u8]) -> Vec<(u32, Field)> {
    let mut found = Vec::new();
    while !data.is_empty() {
        let key = varint(&mut data);
        let value = match key & 7 {
            0 => Field::Number(varint(&mut data)),
            2 => {
                let length = usize::try_from(varint(&mut data)).unwrap();
                let (bytes, rest) = data.split_at(length);
                data = rest;
                Field::Bytes(bytes.to_vec())
            }
            other => panic!("wire type {other} is not used in these messages"),
        };
        found.push((u32::try_from(key >> 3).unwrap(), value));
    }
    found
}

fn varint(data: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let (byte, rest) = data.split_first().unwrap();
        *data = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    value
}

fn ids_in(found: &[(u32, Field)], number: u32) -> Vec<String> {
    found
        .iter()
        .filter(|(found, _)| *found == number)
        .map(|(_, id)| hex::encode(id.bytes()))
        .collect()
}
