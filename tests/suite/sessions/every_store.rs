//! The real program reads every kind of Cursor store in one home: it finds everything, changes nothing, and shows no
//! secret.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use cursor_stores::chat::schema::ConversationStateStructure;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use store_fixtures::chat::{Chat, Generation, Planted, StoreWriter, Turn, planted_chat};
use store_fixtures::ide::{IdeHome, assistant_bubble, composer, header, plant, user_bubble};
use store_fixtures::ide_old::{StateDirectory, Storage, every_row};
use store_fixtures::sdk;
use store_fixtures::transcript::{
    Layout, Line, TranscriptProject, as_jsonl, every_line, prompt, turn_succeeded,
};
use store_fixtures::{Closing, open_writer};

use crate::stage::Stage;

/// These words are only in credentials. No output may contain one.
const SECRETS: [&str; 3] = ["5ec2e7", "sk-of-the-mcp-server", "0badc0de0badc0de"];

pub(crate) fn user_dir(stage: &Stage) -> PathBuf {
    stage.home().join(".config/Cursor/User")
}

/// Writes a conversation into every kind of store, with a unique word in every field, and returns the words.
pub(crate) fn plant_everywhere(stage: &Stage) -> Vec<(String, String)> {
    let cursor = stage.home().join(".cursor");
    let mut cli = Planted::default();
    planted_chat(&cursor.join("chats"), "c11c11c1-0000-4000-8000-000000000001", &mut cli);
    let mut words: Vec<(String, String)> =
        cli.words.into_iter().map(|(word, field)| (word, format!("cli {field}"))).collect();

    let acp = Chat::new(Generation::Sep2026, "ac9ac9ac-0000-4000-8000-000000000001")
        .with_turns(vec![Turn::plain("plantedacp1x", "plantedacp2x")]);
    acp.write_acp(&cursor.join("acp-sessions"), Closing::Clean);
    words.extend([("plantedacp1x", "acp prompt"), ("plantedacp2x", "acp answer")].map(owned));

    for planted in plant(&user_dir(stage), "plantedide") {
        words.push((planted.word, format!("ide {}", planted.place)));
    }

    let mut n_words = 0;
    let mut word_of = |store: &str, field: &str| {
        n_words += 1;
        let word = format!("planted{store}{n_words}x");
        words.push((word.clone(), format!("{store} {field}")));
        word
    };
    let old = StateDirectory::workspace(&user_dir(stage), "0123456789abcdef0123456789abcdef");
    old.folder("file:///srv/app");
    let rows = every_row(&mut |field| word_of("old", field));
    old.rows(&rows, Storage::Blob, Closing::Clean);

    let project = TranscriptProject::new(&cursor.join("projects"), "srv-app");
    for (number, layout) in [Layout::Nested, Layout::Flat].into_iter().enumerate() {
        let id = format!("7a7a7a7a-0000-4000-8000-00000000000{number}");
        let lines = every_line(&mut |field| word_of("transcript", field));
        project.transcript(layout, &id, &lines);
    }

    let agent = sdk::planted_agent("agent-5d5d5d5d", &mut |field| word_of("sdk", field));
    let store = sdk::state_root(&cursor.join("projects"), "/srv/app");
    sdk::write_database(&store, sdk::Generation::September2026, &[agent], Closing::Clean);
    words
}

fn owned((word, field): (&str, &str)) -> (String, String) {
    (word.to_owned(), field.to_owned())
}

/// Puts credentials where Cursor keeps them.
fn plant_secrets(stage: &Stage) {
    let servers = json!({"mcpServers": {"x": {"command": "x", "env": {"KEY": SECRETS[1]}}}});
    fs::write(stage.home().join(".cursor/mcp.json"), servers.to_string()).unwrap();
    let directory = stage.home().join(
        ".cursor/chats/0123456789abcdef0123456789abcdef/5ec5ec5e-0000-4000-8000-000000000001",
    );
    let mut store =
        StoreWriter::create(&directory, "5ec5ec5e-0000-4000-8000-000000000001", 1_790_000_000_000);
    store.set_meta("blobEncryptionKey", SECRETS[2].repeat(4));
    let message =
        store.put_json(&json!({"role": "user", "content": "<user_query>\nhush\n</user_query>"}));
    store.put_root(&ConversationStateStructure {
        root_prompt_messages_json: vec![message],
        ..ConversationStateStructure::default()
    });
    store.close(Closing::Clean);
}

