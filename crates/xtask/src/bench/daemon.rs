//! The daemon's costs: when idle, for decisions, with many readers, and with many runs.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::figures::Figures;
use super::stage::{Stage, kib_in, memory_kib};

/// The benchmark watches an idle daemon for this long.
const IDLE: Duration = Duration::from_secs(60);

pub(super) fn measure(
    figures: &mut Figures,
    caretaker: &Path,
    args: &super::Args,
) -> anyhow::Result<()> {
    Daemon::start(caretaker, 8)?.idle(figures)?;
    Daemon::start(caretaker, 8)?.queue(figures, args.launches)?;
    Daemon::start(caretaker, 8)?.clients(figures, args.concurrent)?;
    Daemon::start(caretaker, args.concurrent)?.live(figures, args.concurrent)
}

/// A daemon on its own stage. Dropping this stops it.
struct Daemon {
    stage: Stage,
    pid: u32,
    socket: PathBuf,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.caretaker(&["daemon", "stop"]).ok();
    }
}

impl Daemon {
    fn start(caretaker: &Path, cap: usize) -> anyhow::Result<Self> {
        let stage = Stage::new(&std::env::temp_dir(), caretaker)?;
        let config = stage.workspace(".config/caretaker")?;
        let text = format!("min_free = \"0\"\n[queue]\ncap = {cap}\n");
        std::fs::write(config.join("config.toml"), text)?;
        let mut daemon = Self { stage, pid: 0, socket: PathBuf::new() };
        let started: Value =
            serde_json::from_str(&daemon.caretaker(&["daemon", "start", "--json"])?)?;
        daemon.pid = started["pid"].as_u64().context("no pid")?.try_into()?;
        daemon.socket = started["socket"].as_str().context("no socket")?.into();
        Ok(daemon)
    }

