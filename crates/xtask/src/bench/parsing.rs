//! The speed of our parser, with outcomes and text, against `jq -c .` and a loop over `serde_json::Value`.

use std::fs::File;
use std::hint::black_box;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use agent_stream::{AgentStream, StreamSummary};
use anyhow::{Context, ensure};
use nix::sys::resource::UsageWho;

use super::corpus::{self, Corpus};
use super::figures::Figures;
use super::stage::{cpu_of, memory_kib};

const BUFFER: usize = 256 * 1024;

/// All times are processor times. No reader uses more than one processor, so on a quiet machine this equals the elapsed
/// time, and on a busy machine it is the elapsed time that a quiet one would show.
pub(super) fn measure(
    figures: &mut Figures,
    scratch: &Path,
    caretaker: &Path,
    args: &super::Args,
) -> anyhow::Result<()> {
    let corpus = corpus::write(&scratch.join("stream.ndjson"), args.corpus_mib << 20)?;
    let parse = ["parse", "--summary", "--json"];
    let [ours, values, program, jq] = best_of(
        args.rounds,
        [
            &mut || summarise(&corpus),
            &mut || read_as_values(&corpus),
            &mut || run_to_null(caretaker, &parse, &corpus.path),
            &mut || run_to_null(Path::new("jq"), &["-c", "."], &corpus.path),
        ],
    )?;
    let megabytes = corpus.bytes as f64 / 1e6;
    let title = format!("parsing a stream of {megabytes:.0} MB, {} lines", corpus.lines);
    let section = figures.section(title);
    for (name, seconds) in [
        ("caretaker parse --summary", program),
        ("jq -c .", jq),
        ("agent-stream, in process", ours),
        ("serde_json::Value loop, in process", values),
    ] {
        section.row(format!("{name}: processor time"), seconds, "s");
        section.row(format!("{name}: speed"), megabytes / seconds, "MB/s");
        section.row(format!("{name}: events"), corpus.lines as f64 / seconds, "/s");
    }
    section.row("caretaker parse --summary : jq -c .", jq / program, "×").at_least(5.0);
    section.row("agent-stream : serde_json::Value loop", values / ours, "×").at_least(1.8);
    // If both are equal, memory is bounded.
    for (name, share) in [("", 1), (", on an eighth of the stream", 8)] {
        let peak = peak_memory_kib(caretaker, &parse, &corpus, share)? as f64;
        section.row(format!("peak memory of parse --summary{name}"), peak, "KiB");
    }
    Ok(())
}

/// Returns the best time of each reader, in seconds. The readers alternate, so that a busy moment affects all of them.
fn best_of<const N: usize>(
    rounds: usize,
    mut ways: [&mut dyn FnMut() -> anyhow::Result<()>; N],
) -> anyhow::Result<[f64; N]> {
    let mut best = [Duration::MAX; N];
    for _ in 0..rounds.max(1) {
        for (way, best) in ways.iter_mut().zip(&mut best) {
            let start = processor_time()?;
            way()?;
            *best = (*best).min(processor_time()?.saturating_sub(start));
        }
    }
    Ok(best.map(|time| time.as_secs_f64()))
}

/// Returns the processor time so far of this process and of its children that have ended.
fn processor_time() -> anyhow::Result<Duration> {
    Ok(cpu_of(UsageWho::RUSAGE_SELF)? + cpu_of(UsageWho::RUSAGE_CHILDREN)?)
}

/// Does the work of `parse --summary`: events, tool outcomes, the text reducer.
fn summarise(corpus: &Corpus) -> anyhow::Result<()> {
    let mut stream = AgentStream::default();
    let mut summary = StreamSummary::default();
    let mut reader = BufReader::with_capacity(BUFFER, File::open(&corpus.path)?);
    loop {
        let chunk = reader.fill_buf()?;
        if chunk.is_empty() {
            break;
        }
        stream.feed(chunk, |line| summary.observe(&line, &mut |_| {}));
        let length = chunk.len();
        reader.consume(length);
    }
    stream.finish(|line| summary.observe(&line, &mut |_| {}));
    summary.finish(stream.open_calls(), &mut |_| {});
    ensure!(summary.lines == corpus.lines, "lines were lost");
    ensure!(summary.text_agrees == Some(true), "the text was not assembled correctly");
    Ok(())
}

/// The simple loop over JSON values that anyone would write first.
fn read_as_values(corpus: &Corpus) -> anyhow::Result<()> {
    let mut reader = BufReader::with_capacity(BUFFER, File::open(&corpus.path)?);
    let mut line = Vec::new();
    let mut n_lines = 0;
    while reader.read_until(b'\n', &mut line)? > 0 {
        let value: serde_json::Value = serde_json::from_slice(&line)?;
        black_box(&value);
        n_lines += 1;
        line.clear();
    }
    ensure!(n_lines == corpus.lines, "lines were lost");
    Ok(())
}

fn run_to_null(program: &Path, args: &[&str], input: &Path) -> anyhow::Result<()> {
    let mut command = Command::new(program);
    let status = command.args(args).stdin(File::open(input)?).stdout(Stdio::null()).status();
    let status = status.with_context(|| format!("cannot start `{}`", program.display()))?;
    ensure!(status.success(), "`{}` ended with {status}", program.display());
    Ok(())
}

/// Returns the program's peak memory for one share of the stream. Reads it while the program is still waiting for the
/// end of its input.
fn peak_memory_kib(
    program: &Path,
    args: &[&str],
    corpus: &Corpus,
    share: u64,
) -> anyhow::Result<u64> {
    let mut command = Command::new(program);
    let mut child = command.args(args).stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
    let mut stdin = child.stdin.take().context("the child has no stdin")?;
    let mut input = File::open(&corpus.path)?.take(corpus.bytes / share);
    std::io::copy(&mut input, &mut stdin)?;
    let peak = memory_kib(child.id(), "VmHWM:");
    drop(stdin);
    child.wait()?;
    peak
}
