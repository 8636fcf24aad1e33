//! The speed of our parser, with outcomes and text, against `jq -c .` and a loop over `serde_json::Value`.

use std::fs::File;
use std::hint::black_box;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use agent_stream::{AgentStream, StreamSummary};
use anyhow::{Context, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use serde::Serialize;

use super::corpus::Corpus;

/// One way of reading the stream.
#[derive(Debug, Serialize)]
pub(crate) struct Way {
    pub(crate) name: &'static str,
    /// Processor time. No way uses more than one processor, so on a quiet machine this equals the elapsed time, and on
    /// a busy machine it is the elapsed time that a quiet one would show.
    pub(crate) seconds: f64,
    pub(crate) megabytes_per_second: f64,
    pub(crate) events_per_second: f64,
}

#[derive(Debug, Serialize)]
pub(crate) struct Parsing {
    pub(crate) corpus_bytes: u64,
    pub(crate) corpus_lines: u64,
    pub(crate) ways: Vec<Way>,
    /// `caretaker parse --summary` over `jq -c .`: both are whole processes.
    pub(crate) ratio_to_jq: f64,
    /// The library over the loop: both run in this process, on bytes read from the same file.
    pub(crate) ratio_to_value_loop: f64,
    pub(crate) peak_memory_kib: u64,
    /// The peak memory for a stream of an eighth of the size. If both are equal, memory is bounded.
    pub(crate) peak_memory_kib_at_an_eighth: u64,
}

pub(crate) fn measure(corpus: &Corpus, rounds: usize, caretaker: &Path) -> anyhow::Result<Parsing> {
    let mut ours = || {
        let summary = summarise(corpus)?;
        ensure!(summary.lines == corpus.lines, "lines were lost");
        ensure!(summary.text_agrees == Some(true), "the text was not assembled rightly");
        Ok(())
    };
    let mut values = || read_as_values(corpus);
    let mut program = || run_to_null(caretaker, &["parse", "--summary", "--json"], &corpus.path);
    let mut jq = || run_to_null(Path::new("jq"), &["-c", "."], &corpus.path);
    let [in_process, value_loop, program, jq] =
        best_of(rounds, [&mut ours, &mut values, &mut program, &mut jq])?;

    let way = |name, time: Duration| Way {
        name,
        seconds: time.as_secs_f64(),
        megabytes_per_second: corpus.bytes as f64 / 1e6 / time.as_secs_f64(),
        events_per_second: corpus.lines as f64 / time.as_secs_f64(),
    };
    let (peak_memory_kib, peak_memory_kib_at_an_eighth) = peak_memory(corpus, caretaker)?;
    Ok(Parsing {
        corpus_bytes: corpus.bytes,
        corpus_lines: corpus.lines,
        ratio_to_jq: jq.as_secs_f64() / program.as_secs_f64(),
        ratio_to_value_loop: value_loop.as_secs_f64() / in_process.as_secs_f64(),
        ways: vec![
            way("caretaker parse --summary", program),
            way("jq -c .", jq),
            way("agent-stream, in process", in_process),
            way("serde_json::Value loop, in process", value_loop),
        ],
        peak_memory_kib,
        peak_memory_kib_at_an_eighth,
    })
}

/// Returns the best time of each way. The ways alternate, so that a busy moment of the machine affects all of them.
fn best_of<const N: usize>(
    rounds: usize,
    mut ways: [&mut dyn FnMut() -> anyhow::Result<()>; N],
) -> anyhow::Result<[Duration; N]> {
    let mut best = [Duration::MAX; N];
    for _ in 0..rounds.max(1) {
        for (way, best) in ways.iter_mut().zip(&mut best) {
            let start = processor_time()?;
            way()?;
            *best = (*best).min(processor_time()?.saturating_sub(start));
        }
    }
    Ok(best)
}

/// Returns the processor time of this process and of its ended children so far.
fn processor_time() -> anyhow::Result<Duration> {
    let mut sum = Duration::ZERO;
    for who in [UsageWho::RUSAGE_SELF, UsageWho::RUSAGE_CHILDREN] {
        let usage = getrusage(who)?;
        for time in [usage.user_time(), usage.system_time()] {
            sum += Duration::from_micros(time.num_microseconds().try_into()?);
        }
    }
    Ok(sum)
}

/// Does the work of `parse --summary`: events, tool outcomes, the text reducer.
fn summarise(corpus: &Corpus) -> anyhow::Result<StreamSummary> {
    let mut stream = AgentStream::default();
    let mut summary = StreamSummary::default();
    let mut reader = BufReader::with_capacity(256 * 1024, File::open(&corpus.path)?);
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
    Ok(summary)
}

/// The loop that anyone would write first.
fn read_as_values(corpus: &Corpus) -> anyhow::Result<()> {
    let mut reader = BufReader::with_capacity(256 * 1024, File::open(&corpus.path)?);
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
    let status = Command::new(program)
        .args(args)
        .stdin(File::open(input)?)
        .stdout(Stdio::null())
        .status()
        .with_context(|| format!("`{}` could not be started", program.display()))?;
    ensure!(status.success(), "`{}` ended with {status}", program.display());
    Ok(())
}

/// Peak memory of `caretaker parse --summary` on the whole stream and on its first eighth.
fn peak_memory(corpus: &Corpus, caretaker: &Path) -> anyhow::Result<(u64, u64)> {
    let short = corpus.path.with_extension("short.ndjson");
    let mut reader = BufReader::new(File::open(&corpus.path)?);
    let mut writer = BufWriter::new(File::create(&short)?);
    let mut line = Vec::new();
    for _ in 0..corpus.lines / 8 {
        line.clear();
        reader.read_until(b'\n', &mut line)?;
        writer.write_all(&line)?;
    }
    writer.flush()?;
    Ok((peak_of(caretaker, &corpus.path)?, peak_of(caretaker, &short)?))
}

/// Reads the program's high-water mark while it still waits for the end of its input.
fn peak_of(program: &Path, input: &Path) -> anyhow::Result<u64> {
    let mut child = Command::new(program)
        .args(["parse", "--summary", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()?;
    let mut stdin = child.stdin.take().context("the child has no stdin")?;
    std::io::copy(&mut File::open(input)?, &mut stdin)?;
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id()))?;
    drop(stdin);
    child.wait()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")).context("no VmHWM")?;
    Ok(kib.trim().parse()?)
}
