//! How long it takes to decide on a resume, to fork and to verify, on a store as large as users have, against bare SQL.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use rusqlite::{Connection, OpenFlags};
use serde::Serialize;
use serde_json::Value;
use store_fixtures::chat::wide_chat;

use super::sessions::high_water;

const SESSION: &str = "22222222-3333-4444-8555-666666666666";
const N_BLOBS: usize = 20_000;
/// Blobs of this size make a store of half a gigabyte.
const BLOB_BYTES: usize = 25_000;
/// One in this many blobs is a message of the prompt. The others are left from earlier checkpoints.
const PROMPT_EVERY: usize = 4;
/// Few, because each fork writes an eighth of a gigabyte.
const MOST_FORKS: usize = 3;

#[derive(Debug, Serialize)]
pub(crate) struct Resume {
    pub(crate) store_bytes: u64,
    pub(crate) n_blobs: usize,
    pub(crate) n_messages: usize,
    pub(crate) figures: Vec<Figure>,
    pub(crate) fork_carried_bytes: u64,
    pub(crate) fork_saved_bytes: u64,
}

#[derive(Debug, Serialize)]
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) promised_seconds: Option<f64>,
    pub(crate) peak_memory_kib: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) promised_memory_mib: Option<u64>,
    /// The comparable work in bare SQL, in a process that is already running.
    pub(crate) peer: &'static str,
    pub(crate) peer_seconds: f64,
}

pub(crate) fn measure(scratch: &Path, caretaker: &Path, rounds: usize) -> anyhow::Result<Resume> {
    let home = scratch.canonicalize()?.join("resume");
    let workspace = home.join("project");
    std::fs::create_dir_all(&workspace)?;
    let chats = home.join(".cursor/chats");
    let directory = wide_chat(&chats, &workspace, SESSION, N_BLOBS, BLOB_BYTES, PROMPT_EVERY);
    let bench = Bench { caretaker, home, store: directory.join("store.db"), rounds: rounds.max(1) };

    let decision = Figure {
        name: "resume --check: the decision",
        promised_seconds: Some(0.1),
        promised_memory_mib: Some(32),
        peer: "bare SQL: the root, and whether its messages are there",
        peer_seconds: bench.best(bench.rounds, || bench.ask_for_messages())?,
        ..bench.figure(bench.rounds, &["resume", "--check", SESSION], |_| Ok(()))?
    };
    let mut tally = (0, 0);
    let forked = bench.figure(
        bench.rounds.min(MOST_FORKS),
        &["sessions", "fork", SESSION, "--json"],
        |output| {
            let report: Value = serde_json::from_slice(output)?;
            let number = |name: &str| report[name].as_u64().with_context(|| format!("no {name}"));
            tally = (number("n_bytes")?, number("n_source_bytes")?);
            let directory = report["directory"].as_str().context("no directory")?;
            Ok(std::fs::remove_dir_all(directory)?)
        },
    )?;
    let copy = bench.home.join("vacuumed");
    let fork = Figure {
        name: "sessions fork",
        peer: "bare SQL: VACUUM INTO, the whole of it",
        peer_seconds: bench.best(bench.rounds.min(MOST_FORKS), || {
            let target = copy.display().to_string();
            bench.connection()?.execute("VACUUM INTO ?1", [target])?;
            // A fork is durable once it exists, so the copy must be too.
            File::open(&copy)?.sync_all()?;
            Ok(std::fs::remove_file(&copy)?)
        })?,
        ..forked
    };
    let verify = Figure {
        name: "sessions verify: every hash on the way from the root",
        peer: "bare SQL: a look at every byte of every blob",
        peer_seconds: bench.best(bench.rounds, || {
            let sql = "SELECT count(*) FROM blobs WHERE instr(data, x'00ff00ff00ff') > 0";
            Ok(bench.connection()?.query_row(sql, [], |_| Ok(()))?)
        })?,
        ..bench.figure(bench.rounds, &["sessions", "verify", SESSION], |_| Ok(()))?
    };
    Ok(Resume {
        store_bytes: std::fs::metadata(&bench.store)?.len(),
        n_blobs: N_BLOBS,
        n_messages: N_BLOBS / PROMPT_EVERY,
        figures: vec![decision, fork, verify],
        fork_carried_bytes: tally.0,
        fork_saved_bytes: tally.1 - tally.0,
    })
}

struct Bench<'a> {
    caretaker: &'a Path,
    home: PathBuf,
    store: PathBuf,
    rounds: usize,
}

impl Bench<'_> {
    /// The best of several runs of a command, and the most memory that any of them had.
    fn figure(
        &self,
        rounds: usize,
        args: &[&str],
        mut afterwards: impl FnMut(&[u8]) -> anyhow::Result<()>,
    ) -> anyhow::Result<Figure> {
        let mut best = Duration::MAX;
        let mut peak_memory_kib = 0;
        for _ in 0..rounds {
            let start = Instant::now();
            let mut child = Command::new(self.caretaker)
                .args(args)
                .env_clear()
                .env("HOME", &self.home)
                .current_dir(&self.home)
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .context("caretaker could not be started")?;
            // The process takes its high-water mark with it, so read the mark until then. Its output fits into a pipe.
            while child.try_wait()?.is_none() {
                peak_memory_kib = peak_memory_kib.max(high_water(child.id()).unwrap_or(0));
                std::thread::sleep(Duration::from_micros(500));
            }
            best = best.min(start.elapsed());
            let output = child.wait_with_output()?;
            ensure!(output.status.success(), "`{}` ended with {}", args.join(" "), output.status);
            afterwards(&output.stdout)?;
        }
        Ok(Figure {
            name: "",
            seconds: best.as_secs_f64(),
            promised_seconds: None,
            peak_memory_kib,
            promised_memory_mib: None,
            peer: "",
            peer_seconds: 0.0,
        })
    }

    fn best(&self, rounds: usize, peer: impl Fn() -> anyhow::Result<()>) -> anyhow::Result<f64> {
        let mut best = Duration::MAX;
        for _ in 0..rounds {
            let start = Instant::now();
            peer()?;
            best = best.min(start.elapsed());
        }
        Ok(best.as_secs_f64())
    }

    #[expect(clippy::disallowed_methods, reason = "the peer: bare SQL over the same file")]
    fn connection(&self) -> anyhow::Result<Connection> {
        Ok(Connection::open_with_flags(&self.store, OpenFlags::SQLITE_OPEN_READ_ONLY)?)
    }

    fn ask_for_messages(&self) -> anyhow::Result<()> {
        let connection = self.connection()?;
        let meta: String = connection.query_row("SELECT value FROM meta", [], |row| row.get(0))?;
        ensure!(!meta.is_empty());
        // The root is the blob that was written last.
        let root: Vec<u8> =
            connection
                .query_row("SELECT data FROM blobs ORDER BY rowid DESC", [], |row| row.get(0))?;
        let mut lookup = connection.prepare("SELECT 1 FROM blobs WHERE id = ?1")?;
        // The root repeats its field 1: two bytes, then an id.
        let ids = root.chunks_exact(34).take_while(|field| field.starts_with(&[0x0a, 0x20]));
        for field in ids {
            let id: String = field[2..].iter().map(|byte| format!("{byte:02x}")).collect();
            ensure!(lookup.exists([id])?, "a message is missing");
        }
        Ok(())
    }
}
