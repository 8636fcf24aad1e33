//! A minute of fuzzing for each target, with the seeds and dictionaries of the tree.

use std::ffi::OsStr;
use std::path::Path;

use anyhow::Context;

use super::tools::Tools;
use crate::commands;

const SECONDS: u32 = 60;

/// The targets, as the fuzz workspace's manifest names them.
pub(super) fn targets() -> anyhow::Result<Vec<String>> {
    let manifest = fuzz_directory().join("Cargo.toml");
    let text = std::fs::read_to_string(&manifest)
        .with_context(|| format!("`{}` could not be read", manifest.display()))?;
    let mut is_bin = false;
    let mut names = Vec::new();
    for line in text.lines() {
        if line.starts_with('[') {
            is_bin = line == "[[bin]]";
        } else if let Some(name) = line.strip_prefix("name = ").filter(|_| is_bin) {
            names.push(name.trim_matches('"').to_owned());
        }
    }
    Ok(names)
}

pub(super) fn fuzz(tools: &Tools, target: &str) -> anyhow::Result<()> {
    let here = fuzz_directory();
    let corpus = tools.root().join("corpus").join(target);
    std::fs::create_dir_all(&corpus)?;
    let seeds = here.join("seeds").join(target);
    // A whole store is made of more bytes than a stream, and shares the decoders' words.
    let dictionary = if target == "stream" { "stream.dict" } else { "decoders.dict" };
    let mut words = ["fuzz", "run", "--fuzz-dir"].map(str::to_owned).to_vec();
    words.push(text(&here));
    words.extend(["--target-dir".to_owned(), text(&tools.root().join("fuzz"))]);
    words.extend([target.to_owned(), text(&corpus)]);
    words.extend(seeds.exists().then(|| text(&seeds)));
    words.push("--".to_owned());
    words.push(format!("-dict={}", here.join(dictionary).display()));
    words.push(format!("-max_total_time={SECONDS}"));
    if !seeds.exists() {
        words.extend(["-len_control=0", "-max_len=1024"].map(str::to_owned));
    }
    // The fuzzer needs flags of a nightly compiler, which this lends to a stable one. Each input of a store target writes
    // a home, so those go to memory.
    let variables = [("RUSTC_BOOTSTRAP", OsStr::new("1")), ("TMPDIR", OsStr::new("/dev/shm"))];
    commands::run_with(&tools.cargo_fuzz().to_string_lossy(), &words, &variables)
}

fn fuzz_directory() -> std::path::PathBuf {
    commands::workspace_root().join("tests/fuzz")
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
