//! `cargo xtask test`: what must hold before anything lands.

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
    // The suite starts our programs as a user would, so they are built before it runs.
    cargo(&["build", "--locked", "--workspace", "--bins"])?;
    cargo(&["test", "--locked", "--workspace"])
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
