//! Tests the daemon's API against its own description: schemathesis reads `/v1/openapi.json`, and sends valid and invalid
//! requests.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use serde_json::Value;

use super::tools::Tools;
use crate::commands;

pub(super) fn probe(tools: &Tools) -> anyhow::Result<()> {
    let scratch = tempfile::tempdir()?;
    let daemon = Daemon::start(scratch.path())?;
    let token = std::fs::read_to_string(&daemon.token_file)?;
    let settings = commands::workspace_root().join("tests/schemathesis.toml");
    let mut schemathesis = Command::new(tools.schemathesis());
    schemathesis
        .arg(format!("--config-file={}", settings.display()))
        .args(["run", &format!("http://{}/v1/openapi.json", daemon.address)])
        .arg(format!("--header=Authorization: Bearer {}", token.trim()))
        .args(["--seed=1", "--no-color"])
        // schemathesis writes its results into the current directory.
        .current_dir(scratch.path());
    commands::check(&mut schemathesis)?;
    daemon.is_well()
}

/// A daemon with its own home. Dropping this value stops it.
struct Daemon<'a> {
    home: &'a Path,
    address: String,
    token_file: String,
}

impl<'a> Daemon<'a> {
    fn start(home: &'a Path) -> anyhow::Result<Self> {
        let answer = caretaker(home, &["daemon", "start", "--listen", "127.0.0.1:0", "--json"])?;
        let text = |key: &str| {
            let value = answer[key].as_str().map(str::to_owned);
            value.with_context(|| format!("the daemon's answer has no `{key}`: {answer}"))
        };
        Ok(Self { home, address: text("listen")?, token_file: text("token_file")? })
    }

    /// Checks that the same daemon still answers.
    fn is_well(&self) -> anyhow::Result<()> {
        let answer = caretaker(self.home, &["daemon", "status", "--json"])?;
        ensure!(answer["listen"] == self.address.as_str(), "the daemon is gone: {answer}");
        Ok(())
    }
}

impl Drop for Daemon<'_> {
    fn drop(&mut self) {
        caretaker(self.home, &["suspend", "--all", "--json"]).ok();
        caretaker(self.home, &["daemon", "stop", "--json"]).ok();
    }
}

fn caretaker(home: &Path, args: &[&str]) -> anyhow::Result<Value> {
    let output = Command::new(commands::target_dir().join("debug/caretaker"))
        .args(args)
        .current_dir(home)
        .env("HOME", home)
        .env("CARETAKER_HOME", home.join("state"))
        .output()?;
    serde_json::from_slice(&output.stdout)
        .with_context(|| format!("`caretaker {}` gave no answer", args.join(" ")))
}
