//! `cargo xtask bench`: figures as ratios against named peers, measured in one run.

mod corpus;
mod parsing;
mod report;

use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::commands;
use crate::system_packages::{self, JQ};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print the figures as one JSON object on stdout; the table goes to stderr.
    #[arg(long)]
    json: bool,
    /// Size of the generated stream, in MiB.
    #[arg(long, default_value_t = 64)]
    corpus_mib: usize,
    /// How often each way of reading it is run; the best counts.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Set by the bench itself: this process is the optimised build that measures.
    #[arg(long, hide = true)]
    measure: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    if !args.measure {
        return measure_in_release(args);
    }
    let scratch = Scratch::new()?;
    let corpus = corpus::write(&scratch.0.join("stream.ndjson"), args.corpus_mib << 20)?;
    let parsing = parsing::measure(&corpus, args.rounds, &release_binary("caretaker"))?;
    report::print(&report::Figures { parsing }, args.json)
}

/// Builds what is measured with optimisation, and goes on there. xtask is built by itself: built together with the other
/// crates its serde_json would get their features, and the peer that uses it would be slowed down.
fn measure_in_release(args: &Args) -> anyhow::Result<()> {
    system_packages::ensure(&[JQ])?;
    let cargo = commands::cargo();
    commands::run(&cargo, &["build", "--locked", "--release", "-p", "caretaker", "--bins"])?;
    commands::run(&cargo, &["build", "--locked", "--release", "-p", "xtask"])?;
    let mut words = vec![
        "bench".to_owned(),
        "--measure".to_owned(),
        format!("--corpus-mib={}", args.corpus_mib),
        format!("--rounds={}", args.rounds),
    ];
    words.extend(args.json.then(|| "--json".to_owned()));
    commands::run(&release_binary("xtask").to_string_lossy(), &words)
}

fn release_binary(name: &str) -> PathBuf {
    commands::target_dir().join("release").join(name)
}

/// A directory that goes away with the bench.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> anyhow::Result<Self> {
        let directory = commands::target_dir().join(format!("bench-{}", std::process::id()));
        std::fs::create_dir_all(&directory)
            .with_context(|| format!("`{}` could not be made", directory.display()))?;
        Ok(Self(directory))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is left behind lies in the build directory and is named after this process.
        std::fs::remove_dir_all::<&Path>(self.0.as_ref()).ok();
    }
}
