//! All the ways in which a resumed session could have lost its memory: Caretaker refuses before the agent starts, and
//! changes nothing.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use cursor_stores::chat::schema::ConversationStateStructure;
use cursor_stores::chat::{BlobId, ChatMeta, SubagentOrigin};
use pretty_assertions::assert_eq;
use prost::Message;
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::stage::{Stage, assert_exit, stderr};

/// A file's metadata that must not change: everything except the access time.
type Picture = BTreeMap<PathBuf, (u32, u64, u64, i64, i64)>;

fn picture(root: &Path) -> Picture {
    let mut picture = Picture::new();
    let mut rest = vec![root.to_owned()];
    while let Some(directory) = rest.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let facts = fs::symlink_metadata(&path).unwrap();
            if facts.is_dir() {
                rest.push(path.clone());
            }
            // Even readers of a write-ahead log write its index.
            if !path.to_string_lossy().ends_with("-shm") {
                let times = (facts.mtime(), facts.mtime_nsec());
                picture.insert(path, (facts.mode(), facts.len(), facts.ino(), times.0, times.1));
            }
        }
    }
    picture
}

/// A session, and a copy of its original state.
struct Matrix {
    stage: Stage,
    session: String,
    pristine: PathBuf,
}

impl Matrix {
    fn new() -> Self {
        let stage = Stage::new();
        let session = stage.begin_session();
        let pristine = stage.root().join("pristine");
        copy(&stage.session_dir(&session), &pristine);
        Self { stage, session, pristine }
    }

    fn directory(&self) -> PathBuf {
        self.stage.session_dir(&self.session)
    }

    fn store_db(&self) -> PathBuf {
        self.directory().join("store.db")
    }

    fn restore(&self) {
        fs::remove_dir_all(self.directory()).ok();
        copy(&self.pristine, &self.directory());
    }

    fn database(&self) -> Connection {
        Connection::open(self.store_db()).unwrap()
    }

    fn meta(&self) -> ChatMeta {
        let row: String =
            self.database().query_row("SELECT value FROM meta", [], |row| row.get(0)).unwrap();
        ChatMeta::from_row(row.as_bytes()).unwrap()
    }

    fn set_meta(&self, meta: &ChatMeta) {
        self.sql("UPDATE meta SET value = ?1", &[&meta.to_hex_row()]);
    }

    fn sql(&self, sql: &str, values: &[&dyn rusqlite::ToSql]) {
        let database = self.database();
        database.execute(sql, values).unwrap();
        database.close().unwrap();
    }

    fn root(&self) -> String {
        self.meta().fields()["latestRootBlobId"].as_str().unwrap().to_owned()
    }

    fn point_to(&self, data: &[u8], id: BlobId) {
        self.sql("INSERT INTO blobs VALUES (?1, ?2)", &[&id.to_string(), &data]);
        let mut meta = self.meta();
        meta.set_latest_root(id);
        self.set_meta(&meta);
    }

    /// Resumes the session with and without `--check`, and expects the same refusal.
    #[track_caller]
    fn refused(&self, what: &str, kind: &str, code: i32, change: impl Fn(&mut Command)) -> Value {
        let before = picture(&self.stage.root());
        let n_runs = self.stage.run_ids().len();
        let mut fastest = Duration::MAX;
        let mut answers = Vec::new();
        for flags in [&["--check"] as &[&str], &[]] {
            let args = [&["resume", "--agent", "simulated", "--json"], flags].concat();
            let mut command = self.stage.caretaker(&args);
            command.current_dir(self.stage.home());
            change(&mut command);
            let began = Instant::now();
            let output = command.output().unwrap();
            fastest = fastest.min(began.elapsed());
            assert_eq!(output.status.code(), Some(code), "{what}: {}", stderr(&output));
            let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(answer["reason"]["kind"], kind, "{what}: {answer}");
            assert_eq!(answer["exit_code"], code, "{what}: {answer}");
            assert!(stderr(&output).contains("hint: "), "{what}: {}", stderr(&output));
            answers.push(answer);
        }
        assert_eq!(answers[0], answers[1], "{what}");
        assert!(fastest < Duration::from_secs(1), "{what}: {fastest:?}");
        assert_eq!(self.stage.run_ids().len(), n_runs, "{what}: nothing was started");
        assert_eq!(picture(&self.stage.root()), before, "{what}: nothing was changed");
        answers.remove(0)
    }

    /// Like [`Self::refused`], but the session itself is at fault, so the list must say so too.
    #[track_caller]
    fn not_resumable(&self, what: &str, kind: &str) -> Value {
        self.listed_as_refused(what, kind);
        self.refused(what, kind, 6, |command| {
            command.arg(&self.session);
        })
    }

