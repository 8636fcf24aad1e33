//! The time to decide on a resume, to fork and to verify, with a store as large as a user's, compared with bare SQL.

use std::fs::File;
use std::path::Path;

use anyhow::{Context, ensure};
use rusqlite::{Connection, OpenFlags};
use serde_json::Value;
use store_fixtures::chat::wide_chat;

use super::figures::Figures;
use super::stage::{Stage, best_seconds};

const SESSION: &str = "22222222-3333-4444-8555-666666666666";
const N_BLOBS: usize = 20_000;
/// Blobs of this size make a store of half a gigabyte.
const BLOB_BYTES: usize = 25_000;
/// One in this many blobs is a message in the prompt. The others remain from earlier checkpoints.
const PROMPT_EVERY: usize = 4;
/// Few, because each fork writes an eighth of a gigabyte.
const MOST_FORKS: usize = 3;

pub(super) fn measure(
    figures: &mut Figures,
    scratch: &Path,
    caretaker: &Path,
    rounds: usize,
) -> anyhow::Result<()> {
    let stage = Stage::new(&scratch.canonicalize()?, caretaker)?;
    let (chats, workspace) = (stage.home().join(".cursor/chats"), stage.workspace("project")?);
    let directory = wide_chat(&chats, &workspace, SESSION, N_BLOBS, BLOB_BYTES, PROMPT_EVERY);
    let store = directory.join("store.db");
    let megabytes = std::fs::metadata(&store)?.len() as f64 / 1e6;
    let n_messages = N_BLOBS / PROMPT_EVERY;
    let section = figures.section(format!(
        "sessions: a store.db of {megabytes:.0} MB, {N_BLOBS} blobs, {n_messages} messages in the prompt, warm"
    ));

    let decided = best(&stage, rounds, &["resume", "--check", SESSION], |_| Ok(()))?;
    section.row("resume --check: the decision", decided.0, "s").at_most(0.1);
    section.row("its peak memory", decided.1, "MiB").at_most(32.0);
    let seconds = best_seconds(rounds, || ask_for_messages(&store))?;
    section.row("bare SQL: the root, and whether its messages exist", seconds, "s");

    let (rounds_of_fork, mut sizes) = (rounds.min(MOST_FORKS), (0, 0));
    let forked =
        best(&stage, rounds_of_fork, &["sessions", "fork", SESSION, "--json"], |output| {
            let report: Value = serde_json::from_slice(output)?;
            let number = |name: &str| report[name].as_u64().with_context(|| format!("no {name}"));
            sizes = (number("n_bytes")?, number("n_source_bytes")?);
            Ok(std::fs::remove_dir_all(report["directory"].as_str().context("no directory")?)?)
        })?;
    section.row("sessions fork", forked.0, "s");
    section.row("its peak memory", forked.1, "MiB");
    section.row("the fork carries", sizes.0 as f64 / 1e6, "MB");
    section.row("the fork leaves behind", (sizes.1 - sizes.0) as f64 / 1e6, "MB");
    let copy = stage.root().join("vacuumed");
    let seconds = best_seconds(rounds_of_fork, || {
        connection(&store)?.execute("VACUUM INTO ?1", [copy.display().to_string()])?;
        // A fork is durable once it exists, so the copy must be too.
        File::open(&copy)?.sync_all()?;
        Ok(std::fs::remove_file(&copy)?)
    })?;
    section.row("bare SQL: VACUUM INTO, the whole store", seconds, "s");

    let verified = best(&stage, rounds, &["sessions", "verify", SESSION], |_| Ok(()))?;
    section.row("sessions verify: every hash on the way from the root", verified.0, "s");
    section.row("its peak memory", verified.1, "MiB");
    let sql = "SELECT count(*) FROM blobs WHERE instr(data, x'00ff00ff00ff') > 0";
    let seconds = best_seconds(rounds, || Ok(connection(&store)?.query_row(sql, [], |_| Ok(()))?))?;
    section.row("bare SQL: a look at every byte of every blob", seconds, "s");
    Ok(())
}

/// Returns the best time of several runs of a command, in seconds, and the largest memory of any run, in MiB.
fn best(
    stage: &Stage,
    rounds: usize,
    args: &[&str],
    mut afterwards: impl FnMut(&[u8]) -> anyhow::Result<()>,
) -> anyhow::Result<(f64, f64)> {
    let (mut seconds, mut peak) = (f64::MAX, 0);
    for _ in 0..rounds.max(1) {
        let run = stage.timed(args)?;
        (seconds, peak) = (seconds.min(run.took.as_secs_f64()), peak.max(run.peak_memory_kib));
        afterwards(&run.output)?;
    }
    Ok((seconds, peak as f64 / 1024.0))
}

#[expect(clippy::disallowed_methods, reason = "for comparison: bare SQL on the same file")]
fn connection(store: &Path) -> anyhow::Result<Connection> {
    Ok(Connection::open_with_flags(store, OpenFlags::SQLITE_OPEN_READ_ONLY)?)
}

fn ask_for_messages(store: &Path) -> anyhow::Result<()> {
    let connection = connection(store)?;
    let meta: String = connection.query_row("SELECT value FROM meta", [], |row| row.get(0))?;
    ensure!(!meta.is_empty());
    // The root is the blob that was written last.
    let root: Vec<u8> =
        connection.query_row("SELECT data FROM blobs ORDER BY rowid DESC", [], |row| row.get(0))?;
    let mut lookup = connection.prepare("SELECT 1 FROM blobs WHERE id = ?1")?;
    // The root repeats its field 1: two bytes, then an id.
    let ids = root.chunks_exact(34).take_while(|field| field.starts_with(&[0x0a, 0x20]));
    for field in ids {
        let id: String = field[2..].iter().map(|byte| format!("{byte:02x}")).collect();
        ensure!(lookup.exists([id])?, "a message is missing");
    }
    Ok(())
}
