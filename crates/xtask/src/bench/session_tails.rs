//! The time from the commit of a message until `sessions tail -f` shows it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde::Serialize;
use serde_json::json;
use store_fixtures::chat::{ConversationStateStructure, StoreWriter};
use store_fixtures::ide::{IdeHome, assistant_bubble, composer, header};
use store_fixtures::transcript::{Layout, Line, TranscriptProject};
use store_fixtures::{Closing, open_writer, sdk};

use super::sessions::high_water;

const N_MESSAGES: usize = 20;
/// The bench fails if a message takes longer to appear.
const PATIENCE: Duration = Duration::from_secs(30);
const ID: &str = "f0110f01-0000-4000-8000-000000000001";
const BUCKET: &str = "0123456789abcdef0123456789abcdef";

/// Commits a word to a store.
type Write = Box<dyn FnMut(&str)>;

#[derive(Debug, Serialize)]
pub(crate) struct Tail {
    pub(crate) name: &'static str,
    pub(crate) median_ms: f64,
    pub(crate) worst_ms: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) promised_ms: Option<f64>,
    pub(crate) peak_memory_kib: u64,
}

/// Follows one conversation in each kind of store. This process writes them.
pub(crate) fn measure(scratch: &Path, caretaker: &Path) -> anyhow::Result<Vec<Tail>> {
    let home = scratch.join("tail");
    let path = |name: &str| home.join(name);
    let stores: [(&'static str, PathBuf, Write); 4] = [
        ("a chat of the command line", path("chat"), Box::new(chat_writer(&path("chat")))),
        ("a conversation of the IDE", path("ide"), Box::new(ide_writer(&path("ide")))),
        ("an agent of the SDK", path("sdk"), Box::new(sdk_writer(&path("sdk")))),
        ("a transcript", path("transcript"), Box::new(transcript_writer(&path("transcript")))),
    ];
    let mut tails = Vec::new();
    for (name, home, mut write) in stores {
        write("begin");
        tails.push(follow(name, &home, caretaker, &[ID, "-f"], write)?);
    }
    fs::remove_dir_all(home)?;
    Ok(tails)
}

/// Follows the ten thousand chats of a home, and writes to one of them.
pub(crate) fn measure_all(home: &Path, caretaker: &Path) -> anyhow::Result<Tail> {
    let mut write = chat_writer(home);
    write("begin");
    let name = "a chat among 10,000, --all";
    let tail = follow(name, home, caretaker, &["--all", "-f"], write)?;
    Ok(Tail { promised_ms: None, ..tail })
}

fn chat_writer(home: &Path) -> impl FnMut(&str) + use<> {
    let directory = home.join(".cursor/chats").join(BUCKET).join(ID);
    let mut store = StoreWriter::create(&directory, ID, 1_790_000_000_000);
    let mut root = ConversationStateStructure::default();
    move |word: &str| {
        let message =
            json!({"role": "user", "content": format!("<user_query>\n{word}\n</user_query>")});
        root.root_prompt_messages_json.push(store.put_json(&message));
        store.put_root(&root);
    }
}

fn ide_writer(home: &Path) -> impl FnMut(&str) + use<> {
    let ide = IdeHome::new(&home.join(".config/Cursor/User"));
    let mut headers = Vec::new();
    move |word: &str| {
        let bubble = assistant_bubble(word, word);
        headers.push(header(&bubble));
        ide.put_bubble(ID, &bubble);
        ide.put(&format!("composerData:{ID}"), &composer(ID, 16, &headers));
    }
}

fn sdk_writer(home: &Path) -> impl FnMut(&str) + use<> {
    let store = sdk::state_root(&home.join(".cursor/projects"), "/srv/app");
    let agent = sdk::Agent::new(ID, "/srv/app").with(sdk::Run::new("run-1", Vec::new()));
    sdk::write_database(&store, sdk::Generation::September2026, &[agent], Closing::Clean);
    let writer = open_writer(&store.join("index.db"));
    let mut seq = 100;
    move |word: &str| {
        seq += 1;
        let payload = json!({"schemaVersion": 1, "type": "sdk_message", "agentId": ID, "runId": "run-1", "message": {
            "type": "thinking", "agent_id": ID, "run_id": "run-1", "text": word, "thinking_duration_ms": 5}});
        let sql = "INSERT INTO run_events (run_id, seq, offset, event_type, payload_json, created_at) \
                   VALUES ('run-1', ?1, ?1, 'run_stream_event', ?2, '2026-07-01T00:00:00.000Z')";
        // If the write fails, the message never appears, and the bench fails.
        writer.execute(sql, (seq, payload.to_string())).ok();
    }
}

fn transcript_writer(home: &Path) -> impl FnMut(&str) + use<> {
    let project = TranscriptProject::new(&home.join(".cursor/projects"), "srv-app");
    let mut lines = Vec::new();
    move |word: &str| {
        lines.push(Line::AssistantString(word.to_owned()));
        project.transcript(Layout::Nested, ID, &lines);
    }
}

/// Writes words one after the other, and measures the time until each is shown.
fn follow(
    name: &'static str,
    home: &Path,
    caretaker: &Path,
    args: &[&str],
    mut write: impl FnMut(&str),
) -> anyhow::Result<Tail> {
    let mut follower = Follower::start(home, caretaker, args)?;
    let mut times = Vec::with_capacity(N_MESSAGES);
    // The follower is ready once it shows a first word; before that, it may still be reading older messages.
    let mut n_before = 0;
    let ready = Instant::now();
    while !follower.shows(&format!("ready{n_before}word"), Duration::from_secs(2)) {
        ensure!(ready.elapsed() < PATIENCE, "{name}: nothing was shown");
        n_before += 1;
        write(&format!("ready{n_before}word"));
    }
    for number in 0..N_MESSAGES {
        let word = format!("measured{number}word");
        let start = Instant::now();
        write(&word);
        ensure!(follower.shows(&word, PATIENCE), "{name}: {word} was never shown");
        times.push(start.elapsed().as_secs_f64() * 1000.0);
    }
    let peak_memory_kib = high_water(follower.child.id()).unwrap_or(0);
    times.sort_by(f64::total_cmp);
    let median_ms = times[times.len() / 2];
    let worst_ms = times.last().copied().unwrap_or(f64::NAN);
    follower.stop();
    Ok(Tail { name, median_ms, worst_ms, promised_ms: Some(300.0), peak_memory_kib })
}

struct Follower {
    child: Child,
    lines: Receiver<String>,
}

impl Follower {
    fn start(home: &Path, caretaker: &Path, args: &[&str]) -> anyhow::Result<Self> {
        let mut child = Command::new(caretaker)
            .args(["sessions", "tail", "--json"])
            .args(args)
            .env_clear()
            .env("HOME", home)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("caretaker could not be started")?;
        let stdout = child.stdout.take().context("it has no output")?;
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Self { child, lines })
    }

    fn shows(&self, word: &str, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) if line.contains(word) => return true,
                Ok(_) => {}
                Err(_) => return false,
            }
        }
    }

    fn stop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.stop();
    }
}
