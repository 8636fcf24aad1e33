//! `cargo xtask test`: what must hold before anything lands.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

use crate::commands::{self, on_path};
use crate::system_packages::{
    self, BUBBLEWRAP, C_COMPILER, CHROMIUM, CURL, GIT, IPROUTE, NODE, OPENSSL, PROTOC, PYTHON,
};

pub(crate) fn run() -> anyhow::Result<()> {
    system_packages::ensure(&[
        C_COMPILER, BUBBLEWRAP, GIT, PROTOC, CHROMIUM, NODE, CURL, PYTHON, OPENSSL, IPROUTE,
    ])?;
    let cargo = commands::cargo();
    ensure_component(&cargo, "fmt", "rustfmt")?;
    ensure_component(&cargo, "clippy", "clippy")?;

    let cargo = |args: &[&str]| commands::run(&cargo, args);
    cargo(&["fmt", "--all", "--check"])?;
    cargo(&["clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"])?;
    check_fuzz_targets()?;
    // The suite starts our programs as a user would, so they are built before it runs.
    cargo(&["build", "--locked", "--workspace", "--bins"])?;
    cargo(&["test", "--locked", "--workspace"])
}

/// The fuzz targets are a workspace of their own, which nobody builds every day. That they can be built is seen without the
/// nightly toolchain that they run with, and without the fuzzer itself: nothing is linked.
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