    /// The list must not call a session idle if a resume refuses it. It gives the reason, or says that the store is
    /// damaged.
    #[track_caller]
    fn listed_as_refused(&self, what: &str, kind: &str) {
        let mut command = self.stage.caretaker(&["sessions", "ls", "--all", "--json"]);
        let output = command.current_dir(self.stage.home()).output().unwrap();
        let listed: Value = serde_json::from_slice(&output.stdout).unwrap();
        let is_chat = |head: &&Value| {
            let origins = head["origins"].as_array().unwrap();
            let id = head["id"].as_str().unwrap();
            id.starts_with(&self.session) && origins.iter().any(|origin| origin["store"] == "cli")
        };
        let heads: Vec<&Value> =
            listed["sessions"].as_array().unwrap().iter().filter(is_chat).collect();
        assert!(!heads.is_empty() || kind == "another_kind", "{what}: {listed}");
        for head in heads {
            let activity = head["activity"].as_str().unwrap();
            match head.get("refused") {
                Some(reason) => assert_eq!(reason["kind"], kind, "{what}: {head}"),
                None => assert_eq!(activity, "damaged", "{what}: {head}"),
            }
            let stands = ["damaged", "no_checkpoint", "not_resumable"];
            assert!(stands.contains(&activity), "{what}: {head}");
        }
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

#[test]
fn each_kind_of_store_damage_has_its_own_refusal() {
    let matrix = Matrix::new();
    let root = matrix.root();

    matrix.sql("DELETE FROM meta", &[]);
    matrix.not_resumable("no meta row", "no_meta");
    matrix.restore();
    matrix.sql("UPDATE meta SET value = 'no hex'", &[]);
    matrix.not_resumable("an unreadable meta row", "meta_unreadable");

    matrix.restore();
    let mut meta = matrix.meta();
    meta.set("latestRootBlobId", "".into());
    matrix.set_meta(&meta);
    matrix.not_resumable("an empty root", "empty_root");

    matrix.restore();
    matrix.point_to(b"", BlobId::of(b""));
    matrix.not_resumable("a root without messages", "empty_root");

    // Another agent started a new conversation under the same id.
    matrix.restore();
    let any = matrix.database().query_row(
        "SELECT id FROM blobs WHERE data LIKE '{%' LIMIT 1",
        [],
        |row| row.get::<_, String>(0),
    );
    let other = [vec![0x0a, 0x20], any.unwrap().parse::<BlobId>().unwrap().to_vec()].concat();
    matrix.point_to(&other, BlobId::of(&other));
    let answer = matrix.not_resumable("another conversation", "diverged");
    assert_eq!(answer["reason"]["recorded"], root);

    matrix.restore();
    let mut meta = matrix.meta();
    meta.set_latest_root(BlobId::of(b"never written"));
    matrix.set_meta(&meta);
    matrix.not_resumable("a missing root", "missing_root");

    matrix.restore();
    matrix.point_to(b"other bytes", BlobId::of(b"some bytes"));
    matrix.not_resumable("a root with the wrong hash", "root_hash_mismatch");
    matrix.restore();
    matrix.point_to(b"\xff\xff", BlobId::of(b"\xff\xff"));
    matrix.not_resumable("an undecodable root", "root_undecodable");

    matrix.restore();
    let message = "DELETE FROM blobs WHERE data LIKE '{%' AND data LIKE '%The first turn.%'";
    matrix.sql(message, &[]);
    matrix.not_resumable("a missing message", "messages_missing");

    matrix.restore();
    let message = "UPDATE blobs SET data = replace(CAST(data AS TEXT), 'first', 'other') \
                   WHERE data LIKE '{%' AND data LIKE '%The first turn.%'";
    matrix.sql(message, &[]);
    matrix.not_resumable("a message with the wrong hash", "messages_damaged");

    // An earlier root still exists. The root that Caretaker saw was in a log that is now gone.
    matrix.restore();
    let mut meta = matrix.meta();
    let earlier = BlobId::of(b"");
    matrix.sql("INSERT INTO blobs VALUES (?1, x'')", &[&earlier.to_string()]);
    meta.set_latest_root(earlier);
    matrix.set_meta(&meta);
    matrix.sql("DELETE FROM blobs WHERE id = ?1", &[&root]);
    let answer = matrix.not_resumable("a lost log", "checkpoint_lost");
    assert_eq!(answer["reason"]["recorded"], root);

    // A young store has all its data in the log.
    fs::remove_dir_all(matrix.directory()).unwrap();
    fs::create_dir(matrix.directory()).unwrap();
    matrix.database().execute_batch("PRAGMA user_version = 7").unwrap();
    matrix.not_resumable("a log with all the data is gone", "checkpoint_lost");

    matrix.restore();
    let output = matrix.stage.output(&["resume", "--check", "--json", &matrix.session]);
    assert_exit(&output, 0);
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&answer["kind"], &answer["root"]), (&json!("resume.possible"), &json!(root)));
}

