//! How fast conversations are listed, searched, shown and followed, on stores as large as users have, against bare SQL
//! and against what is promised.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use rusqlite::{Connection, OpenFlags};
use serde::Serialize;
use store_fixtures::chat::{MetaFiles, large_chat, many_chats};
use store_fixtures::ide::generate_large;

use super::session_tails;

/// Occurs in one message of the large chat, in one bubble and one blob of the IDE, and nowhere else.
pub(super) const RARE: &str = "xylographer";
/// The sizes of the database on which other projects measured their readers.
const N_COMPOSERS: usize = 600;
const N_BUBBLES: usize = 90_000;
const N_BLOBS: usize = 70_000;
const IDE_BYTES: u64 = 760_000_000;
pub(super) const N_CHATS: usize = 10_000;
/// This many steps make about 500 MB: every step leaves a root that names all steps before it.
const N_STEPS: usize = 3_800;
const LARGE_CHAT: &str = "11111111-2222-4333-8444-555555555555";
/// No command may need more memory than this, whatever it reads: 100 MB.
const PROMISED_MEMORY_KIB: u64 = 100_000_000 / 1024;

#[derive(Debug, Serialize)]
pub(crate) struct Sessions {
    pub(crate) ide_bytes: u64,
    pub(crate) chat_bytes: u64,
    pub(crate) promised_memory_kib: u64,
    pub(crate) figures: Vec<Figure>,
    pub(crate) tails: Vec<session_tails::Tail>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    /// The quickest of all rounds.
    pub(crate) seconds: f64,
    /// The processor time, summed over all processors.
    pub(crate) cpu_seconds: f64,
    /// `None` for figures without a promise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) promised_seconds: Option<f64>,
    pub(crate) peak_memory_kib: u64,
    /// The time for the same question to the file in plain SQL, on one core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sql_seconds: Option<f64>,
}

/// A command to measure, and its expected answer.
struct Question<'a> {
    name: &'static str,
    promised_seconds: Option<f64>,
    args: &'a [&'a str],
    sql: Option<(&'a Path, &'a str)>,
    /// Text that must be in the answer: a quick wrong answer is worth nothing.
    answer: &'a str,
}

pub(crate) fn measure(scratch: &Path, caretaker: &Path, rounds: usize) -> anyhow::Result<Sessions> {
    let mut bench = Bench { caretaker, rounds: rounds.max(1), figures: Vec::new() };
    // The stores are made one after the other, so that only one of them is on the disk.
    let ide_bytes = measure_ide(&mut bench, scratch)?;
    let chat_bytes = measure_large_chat(&mut bench, scratch)?;
    let tails = measure_many_chats(&mut bench, scratch)?;
    Ok(Sessions {
        ide_bytes,
        chat_bytes,
        promised_memory_kib: PROMISED_MEMORY_KIB,
        figures: bench.figures,
        tails,
    })
}

