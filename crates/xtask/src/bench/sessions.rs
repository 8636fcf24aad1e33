//! How fast conversations are listed, searched and shown, on stores as large as users have, against bare SQL.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use rusqlite::{Connection, OpenFlags};
use serde::Serialize;
use store_fixtures::chat::{MetaFiles, large_chat, many_chats};
use store_fixtures::ide::generate_large;

/// Stands in one message of the large chat, and in none of the others.
const RARE: &str = "xylographer";
/// The database that the readers of others were measured with.
const N_COMPOSERS: usize = 600;
const N_BUBBLES: usize = 90_000;
const N_BLOBS: usize = 70_000;
const IDE_BYTES: u64 = 760_000_000;
const N_CHATS: usize = 10_000;
/// Makes about 500 MB: every step leaves a root that names all steps before it.
const N_STEPS: usize = 2_600;
const LARGE_CHAT: &str = "11111111-2222-4333-8444-555555555555";

#[derive(Debug, Serialize)]
pub(crate) struct Sessions {
    pub(crate) ide_bytes: u64,
    pub(crate) chat_bytes: u64,
    pub(crate) figures: Vec<Figure>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) seconds: f64,
    pub(crate) promised_seconds: f64,
    pub(crate) peak_memory_kib: u64,
    /// The same question asked of the file in plain SQL, on one core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sql_seconds: Option<f64>,
}

pub(crate) fn measure(scratch: &Path, caretaker: &Path, rounds: usize) -> anyhow::Result<Sessions> {
    let ide = Home::new(scratch, "ide")?;
    let state = ide.path.join(".config/Cursor/User/globalStorage/state.vscdb");
    generate_large(&state, N_COMPOSERS, N_BUBBLES, N_BLOBS, IDE_BYTES);
    let many = Home::new(scratch, "many")?;
    many_chats(&many.path.join(".cursor/chats"), N_CHATS, MetaFiles::Present);
    let old = Home::new(scratch, "old")?;
    many_chats(&old.path.join(".cursor/chats"), N_CHATS, MetaFiles::Absent);
    let large = Home::new(scratch, "large")?;
    let directory = large_chat(&large.path.join(".cursor/chats"), LARGE_CHAT, N_STEPS, RARE);
    let store = directory.join("store.db");

    let list_sql = "SELECT sum(octet_length(value)) FROM cursorDiskKV WHERE key >= 'composerData:' AND key < 'composerData;'";
    let scan_sql = "SELECT count(*) FROM cursorDiskKV WHERE key >= 'bubbleId:' AND key < 'bubbleId;' AND instr(value, 'xylographer') > 0";
    let mut figures = Vec::new();
    let mut figure =
        |name, promised_seconds, home: &Home, args: &[&str], sql: Option<(&Path, &str)>| {
            let mut best = Duration::MAX;
            let mut peak_memory_kib = 0;
            for _ in 0..rounds.max(1) {
                let (took, peak) = home.run(caretaker, args)?;
                best = best.min(took);
                peak_memory_kib = peak_memory_kib.max(peak);
            }
            let sql_seconds = match sql {
                Some((path, sql)) => Some(best_of_sql(path, sql, rounds)?),
                None => None,
            };
            figures.push(Figure {
                name,
                seconds: best.as_secs_f64(),
                promised_seconds,
                peak_memory_kib,
                sql_seconds,
            });
            anyhow::Ok(())
        };
    figure("760 MB IDE: ls", 0.1, &ide, &["ls"], Some((&state, list_sql)))?;
    figure(
        "760 MB IDE: first search, no index",
        0.8,
        &ide,
        &["search", "--no-index", RARE],
        Some((&state, scan_sql)),
    )?;
    ide.run(caretaker, &["search", "--index", RARE])?;
    figure("760 MB IDE: search with an index", 0.05, &ide, &["search", RARE], None)?;
    figure("10,000 chats: ls", 1.0, &many, &["ls"], None)?;
    figure("10,000 chats without meta.json: ls", 1.0, &old, &["ls"], None)?;
    figure("10,000 chats: ls --json, all of them", 5.0, &many, &["ls", "--json"], None)?;
    figure(
        "500 MB store.db: its last ten messages",
        0.1,
        &large,
        &["show", LARGE_CHAT, "--last", "10"],
        None,
    )?;
    figure("500 MB store.db: search", 2.0, &large, &["search", "--no-index", RARE], None)?;
    Ok(Sessions {
        ide_bytes: std::fs::metadata(&state)?.len(),
        chat_bytes: std::fs::metadata(&store)?.len(),
        figures,
    })
}

/// A home of its own.
struct Home {
    path: PathBuf,
}

impl Home {
    fn new(scratch: &Path, name: &str) -> anyhow::Result<Self> {
        let path = scratch.join(name);
        std::fs::create_dir_all(&path)?;
        Ok(Self { path })
    }

    /// Runs `caretaker sessions …` in it; how long that took, and the most memory it had, in KiB.
    fn run(&self, caretaker: &Path, args: &[&str]) -> anyhow::Result<(Duration, u64)> {
        let start = Instant::now();
        let mut child = Command::new(caretaker)
            .arg("sessions")
            .args(args)
            .env_clear()
            .env("HOME", &self.path)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("caretaker could not be started")?;
        let mut peak = 0;
        loop {
            // Its high-water mark is gone with it, so it is looked at until then.
            peak = high_water(child.id()).unwrap_or(peak);
            if let Some(status) = child.try_wait()? {
                // Finding nothing is an answer too.
                ensure!(
                    matches!(status.code(), Some(0 | 1)),
                    "`sessions {}` ended with {status}",
                    args.join(" ")
                );
                return Ok((start.elapsed(), peak));
            }
            std::thread::sleep(Duration::from_micros(500));
        }
    }
}

/// The most memory that a process has had so far, in KiB.
pub(super) fn high_water(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse().ok()
}

#[expect(clippy::disallowed_methods, reason = "the peer: bare SQL over the same file")]
fn best_of_sql(path: &Path, sql: &str, rounds: usize) -> anyhow::Result<f64> {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let mut best = Duration::MAX;
    for _ in 0..rounds.max(1) {
        let start = Instant::now();
        connection.query_row(sql, [], |_| Ok(()))?;
        best = best.min(start.elapsed());
    }
    Ok(best.as_secs_f64())
}
