//! `cargo xtask bench`: compares Caretaker with other tools, measured in the same run, and prints the ratios.

#[cfg(feature = "runs")]
mod caches;
mod corpus;
#[cfg(feature = "runs")]
mod crowd;
mod daemon;
mod figures;
#[cfg(feature = "runs")]
mod limits;
mod parsing;
#[cfg(feature = "sessions")]
mod resume;
#[cfg(feature = "runs")]
mod runs;
#[cfg(feature = "sessions")]
mod session_tails;
#[cfg(feature = "sessions")]
mod sessions;
#[cfg_attr(
    not(all(feature = "runs", feature = "sessions")),
    allow(dead_code, reason = "each part of the bench uses some of it")
)]
mod stage;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context;
#[cfg(not(all(feature = "runs", feature = "sessions")))]
use anyhow::bail;
use clap::ValueEnum;

use crate::commands;
use crate::system_packages::{self, BUBBLEWRAP, C_COMPILER, JQ};
use figures::Figures;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print the figures as one JSON object on stdout; the tables go to stderr.
    #[arg(long)]
    json: bool,
    /// Measure only this part.
    #[arg(long)]
    only: Option<Part>,
    /// Size of the stream to parse, in MiB.
    #[arg(long, default_value_t = 64)]
    corpus_mib: usize,
    /// How many times to run each reader; the best time counts.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// How many runs to launch for the median.
    #[arg(long, default_value_t = 50)]
    launches: usize,
    /// How much output to send through a whole run, in MiB.
    #[arg(long, default_value_t = 1024)]
    flood_mib: usize,
    /// Largest number of runs to supervise at once.
    #[arg(long, default_value_t = 200)]
    concurrent: usize,
    /// Set by the bench itself: this process is an optimised build, measures one part and writes its figures here.
    #[arg(long, hide = true)]
    out: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    Parsing,
    Runs,
    /// From `runs`, only the launch time.
    Launch,
    /// From `runs`, only many silent runs at once.
    Crowds,
    Sessions,
    Resume,
    Daemon,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    match (&args.out, args.only) {
        (Some(out), Some(part)) => measure(args, part, out),
        _ => orchestrate(args),
    }
}

/// Builds the measured programs with optimisation, and measures each part in its own process. The parsing part is built
/// without the crates that the runs need: they would add features to serde_json, which would slow down the peer that
/// uses it.
fn orchestrate(args: &Args) -> anyhow::Result<()> {
    system_packages::ensure(&[BUBBLEWRAP, C_COMPILER, JQ])?;
    let cargo = commands::cargo();
    commands::run(&cargo, &["build", "--locked", "--release", "-p", "caretaker", "--bins"])?;
    let scratch = Scratch::new()?;
    let out = scratch.0.join("figures");
    let mut parts: BTreeMap<String, Figures> = BTreeMap::new();
    let all = vec![Part::Parsing, Part::Runs, Part::Sessions, Part::Resume, Part::Daemon];
    for part in args.only.map_or(all, |only| vec![only]) {
        let features: &[&str] = match part {
            Part::Parsing | Part::Daemon => &[],
            Part::Runs | Part::Launch | Part::Crowds => &["--features", "runs"],
            Part::Sessions | Part::Resume => &["--features", "sessions"],
        };
        let build = [&["build", "--locked", "--release", "-p", "xtask"], features].concat();
        commands::run(&cargo, &build)?;
        let name = part.to_possible_value().context("no name")?.get_name().to_owned();
        let mut words = vec!["bench".to_owned(), format!("--only={name}")];
        words.push(format!("--out={}", out.display()));
        words.extend([
            format!("--corpus-mib={}", args.corpus_mib),
            format!("--rounds={}", args.rounds),
            format!("--launches={}", args.launches),
            format!("--flood-mib={}", args.flood_mib),
            format!("--concurrent={}", args.concurrent),
        ]);
        commands::run(&release_binary("xtask").to_string_lossy(), &words)?;
        parts.insert(name, serde_json::from_slice(&std::fs::read(&out)?)?);
    }
    print(&parts, args.json)
}

#[expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the report is the result of this chore"
)]
fn print(parts: &BTreeMap<String, Figures>, json: bool) -> anyhow::Result<()> {
    let mut tables: String = parts.values().map(Figures::table).collect();
    tables += &match parts.values().map(Figures::n_missed).sum() {
        0 => "all promises are met".to_owned(),
        n => format!("{n} promises are missed"),
    };
    if json {
        eprintln!("{tables}");
        println!("{}", serde_json::to_string_pretty(parts)?);
    } else {
        println!("{tables}");
    }
    Ok(())
}

fn measure(args: &Args, part: Part, out: &Path) -> anyhow::Result<()> {
    let scratch = out.parent().context("no scratch directory")?;
    let caretaker = release_binary("caretaker");
    let mut figures = Figures::default();
    match part {
        Part::Parsing => parsing::measure(&mut figures, scratch, &caretaker, args)?,
        Part::Daemon => daemon::measure(&mut figures, &caretaker, args)?,
        #[cfg(feature = "runs")]
        Part::Runs | Part::Launch | Part::Crowds => {
            runs::measure(&mut figures, &caretaker, part, args)?;
        }
        #[cfg(not(feature = "runs"))]
        Part::Runs | Part::Launch | Part::Crowds => bail!("this build does not measure runs"),
        #[cfg(feature = "sessions")]
        Part::Sessions => sessions::measure(&mut figures, scratch, &caretaker, args.rounds)?,
        #[cfg(feature = "sessions")]
        Part::Resume => resume::measure(&mut figures, scratch, &caretaker, args.rounds)?,
        #[cfg(not(feature = "sessions"))]
        Part::Sessions | Part::Resume => bail!("this build does not measure sessions"),
    }
    Ok(std::fs::write(out, serde_json::to_vec(&figures)?)?)
}

fn release_binary(name: &str) -> PathBuf {
    commands::target_dir().join("release").join(name)
}

/// A directory for gigabytes of data, which the benchmark removes when it ends. After an interrupted benchmark, the
/// next one removes it.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> anyhow::Result<Self> {
        let scratch = Self(commands::target_dir().join("bench"));
        scratch.remove();
        std::fs::create_dir_all(&scratch.0)
            .with_context(|| format!("cannot create `{}`", scratch.0.display()))?;
        Ok(scratch)
    }

    fn remove(&self) {
        // A leftover that cannot be removed does no harm.
        std::fs::remove_dir_all(&self.0).ok();
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.remove();
    }
}
