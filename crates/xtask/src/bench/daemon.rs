//! The daemon: what it costs to be there, to decide, to be read by many, and to have many runs.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde::Serialize;
use serde_json::{Value, json};

/// The sizes of the measurements.
pub(crate) struct Sizes {
    /// How long the bench watches an idle daemon.
    pub(crate) idle: Duration,
    pub(crate) queued: usize,
    pub(crate) clients: usize,
    pub(crate) live: usize,
}

#[derive(Debug, Serialize)]
pub(crate) struct Daemon {
    idle: Idle,
    queue: Queue,
    clients: Clients,
    live: Live,
}

#[derive(Debug, Serialize)]
struct Idle {
    seconds: f64,
    wake_ups: u64,
    rss_kib: u64,
}

#[derive(Debug, Serialize)]
struct Queue {
    n_runs: usize,
    /// Time spent on decisions, for each run that was started.
    decision_ms_per_run: f64,
    /// The daemon's whole processor time, for each run.
    daemon_cpu_ms_per_run: f64,
}

#[derive(Debug, Serialize)]
struct Clients {
    n_clients: usize,
    events_each: usize,
    /// Processor time per second of the stream.
    cores: f64,
    rss_kib: u64,
}

#[derive(Debug, Serialize)]
struct Live {
    n_runs: usize,
    rss_kib: u64,
}

pub(crate) fn measure(caretaker: &Path, sizes: &Sizes) -> anyhow::Result<Daemon> {
    let idle = Stage::new(caretaker, 8)?.idle(sizes.idle)?;
    let queue = Stage::new(caretaker, 8)?.queue(sizes.queued)?;
    let clients = Stage::new(caretaker, 8)?.clients(sizes.clients)?;
    let live = Stage::new(caretaker, sizes.live)?.live(sizes.live)?;
    Ok(Daemon { idle, queue, clients, live })
}

/// A home directory and a state directory with a daemon, which stops when this is dropped.
struct Stage {
    root: tempfile::TempDir,
    caretaker: PathBuf,
    pid: u64,
    socket: PathBuf,
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.command(&["daemon", "stop"]).output().ok();
    }
}

impl Stage {
    fn new(caretaker: &Path, cap: usize) -> anyhow::Result<Self> {
        let root = tempfile::tempdir()?;
        let config = root.path().join("home/.config/caretaker");
        std::fs::create_dir_all(&config)?;
        let text = format!("min_free = \"0\"\n[queue]\ncap = {cap}\n");
        std::fs::write(config.join("config.toml"), text)?;
        let mut stage =
            Self { root, caretaker: caretaker.to_owned(), pid: 0, socket: PathBuf::new() };
        let started = stage.command(&["daemon", "start", "--json"]).output()?;
        ensure!(started.status.success(), "{}", String::from_utf8_lossy(&started.stderr));
        let started: Value = serde_json::from_slice(&started.stdout)?;
        stage.pid = started["pid"].as_u64().context("no pid")?;
        stage.socket = started["socket"].as_str().context("no socket")?.into();
        Ok(stage)
    }

    fn command(&self, args: &[&str]) -> Command {
        let root = self.root.path();
        let mut command = Command::new(&self.caretaker);
        command
            .args(args)
            .current_dir(root.join("home"))
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", root.join("home"))
            .env("CARETAKER_HOME", root.join("state"))
            .stdin(Stdio::null());
        command
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
        let workspace = self.root.path().join(format!("home/w{number}"));
        std::fs::create_dir_all(&workspace)?;
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

    fn status_sum(&self, field: &str) -> anyhow::Result<u64> {
        let mut sum = 0;
        for task in std::fs::read_dir(format!("/proc/{}/task", self.pid))? {
            let status = std::fs::read_to_string(task?.path().join("status"))?;
            let value = status.lines().find_map(|line| line.strip_prefix(field));
            sum += value.and_then(|it| it.trim().parse::<u64>().ok()).unwrap_or(0);
        }
        Ok(sum)
    }

    fn rss_kib(&self) -> anyhow::Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let words = line.context("no VmRSS")?;
        Ok(words.trim().trim_end_matches(" kB").parse()?)
    }

    /// The daemon's processor time, in seconds.
    fn cpu(&self) -> anyhow::Result<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid))?;
        let rest = stat.rsplit(')').next().context("no stat")?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let ticks: f64 = fields[11].parse::<f64>()? + fields[12].parse::<f64>()?;
        Ok(ticks / 100.0)
    }

    fn idle(&self, length: Duration) -> anyhow::Result<Idle> {
        // Wait until the daemon has finished the work of its start.
        thread::sleep(Duration::from_secs(6));
        let wake_ups = || self.status_sum("voluntary_ctxt_switches:");
        let before = wake_ups()?;
        thread::sleep(length);
        let wake_ups = wake_ups()? - before;
        Ok(Idle { seconds: length.as_secs_f64(), wake_ups, rss_kib: self.rss_kib()? })
    }

    fn queue(&self, n_runs: usize) -> anyhow::Result<Queue> {
        self.ask("POST", "/v1/queue/pause", "")?;
        let runs = (0..n_runs)
            .map(|number| self.submit(number, "say hello"))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let (cpu, decided) = (self.cpu()?, self.metric("caretaker_decision_microseconds_total")?);
        self.ask("POST", "/v1/queue/resume", "")?;
        for run in &runs {
            let ended = self.command(&["wait", run]).output()?;
            ensure!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
        }
        let decided = self.metric("caretaker_decision_microseconds_total")? - decided;
        Ok(Queue {
            n_runs,
            decision_ms_per_run: decided / 1000.0 / n_runs as f64,
            daemon_cpu_ms_per_run: (self.cpu()? - cpu) * 1000.0 / n_runs as f64,
        })
    }

    fn clients(&self, n_clients: usize) -> anyhow::Result<Clients> {
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
        Ok(Clients { n_clients, events_each, cores, rss_kib: self.rss_kib()? })
    }

    fn live(&self, n_runs: usize) -> anyhow::Result<Live> {
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
        let rss_kib = self.rss_kib()?;
        for run in &runs {
            self.ask("POST", &format!("/v1/runs/{run}/stop"), "{\"now\":true}")?;
        }
        for run in &runs {
            self.command(&["wait", run]).output()?;
        }
        Ok(Live { n_runs, rss_kib })
    }
}
