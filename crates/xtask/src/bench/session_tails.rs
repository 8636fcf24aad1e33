//! The time from the commit of a message until `sessions tail -f` shows it.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::json;
use store_fixtures::chat::{ConversationStateStructure, StoreWriter};
use store_fixtures::ide::{IdeHome, assistant_bubble, composer, header};
use store_fixtures::transcript::{Layout, Line, TranscriptProject};
use store_fixtures::{Closing, open_writer, sdk};

use super::figures::Figures;
use super::stage::{Stage, memory_kib, quantile};

const N_MESSAGES: usize = 20;
/// The bench fails if a message takes longer to appear.
const PATIENCE: Duration = Duration::from_secs(30);
const ID: &str = "f0110f01-0000-4000-8000-000000000001";
const BUCKET: &str = "0123456789abcdef0123456789abcdef";

/// Commits a word to a store.
type Write = Box<dyn FnMut(&str)>;
/// Makes a store in a home.
type Writer = fn(&Path) -> Write;

/// Follows one conversation in each kind of store, and one of the chats in `many`. This process writes them.
pub(super) fn measure(figures: &mut Figures, many: &Stage, scratch: &Path) -> anyhow::Result<()> {
    figures.section("sessions tail -f: from another process's commit to the line that shows it");
    let kinds: [(&str, Writer); 4] = [
        ("a command-line chat", chat_writer),
        ("an IDE conversation", ide_writer),
        ("an SDK agent", sdk_writer),
        ("a transcript", transcript_writer),
    ];
    for (name, writer) in kinds {
        let stage = Stage::new(scratch, &many.caretaker)?;
        follow(figures, name, &stage, &[ID, "-f"], writer(&stage.home()), Some(300.0))?;
    }
    let write = chat_writer(&many.home());
    follow(figures, "a chat among 10,000, --all", many, &["--all", "-f"], write, None)
}

fn chat_writer(home: &Path) -> Write {
    let directory = home.join(".cursor/chats").join(BUCKET).join(ID);
    let mut store = StoreWriter::create(&directory, ID, 1_790_000_000_000);
    let mut root = ConversationStateStructure::default();
    Box::new(move |word: &str| {
        let message =
            json!({"role": "user", "content": format!("<user_query>\n{word}\n</user_query>")});
        root.root_prompt_messages_json.push(store.put_json(&message));
        store.put_root(&root);
    })
}

fn ide_writer(home: &Path) -> Write {
    let ide = IdeHome::new(&home.join(".config/Cursor/User"));
    let mut headers = Vec::new();
    Box::new(move |word: &str| {
        let bubble = assistant_bubble(word, word);
        headers.push(header(&bubble));
        ide.put_bubble(ID, &bubble);
        ide.put(&format!("composerData:{ID}"), &composer(ID, 16, &headers));
    })
}

fn sdk_writer(home: &Path) -> Write {
    let store = sdk::state_root(&home.join(".cursor/projects"), "/srv/app");
    let agent = sdk::Agent::new(ID, "/srv/app").with(sdk::Run::new("run-1", Vec::new()));
    sdk::write_database(&store, sdk::Generation::September2026, &[agent], Closing::Clean);
    let writer = open_writer(&store.join("index.db"));
    let mut seq = 100;
    Box::new(move |word: &str| {
        seq += 1;
        let payload = json!({"schemaVersion": 1, "type": "sdk_message", "agentId": ID, "runId": "run-1", "message": {
            "type": "thinking", "agent_id": ID, "run_id": "run-1", "text": word, "thinking_duration_ms": 5}});
        let sql = "INSERT INTO run_events (run_id, seq, offset, event_type, payload_json, created_at) \
                   VALUES ('run-1', ?1, ?1, 'run_stream_event', ?2, '2026-07-01T00:00:00.000Z')";
        // If the write fails, the message never appears, and the bench fails.
        writer.execute(sql, (seq, payload.to_string())).ok();
    })
}

fn transcript_writer(home: &Path) -> Write {
    let project = TranscriptProject::new(&home.join(".cursor/projects"), "srv-app");
    let mut lines = Vec::new();
    Box::new(move |word: &str| {
        lines.push(Line::AssistantString(word.to_owned()));
        project.transcript(Layout::Nested, ID, &lines);
    })
}

/// Writes words one after another, and measures the time until each appears.
fn follow(
    figures: &mut Figures,
    name: &str,
    stage: &Stage,
    args: &[&str],
    mut write: Write,
    promised_ms: Option<f64>,
) -> anyhow::Result<()> {
    write("begin");
    let follower = Follower::start(stage, args)?;
    // The follower is ready once it shows a first word; before that, it may still be reading older messages.
    let mut n_before = 0;
    let ready = Instant::now();
    while !follower.shows(&format!("ready{n_before}word"), Duration::from_secs(2)) {
        ensure!(ready.elapsed() < PATIENCE, "{name}: nothing was shown");
        n_before += 1;
        write(&format!("ready{n_before}word"));
    }
    let mut times = Vec::with_capacity(N_MESSAGES);
    for number in 0..N_MESSAGES {
        let word = format!("measured{number}word");
        let start = Instant::now();
        write(&word);
        ensure!(follower.shows(&word, PATIENCE), "{name}: {word} was never shown");
        times.push(start.elapsed().as_secs_f64() * 1000.0);
    }
    let peak_kib = memory_kib(follower.child.id(), "VmHWM:")?;
    let section = figures.section(name);
    section.row("median", quantile(times.clone(), 0.5), "ms");
    let worst = section.row("worst", quantile(times, 1.0), "ms");
    promised_ms.into_iter().for_each(|promised| worst.at_most(promised));
    section.row("peak memory", peak_kib as f64 / 1024.0, "MiB");
    Ok(())
}

struct Follower {
    child: Child,
    lines: Receiver<String>,
}

impl Follower {
    fn start(stage: &Stage, args: &[&str]) -> anyhow::Result<Self> {
        let args = [&["sessions", "tail", "--json"], args].concat();
        let mut command = stage.command(&stage.home(), &args);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let stdout = child.stdout.take().context("it has no output")?;
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            let mut lines = BufReader::new(stdout).lines().map_while(Result::ok);
            lines.try_for_each(|line| sender.send(line)).ok();
        });
        Ok(Self { child, lines })
    }

    fn shows(&self, word: &str, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        let next = || self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now()));
        std::iter::from_fn(|| next().ok()).any(|line| line.contains(word))
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
