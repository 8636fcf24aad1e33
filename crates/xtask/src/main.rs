//! The project's own chores: `cargo xtask demo`, `test`, `bench`.
//!
//! Each does all of its own set-up, so that a fresh machine with a Rust toolchain needs nothing else.

mod bench;
mod commands;
mod demo;
mod payload;
mod system_packages;
mod test;

use clap::{Parser, Subcommand};

/// Chores of the Caretaker project.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Xtask {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Debug, Subcommand)]
enum Chore {
    /// Build, launch a sandboxed run with the simulated agent, watch it, and look at what it left.
    Demo,
    /// Check the formatting, run clippy with warnings as errors, and run all tests.
    Test(test::Args),
    /// Measure speed and memory against named peers, in one run.
    Bench(bench::Args),
}

fn main() -> anyhow::Result<()> {
    // As an agent of the bench we are called with an agent's flags.
    if let Some(outcome) = payload::play_if_called_as_agent() {
        return outcome;
    }
    match Xtask::parse().chore {
        Chore::Demo => demo::run(),
        Chore::Test(args) => test::run(&args),
        Chore::Bench(args) => bench::run(&args),
    }
}