fn measure_ide(bench: &mut Bench<'_>, scratch: &Path) -> anyhow::Result<u64> {
    let home = Home::new(scratch, "ide")?;
    let state = home.path.join(".config/Cursor/User/globalStorage/state.vscdb");
    say("writing an IDE database of 760 MB");
    generate_large(&state, N_COMPOSERS, N_BUBBLES, N_BLOBS, IDE_BYTES, Some(RARE));
    let list_sql = "SELECT sum(octet_length(value)) FROM cursorDiskKV WHERE key >= 'composerData:' AND key < 'composerData;'";
    let scan_sql = "SELECT count(*) FROM cursorDiskKV WHERE key >= 'bubbleId:' AND key < 'bubbleId;' AND instr(value, 'xylographer') > 0";
    bench.ask(
        &home,
        &Question {
            name: "760 MB IDE: ls",
            promised_seconds: Some(0.1),
            args: &["ls"],
            sql: Some((&state, list_sql)),
            answer: "Conversation 599",
        },
    )?;
    bench.ask(
        &home,
        &Question {
            name: "760 MB IDE: first search, no index",
            promised_seconds: Some(0.8),
            args: &["search", "--no-index", RARE],
            sql: Some((&state, scan_sql)),
            answer: RARE,
        },
    )?;
    bench.ask(
        &home,
        &Question {
            name: "760 MB IDE: regular expression, no index",
            promised_seconds: None,
            args: &["search", "--no-index", "--regex", r"xylo\w+er\b"],
            sql: None,
            answer: RARE,
        },
    )?;
    bench.ask_once(
        &home,
        &Question {
            name: "760 MB IDE: making the index",
            promised_seconds: None,
            args: &["search", "--index", RARE],
            sql: None,
            answer: RARE,
        },
    )?;
    bench.ask(
        &home,
        &Question {
            name: "760 MB IDE: search with the index",
            promised_seconds: Some(0.05),
            args: &["search", RARE],
            sql: None,
            answer: RARE,
        },
    )?;
    let n_bytes = std::fs::metadata(&state)?.len();
    ruin_some_pages(&state, n_bytes)?;
    bench.ask(
        &home,
        &Question {
            name: "760 MB IDE with ruined pages: ls",
            promised_seconds: None,
            args: &["ls"],
            sql: None,
            answer: "Conversation 599",
        },
    )?;
    bench.ask(
        &home,
        &Question {
            name: "760 MB IDE with ruined pages: search, no index",
            promised_seconds: None,
            args: &["search", "--no-index", RARE],
            sql: None,
            answer: RARE,
        },
    )?;
    home.remove()?;
    Ok(n_bytes)
}

/// Overwrites a few pages all over a database, so that SQLite meets damage wherever it reads.
fn ruin_some_pages(path: &Path, n_bytes: u64) -> anyhow::Result<()> {
    const PAGE: u64 = 4096;
    let file = std::fs::File::options().write(true).open(path)?;
    for part in 1..=8 {
        file.write_all_at(&[0xff; PAGE as usize], n_bytes / PAGE * part / 9 * PAGE)?;
    }
    Ok(())
}

fn measure_large_chat(bench: &mut Bench<'_>, scratch: &Path) -> anyhow::Result<u64> {
    let home = Home::new(scratch, "large")?;
    say("writing a store.db of 500 MB");
    let directory = large_chat(&home.path.join(".cursor/chats"), LARGE_CHAT, N_STEPS, RARE);
    let last = format!("step {}", N_STEPS - 1);
    bench.ask(
        &home,
        &Question {
            name: "500 MB store.db: its last ten messages",
            promised_seconds: Some(0.1),
            args: &["show", LARGE_CHAT, "--last", "10"],
            sql: None,
            answer: &last,
        },
    )?;
    bench.ask(
        &home,
        &Question {
            name: "500 MB store.db: search",
            promised_seconds: None,
            args: &["search", "--no-index", RARE],
            sql: None,
            answer: RARE,
        },
    )?;
    let n_bytes = std::fs::metadata(directory.join("store.db"))?.len();
    home.remove()?;
    Ok(n_bytes)
}

fn measure_many_chats(
    bench: &mut Bench<'_>,
    scratch: &Path,
) -> anyhow::Result<Vec<session_tails::Tail>> {
    let old = Home::new(scratch, "old")?;
    say("writing 10,000 chats, without and with meta.json");
    many_chats(&old.path.join(".cursor/chats"), N_CHATS, MetaFiles::Absent);
    bench.ask(
        &old,
        &Question {
            name: "10,000 chats without meta.json: ls",
            promised_seconds: Some(1.0),
            args: &["ls"],
            sql: None,
            answer: "-0000-4000-8000-000000000000",
        },
    )?;
    old.remove()?;
    let many = Home::new(scratch, "many")?;
    many_chats(&many.path.join(".cursor/chats"), N_CHATS, MetaFiles::Present);
    bench.ask(
        &many,
        &Question {
            name: "10,000 chats: ls",
            promised_seconds: Some(1.0),
            args: &["ls"],
            sql: None,
            answer: "Chat number 9999",
        },
    )?;
    bench.ask(
        &many,
        &Question {
            name: "10,000 chats: ls --json, each of them opened",
            promised_seconds: None,
            args: &["ls", "--json"],
            sql: None,
            answer: "Chat number 9999",
        },
    )?;
    say("following conversations");
    let mut tails = session_tails::measure(scratch, bench.caretaker)?;
    tails.push(session_tails::measure_all(&many.path, bench.caretaker)?);
    many.remove()?;
    Ok(tails)
}