#[test]
fn a_check_warns_of_damage_that_verify_finds_although_the_session_can_be_resumed() {
    let matrix = Matrix::new();
    let check = || {
        let output = matrix.stage.output(&["resume", "--check", "--json", &matrix.session]);
        assert_exit(&output, 0);
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        answer["warnings"].clone()
    };
    assert_eq!(check(), json!([]));
    let root: Vec<u8> = matrix
        .database()
        .query_row("SELECT data FROM blobs WHERE id = ?1", [matrix.root()], |row| row.get(0))
        .unwrap();
    let root = ConversationStateStructure::decode(root.as_slice()).unwrap();
    let turn = BlobId::try_from(root.turns[0].as_slice()).unwrap().to_string();
    matrix.sql("DELETE FROM blobs WHERE id = ?1", &[&turn]);
    let missing = format!("{} is missing", &turn[..12]);
    assert!(check()[0].as_str().unwrap().starts_with(&missing), "{}", check());
    let output = matrix.stage.output(&["resume", "--check", &matrix.session]);
    assert_eq!(output.status.code(), Some(0));
    assert!(stderr(&output).contains(&format!("warning: {missing}")), "{}", stderr(&output));
    let verified = matrix.stage.output(&["sessions", "verify", &matrix.session]);
    assert_eq!(verified.status.code(), Some(1), "verify agrees");
}

#[test]
fn verify_and_repair_see_a_checkpoint_without_a_conversation_as_a_resume_does() {
    let matrix = Matrix::new();
    let root = matrix.root();
    matrix.point_to(b"", BlobId::of(b""));
    let why = matrix.not_resumable("a root without messages", "empty_root")["why"].clone();
    let verified = matrix.stage.output(&["sessions", "verify", "--json", &matrix.session]);
    assert_exit(&verified, 1);
    let verified: Value = serde_json::from_slice(&verified.stdout).unwrap();
    let finding = &verified["sessions"][0]["findings"][0];
    assert_eq!(finding, &json!({"kind": "not_resumable", "why": {"kind": "empty_root"}}));
    let told = matrix.stage.output(&["sessions", "verify", &matrix.session]);
    let told = String::from_utf8(told.stdout).unwrap();
    assert!(told.contains(why.as_str().unwrap()), "{told}");
    let repaired = matrix.stage.output(&["sessions", "repair", "--yes", &matrix.session]);
    assert_exit(&repaired, 0);
    assert_eq!(matrix.root(), root);
    let checked = matrix.stage.output(&["resume", "--check", &matrix.session]);
    assert_exit(&checked, 0);
}

#[test]
fn each_thing_in_place_of_a_store_has_its_own_refusal() {
    let matrix = Matrix::new();
    let store = matrix.store_db();
    let replace = |make: &dyn Fn()| {
        fs::remove_file(&store).or_else(|_| fs::remove_dir(&store)).unwrap();
        make();
    };
    replace(&|| fs::create_dir(&store).unwrap());
    matrix.not_resumable("a directory", "not_a_plain_file");
    replace(&|| symlink(matrix.pristine.join("store.db"), &store).unwrap());
    matrix.not_resumable("a link", "not_a_plain_file");
    replace(&|| assert!(Command::new("mkfifo").arg(&store).status().unwrap().success()));
    matrix.not_resumable("a FIFO", "not_a_plain_file");
    replace(&|| fs::write(&store, "garbage".repeat(1000)).unwrap());
    matrix.not_resumable("garbage", "not_a_database");
    replace(&|| fs::File::create(&store).unwrap().set_len(20 << 30).unwrap());
    matrix.not_resumable("a sparse file of 20 GB", "not_a_database");
    replace(&|| fs::write(&store, "").unwrap());
    matrix.not_resumable("an empty file", "empty_file");
    fs::remove_file(&store).unwrap();
    matrix.not_resumable("no store", "no_store");
}

