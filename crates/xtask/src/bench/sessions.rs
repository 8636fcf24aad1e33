//! The time to list, search, show and follow conversations, with stores as large as a user's, compared with bare SQL
//! and with the promised values.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use anyhow::ensure;
use rusqlite::{Connection, OpenFlags};
use store_fixtures::chat::{MetaFiles, large_chat, many_chats};
use store_fixtures::ide::generate_large;

use super::figures::Figures;
use super::session_tails;
use super::stage::{Stage, best_seconds};

/// Occurs in one message of the large chat, in one bubble and one blob of the IDE, and nowhere else.
const RARE: &str = "xylographer";
/// The sizes of the database on which other projects measured their readers.
const N_COMPOSERS: usize = 600;
const N_BUBBLES: usize = 90_000;
const N_BLOBS: usize = 70_000;
const IDE_BYTES: u64 = 760_000_000;
const N_CHATS: usize = 10_000;
/// This many steps make about 500 MB: every step leaves a root that names all steps before it.
const N_STEPS: usize = 3_800;
const LARGE_CHAT: &str = "11111111-2222-4333-8444-555555555555";
/// No command may need more memory than this for any input: 100 MB.
const PROMISED_MEMORY_MIB: f64 = 100e6 / 1_048_576.0;

/// A command to measure: its name, the promised seconds, its arguments after `sessions`, and a text that its output
/// must contain, because a quick wrong answer is worth nothing.
type Question<'a> = (&'a str, Option<f64>, &'a [&'a str], &'a str);

pub(super) fn measure(
    figures: &mut Figures,
    scratch: &Path,
    caretaker: &Path,
    rounds: usize,
) -> anyhow::Result<()> {
    figures.section("conversations; warm, the best of all rounds");
    let mut bench = Bench { figures, scratch, caretaker, rounds: rounds.max(1) };
    // Make the stores one after another, so that only one of them is on the disk at a time.
    bench.ide()?;
    bench.large_chat()?;
    bench.many_chats()
}

struct Bench<'a> {
    figures: &'a mut Figures,
    scratch: &'a Path,
    caretaker: &'a Path,
    rounds: usize,
}

