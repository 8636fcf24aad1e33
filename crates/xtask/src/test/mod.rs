//! `cargo xtask test`: the checks before every merge. `--full` adds those that take a long time.

mod api;
mod fresh_debian;
mod full;
mod fuzzing;
mod sdk_stores;
mod timing;
mod tools;

use std::process::Stdio;

use crate::commands::{self, on_path};
use crate::system_packages::{
    self, BUBBLEWRAP, C_COMPILER, CHROMIUM, CURL, GIT, IPROUTE, NODE, NPM, OPENSSL, PROTOC, PYTHON,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Also run the long tests: storms of kills, a minute of fuzzing per target, the API against its description,
    /// projects of Go and Maven, stores of the real SDK, a fresh Debian. Prints the duration of each step and of the slowest tests.
    #[arg(long)]
    full: bool,
    /// With --full: run only the steps whose name contains this.
    #[arg(long, requires = "full", value_name = "WORD")]
    only: Option<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    set_up()?;
    if args.full {
        return full::run(args.only.as_deref());
    }
    checks()?;
    build_programs()?;
    commands::run(&commands::cargo(), &["test", "--locked", "--workspace"])
}

/// Installs the programs that both tiers need.
fn set_up() -> anyhow::Result<()> {
    system_packages::ensure(&[
        C_COMPILER, BUBBLEWRAP, GIT, PROTOC, CHROMIUM, NODE, NPM, CURL, PYTHON, OPENSSL, IPROUTE,
    ])?;
    ensure_component("fmt", "rustfmt")?;
    ensure_component("clippy", "clippy")
}

/// Checks that run none of our code.
fn checks() -> anyhow::Result<()> {
    let cargo = |args: &[&str]| commands::run(&commands::cargo(), args);
    cargo(&["fmt", "--all", "--check"])?;
    cargo(&["clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"])?;
    check_fuzz_targets()
}

/// Builds the programs that the suite starts.
fn build_programs() -> anyhow::Result<()> {
    commands::run(&commands::cargo(), &["build", "--locked", "--workspace", "--bins"])
}

/// Checks that the fuzz targets compile, without the fuzzer and without linking. They are a separate workspace, which the
/// everyday build leaves out.
fn check_fuzz_targets() -> anyhow::Result<()> {
    let target_dir = commands::target_dir();
    let args = ["check", "--locked", "--manifest-path", "tests/fuzz/Cargo.toml", "--target-dir"];
    let mut check = commands::cargo_command(args);
    check.arg(&target_dir).env("CUSTOM_LIBFUZZER_PATH", target_dir.join("libno-fuzzer.a"));
    commands::check(&mut check)
}

/// A minimal toolchain lacks rustfmt and clippy.
fn ensure_component(subcommand: &str, component: &str) -> anyhow::Result<()> {
    let is_installed = commands::cargo_command([subcommand, "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?
        .success();
    if is_installed || on_path("rustup").is_none() {
        return Ok(());
    }
    commands::run("rustup", &["component", "add", component])
}
