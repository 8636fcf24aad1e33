//! Starts a sandbox, verifies its mounts while the gate holds it, and releases the agent.
//!
//! ```text
//!   start ──► bwrap makes namespaces and mounts, reports its child's pid, and starts the gate
//!   verify ─► the gate has started: the mounts inside match the plan, by device and inode
//!   release ► a byte to the gate: it becomes the agent
//! ```
//!
//! If the shim dies before the release, the gate finds the end of its stdin, and the agent never runs. Even if bwrap
//! dies, a sandbox has ended only when its first process is dead.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use command_fds::{CommandFdExt, FdMapping};
use run_protocol::LimitKind;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Pid;
use sandbox_plan::{BwrapProblem, Mismatch, PlanFds, SandboxPlan, SandboxRoot};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};

use super::process::{self, SandboxProcess, StatusLines, pid_number};
use super::record::Ends;
use crate::limits::{Confined, Entrance, PreparedLimits, Room};
use crate::network::Doors;
use crate::sandbox::entry::{EntryError, Namespaces};
use crate::sandbox::gate;
use crate::sandbox::keeper;
use crate::sandbox::repair::Repair;
use crate::sandbox::unconfined::UnconfinedPlan;

/// How long the set-up may take.
const SETUP_LIMIT: Duration = Duration::from_secs(10);
/// The size of the agent's stdout pipe, so that a burst of output does not make the agent wait.
const STDOUT_PIPE_BYTES: usize = 1 << 20;
/// The most bytes of bwrap's error message to read.
const COMPLAINT_BYTES: u64 = 8 * 1024;

