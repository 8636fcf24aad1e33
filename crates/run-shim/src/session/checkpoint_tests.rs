use std::fs;
use std::os::unix::net::UnixListener;

use cursor_home::{CursorRoots, WorkspacePath};
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::{Value, json};
use simulated_agent::session_store::{
    Closing, SessionFacts, SessionMode, SessionStore, ToolCallRecord, ToolResultRecord,
};
use simulated_agent::tools::Generation;
use tempfile::TempDir;

use super::*;

const SESSION: Uuid = Uuid::from_u128(0x6f1d_9c3e_5a52_4f0b_9a1e_2b7c_8d9e_0f11);

/// A home with a session in it, written by the simulated agent.
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
        SessionStore::open(&self.roots(), &workspace(), SESSION, facts).unwrap()
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

    /// Puts `with` wherever `what` is in the file, as a bad disk or a bad neighbour might.
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
            // System and machine, then each turn: prompt, step, tool, answer.
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
    // The writer still has it open: everything new is in the log, as after a SIGKILL.
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
        "the agent wrote no checkpoint, so resuming would begin an empty conversation"
    );
    drop(store);
}

#[test]
fn what_is_not_a_store_says_so() {
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
        ("garbage", "the session's store is damaged or no database at all"),
        ("young", "the session's store is damaged or no database at all"),
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
    assert_eq!(reason(&checkpoint), "of the conversation's 10 messages 1 cannot be read");
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
    // The row holds JSON in hex: this is how it begins.
    home.damage(b"7b226167656e744964223a", b"0000000000000000000000");
    assert_eq!(reason(&home.checkpoint()), "the session's own description in its store is damaged");
}

/// Makes the table of blobs a tree in which every branch leads to the same page: few pages, and rows without number.
fn share_pages(store: &mut Vec<u8>, n_branches: &[u16]) {
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
    // The first table's root is the second page; each further level is a page of its own behind the last.
    store[PAGE..2 * PAGE].copy_from_slice(&branch_page(n_branches[0], first_new));
    let mut number = first_new;
    for n_cells in &n_branches[1..] {
        number += 1;
        store.extend_from_slice(&branch_page(*n_cells, number));
    }
    store.extend_from_slice(&leaf);
    store[28..32].copy_from_slice(&number.to_be_bytes());
}

#[test]
fn a_store_made_to_be_counted_for_ever_is_given_up() {
    let home = Home::after_turns(1);
    let mut bytes = fs::read(home.store_db()).unwrap();
    // Four million rows in three more pages; more levels would take years.
    share_pages(&mut bytes, &[500, 200, 40]);
    fs::write(home.store_db(), bytes).unwrap();
    let checkpoint = within(Duration::from_millis(20), home.store_db(), SESSION, read);
    assert_eq!(reason(&checkpoint), "the session's store could not be checked within 0 seconds");
}

#[expect(clippy::disallowed_methods, reason = "a test may be told where the captures are")]
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
        assert!(reason(&checkpoint).starts_with("of the conversation's"), "{checkpoint:?}");
        assert_eq!(
            (checkpoint.messages, checkpoint.turns),
            (n_messages, n_turns),
            "{checkpoint:?}"
        );
    }
}

#[test]
fn a_reader_that_does_not_come_back_is_left_behind() {
    let (release, released) = mpsc::channel::<()>();
    static RELEASED: std::sync::Mutex<Option<mpsc::Receiver<()>>> = std::sync::Mutex::new(None);
    *RELEASED.lock().unwrap() = Some(released);
    let checkpoint = within(Duration::from_millis(10), PathBuf::new(), SESSION, |_| {
        let released = RELEASED.lock().unwrap().take().unwrap();
        released.recv().ok();
        Finding::unreadable("late".to_owned())
    });
    assert_eq!(reason(&checkpoint), "the session's store could not be checked within 0 seconds");
    drop(release);
    let checkpoint = within(TIME_LIMIT, PathBuf::new(), SESSION, |_| panic!("a bug"));
    assert_eq!(reason(&checkpoint), "the check of the session's store failed");
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