impl Bench<'_> {
    fn stage(&self) -> anyhow::Result<Stage> {
        Stage::new(self.scratch, self.caretaker)
    }

    fn ide(&mut self) -> anyhow::Result<()> {
        let stage = self.stage()?;
        let state = stage.home().join(".config/Cursor/User/globalStorage/state.vscdb");
        say("writing an IDE database of 760 MB");
        generate_large(&state, N_COMPOSERS, N_BUBBLES, N_BLOBS, IDE_BYTES, Some(RARE));
        let last = "Conversation 599";
        let in_regex: &[&str] = &["search", "--no-index", "--regex", r"xylo\w+er\b"];
        let unindexed: &[&str] = &["search", "--no-index", RARE];
        self.ask(&stage, ("760 MB IDE: ls", Some(0.1), &["ls"], last))?;
        self.sql(&state, "SELECT sum(octet_length(value)) FROM cursorDiskKV WHERE key >= 'composerData:' AND key < 'composerData;'")?;
        self.ask(&stage, ("760 MB IDE: first search, no index", Some(0.8), unindexed, RARE))?;
        self.sql(&state, "SELECT count(*) FROM cursorDiskKV WHERE key >= 'bubbleId:' AND key < 'bubbleId;' AND instr(value, 'xylographer') > 0")?;
        self.ask(&stage, ("760 MB IDE: regular expression, no index", None, in_regex, RARE))?;
        let rounds = std::mem::replace(&mut self.rounds, 1);
        let index: &[&str] = &["search", "--index", RARE];
        self.ask(&stage, ("760 MB IDE: making the index", None, index, RARE))?;
        self.rounds = rounds;
        let indexed: &[&str] = &["search", RARE];
        self.ask(&stage, ("760 MB IDE: search with the index", Some(0.05), indexed, RARE))?;
        ruin_some_pages(&state)?;
        self.ask(&stage, ("760 MB IDE with ruined pages: ls", None, &["ls"], last))?;
        self.ask(&stage, ("760 MB IDE with ruined pages: no index", None, unindexed, RARE))
    }

    fn large_chat(&mut self) -> anyhow::Result<()> {
        let stage = self.stage()?;
        say("writing a store.db of 500 MB");
        large_chat(&stage.home().join(".cursor/chats"), LARGE_CHAT, N_STEPS, RARE);
        let last = format!("step {}", N_STEPS - 1);
        let show: &[&str] = &["show", LARGE_CHAT, "--last", "10"];
        self.ask(&stage, ("500 MB store.db: its last ten messages", Some(0.1), show, &last))?;
        let search: &[&str] = &["search", "--no-index", RARE];
        self.ask(&stage, ("500 MB store.db: search", None, search, RARE))
    }

    fn many_chats(&mut self) -> anyhow::Result<()> {
        say("writing 10,000 chats, without and with meta.json");
        let old = self.stage()?;
        many_chats(&old.home().join(".cursor/chats"), N_CHATS, MetaFiles::Absent);
        let first = "-0000-4000-8000-000000000000";
        self.ask(&old, ("10,000 chats without meta.json: ls", Some(1.0), &["ls"], first))?;
        drop(old);
        let many = self.stage()?;
        many_chats(&many.home().join(".cursor/chats"), N_CHATS, MetaFiles::Present);
        let last = "Chat number 9999";
        let opened: &[&str] = &["ls", "--json"];
        self.ask(&many, ("10,000 chats: ls", Some(1.0), &["ls"], last))?;
        self.ask(&many, ("10,000 chats: ls --json, each of them opened", None, opened, last))?;
        say("following conversations");
        session_tails::measure(self.figures, &many, self.scratch)
    }

    /// Runs a command once per round.
    fn ask(&mut self, stage: &Stage, question: Question<'_>) -> anyhow::Result<()> {
        let (name, promised, words, answer) = question;
        let words = [&["sessions"], words].concat();
        let (mut took, mut cpu, mut peak) = (Duration::MAX, Duration::ZERO, 0);
        for _ in 0..self.rounds {
            let run = stage.timed(&words)?;
            let said = String::from_utf8_lossy(&run.output);
            ensure!(said.contains(answer), "`{}` did not answer as it should", words.join(" "));
            peak = peak.max(run.peak_memory_kib);
            if run.took < took {
                (took, cpu) = (run.took, run.cpu);
            }
        }
        let section = self.figures.section(name);
        let seconds = section.row("elapsed", took.as_secs_f64(), "s");
        promised.into_iter().for_each(|promised| seconds.at_most(promised));
        section.row("processor time, across all processors", cpu.as_secs_f64(), "s");
        let memory = section.row("peak memory", peak as f64 / 1024.0, "MiB");
        promised.into_iter().for_each(|_| memory.at_most(PROMISED_MEMORY_MIB));
        Ok(())
    }

    /// Returns the time of the same query in plain SQL, on one core.
    #[expect(clippy::disallowed_methods, reason = "for comparison: bare SQL on the same file")]
    fn sql(&mut self, path: &Path, sql: &str) -> anyhow::Result<()> {
        let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        let seconds = best_seconds(self.rounds, || Ok(connection.query_row(sql, [], |_| Ok(()))?))?;
        self.figures.section("the same question in bare SQL").row("elapsed", seconds, "s");
        Ok(())
    }
}

/// Overwrites a few pages all over a database, so that SQLite finds damage wherever it reads.
fn ruin_some_pages(path: &Path) -> anyhow::Result<()> {
    const PAGE: u64 = 4096;
    let file = std::fs::File::options().write(true).open(path)?;
    let n_pages = file.metadata()?.len() / PAGE;
    for part in 1..=8 {
        file.write_all_at(&[0xff; PAGE as usize], n_pages * part / 9 * PAGE)?;
    }
    Ok(())
}

#[expect(clippy::print_stderr, reason = "a step that takes minutes says what it does")]
fn say(what: &str) {
    eprintln!("bench: {what}");
}
