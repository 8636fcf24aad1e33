//! Many silent runs at once: the memory and processor time of their shims, and the time to end them all.

use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::Value;

use super::figures::Figures;
use super::runs::Runs;
use super::stage::kib_in;

/// A shim treats a run as silent after a minute, and then checks it less often.
const UNTIL_SILENT: Duration = Duration::from_secs(65);
const WATCHED: Duration = Duration::from_secs(30);

impl Runs {
    /// Measures crowds of growing size. Waits until the runs are silent only in the largest crowd, because that takes a
    /// minute.
    pub(super) fn crowds(&self, figures: &mut Figures, largest: usize) -> anyhow::Result<()> {
        let sizes: Vec<usize> = [1, 50, 200, 500].into_iter().filter(|n| *n <= largest).collect();
        sizes.iter().try_for_each(|n| self.crowd(figures, *n, Some(n) == sizes.last()))
    }

    fn crowd(&self, figures: &mut Figures, n_runs: usize, is_watched: bool) -> anyhow::Result<()> {
        let mut runs = Vec::new();
        for number in 0..n_runs {
            let workspace = self.stage.workspace(&format!("crowd-{number}"))?;
            runs.push(self.start(&workspace, &self.agent, "silent", &[])?);
        }
        let shims = runs.iter().map(|run| self.shim_of(run)).collect::<anyhow::Result<Vec<_>>>()?;
        let (mut pss, mut private) = (0, 0);
        for shim in &shims {
            let rollup = std::fs::read_to_string(shim.join("smaps_rollup"))?;
            pss += kib_in(&rollup, "Pss:")?;
            private += kib_in(&rollup, "Private_Clean:")? + kib_in(&rollup, "Private_Dirty:")?;
        }
        let mean_mib = |sum: u64| sum as f64 / 1024.0 / n_runs as f64;
        let section = figures.section(format!("{n_runs} silent runs at once"));
        section.row("memory of a shim (PSS), mean", mean_mib(pss), "MiB").at_most(4.0);
        section.row("its private part, mean", mean_mib(private), "MiB");
        if is_watched {
            let percent = idle_percent(&shims)?;
            section.row("share of one processor that all shims use", percent, "%").at_most(5.0);
        }
        let words: Vec<&str> =
            [&["kill"], &*runs.iter().map(String::as_str).collect::<Vec<_>>()].concat();
        let begun = Instant::now();
        self.stage.output(self.stage.root(), &words)?;
        section.row("time to kill all runs", begun.elapsed().as_secs_f64(), "s");
        Ok(())
    }

    /// Returns the `/proc` directory of a run's shim.
    fn shim_of(&self, run: &str) -> anyhow::Result<PathBuf> {
        let lock = std::fs::read_to_string(self.run_directory(run).join("run.lock"))?;
        let holder: Value = serde_json::from_str(&lock)?;
        Ok(Path::new("/proc").join(holder["pid"].as_u64().context("no pid")?.to_string()))
    }
}

/// Returns the share of one processor that these processes use together.
fn idle_percent(processes: &[PathBuf]) -> anyhow::Result<f64> {
    sleep(UNTIL_SILENT);
    let begun = (Instant::now(), ran_ns(processes)?);
    sleep(WATCHED);
    let ran = ran_ns(processes)?.saturating_sub(begun.1);
    Ok(ran as f64 / 1e9 / begun.0.elapsed().as_secs_f64() * 100.0)
}

/// Returns the total running time of all threads of these processes.
fn ran_ns(processes: &[PathBuf]) -> anyhow::Result<u64> {
    let mut sum = 0;
    for process in processes {
        for thread in std::fs::read_dir(process.join("task"))? {
            // A thread that has ended meanwhile no longer counts.
            let Ok(text) = std::fs::read_to_string(thread?.path().join("schedstat")) else {
                continue;
            };
            sum += text.split_whitespace().next().context("no time")?.parse::<u64>()?;
        }
    }
    Ok(sum)
}