/// Returns the state of a directory tree: every file with its size, content and times, every directory with its time.
pub(crate) fn picture(directory: &Path) -> BTreeMap<PathBuf, (u64, i64, i64, Vec<u8>)> {
    let mut picture = BTreeMap::new();
    let mut rest = vec![directory.to_owned()];
    while let Some(path) = rest.pop() {
        let metadata = fs::symlink_metadata(&path).unwrap();
        let content = if metadata.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
        if metadata.is_dir() {
            rest.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        let times = (metadata.mtime(), metadata.mtime_nsec());
        picture.insert(path, (metadata.len(), times.0, times.1, content));
    }
    picture
}

fn found_words(stage: &Stage, words: &[(String, String)], flags: &[&str]) -> Vec<String> {
    let (one, other) = words.split_at(words.len() / 2);
    let look = |words: &[(String, String)]| -> Vec<String> {
        let is_missing = |(word, _): &&(String, String)| {
            let output =
                stage.output(&[&["sessions", "search", "--json"], flags, &[word]].concat());
            !String::from_utf8_lossy(&output.stdout)
                .to_lowercase()
                .contains(&format!("\"found\":\"{word}\""))
        };
        words.iter().filter(is_missing).map(|(word, field)| format!("{field}: {word}")).collect()
    };
    std::thread::scope(|scope| {
        let one = scope.spawn(|| look(one));
        let mut missing = look(other);
        missing.extend(one.join().unwrap());
        missing
    })
}

#[test]
fn a_word_in_any_field_of_any_store_is_found_with_and_without_an_index() {
    let stage = Stage::new();
    let words = plant_everywhere(&stage);
    assert!(words.len() > 100, "{} words", words.len());
    assert_eq!(found_words(&stage, &words, &[]), Vec::<String>::new(), "without an index");
    stage.output(&["sessions", "search", "--index", "anything"]);
    assert_eq!(found_words(&stage, &words, &[]), Vec::<String>::new(), "with an index");
}

#[test]
fn no_command_shows_a_secret_or_changes_a_byte() {
    let stage = Stage::new();
    plant_everywhere(&stage);
    plant_secrets(&stage);
    let before = picture(&stage.home());
    let listed = stage.output(&["sessions", "ls", "--all", "-q"]);
    let ids = String::from_utf8(listed.stdout).unwrap();
    let out = stage.root().join("out");
    let out = out.to_str().unwrap();
    let mut commands: Vec<Vec<&str>> = vec![
        vec!["sessions", "ls", "--all", "--json"],
        vec!["sessions", "stores"],
        vec!["sessions", "stores", "--json"],
        vec!["sessions", "stats", "--json"],
        vec!["sessions", "search", "5ec2e7", "--json"],
        vec!["sessions", "search", "0badc0de", "--json"],
        vec!["sessions", "search", "of-the-mcp-server", "--json"],
        vec!["sessions", "export", "--all", "--format", "json", "-o", out],
    ];
    for id in ids.lines() {
        commands.push(vec!["sessions", "show", id, "--full", "--orphans"]);
        commands.push(vec!["sessions", "show", id, "--json", "--orphans"]);
        commands.push(vec!["sessions", "show", id, "--raw", "--orphans"]);
    }
    assert!(ids.lines().count() >= 8, "{ids}");
    for command in commands {
        let output = stage.output(&command);
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        for secret in SECRETS {
            // The command may repeat the words that the user searched for.
            assert!(
                !text.contains(secret) || command.contains(&"search") && !text.contains("snippet"),
                "{command:?} shows {secret}: {text}"
            );
        }
    }
    for entry in fs::read_dir(stage.root().join("out")).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        for secret in SECRETS {
            assert!(!text.contains(secret), "{secret} in an export");
        }
    }
    let after = picture(&stage.home());
    assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
    assert!(before == after, "reading changed something");
}