#[test]
fn each_wrong_place_has_its_own_refusal() {
    let matrix = Matrix::new();
    let (stage, session) = (&matrix.stage, &matrix.session);
    let unknown = "3f2504e0-4f89-41d3-9a0c-0305e82c3301";
    matrix.refused("an unknown id", "unknown_session", 3, |command| {
        command.arg(unknown);
    });

    let other = stage.home().join("other");
    fs::create_dir(&other).unwrap();
    let answer = matrix.refused("another directory", "other_workspace", 6, |command| {
        command.arg(session).arg("--workspace").arg(&other);
    });
    assert_eq!(answer["reason"]["actual"], json!(stage.workspace()));

    let elsewhere = stage.home().join("elsewhere");
    let answer = matrix.refused("another config root", "other_config_root", 6, |command| {
        command.arg(session).env("CURSOR_CONFIG_DIR", &elsewhere);
    });
    assert_eq!(answer["reason"]["recorded"], json!(stage.home().join(".cursor")));
    assert_eq!(answer["reason"]["present"], json!(elsewhere));

    let bucket = cursor_home::WorkspacePath::new(&other).unwrap().bucket();
    let copied = stage.home().join(".cursor/chats").join(bucket).join(session);
    copy(&matrix.pristine, &copied);
    matrix.not_resumable("one id in two buckets", "several_buckets");
    fs::remove_dir_all(&copied).unwrap();

    let moved = stage.home().join("moved");
    fs::rename(stage.workspace(), &moved).unwrap();
    let answer = matrix.not_resumable("a workspace that is gone", "workspace_gone");
    assert_eq!(answer["reason"]["recorded"], json!(stage.workspace()));
    matrix.refused("a workspace that moved", "workspace_moved", 6, |command| {
        command.arg(session).arg("--workspace").arg(&moved);
    });
    symlink(&moved, stage.workspace()).unwrap();
    matrix.not_resumable("a workspace that became a link", "bucket_mismatch");
    fs::remove_file(stage.workspace()).unwrap();
    fs::rename(&moved, stage.workspace()).unwrap();

    let mut meta = matrix.meta();
    let parent = Some("9d1f".to_owned());
    let origin = SubagentOrigin { parent_agent_id: parent, ..SubagentOrigin::default() };
    meta.set_subagent_origin(&origin);
    matrix.set_meta(&meta);
    let answer = matrix.not_resumable("a sub-agent's session", "subagent");
    assert_eq!(answer["reason"]["parent"], "9d1f");
    matrix.restore();

    let acp = stage.home().join(".cursor/acp-sessions").join(session);
    fs::create_dir_all(acp.parent().unwrap()).unwrap();
    fs::rename(matrix.directory(), &acp).unwrap();
    let answer = matrix.not_resumable("an ACP session", "another_kind");
    assert!(answer["hint"].as_str().unwrap().contains("sessions fork"), "{answer}");
}

#[test]
fn a_writer_of_the_store_is_named_and_readers_do_not_matter() {
    let matrix = Matrix::new();
    let writer = matrix.database();
    writer.execute("UPDATE meta SET value = value", []).unwrap();
    let answer = matrix.refused("a writer", "held_by_process", 4, |command| {
        command.arg(&matrix.session);
    });
    assert_eq!(answer["reason"]["pid"], json!(std::process::id()));
    // The log stays, as after a kill. A reader still opens it for writing.
    let kept = matrix.stage.root().join("kept");
    copy(&matrix.directory(), &kept);
    writer.close().unwrap();
    fs::remove_dir_all(matrix.directory()).unwrap();
    copy(&kept, &matrix.directory());
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
    let reader = Connection::open_with_flags(matrix.store_db(), flags).unwrap();
    let n_blobs: i64 =
        reader.query_row("SELECT count(*) FROM blobs", [], |row| row.get(0)).unwrap();
    assert!(n_blobs > 0);
    let log = matrix.store_db().with_file_name("store.db-wal");
    let is_open = fs::read_dir("/proc/self/fd").unwrap().any(|descriptor| {
        fs::read_link(descriptor.unwrap().path()).is_ok_and(|target| target == log)
    });
    assert!(is_open, "the reader has the log open");
    let output = matrix.stage.output(&["resume", "--check", &matrix.session]);
    assert_exit(&output, 0);
    drop(reader);
}

#[test]
fn links_and_repositories_around_the_workspace_do_not_break_a_resume() {
    let stage = Stage::new();
    let session = stage.begin_session();
    let link = stage.home().join("link");
    symlink(stage.workspace(), &link).unwrap();
    // The agent does not see its workspace's parent, so for the agent the workspace is not part of that repository.
    let git = Command::new("git").args(["init", "-q"]).arg(stage.home()).status();
    if !git.is_ok_and(|status| status.success()) {
        fs::create_dir(stage.home().join(".git")).unwrap();
    }
    let output = stage.resume(&session, "recall", &["--workspace", link.to_str().unwrap()]);
    assert_exit(&output, 0);
    assert!(String::from_utf8_lossy(&output.stdout).contains("The first turn."));
}
