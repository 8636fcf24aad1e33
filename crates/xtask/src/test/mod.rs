//! `cargo xtask test`: what must hold before anything lands. `--full` adds what takes long.

mod api;
mod fresh_debian;
mod full;
mod fuzzing;
mod sdk_stores;
mod timing;
mod tools;

use std::ffi::OsStr;
use std::process::{Command, Stdio};

use crate::commands::{self, on_path};
use crate::system_packages::{
    self, BUBBLEWRAP, C_COMPILER, CHROMIUM, CURL, GIT, IPROUTE, NODE, OPENSSL, PROTOC, PYTHON,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Then run what takes long: storms of kills, a minute of fuzzing per target, the API against its description,
    /// stores of the real SDK, a fresh Debian. Prints how long each step and the slowest tests took.
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

/// Installs what both tiers need.
fn set_up() -> anyhow::Result<()> {
    system_packages::ensure(&[
        C_COMPILER, BUBBLEWRAP, GIT, PROTOC, CHROMIUM, NODE, CURL, PYTHON, OPENSSL, IPROUTE,
    ])?;
    let cargo = commands::cargo();
    ensure_component(&cargo, "fmt", "rustfmt")?;
    ensure_component(&cargo, "clippy", "clippy")
}

/// What a compiler can say without running anything.
fn checks() -> anyhow::Result<()> {
    let cargo = |args: &[&str]| commands::run(&commands::cargo(), args);
    cargo(&["fmt", "--all", "--check"])?;
    cargo(&["clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"])?;
    check_fuzz_targets()
}

/// The suite starts our programs as a user would, so they are built before it runs.
fn build_programs() -> anyhow::Result<()> {
    commands::run(&commands::cargo(), &["build", "--locked", "--workspace", "--bins"])
}

/// The fuzz targets are a workspace of their own, which the everyday build leaves out. This checks that they compile,
/// without the fuzzer and without linking.
fn check_fuzz_targets() -> anyhow::Result<()> {
    let target_dir = commands::target_dir();
    let args = ["check", "--locked", "--manifest-path", "tests/fuzz/Cargo.toml", "--target-dir"];
    let args = args.map(OsStr::new).into_iter().chain([target_dir.as_os_str()]);
    let no_fuzzer = target_dir.join("libno-fuzzer.a");
    commands::run_with(
        &commands::cargo(),
        &args.collect::<Vec<_>>(),
        &[("CUSTOM_LIBFUZZER_PATH", no_fuzzer.as_os_str())],
    )
}

/// A minimal toolchain comes without these two.
fn ensure_component(cargo: &str, subcommand: &str, component: &str) -> anyhow::Result<()> {
    let is_there = Command::new(cargo)
        .args([subcommand, "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?
        .success();
    if is_there || on_path("rustup").is_none() {
        return Ok(());
    }
    commands::run("rustup", &["component", "add", component])
}
