//! The time that limits add to a launch, and the latency of a run next to a limited fork bomb or memory bomb.

use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::figures::Figures;
use super::runs::Runs;
use super::stage::quantile;

/// The profile `default` without any limit.
const UNLIMITED: &str = "\
extends = \"default\"
description = \"no limits\"
[limits]
memory = \"none\"
processes = 0
cpu_weight = 0
file_size = \"none\"
open_files = 0
disk = \"none\"
";

const FORK_BOMB: &str =
    "python3 -c \"exec('import os\\nwhile 1:\\n try: os.fork()\\n except OSError: pass')\"";
const MEMORY_BOMB: &str = "python3 -c \"exec('b=[]\\nwhile 1: b.append(bytes([7])*(1<<20))')\"";
/// Small enough that a bomb harms no other process.
const CAPS: [&str; 4] = ["--processes", "128", "--memory", "256MiB"];

impl Runs {
    pub(super) fn limits(&self, figures: &mut Figures, n_launches: usize) -> anyhow::Result<()> {
        let profiles = self.stage.workspace(".config/caretaker/profiles")?;
        std::fs::write(profiles.join("unlimited.toml"), UNLIMITED)?;
        let workspace = self.stage.workspace("limits")?;
        let (mut with, mut without) = (Vec::new(), Vec::new());
        // The two launches alternate, so that other load on the machine affects both.
        for _ in 0..n_launches {
            with.push(self.supervised_launch(&workspace, &["--profile", "default"])?.1);
            without.push(self.supervised_launch(&workspace, &["--profile", "unlimited"])?.1);
        }
        let (with, without) = (quantile(with, 0.5), quantile(without, 0.5));
        let in_force = self.in_force()?;
        let backend = in_force["backend"].as_str().unwrap_or("nothing");
        let section = figures.section(format!("limits, enforced by {backend}"));
        section.row("launch with limits", with, "ms");
        section.row("launch without limits", without, "ms");
        section.row("added by the limits, as part of the plan's time", with - without, "ms");
        // With weaker limits, a bomb would be unsafe.
        if in_force["held"]["processes"] == 128 && backend != "rlimits" {
            let bombs = [self.bombs("fork", FORK_BOMB)?, self.bombs("memory", MEMORY_BOMB)?];
            self.tail(figures, "tail -f of a run beside a fork bomb and a memory bomb")?;
            drop(bombs);
        }
        Ok(())
    }

    /// Returns the limits in force for a run with the caps.
    fn in_force(&self) -> anyhow::Result<Value> {
        let workspace = self.stage.workspace("limits")?;
        let args = [&["run", "--json", "--agent", &self.agent, "go"], &CAPS[..]].concat();
        let lines = String::from_utf8(self.stage.command(&workspace, &args).output()?.stdout)?;
        let mut events = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let ready = events.find(|event| event["kind"] == "run.sandbox_ready");
        Ok(ready.map(|event| event["limits"].clone()).unwrap_or_default())
    }

    fn bombs(&self, name: &str, bomb: &str) -> anyhow::Result<Bombs> {
        let workspace = self.stage.workspace(name)?;
        let prompt = format!("```agent\nshell {bomb}\nshell sleep 600\n```\n");
        let args = [&["run", "--agent", "simulated", &prompt], &CAPS[..]].concat();
        let run = self.stage.command(&workspace, &args);
        let mut shell = Command::new("sh");
        shell
            .args(["-c", "trap exit TERM; while :; do \"$@\"; done", "sh"])
            .arg(run.get_program())
            .args(run.get_args())
            .env_clear()
            .envs(run.get_envs().filter_map(|(name, value)| Some((name, value?))))
            .current_dir(workspace)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Ok(Bombs(shell.spawn()?))
    }
}

/// A shell that starts runs with a bomb, one after another, until this is dropped.
struct Bombs(Child);

impl Drop for Bombs {
    fn drop(&mut self) {
        // The current run ends at its own limit. The shell handles the signal after that.
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).ok();
        self.0.wait().ok();
    }
}