/// Turns every database of a home into one whose writer was killed: its newest rows are only in the log.
fn kill_the_writers(directory: &Path) -> usize {
    let is_database = |path: &PathBuf| {
        path.extension().is_some_and(|extension| extension == "db" || extension == "vscdb")
    };
    let databases: Vec<PathBuf> = picture(directory).into_keys().filter(is_database).collect();
    for path in &databases {
        let writer = open_writer(path);
        writer
            .execute_batch("PRAGMA wal_autocheckpoint = 0; CREATE TABLE left_behind (word TEXT);")
            .unwrap();
        store_fixtures::close(writer, path, Closing::Killed);
    }
    databases.len()
}

#[test]
fn reading_the_stores_of_a_killed_writer_changes_no_byte_no_time_and_no_directory() {
    for has_shm in [true, false] {
        let stage = Stage::new();
        let words = plant_everywhere(&stage);
        // The databases of the command line, ACP, the old and new IDE with its workspaces, and the SDK's index and
        // agents.
        assert!(kill_the_writers(&stage.home()) >= 6);
        if !has_shm {
            for path in picture(&stage.home()).into_keys() {
                if path.to_string_lossy().ends_with("-shm") {
                    fs::remove_file(path).unwrap();
                }
            }
        }
        let before = picture(&stage.home());
        let is_log = |path: &&PathBuf| path.to_string_lossy().ends_with("-wal");
        assert!(before.keys().filter(is_log).count() >= 6);
        let listed = stage.output(&["sessions", "ls", "--all", "-q"]);
        let ids = String::from_utf8(listed.stdout).unwrap();
        assert!(ids.lines().count() >= 8, "{ids}");
        let out = stage.root().join("out");
        let mut commands: Vec<Vec<&str>> = vec![
            vec!["sessions", "stores"],
            vec!["sessions", "stats", "--json"],
            vec!["sessions", "search", &words[0].0, "--json"],
            vec!["sessions", "export", "--all", "--format", "json", "-o", out.to_str().unwrap()],
        ];
        for id in ids.lines() {
            commands.push(vec!["sessions", "show", id, "--json"]);
            commands.push(vec!["sessions", "tail", id]);
            commands.push(vec!["sessions", "verify", id]);
            commands.push(vec!["resume", id, "--check"]);
        }
        for command in commands {
            stage.output(&command);
            let after = picture(&stage.home());
            let changed: Vec<&PathBuf> = before
                .keys()
                .chain(after.keys())
                .filter(|path| before.get(*path) != after.get(*path))
                .collect();
            assert_eq!(changed, Vec::<&PathBuf>::new(), "{command:?}");
        }
    }
}

/// A conversation that `sessions tail -f` follows.
pub(crate) struct Tail {
    child: Child,
    lines: Receiver<Value>,
}