#[derive(Debug, thiserror::Error)]
pub(crate) enum LaunchError {
    #[error("`{}` could not be started", program.display())]
    Spawn { program: PathBuf, source: io::Error },
    #[error("the launch guard could not be started")]
    Guard(#[source] io::Error),
    #[error("the descriptors for the sandbox could not be made")]
    Descriptors(#[source] io::Error),
    #[error("bubblewrap could not set the sandbox up: {}", in_words(complaint))]
    Setup { complaint: String },
    #[error("the sandbox was not ready within {} s", SETUP_LIMIT.as_secs())]
    TooSlow,
    #[error("the sandbox differs from its plan")]
    Mismatch(#[source] Mismatch),
    #[error("the sandbox's first process could not be recorded")]
    Record(#[source] io::Error),
    #[error("the limits of the sandbox could not be set")]
    Limits(#[source] io::Error),
    #[error("the sandbox could not be entered to prepare it")]
    Entry(#[from] EntryError),
    #[error("the agent could not be released")]
    Release(#[source] io::Error),
}

/// The thing to launch.
pub(crate) enum Launchable {
    Sandbox {
        plan: Arc<SandboxPlan>,
        bwrap: PathBuf,
    },
    /// The same pipes and the same gate, without a sandbox.
    Unconfined(UnconfinedPlan),
}

/// A sandbox that the gate holds. Dropping it ends it, and the agent never runs.
pub(crate) struct HeldSandbox {
    sandbox: Sandbox,
}

/// A sandbox with its pipes.
pub(crate) struct Sandbox {
    pub(crate) process: SandboxProcess,
    pub(crate) stdin: Option<tokio::process::ChildStdin>,
    pub(crate) stdout: pipe::Receiver,
    pub(crate) stderr: pipe::Receiver,
    /// The sockets that listen inside. `None` in the network modes `host` and `none`.
    pub(crate) doors: Option<Doors>,
    /// Puts lost protections back. `None` without a sandbox.
    pub(crate) repair: Option<Repair>,
    /// Its limits. This must be the last field, because dropping the others ends all limited processes.
    pub(crate) limits: Option<Confined>,
}

impl HeldSandbox {
    /// Starts bwrap and returns when its child exists. Call it on a thread that lives as long as the run, because
    /// `--die-with-parent` depends on the thread.
    pub(crate) async fn start(
        launchable: &Launchable,
        entrance: Entrance,
    ) -> Result<Self, LaunchError> {
        // If bubblewrap dies before its sandbox, or a keeper before its agent, the shim adopts and ends what remains.
        nix::sys::prctl::set_child_subreaper(true)
            .map_err(|errno| LaunchError::Descriptors(errno.into()))?;
        let ends = match launchable {
            Launchable::Sandbox { .. } => Ends::WithItsFirst,
            Launchable::Unconfined(_) => Ends::WhenAsked,
        };
        let (mut child, pipes) = spawn(launchable, entrance)?;
        // Take the pipe from the child, because waiting for the child would close it.
        let stdin = child.stdin.take();
        let mut status = StatusLines::new(pipes.status);
        let mut stderr = pipes.stderr;
        let said = async {
            tokio::select! {
                biased;
                said = status.next() => said.and_then(|said| said.child_pid),
                _ = child.wait() => None,
            }
        };
        let said = tokio::time::timeout(SETUP_LIMIT, said).await;
        let first = said.as_ref().ok().copied().flatten().and_then(Pid::from_raw);
        let Some(first) = first else {
            // The gate then finds the end of its stdin.
            drop(stdin);
            process::end_unheard(child).await;
            return Err(match said {
                Err(_) => LaunchError::TooSlow,
                Ok(_) => LaunchError::Setup { complaint: complaint(&mut stderr).await },
            });
        };
        let Ok(process) = SandboxProcess::new(child, status, first, ends).await else {
            return Err(LaunchError::Setup { complaint: complaint(&mut stderr).await });
        };
        let (stdout, doors, repair, limits) = (pipes.stdout, None, None, None);
        Ok(Self { sandbox: Sandbox { process, stdin, stdout, stderr, doors, repair, limits } })
    }

    /// Records the process to kill in the run's directory, for commands that must end the sandbox without the shim.
    pub(crate) fn write_down(&self, run_dir: &Path) -> Result<(), LaunchError> {
        self.sandbox.process.record().write(run_dir).map_err(LaunchError::Record)
    }

    /// Waits for the gate, and returns the number of mounts that it compared with the plan.
    pub(crate) async fn verify(&mut self, launchable: &Launchable) -> Result<u32, LaunchError> {
        let mut first = [0];
        let at_the_gate = async {
            tokio::select! {
                biased;
                read = self.sandbox.stdout.read(&mut first) => matches!(read, Ok(1)),
                () = self.sandbox.process.lost() => false,
            }
        };
        match tokio::time::timeout(SETUP_LIMIT, at_the_gate).await {
            Err(_) => return Err(LaunchError::TooSlow),
            Ok(true) if first == [gate::HERE] => {}
            Ok(_) => {
                // Remaining processes would hold the error message's pipe open.
                self.kill_and_wait().await;
                let complaint = complaint(&mut self.sandbox.stderr).await;
                return Err(LaunchError::Setup { complaint });
            }
        }
        match launchable {
            Launchable::Sandbox { plan, .. } => {
                look_at_mounts(plan, self.sandbox.process.first()).map_err(LaunchError::Mismatch)
            }
            Launchable::Unconfined(_) => Ok(0),
        }
    }

    /// Applies the limits to the processes that exist so far, while bubblewrap makes the rest of the sandbox.
    pub(crate) fn begin_to_confine(
        &self,
        limits: PreparedLimits,
    ) -> impl Future<Output = Result<PreparedLimits, LaunchError>> + use<> {
        let processes = self.sandbox.process.all();
        // Moving a process between groups waits for every processor of the machine.
        let moving = tokio::task::spawn_blocking(move || {
            // Errors do not matter here, because `confine` does it again for all processes.
            if let Ok(processes) = processes {
                limits.begin(&processes);
            }
            limits
        });
        async move { moving.await.map_err(|error| LaunchError::Limits(io::Error::other(error))) }
    }

    /// Applies the limits to all processes. The agent must be at the gate.
    pub(crate) async fn confine(
        &mut self,
        limits: PreparedLimits,
        launchable: &Launchable,
        home: &Path,
        segments: Option<File>,
    ) -> Result<(), LaunchError> {
        let processes = self.sandbox.process.all().map_err(LaunchError::Limits)?;
        let confined = tokio::task::spawn_blocking(move || limits.confine(&processes)).await;
        let mut confined =
            confined.map_err(io::Error::other).flatten().map_err(LaunchError::Limits)?;
        if let Launchable::Sandbox { plan, .. } = launchable {
            let rooms = rooms(plan, self.sandbox.process.first(), home);
            confined.hold_memory(rooms.map_err(LaunchError::Limits)?, segments);
            let repair = Repair::new(plan, self.pid(), confined.group());
            let unwatched = |error| format!("its mounts cannot be watched: {error}");
            let repair = repair.map_err(|error| LaunchError::Setup { complaint: unwatched(error) });
            self.sandbox.repair = Some(repair?);
        }
        tracing::debug!("the limits are in force");
        self.sandbox.limits = Some(confined);
        Ok(())
    }

    /// Returns the namespaces that bubblewrap made, and the network only if the helper must enter it.
    pub(crate) fn namespaces(&self, with_network: bool) -> Result<Namespaces, EntryError> {
        let ipc = self.own_namespace("ipc").map_err(EntryError::Namespace)?;
        if !with_network {
            return Ok(Namespaces { ipc, network: None });
        }
        let network = self.own_namespace("net").map_err(EntryError::Namespace)?;
        Ok(Namespaces { ipc, network: Some(network.ok_or(EntryError::NotOwn)?) })
    }

    /// Returns one of its namespaces, or `None` if it shares the shim's.
    fn own_namespace(&self, kind: &str) -> io::Result<Option<OwnedFd>> {
        let init = self.sandbox.process.first().as_raw_nonzero();
        let namespace = File::open(format!("/proc/{init}/ns/{kind}"))?;
        // If the process is dead, its id may already belong to another one.
        if !self.sandbox.process.is_alive() {
            return Err(io::ErrorKind::NotFound.into());
        }
        let identity = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
        let theirs = namespace.metadata().map(identity)?;
        let ours = std::fs::metadata(format!("/proc/self/ns/{kind}")).map(identity)?;
        Ok((ours != theirs).then(|| namespace.into()))
    }

    /// Keeps the sockets that listen inside.
    pub(crate) fn keep_doors(&mut self, doors: Option<Doors>) {
        self.sandbox.doors = doors;
    }

    /// The host pid of the namespace's first process.
    pub(crate) fn pid(&self) -> u32 {
        pid_number(self.sandbox.process.first())
    }

    /// Checks that the sandbox is ready to be released, and returns its limits. Without bubblewrap it is not released,
    /// because it would survive the shim's death.
    pub(crate) fn check_held(&mut self) -> Result<&Confined, LaunchError> {
        let is_held = self.sandbox.process.is_held();
        let missing = |what: &str| LaunchError::Setup { complaint: what.to_owned() };
        let confined = self.sandbox.limits.as_ref().filter(|_| is_held);
        confined.ok_or_else(|| missing("bubblewrap ended before the release"))
    }

    /// Ends the sandbox before the release, and returns when all its processes are dead.
    pub(crate) async fn end(mut self) {
        self.kill_and_wait().await;
    }

    async fn kill_and_wait(&mut self) {
        // The gate may find the end of its stdin first.
        self.sandbox.stdin = None;
        self.sandbox.process.kill();
        self.sandbox.process.wait().await.ok();
    }

    /// Lets the agent run.
    pub(crate) async fn release(mut self) -> Result<Sandbox, LaunchError> {
        match self.say_the_word().await {
            Ok(()) => Ok(self.sandbox),
            Err(error) => {
                self.end().await;
                Err(LaunchError::Release(error))
            }
        }
    }

    async fn say_the_word(&mut self) -> io::Result<()> {
        let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
        let stdin = self.sandbox.stdin.as_mut().ok_or_else(gone)?;
        // Without limits there is no release.
        let limits = self.sandbox.limits.as_ref().ok_or_else(gone)?;
        stdin.write_all(&gate::word(&limits.process_limits)).await
    }
}

/// bwrap's error message, with an explanation and advice for the user.
fn in_words(complaint: &str) -> String {
    let problem = BwrapProblem::classify(complaint);
    match problem.hint() {
        Some(hint) => format!("{problem} ({complaint}); {hint}"),
        None => complaint.to_owned(),
    }
}

async fn complaint(stderr: &mut pipe::Receiver) -> String {
    let mut text = Vec::new();
    let mut stderr = stderr.take(COMPLAINT_BYTES);
    let read = stderr.read_to_end(&mut text);
    // A process that holds the pipe open must not block the shim.
    tokio::time::timeout(Duration::from_millis(500), read).await.ok();
    let text = String::from_utf8_lossy(&text).trim().to_owned();
    if text.is_empty() { "it gave no reason".to_owned() } else { text }
}

/// The sandbox's in-memory directories.
fn rooms(plan: &SandboxPlan, init: Pid, home: &Path) -> io::Result<Vec<Room>> {
    let root = SandboxRoot::of(pid_number(init))?;
    let limit = |path: &Path, bytes| match path {
        path if path == Path::new("/tmp") => LimitKind::Tmp { bytes },
        path if path == home => LimitKind::Home { bytes },
        path => LimitKind::Scratch { path: path.into(), bytes },
    };
    let room = |(path, bytes)| Ok(Room::new(limit(path, bytes), root.directory(path)?));
    plan.in_memory().map(room).collect()
}

fn look_at_mounts(plan: &SandboxPlan, init: Pid) -> Result<u32, Mismatch> {
    let pid = pid_number(init);
    let mountinfo = std::fs::read(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
    let root = SandboxRoot::of(pid);
    plan.verify(&mountinfo, &|inside| match &root {
        Ok(root) => root.identity(inside),
        Err(error) => Err(error.kind().into()),
    })
}

const ARGS_FD: i32 = 3;
const STATUS_FD: i32 = 4;
const FIRST_DATA_FD: i32 = 5;

/// Starts bubblewrap, or the keeper in its place, with the child's ends of the pipes.
fn spawn(launchable: &Launchable, entrance: Entrance) -> Result<(Child, Pipes), LaunchError> {
    let (program, arguments, pipes) = match launchable {
        Launchable::Sandbox { plan, bwrap } => {
            (bwrap.as_path(), plan.command_line(ARGS_FD), Pipes::for_bwrap(plan))
        }
        Launchable::Unconfined(plan) => {
            (plan.keeper(), plan.keeper_arguments(), Pipes::for_keeper(plan))
        }
    };
    let (pipes, ends) = pipes.map_err(LaunchError::Descriptors)?;
    let mut command = Command::new(program);
    if let Launchable::Unconfined(plan) = launchable {
        command.current_dir(plan.directory());
    }
    command
        .args(arguments)
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(ends.stdout)
        .stderr(ends.stderr)
        .kill_on_drop(true);
    entrance.enter_first(&mut command);
    command
        .fd_mappings(ends.mappings)
        .map_err(|error| LaunchError::Descriptors(io::Error::other(error)))?;
    // Dropping the command closes the shim's copies of the child's descriptors. Otherwise the pipes would never close.
    let child = command
        .spawn()
        .map_err(|source| LaunchError::Spawn { program: program.to_owned(), source })?;
    Ok((child, pipes))
}

/// The shim's ends of the pipes to bwrap.
struct Pipes {
    status: pipe::Receiver,
    stdout: pipe::Receiver,
    stderr: pipe::Receiver,
}

/// The child's ends of the pipes, and its other descriptors.
struct ChildEnds {
    mappings: Vec<FdMapping>,
    stdout: Stdio,
    stderr: Stdio,
}

impl Pipes {
    fn for_keeper(plan: &UnconfinedPlan) -> io::Result<(Self, ChildEnds)> {
        Self::with(|status| {
            let environment = memory_file(&plan.environment_bytes())?;
            Ok(vec![
                FdMapping { parent_fd: environment, child_fd: keeper::ENVIRONMENT_FD },
                FdMapping { parent_fd: status, child_fd: keeper::STATUS_FD },
            ])
        })
    }

    fn for_bwrap(plan: &SandboxPlan) -> io::Result<(Self, ChildEnds)> {
        Self::with(|status| sandbox_mappings(plan, status))
    }

    fn with(
        mappings: impl FnOnce(OwnedFd) -> io::Result<Vec<FdMapping>>,
    ) -> io::Result<(Self, ChildEnds)> {
        let (status, status_for_child) = pipe_with(PipeFlags::CLOEXEC)?;
        let (stdout, stdout_for_child) = pipe_with(PipeFlags::CLOEXEC)?;
        let (stderr, stderr_for_child) = pipe_with(PipeFlags::CLOEXEC)?;
        // This fails if the user is over a system-wide limit. The default of 64 KiB also works.
        rustix::pipe::fcntl_setpipe_size(&stdout, STDOUT_PIPE_BYTES).ok();

        let ends = ChildEnds {
            mappings: mappings(status_for_child)?,
            stdout: stdout_for_child.into(),
            stderr: stderr_for_child.into(),
        };
        let pipes = Self {
            status: pipe::Receiver::from_owned_fd(status)?,
            stdout: pipe::Receiver::from_owned_fd(stdout)?,
            stderr: pipe::Receiver::from_owned_fd(stderr)?,
        };
        Ok((pipes, ends))
    }
}

/// The descriptors from which bubblewrap reads its plan.
fn sandbox_mappings(plan: &SandboxPlan, status: OwnedFd) -> io::Result<Vec<FdMapping>> {
    let contents = plan.data_files().iter().map(|file| &file.contents);
    let programs = plan.seccomp_programs().iter().map(|program| &program.bytes);
    let data: Vec<OwnedFd> =
        contents.chain(programs).map(|bytes| memory_file(bytes)).collect::<io::Result<_>>()?;
    let n_data_files = plan.data_files().len();
    let numbers: Vec<i32> = (FIRST_DATA_FD..).take(data.len()).collect();
    let fds = PlanFds {
        data: numbers[..n_data_files].to_vec(),
        seccomp: numbers[n_data_files..].to_vec(),
        json_status: STATUS_FD,
        block: None,
    };
    let args = memory_file(&plan.bwrap_args(&fds))?;

    let mut mappings = vec![
        FdMapping { parent_fd: args, child_fd: ARGS_FD },
        FdMapping { parent_fd: status, child_fd: STATUS_FD },
    ];
    let data = data.into_iter().zip(numbers);
    mappings.extend(data.map(|(parent_fd, child_fd)| FdMapping { parent_fd, child_fd }));
    Ok(mappings)
}

/// A file in memory, positioned at its beginning.
fn memory_file(content: &[u8]) -> io::Result<OwnedFd> {
    let mut file = File::from(memfd_create("caretaker", MemfdFlags::CLOEXEC)?);
    file.write_all(content)?;
    file.rewind()?;
    Ok(file.into())
}