#[expect(clippy::print_stderr, reason = "what takes minutes says what it does")]
fn say(what: &str) {
    eprintln!("bench: {what}");
}

struct Bench<'a> {
    caretaker: &'a Path,
    rounds: usize,
    figures: Vec<Figure>,
}

impl Bench<'_> {
    /// Asks a question once per round.
    fn ask(&mut self, home: &Home, question: &Question<'_>) -> anyhow::Result<()> {
        self.ask_times(home, question, self.rounds)
    }

    fn ask_once(&mut self, home: &Home, question: &Question<'_>) -> anyhow::Result<()> {
        self.ask_times(home, question, 1)
    }

    fn ask_times(
        &mut self,
        home: &Home,
        question: &Question<'_>,
        rounds: usize,
    ) -> anyhow::Result<()> {
        let mut best: Option<Run> = None;
        let mut peak_memory_kib = 0;
        for _ in 0..rounds {
            let run = home.run(self.caretaker, question)?;
            peak_memory_kib = peak_memory_kib.max(run.peak_memory_kib);
            if best.as_ref().is_none_or(|best| run.took < best.took) {
                best = Some(run);
            }
        }
        let best = best.context("there was no round")?;
        let sql_seconds = match question.sql {
            Some((path, sql)) => Some(best_of_sql(path, sql, rounds)?),
            None => None,
        };
        self.figures.push(Figure {
            name: question.name,
            seconds: best.took.as_secs_f64(),
            cpu_seconds: best.cpu.as_secs_f64(),
            promised_seconds: question.promised_seconds,
            peak_memory_kib,
            sql_seconds,
        });
        Ok(())
    }
}

/// A home directory for the bench.
struct Home {
    path: PathBuf,
}

struct Run {
    took: Duration,
    cpu: Duration,
    peak_memory_kib: u64,
}

impl Home {
    fn new(scratch: &Path, name: &str) -> anyhow::Result<Self> {
        let path = scratch.join(name);
        std::fs::create_dir_all(&path)?;
        Ok(Self { path })
    }

    fn remove(self) -> anyhow::Result<()> {
        Ok(std::fs::remove_dir_all(self.path)?)
    }

    /// Runs `caretaker sessions …` in this home.
    fn run(&self, caretaker: &Path, question: &Question<'_>) -> anyhow::Result<Run> {
        let answer = self.path.join("answer");
        let cpu_before = cpu_of_children()?;
        let start = Instant::now();
        let mut child = Command::new(caretaker)
            .arg("sessions")
            .args(question.args)
            .env_clear()
            .env("HOME", &self.path)
            .stdin(Stdio::null())
            .stdout(File::create(&answer)?)
            .stderr(Stdio::null())
            .spawn()
            .context("caretaker could not be started")?;
        let mut peak_memory_kib = 0;
        let status = loop {
            // The process takes its high-water mark with it, so read the mark until it ends.
            peak_memory_kib = high_water(child.id()).unwrap_or(peak_memory_kib);
            if let Some(status) = child.try_wait()? {
                break status;
            }
            std::thread::sleep(Duration::from_micros(500));
        };
        let took = start.elapsed();
        let what = question.args.join(" ");
        ensure!(status.success(), "`sessions {what}` ended with {status}");
        let said = String::from_utf8_lossy(&std::fs::read(&answer)?).into_owned();
        ensure!(said.contains(question.answer), "`sessions {what}` did not answer as it should");
        Ok(Run { took, cpu: cpu_of_children()?.saturating_sub(cpu_before), peak_memory_kib })
    }
}

fn cpu_of_children() -> anyhow::Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let microseconds = [usage.user_time(), usage.system_time()]
        .iter()
        .map(|time| time.tv_sec() * 1_000_000 + time.tv_usec())
        .sum::<i64>();
    Ok(Duration::from_micros(u64::try_from(microseconds)?))
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
