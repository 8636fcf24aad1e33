//! Starts a shim as a process of its own, and hears from it whether the run was accepted.

use std::fs::OpenOptions;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use run_journal::RunDirectory;
use run_protocol::ExitCode;
use serde::{Deserialize, Serialize};

/// What the shim gets of the environment: what it must hand on, and nothing else.
#[derive(Debug, Clone, Default)]
pub struct ShimEnvironment {
    /// `CURSOR_API_KEY` and the like. They reach the agent alone.
    pub secrets: Vec<(String, String)>,
    /// The proxy through which this machine gets out, checked. The shim alone uses it.
    pub proxy: Option<String>,
    /// The filter for the shim's own log, as `RUST_LOG` has it.
    pub log_filter: Option<String>,
}

/// What a shim says of itself before it goes on alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "report", rename_all = "snake_case")]
pub(crate) enum ShimReport {
    /// Everything that could be checked was; the sandbox comes next.
    Ready,
    /// The run waits for a lock.
    Waiting { reason: String },
    /// The run will not happen.
    Refused { exit_code: u8, message: String, hint: Option<String> },
}

/// A shim that is on its own now.
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
    /// Of a run that was not queued, the directory is gone again.
    #[error("{message}")]
    Refused { exit_code: u8, message: String, hint: Option<String> },
    #[error("the run's supervisor ended without a word")]
    Silent { log: String },
}

/// The variables by which secrets reach the shim.
pub(crate) const SECRET_PREFIX: &str = "CARETAKER_SECRET_";

/// The variable by which the shim is told of the host's proxy.
pub(crate) const PROXY_VARIABLE: &str = "CARETAKER_UPSTREAM_PROXY";

/// Starts `<program> shim <run directory>`, in a session of its own, and returns when it has taken its locks. A run that
/// is refused leaves nothing behind.
pub fn start_shim(
    run: &RunDirectory,
    program: &Path,
    environment: &ShimEnvironment,
) -> Result<Started, StartShimError> {
    let started = start(run, program, environment);
    if let Err(StartShimError::Refused { .. } | StartShimError::Spawn { .. }) = &started {
        // Nothing ran, so there is nothing to remember.
        run.withdraw();
    }
    started
}

/// The same for a run from the queue: one that is refused stays as it is, for whoever queued it to decide about.
pub fn start_queued_shim(
    run: &RunDirectory,
    program: &Path,
    environment: &ShimEnvironment,
) -> Result<Started, StartShimError> {
    start(run, program, environment)
}

fn start(
    run: &RunDirectory,
    program: &Path,
    environment: &ShimEnvironment,
) -> Result<Started, StartShimError> {
    let spawn_failed = |source| StartShimError::Spawn { program: program.to_owned(), source };
    let log_path = run.shim_log_path();
    let log = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(&log_path)
        .map_err(spawn_failed)?;
    let secrets = environment.secrets.iter();
    let mut child = Command::new(program)
        .arg("shim")
        .arg(run.path())
        .env_clear()
        .envs(secrets.map(|(name, value)| (format!("{SECRET_PREFIX}{name}"), value)))
        .envs(environment.proxy.iter().map(|proxy| (PROXY_VARIABLE, proxy)))
        .envs(environment.log_filter.iter().map(|filter| ("RUST_LOG", filter)))
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .map_err(spawn_failed)?;
    let mut said = String::new();
    if let Some(stdout) = child.stdout.take() {
        // What cannot be read is as good as not said.
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

/// Says it to whoever started us, once, and lets go of stdout: nobody listens from then on.
pub(crate) fn report(report: &ShimReport) -> io::Result<()> {
    let mut line = serde_json::to_vec(report)?;
    line.push(b'\n');
    // Whoever started us may be gone already, which changes nothing.
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
