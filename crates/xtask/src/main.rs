//! The project's chores: `cargo xtask demo`, `test`, `bench`.
//!
//! Each installs what it needs, so that a fresh machine needs only a Rust toolchain.

mod bench;
mod commands;
mod demo;
mod payload;
mod system_packages;
mod test;

use clap::{Parser, Subcommand};

/// The Caretaker project's chores.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Xtask {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Debug, Subcommand)]
enum Chore {
    /// Build Caretaker, and show a sandboxed run with the simulated agent.
    Demo,
    /// Check the formatting, run clippy with warnings as errors, and run all tests.
    Test(test::Args),
    /// Measure speed and memory against named peers, in one run.
    Bench(bench::Args),
}

fn main() -> anyhow::Result<()> {
    // The bench starts this program as its agent.
    if let Some(outcome) = payload::play_if_called_as_agent() {
        return outcome;
    }
    match Xtask::parse().chore {
        Chore::Demo => demo::run(),
        Chore::Test(args) => test::run(&args),
        Chore::Bench(args) => bench::run(&args),
    }
}
