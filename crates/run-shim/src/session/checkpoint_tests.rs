use std::fs;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use cursor_home::{CursorRoots, WorkspacePath};
use cursor_stores::chat::BlobId;
use cursor_stores::chat::schema::ConversationStateStructure;
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::{Value, json};
use simulated_agent::session_store::{
    Closing, SessionFacts, SessionMode, SessionStore, ToolCallRecord, ToolResultRecord,
};
use simulated_agent::tools::Generation;
use store_fixtures::chat::StoreWriter;
use tempfile::TempDir;

use super::*;

const SESSION: Uuid = Uuid::from_u128(0x6f1d_9c3e_5a52_4f0b_9a1e_2b7c_8d9e_0f11);

/// A home with a session that the simulated agent wrote.
struct Home {
    directory: TempDir,
}

impl Home {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    fn after_turns(n_turns: usize) -> Self {
        let home = Self::new();
        for n in 0..n_turns {
            let mut store = home.open();
            store.begin_turn(&format!("prompt {n}"), "request").unwrap();
            store
                .model_step(None, Some("trying"), &[call("Shell", json!({"command": "ls"}))])
                .unwrap();
            store.tools_finished(&[result()]).unwrap();
            store.end_turn(None, &format!("answer {n}")).unwrap();
            store.close(Closing::Clean).unwrap();
        }
        home
    }

    fn open(&self) -> SessionStore {
        let facts = SessionFacts {
            model: "gpt-5.2".to_owned(),
            mode: SessionMode::Agent,
            started_ms: 1_790_000_000_000,
            time_zone: "Europe/Paris".to_owned(),
            generation: Generation::V2026_09,
            run_everything: true,
        };
        SessionStore::open(&self.roots().chats_of(&workspace()), &workspace(), SESSION, facts)
            .unwrap()
    }

    fn roots(&self) -> CursorRoots {
        CursorRoots::in_sandbox(self.directory.path())
    }

    fn store_db(&self) -> PathBuf {
        self.roots().session_dir(&workspace(), SESSION).store_db()
    }

    fn checkpoint(&self) -> Checkpoint {
        checkpoint(&self.store_db(), SESSION)
    }

    /// Replaces `what` with `with` in the file, like a bad disk or a hostile program.
    fn damage(&self, what: &[u8], with: &[u8]) {
        assert_eq!(what.len(), with.len());
        let mut bytes = fs::read(self.store_db()).unwrap();
        let places: Vec<usize> =
            (0..bytes.len()).filter(|at| bytes[*at..].starts_with(what)).collect();
        assert!(!places.is_empty(), "nothing to damage");
        for at in places {
            bytes[at..at + with.len()].copy_from_slice(with);
        }
        fs::write(self.store_db(), bytes).unwrap();
    }
}

fn workspace() -> WorkspacePath {
    WorkspacePath::new(Path::new("/srv/my shop")).unwrap()
}

fn call(tool_name: &str, model_args: Value) -> ToolCallRecord {
    ToolCallRecord {
        call_id: "call_1\nfc_1".to_owned(),
        key: "shellToolCall".to_owned(),
        tool_name: tool_name.to_owned(),
        args: model_args.clone(),
        model_args,
    }
}

fn result() -> ToolResultRecord {
    ToolResultRecord {
        call_id: "call_1\nfc_1".to_owned(),
        result: json!({"success": {"command": "ls", "exitCode": 0, "stdout": "", "stderr": ""}}),
        for_model: "Exit code: 0".to_owned(),
        is_error: false,
    }
}

fn reason(checkpoint: &Checkpoint) -> &str {
    match &checkpoint.resumable {
        Resumable::Yes => panic!("resumable: {checkpoint:?}"),
        Resumable::No { reason } => reason,
    }
}

#[test]
fn a_finished_session_is_resumable_and_counted() {
    let home = Home::after_turns(2);
    let checkpoint = home.checkpoint();
    assert_eq!(checkpoint.root.as_ref().map(String::len), Some(64));
    assert_eq!(
        checkpoint,
        Checkpoint {
            session: SESSION.to_string(),
            root: checkpoint.root.clone(),
            // Two messages about the system and the machine, then four for each turn: prompt, step, tool, answer.
            messages: 2 + 2 * 4,
            turns: 2,
            pending: Vec::new(),
            resumable: Resumable::Yes,
        }
    );
}

#[test]
fn an_agent_killed_in_the_middle_of_its_tools_leaves_them_pending() {
    let home = Home::after_turns(1);
    let mut store = home.open();
    store.begin_turn("again", "request").unwrap();
    let long = format!("cargo test\n{}", "x".repeat(500));
    let calls = [
        call("Shell", json!({"description": "Tests", "command": long})),
        call("Read", json!({"path": "/srv/my shop/src/lib.rs", "offset": 3})),
        call("Odd", json!({"n": 1, "flag": true, "text": "a\u{1b}[31mb"})),
        call("", json!([1, 2])),
    ];
    store.model_step(None, None, &calls).unwrap();
    // The writer still has the store open, so all new data is in the write-ahead log, as after a SIGKILL.
    let checkpoint = home.checkpoint();
    let pending: Vec<_> =
        checkpoint.pending.iter().map(|call| (call.tool.as_str(), call.subject.as_str())).collect();
    assert_eq!(
        pending,
        [
            ("Shell", "cargo test…"),
            ("Read", "/srv/my shop/src/lib.rs"),
            ("Odd", "a [31mb"),
            ("unnamed", "")
        ]
    );
    assert_eq!(checkpoint.resumable, Resumable::Yes);
    drop(store);
}

