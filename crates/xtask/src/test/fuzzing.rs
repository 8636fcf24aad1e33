//! Fuzzes each target for a minute, with our seeds and dictionaries.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;
use serde_json::Value;

use super::tools::Tools;
use crate::commands;

const SECONDS: u32 = 60;

/// Returns the names of the targets, from the manifest of the fuzz workspace.
pub(super) fn targets() -> anyhow::Result<Vec<String>> {
    let args = ["metadata", "--no-deps", "--format-version=1", "--manifest-path"];
    let output = commands::cargo_command(args).arg(fuzz_directory().join("Cargo.toml")).output()?;
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let targets = metadata["packages"][0]["targets"].as_array().context("no fuzz targets")?;
    let is_bin = |target: &&Value| target["kind"][0] == "bin";
    let names = targets.iter().filter(is_bin).filter_map(|target| target["name"].as_str());
    Ok(names.map(ToOwned::to_owned).collect())
}

pub(super) fn fuzz(tools: &Tools, target: &str) -> anyhow::Result<()> {
    let here = fuzz_directory();
    let corpus = tools.root().join("corpus").join(target);
    std::fs::create_dir_all(&corpus)?;
    let seeds = here.join("seeds").join(target);
    // A whole store has more bytes than a stream, and uses the words of the decoders.
    let dictionary = if target == "stream" { "stream.dict" } else { "decoders.dict" };
    let mut fuzzer = Command::new(tools.cargo_fuzz());
    fuzzer.args(["fuzz", "run", "--fuzz-dir"]).arg(&here);
    fuzzer.arg("--target-dir").arg(tools.root().join("fuzz")).arg(target).arg(&corpus);
    fuzzer.args(seeds.exists().then_some(&seeds)).arg("--");
    fuzzer.arg(format!("-dict={}", here.join(dictionary).display()));
    fuzzer.arg(format!("-max_total_time={SECONDS}"));
    if !seeds.exists() {
        fuzzer.args(["-len_control=0", "-max_len=1024"]);
    }
    // The fuzzer needs nightly compiler flags; the first variable makes a stable compiler accept them. Each input of a
    // store target writes a home directory, so the second variable puts those into memory.
    fuzzer.env("RUSTC_BOOTSTRAP", "1").env("TMPDIR", "/dev/shm");
    commands::check(fuzzer.current_dir(commands::workspace_root()))
}

fn fuzz_directory() -> PathBuf {
    commands::workspace_root().join("tests/fuzz")
}
