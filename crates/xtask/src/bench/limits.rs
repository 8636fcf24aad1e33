//! The time that limits add to a launch, and the latency of a run beside a fork bomb or a memory bomb under limits.

use std::process::{Child, Command, Stdio};

use serde::Serialize;
use serde_json::Value;

use super::runs::{Stage, Tail, began_ns, elapsed_ms, median, nanoseconds};

#[derive(Debug, Serialize)]
pub(crate) struct Limits {
    /// The mechanism that enforces the limits on this host.
    backend: String,
    with_ms: f64,
    without_ms: f64,
    added_ms: f64,
    /// `None` on a host where a bomb would be unsafe.
    beside_bombs: Option<Tail>,
}

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

impl Stage {
    pub(super) fn limits(&self, n_launches: usize) -> anyhow::Result<Limits> {
        let profiles = self.root.join("home/.config/caretaker/profiles");
        std::fs::create_dir_all(&profiles)?;
        std::fs::write(profiles.join("unlimited.toml"), UNLIMITED)?;
        let (mut with, mut without) = (Vec::new(), Vec::new());
        // The two launches alternate, so that other load on the machine affects both.
        for _ in 0..n_launches {
            with.push(self.launch_with("default")?);
            without.push(self.launch_with("unlimited")?);
        }
        let (with_ms, without_ms) = (median(with), median(without));
        let in_force = self.in_force(&CAPS)?;
        let is_held = in_force["held"]["processes"] == 128 && in_force["backend"] != "rlimits";
        Ok(Limits {
            backend: in_force["backend"].as_str().unwrap_or_default().to_owned(),
            with_ms,
            without_ms,
            added_ms: with_ms - without_ms,
            beside_bombs: if is_held { Some(self.beside_bombs()?) } else { None },
        })
    }

    fn launch_with(&self, profile: &str) -> anyhow::Result<f64> {
        let workspace = self.workspace("limits")?;
        let start = nanoseconds();
        let run = self.start_with(&workspace, self.agent(), "go", &["--profile", profile])?;
        self.wait(&workspace, &run)?;
        Ok(elapsed_ms(start, began_ns(&std::fs::read_to_string(self.journal(&run))?)?))
    }

    /// Returns the limits in force for a run with these flags.
    fn in_force(&self, flags: &[&str]) -> anyhow::Result<Value> {
        let workspace = self.workspace("limits")?;
        let args = [&["run", "--json", "--agent", self.agent(), "go"], flags].concat();
        let output = self.command(&workspace, &args).output()?;
        let lines = String::from_utf8(output.stdout)?;
        let events = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let ready = events.into_iter().find(|event| event["kind"] == "run.sandbox_ready");
        Ok(ready.map(|event| event["limits"].clone()).unwrap_or_default())
    }

    /// Measures the latency of one run while bombs go off beside it, again and again.
    fn beside_bombs(&self) -> anyhow::Result<Tail> {
        let bombs =
            [Bombs::start(self, "fork", FORK_BOMB)?, Bombs::start(self, "memory", MEMORY_BOMB)?];
        let tail = self.tail(400);
        drop(bombs);
        tail
    }
}

/// Starts runs with a bomb, one after the other, until this is dropped.
struct Bombs {
    shell: Child,
}

impl Bombs {
    fn start(stage: &Stage, name: &str, bomb: &str) -> anyhow::Result<Self> {
        let workspace = stage.workspace(name)?;
        let prompt = format!("```agent\nshell {bomb}\nshell sleep 600\n```\n");
        let args = [&["run", "--agent", "simulated", &prompt], &CAPS[..]].concat();
        let run = stage.command(&workspace, &args);
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
        Ok(Self { shell: shell.spawn()? })
    }
}

impl Drop for Bombs {
    fn drop(&mut self) {
        // The present run ends by its own limit. The shell handles the signal after that.
        if let Ok(pid) = i32::try_from(self.shell.id())
            && let Some(pid) = rustix::process::Pid::from_raw(pid)
        {
            rustix::process::kill_process(pid, rustix::process::Signal::TERM).ok();
        }
        self.shell.wait().ok();
    }
}
