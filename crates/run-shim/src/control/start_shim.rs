//! Starts a shim as its own process, and reads its report: does the run go on or not?

use std::fs::OpenOptions;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use run_journal::RunDirectory;
use run_protocol::ExitCode;
use serde::{Deserialize, Serialize};

/// The shim's environment. It holds only what the shim needs to pass on.
#[derive(Debug, Clone, Default)]
pub struct ShimEnvironment {
    /// `CURSOR_API_KEY` and similar variables. Only the agent gets them.
    pub secrets: Vec<(String, String)>,
    /// The machine's own proxy, already checked. Only the shim uses it.
    pub proxy: Option<String>,
    /// The filter for the shim's own log, in the form of `RUST_LOG`.
    pub log_filter: Option<String>,
}

/// The shim's report to the process that started it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "report", rename_all = "snake_case")]
pub(crate) enum ShimReport {
    /// All checks passed. The sandbox comes next.
    Ready,
    /// The run waits for a lock.
    Waiting { reason: String },
    /// The run will not happen.
    Refused { exit_code: u8, message: String, hint: Option<String> },
}

/// A shim that now continues on its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Started {
    Ready,
    Waiting { reason: String },
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartShimError {
    #[error("the run's supervisor could not be started from `{}`", program.display())]
    Spawn { program: PathBuf, source: io::Error },
    /// The run's directory has been removed, unless the run came from the queue.
    #[error("{message}")]
    Refused { exit_code: u8, message: String, hint: Option<String> },
    #[error("the run's supervisor ended without a report")]
    Silent { log: String },
}

/// The prefix of the variables that pass secrets to the shim.
pub(crate) const SECRET_PREFIX: &str = "CARETAKER_SECRET_";

/// The variable that passes the machine's proxy to the shim.
pub(crate) const PROXY_VARIABLE: &str = "CARETAKER_UPSTREAM_PROXY";

/// The byte that tells a shim that its run's directory exists.
const BEGIN: u8 = b'!';

/// A run's shim: the process `<program> shim <run directory>` in its own session. It may start ahead of its run, because
/// starting it takes longer than making the run's directory. Until [`Self::supervise`] it only waits. If this is dropped
/// before, the shim ends without having done anything.
#[derive(Debug)]
pub struct Shim {
    program: PathBuf,
    environment: ShimEnvironment,
    /// `None` before the start.
    started: Option<io::Result<Child>>,
}

impl Shim {
    pub fn new(program: &Path, environment: ShimEnvironment) -> Self {
        Self { program: program.to_owned(), environment, started: None }
    }

    /// Starts the shim ahead of its run.
    pub fn start_ahead(&mut self, run_dir: &Path) {
        self.started = Some(spawn(&self.program, run_dir, &self.environment));
    }

    /// Lets the shim supervise the run, and returns once it has its locks. A refused run leaves nothing behind.
    pub fn supervise(self, run: &RunDirectory) -> Result<Started, StartShimError> {
        let started = self.supervise_queued(run);
        if let Err(StartShimError::Refused { .. } | StartShimError::Spawn { .. }) = &started {
            // Nothing ran, so there is nothing to keep.
            run.withdraw();
        }
        started
    }

    /// Like [`Self::supervise`], but for a run from the queue. A refused run stays in the queue, and the daemon decides
    /// about it.
    pub fn supervise_queued(mut self, run: &RunDirectory) -> Result<Started, StartShimError> {
        let failed = |source| StartShimError::Spawn { program: self.program.clone(), source };
        // The shim opens its log, but does not make it: a failure here can still be reported.
        let log_path = run.shim_log_path();
        let mut log = OpenOptions::new();
        log.create(true).append(true).mode(0o600).open(&log_path).map_err(failed)?;
        let started = self.started.take();
        let started =
            started.unwrap_or_else(|| spawn(&self.program, run.path(), &self.environment));
        let mut child = started.map_err(failed)?;
        // If the shim is dead, it makes no report.
        child.stdin.take().map(|mut stdin| stdin.write_all(&[BEGIN]));
        let mut said = String::new();
        if let Some(stdout) = child.stdout.take() {
            // An unreadable report counts as no report.
            BufReader::new(stdout).read_line(&mut said).ok();
        }
        match serde_json::from_str(&said) {
            Ok(ShimReport::Ready) => Ok(Started::Ready),
            Ok(ShimReport::Waiting { reason }) => Ok(Started::Waiting { reason }),
            Ok(ShimReport::Refused { exit_code, message, hint }) => {
                child.wait().ok();
                Err(StartShimError::Refused { exit_code, message, hint })
            }
            Err(_) => {
                child.wait().ok();
                let log = std::fs::read_to_string(&log_path).unwrap_or_default();
                Err(StartShimError::Silent { log })
            }
        }
    }
}

impl Drop for Shim {
    /// Ends a shim that got no run.
    fn drop(&mut self) {
        if let Some(Ok(mut child)) = self.started.take() {
            drop(child.stdin.take());
            child.wait().ok();
        }
    }
}

fn spawn(program: &Path, run_dir: &Path, environment: &ShimEnvironment) -> io::Result<Child> {
    let secrets = environment.secrets.iter();
    Command::new(program)
        .arg("shim")
        .arg(run_dir)
        .env_clear()
        .envs(secrets.map(|(name, value)| (format!("{SECRET_PREFIX}{name}"), value)))
        .envs(environment.proxy.iter().map(|proxy| (PROXY_VARIABLE, proxy)))
        .envs(environment.log_filter.iter().map(|filter| ("RUST_LOG", filter)))
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
}

/// The shim's side: waits until its run's directory exists. Returns `false` if there will be no run.
pub(crate) fn wait_for_run() -> bool {
    let mut word = [0];
    let begins = io::stdin().read_exact(&mut word).is_ok() && word == [BEGIN];
    let nowhere = OpenOptions::new().read(true).open("/dev/null");
    begins && nowhere.and_then(|nowhere| Ok(nix::unistd::dup2_stdin(&nowhere)?)).is_ok()
}

/// Sends the report to the process that started the shim, and closes stdout. That process reads only one report.
pub(crate) fn report(report: &ShimReport) -> io::Result<()> {
    let mut line = serde_json::to_vec(report)?;
    line.push(b'\n');
    // The process that started the shim may already be gone. That changes nothing.
    io::stdout().write_all(&line).and_then(|()| io::stdout().flush()).ok();
    let nowhere = OpenOptions::new().write(true).open("/dev/null")?;
    nix::unistd::dup2_stdout(&nowhere)?;
    Ok(())
}

impl ShimReport {
    pub(crate) fn refused(exit_code: ExitCode, message: String, hint: Option<String>) -> Self {
        Self::Refused { exit_code: exit_code as u8, message, hint }
    }
}
