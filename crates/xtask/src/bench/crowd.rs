//! Many silent runs at once: what their shims take of memory and of the processors, and how long it takes to end them all.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde::Serialize;
use serde_json::Value;

use super::runs::Stage;

/// A shim takes a run for silent after a minute, and looks after it less often from then on.
const UNTIL_SILENT: Duration = Duration::from_secs(65);
const WATCHED: Duration = Duration::from_secs(30);

#[derive(Debug, Serialize)]
pub(super) struct Crowd {
    n_runs: usize,
    mean_pss_kib: f64,
    /// The part that no other process shares.
    mean_private_kib: f64,
    /// The time that all shims together take of one processor while their agents are silent. Only of the largest crowd.
    idle_percent: Option<f64>,
    /// One `caretaker kill` of all of them.
    kill_s: f64,
}

impl Stage {
    /// Crowds of these sizes, one after the other. Only the last waits for silence, which takes a while.
    pub(super) fn crowds(&self, sizes: &[usize]) -> anyhow::Result<Vec<Crowd>> {
        let largest = sizes.iter().max().copied();
        sizes.iter().map(|n_runs| self.crowd(*n_runs, Some(*n_runs) == largest)).collect()
    }

    fn crowd(&self, n_runs: usize, is_watched: bool) -> anyhow::Result<Crowd> {
        let mut runs = Vec::new();
        for number in 0..n_runs {
            let workspace = self.workspace(&format!("crowd-{number}"))?;
            runs.push(self.start_with(&workspace, self.agent(), "silent", &[])?);
        }
        let shims = runs.iter().map(|run| self.shim_of(run)).collect::<anyhow::Result<Vec<_>>>()?;
        let (mut pss, mut private) = (0, 0);
        for shim in &shims {
            let rollup = std::fs::read_to_string(shim.join("smaps_rollup"))?;
            pss += kib(&rollup, "Pss:")?;
            private += kib(&rollup, "Private_Clean:")? + kib(&rollup, "Private_Dirty:")?;
        }
        let idle_percent = is_watched.then(|| idle_percent(&shims)).transpose()?;
        let kill_s = self.kill(&runs)?;
        let mean = |sum: u64| sum as f64 / n_runs as f64;
        let (mean_pss_kib, mean_private_kib) = (mean(pss), mean(private));
        Ok(Crowd { n_runs, mean_pss_kib, mean_private_kib, idle_percent, kill_s })
    }

    fn kill(&self, runs: &[String]) -> anyhow::Result<f64> {
        let words: Vec<&str> =
            std::iter::once("kill").chain(runs.iter().map(String::as_str)).collect();
        let begun = Instant::now();
        let mut kill = self.command(&self.root, &words);
        let status = kill.stdout(Stdio::null()).stderr(Stdio::null()).status()?;
        ensure!(status.success(), "the runs were not killed");
        Ok(begun.elapsed().as_secs_f64())
    }

    /// The directory below `/proc` of the shim of a run.
    fn shim_of(&self, run: &str) -> anyhow::Result<PathBuf> {
        let lock = std::fs::read_to_string(self.journal(run).with_file_name("run.lock"))?;
        let holder: Value = serde_json::from_str(&lock)?;
        Ok(Path::new("/proc").join(holder["pid"].as_u64().context("no pid")?.to_string()))
    }
}

/// The share of one processor that these processes take together.
fn idle_percent(processes: &[PathBuf]) -> anyhow::Result<f64> {
    sleep(UNTIL_SILENT);
    let begun = (Instant::now(), ran_ns(processes)?);
    sleep(WATCHED);
    let ran = ran_ns(processes)?.saturating_sub(begun.1);
    Ok(ran as f64 / 1e9 / begun.0.elapsed().as_secs_f64() * 100.0)
}

/// For how long all threads of these processes ran.
fn ran_ns(processes: &[PathBuf]) -> anyhow::Result<u64> {
    let mut sum = 0;
    for process in processes {
        for thread in std::fs::read_dir(process.join("task"))? {
            // A thread that has ended since counts no more.
            let Ok(text) = std::fs::read_to_string(thread?.path().join("schedstat")) else {
                continue;
            };
            sum += text.split_whitespace().next().context("no time")?.parse::<u64>()?;
        }
    }
    Ok(sum)
}

fn kib(rollup: &str, name: &str) -> anyhow::Result<u64> {
    let line = rollup.lines().find_map(|line| line.strip_prefix(name)).context("no such line")?;
    Ok(line.trim().trim_end_matches(" kB").trim().parse()?)
}