    fn caretaker(&self, args: &[&str]) -> anyhow::Result<String> {
        self.stage.output(&self.stage.home(), args)
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> anyhow::Result<String> {
        let mut stream = UnixStream::connect(&self.socket)?;
        let length = body.len();
        let request = format!("{method} {path} HTTP/1.0\r\ncontent-length: {length}\r\n\r\n{body}");
        stream.write_all(request.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").context("no answer")?;
        ensure!(head.contains(" 20"), "{path}: {answer}");
        Ok(body.to_owned())
    }

    fn submit(&self, number: usize, script: &str) -> anyhow::Result<String> {
        let workspace = self.stage.workspace(&format!("w{number}"))?;
        let prompt = format!("```agent\n{script}\n```");
        let request = json!({"prompt": prompt, "workspace": workspace, "agent": "simulated"});
        let accepted: Value =
            serde_json::from_str(&self.ask("POST", "/v1/runs", &request.to_string())?)?;
        Ok(accepted["run"].as_str().context("no run")?.to_owned())
    }

    fn metric(&self, name: &str) -> anyhow::Result<f64> {
        let metrics = self.ask("GET", "/metrics", "")?;
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        Ok(line.with_context(|| format!("there is no {name}"))?.parse()?)
    }

    fn wake_ups(&self) -> anyhow::Result<u64> {
        let mut sum = 0;
        for task in std::fs::read_dir(format!("/proc/{}/task", self.pid))? {
            let status = std::fs::read_to_string(task?.path().join("status"))?;
            sum += kib_in(&status, "voluntary_ctxt_switches:")?;
        }
        Ok(sum)
    }

    fn memory_mib(&self) -> anyhow::Result<f64> {
        Ok(memory_kib(self.pid, "VmRSS:")? as f64 / 1024.0)
    }

    /// Returns the daemon's processor time, in seconds.
    fn cpu(&self) -> anyhow::Result<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid))?;
        let rest = stat.rsplit(')').next().context("no stat")?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let ticks: f64 = fields[11].parse::<f64>()? + fields[12].parse::<f64>()?;
        Ok(ticks / 100.0)
    }

    fn idle(&self, figures: &mut Figures) -> anyhow::Result<()> {
        // Wait until the daemon has finished its startup work.
        thread::sleep(Duration::from_secs(6));
        let before = self.wake_ups()?;
        thread::sleep(IDLE);
        let wake_ups = self.wake_ups()? - before;
        let seconds = IDLE.as_secs();
        let section = figures.section(format!("the daemon, idle for {seconds} s"));
        section.row("wake-ups", wake_ups as f64, "").at_most(0.0);
        section.row("memory", self.memory_mib()?, "MiB").at_most(20.0);
        Ok(())
    }

    fn queue(&self, figures: &mut Figures, n_runs: usize) -> anyhow::Result<()> {
        self.ask("POST", "/v1/queue/pause", "")?;
        let runs = (0..n_runs)
            .map(|number| self.submit(number, "say hello"))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let (cpu, decided) = (self.cpu()?, self.metric("caretaker_decision_microseconds_total")?);
        self.ask("POST", "/v1/queue/resume", "")?;
        for run in &runs {
            self.caretaker(&["wait", run])?;
        }
        let decided = self.metric("caretaker_decision_microseconds_total")? - decided;
        let ms_of_each = |seconds: f64| seconds * 1000.0 / n_runs as f64;
        let section = figures.section(format!("its queue, {n_runs} runs, 8 at once"));
        section.row("decisions, per run", ms_of_each(decided / 1e6), "ms").at_most(5.0);
        section.row("its processor time, per run", ms_of_each(self.cpu()? - cpu), "ms");
        Ok(())
    }

    fn clients(&self, figures: &mut Figures, n_clients: usize) -> anyhow::Result<()> {
        let talk: String = (0..100).map(|n| format!("say line {n}\nshell true\n")).collect();
        self.ask("POST", "/v1/queue/pause", "")?;
        let run = self.submit(0, &talk)?;
        let readers: Vec<_> = (0..n_clients)
            .map(|_| {
                let mut stream = UnixStream::connect(&self.socket)?;
                stream
                    .write_all(format!("GET /v1/runs/{run}/events HTTP/1.0\r\n\r\n").as_bytes())?;
                Ok(thread::spawn(move || {
                    let lines = BufReader::new(stream).lines();
                    lines.map_while(Result::ok).filter(|line| line.starts_with("id:")).count()
                }))
            })
            .collect::<anyhow::Result<_>>()?;
        let (cpu, began) = (self.cpu()?, Instant::now());
        self.ask("POST", "/v1/queue/resume", "")?;
        let mut events_each = usize::MAX;
        for reader in readers {
            let n_events = reader.join().ok().context("a reader failed")?;
            events_each = events_each.min(n_events);
        }
        let cores = (self.cpu()? - cpu) / began.elapsed().as_secs_f64();
        let section = figures
            .section(format!("{n_clients} clients that follow one run, {events_each} events each"));
        section.row("processor", cores, "cores").at_most(1.0);
        section.row("memory", self.memory_mib()?, "MiB");
        Ok(())
    }

    fn live(&self, figures: &mut Figures, n_runs: usize) -> anyhow::Result<()> {
        let runs = (0..n_runs)
            .map(|number| self.submit(number, "say hello\nwait 9m"))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let mut events = BufReader::new(UnixStream::connect(&self.socket)?);
        events.get_mut().write_all(b"GET /v1/events?only=run&since=1.0 HTTP/1.0\r\n\r\n")?;
        let mut n_released = 0;
        let mut line = String::new();
        while n_released < n_runs && events.read_line(&mut line)? > 0 {
            n_released += usize::from(line.contains("\"run.released\""));
            line.clear();
        }
        drop(events);
        let section = figures.section(format!("the daemon with {n_runs} live runs"));
        section.row("memory", self.memory_mib()?, "MiB").at_most(60.0);
        for run in &runs {
            self.ask("POST", &format!("/v1/runs/{run}/stop"), "{\"now\":true}")?;
        }
        // A stopped run has its own exit code.
        runs.iter().for_each(|run| drop(self.caretaker(&["wait", run])));
        Ok(())
    }
}