impl Tail {
    pub(crate) fn start(stage: &Stage, which: &str) -> Self {
        let mut child = stage
            .caretaker(&["sessions", "tail", which, "-f", "--json"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, lines) = mpsc::channel();
        let stdout = child.stdout.take().unwrap();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                sender.send(serde_json::from_str(&line).unwrap()).ok();
            }
        });
        Self { child, lines }
    }

    /// Waits for a message with this word, and skips those before it.
    pub(crate) fn wait_for(&self, word: &str) -> Duration {
        let start = Instant::now();
        loop {
            let line = self
                .lines
                .recv_timeout(Duration::from_secs(30))
                .unwrap_or_else(|_| panic!("{word} never arrived"));
            if line.to_string().contains(word) {
                return start.elapsed();
            }
        }
    }

    /// Returns true if a message with this word arrives in time.
    pub(crate) fn shows_within(&self, word: &str, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) if line.to_string().contains(word) => return true,
                Ok(_) => {}
                Err(_) => return false,
            }
        }
    }

    /// Returns all other messages so far.
    pub(crate) fn rest(&self) -> Vec<String> {
        self.lines.try_iter().map(|line| line.to_string()).collect()
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Follows a conversation while `write` adds one word after another, and checks that each arrives once.
fn follow(stage: &Stage, id: &str, mut write: impl FnMut(&str)) {
    let tail = Tail::start(stage, id);
    tail.wait_for("firstword");
    for word in ["secondword", "thirdword"] {
        write(word);
        let took = tail.wait_for(word);
        eprintln!("{id}: {word} arrived after {took:?}");
        assert!(!tail.rest().iter().any(|line| line.contains(word)), "{word} arrived twice");
    }
}

#[test]
fn a_chat_is_followed_while_another_process_writes_it() {
    let stage = Stage::new();
    let id = "f0110f01-0000-4000-8000-000000000001";
    let directory = stage.home().join(".cursor/chats/0123456789abcdef0123456789abcdef").join(id);
    let mut store = StoreWriter::create(&directory, id, 1_790_000_000_000);
    let mut root = ConversationStateStructure::default();
    let mut write = |word: &str| {
        let message =
            json!({"role": "user", "content": format!("<user_query>\n{word}\n</user_query>")});
        root.root_prompt_messages_json.push(store.put_json(&message));
        store.put_root(&root);
    };
    write("firstword");
    follow(&stage, id, write);
}

#[test]
fn a_conversation_in_the_ide_is_followed() {
    let stage = Stage::new();
    let id = "f0110f02-0000-4000-8000-000000000001";
    let home = IdeHome::new(&user_dir(&stage));
    let mut headers = Vec::new();
    let mut write = |word: &str| {
        let bubble =
            if headers.is_empty() { user_bubble(word, word) } else { assistant_bubble(word, word) };
        headers.push(header(&bubble));
        home.put_bubble(id, &bubble);
        home.connection()
            .execute("DELETE FROM cursorDiskKV WHERE key = ?1", [format!("composerData:{id}")])
            .unwrap();
        home.put(&format!("composerData:{id}"), &composer(id, 16, &headers));
    };
    write("firstword");
    follow(&stage, id, write);
}

#[test]
fn an_sdk_agent_is_followed() {
    let stage = Stage::new();
    let id = "agent-f0110f03-0000-4000-8000-000000000001";
    let store = sdk::state_root(&stage.home().join(".cursor/projects"), "/srv/app");
    let run = sdk::Run::new("run-1", vec![sdk::events::user("firstword")]);
    let agent = sdk::Agent::new(id, "/srv/app").with(run);
    sdk::write_database(&store, sdk::Generation::September2026, &[agent], Closing::Clean);
    let writer = open_writer(&store.join("index.db"));
    let mut seq = 100;
    follow(&stage, id, |word| {
        seq += 1;
        let payload = json!({"schemaVersion": 1, "type": "sdk_message", "agentId": id, "runId": "run-1", "message": {
            "type": "thinking", "agent_id": id, "run_id": "run-1", "text": word, "thinking_duration_ms": 5}});
        writer
            .execute(
                "INSERT INTO run_events (run_id, seq, offset, event_type, payload_json, created_at) VALUES ('run-1', ?1, ?1, 'run_stream_event', ?2, '2026-07-01T00:00:00.000Z')",
                (seq, payload.to_string()),
            )
            .unwrap();
    });
}

#[test]
fn a_transcript_is_followed_even_if_it_is_rewritten() {
    let stage = Stage::new();
    let id = "f0110f04-0000-4000-8000-000000000001";
    let project = TranscriptProject::new(&stage.home().join(".cursor/projects"), "srv-app");
    let mut lines =
        vec![prompt("Tuesday, Jul 21, 2026, 3:04 PM (UTC+2)", "firstword"), turn_succeeded()];
    let path = project.transcript(Layout::Nested, id, &lines);
    let mut n_written = 0;
    follow(&stage, id, |word| {
        let line = Line::AssistantString(word.to_owned());
        n_written += 1;
        if n_written == 1 {
            // On a resume, the command line rewrites the whole file, with a single end line.
            lines.insert(1, line);
            fs::write(&path, as_jsonl(&lines)).unwrap();
        } else {
            let mut content = fs::read_to_string(&path).unwrap();
            content.push_str(&as_jsonl(&[line]));
            fs::write(&path, content).unwrap();
        }
    });
}