#[test]
fn a_prompt_without_an_answer_is_not_resumable() {
    let home = Home::new();
    let mut store = home.open();
    store.begin_turn("hello", "request").unwrap();
    let checkpoint = home.checkpoint();
    assert_eq!((checkpoint.root.clone(), checkpoint.messages), (None, 0));
    assert_eq!(
        reason(&checkpoint),
        "the agent saved no conversation, so resuming would begin an empty one"
    );
    drop(store);
}

#[test]
fn a_checkpoint_without_a_conversation_is_not_resumable_before_or_after_a_run() {
    let home = tempfile::tempdir().unwrap();
    let mut store = StoreWriter::create(home.path(), &SESSION.to_string(), 1_790_000_000_000);
    let root = store.put_root(&ConversationStateStructure { mode: Some(1), ..Default::default() });
    store.close(store_fixtures::Closing::Clean);
    let path = home.path().join("store.db");
    let checkpoint = checkpoint(&path, SESSION);
    let before = resume_point(&path, None, Depth::Whole).unwrap_err();
    assert_eq!(reason(&checkpoint), before.reason.to_string());
    let root = BlobId::try_from(root.as_slice()).unwrap().to_string();
    assert_eq!((checkpoint.root, checkpoint.messages), (Some(root), 0));
}

#[test]
fn a_checkpoint_says_why_a_path_is_not_a_store() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    fs::write(path("empty"), "").unwrap();
    fs::write(path("garbage"), "x".repeat(5000)).unwrap();
    fs::write(path("young"), [b"SQLite format 3\0".as_slice(), &[0; 4080]].concat()).unwrap();
    fs::create_dir(path("directory")).unwrap();
    std::os::unix::fs::symlink(path("garbage"), path("link")).unwrap();
    nix::unistd::mkfifo(&path("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let listener = UnixListener::bind(path("socket")).unwrap();
    for (name, expected) in [
        ("missing", "the agent left no store for this session"),
        ("no/such/directory", "the agent left no store for this session"),
        ("empty", "the session's store is an empty file"),
        ("garbage", "the session's store is damaged, or not a database at all"),
        ("young", "the session's store is damaged, or not a database at all"),
        ("directory", "the session's store is a directory, not a plain file"),
        ("link", "the session's store is a symbolic link, not a plain file"),
        ("fifo", "the session's store is a FIFO, not a plain file"),
        ("socket", "the session's store is a socket, not a plain file"),
    ] {
        let checkpoint = checkpoint(&path(name), SESSION);
        assert_eq!(reason(&checkpoint), expected, "{name}");
        assert_eq!((checkpoint.root, checkpoint.messages, checkpoint.turns), (None, 0, 0));
    }
    drop(listener);
}

#[test]
fn a_damaged_message_of_the_prompt_is_counted() {
    let home = Home::after_turns(2);
    let whole = home.checkpoint();
    home.damage(b"answer 0", b"answer #");
    let checkpoint = home.checkpoint();
    assert_eq!(
        reason(&checkpoint),
        "1 of the conversation's 10 messages cannot be read: encrypted or damaged"
    );
    assert_eq!((checkpoint.root, checkpoint.messages), (whole.root, 10));
}

#[test]
fn a_missing_checkpoint_is_named() {
    let home = Home::after_turns(1);
    let root = home.checkpoint().root.unwrap();
    let other = "0".repeat(64);
    home.damage(root.as_bytes(), other.as_bytes());
    let checkpoint = home.checkpoint();
    assert_eq!(reason(&checkpoint), "the session's latest checkpoint is missing from its store");
    assert_eq!(checkpoint.root, Some(root));
}

#[test]
fn a_damaged_description_is_named() {
    let home = Home::after_turns(1);
    // The beginning of the row's JSON in hex.
    home.damage(b"7b226167656e744964223a", b"0000000000000000000000");
    assert_eq!(reason(&home.checkpoint()), "the session's own description in its store is damaged");
}

#[expect(clippy::disallowed_methods, reason = "a variable may name the directory of the captures")]
#[test]
fn real_stores_that_lack_messages_are_counted_and_not_resumable() {
    let Some(captures) = std::env::var_os("CARETAKER_CAPTURES") else {
        println!("CARETAKER_CAPTURES is not set: not tested against real stores");
        return;
    };
    for (name, n_messages, n_turns) in
        [("aug2025-hey-there.store.db", 3, 1), ("feb2026-dir-changer.store.db", 10, 2)]
    {
        let path = Path::new(&captures).join("stores").join(name);
        let checkpoint = checkpoint(&path, SESSION);
        assert!(reason(&checkpoint).contains("of the conversation's"), "{checkpoint:?}");
        assert_eq!(
            (checkpoint.messages, checkpoint.turns),
            (n_messages, n_turns),
            "{checkpoint:?}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_damage_makes_it_fail(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..40),
        length in prop::option::of(any::<prop::sample::Index>()),
    ) {
        static STORE: std::sync::LazyLock<Vec<u8>> =
            std::sync::LazyLock::new(|| fs::read(Home::after_turns(2).store_db()).unwrap());
        let mut bytes = STORE.clone();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(length) = length {
            bytes.truncate(length.index(bytes.len()));
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store.db");
        fs::write(&path, bytes).unwrap();
        let checkpoint = checkpoint(&path, SESSION);
        if let Resumable::No { reason } = &checkpoint.resumable {
            prop_assert!(!reason.is_empty() && !reason.contains(char::is_control), "{}", reason);
            prop_assert!(!reason.contains("within"), "{}", reason);
        }
    }
}
