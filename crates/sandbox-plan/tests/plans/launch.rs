//! Starts a sandbox from a plan as the shim does: first blocked, then verified, then released.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use command_fds::{CommandFdExt, FdMapping};
use rustix::fs::{MemfdFlags, SeekFrom};
use sandbox_plan::{BwrapProblem, Mismatch, PlanFds, SandboxPlan, SandboxRoot, bwrap_trial};

/// Bubblewrap's path on every distribution.
const BWRAP: &str = "/usr/bin/bwrap";

/// The time limit for bubblewrap's mounts.
const PATIENCE: Duration = Duration::from_secs(10);

/// A sandbox that is waiting to be released.
pub(crate) struct Blocked {
    bwrap: Child,
    pub(crate) first_pid: u32,
    /// Both ends stay open, because end of file would release the sandbox too.
    release: File,
    _block: File,
    /// Bubblewrap writes the exit code to it. Without a reader it would die.
    _status: BufReader<File>,
}

/// Returns true if this host can create sandboxes. Panics if it cannot but must.
pub(crate) fn sandboxes_work() -> bool {
    static WORKS: OnceLock<bool> = OnceLock::new();
    *WORKS.get_or_init(|| {
        let tried = Command::new(BWRAP).args(bwrap_trial()).env_clear().output();
        let problem = match tried {
            Ok(output) if output.status.success() => return true,
            Ok(output) => {
                let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
                format!("{}: {stderr}", BwrapProblem::classify(&stderr))
            }
            Err(err) => format!("{BWRAP}: {err}"),
        };
        assert!(!sandboxes_are_required(), "this host cannot create a sandbox: {problem}");
        println!("this host cannot create a sandbox, so nothing was tested: {problem}");
        false
    })
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test is a program of its own, and this is its only switch"
)]
fn sandboxes_are_required() -> bool {
    std::env::var_os("REQUIRE_SANDBOX").is_some_and(|value| value == "1")
}

/// Starts a plan up to the point where the agent would run.
pub(crate) fn start(plan: &SandboxPlan) -> Blocked {
    let mut mappings = Mappings::default();
    let data = plan.data_files().iter().map(|file| mappings.add(memory_file(&file.contents)));
    let data: Vec<RawFd> = data.collect();
    let programs = plan.seccomp_programs().iter();
    let seccomp: Vec<RawFd> =
        programs.map(|program| mappings.add(memory_file(&program.bytes))).collect();
    let (status, json_status) = rustix::pipe::pipe().unwrap();
    let (block, release) = rustix::pipe::pipe().unwrap();
    let json_status = mappings.add(json_status);
    let block_copy = block.try_clone().unwrap();
    let block_fd = mappings.add(block);
    let fds = PlanFds { data, seccomp, json_status, block: Some(block_fd) };
    let args = mappings.add(memory_file(&plan.bwrap_args(&fds)));

    let mut command = Command::new(BWRAP);
    command.args(plan.command_line(args)).env_clear();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.fd_mappings(mappings.0).unwrap();
    let mut bwrap = command.spawn().unwrap();
    drop(command);

    let mut line = String::new();
    let mut status = BufReader::new(File::from(status));
    status.read_line(&mut line).unwrap();
    let digits: String =
        line.chars().skip_while(|c| !c.is_ascii_digit()).take_while(char::is_ascii_digit).collect();
    let Ok(first_pid) = digits.parse() else {
        let mut stderr = String::new();
        bwrap.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        panic!("bubblewrap did not start: {line:?} {stderr}");
    };
    let (release, block) = (release.into(), block_copy.into());
    Blocked { bwrap, first_pid, release, _block: block, _status: status }
}

impl Blocked {
    /// Waits until the sandbox matches the plan, and returns the number of compared mounts.
    pub(crate) fn verify(&mut self, plan: &SandboxPlan) -> Result<u32, Mismatch> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let mismatch = match self.compare(plan) {
                Ok(n_compared) => return Ok(n_compared),
                Err(mismatch) => mismatch,
            };
            let has_ended = self.bwrap.try_wait().unwrap().is_some();
            if has_ended || Instant::now() > deadline || is_final(&mismatch) {
                return Err(mismatch);
            }
            std::thread::yield_now();
        }
    }

    fn compare(&self, plan: &SandboxPlan) -> Result<u32, Mismatch> {
        let mountinfo = std::fs::read(format!("/proc/{}/mountinfo", self.first_pid));
        let root = SandboxRoot::of(self.first_pid);
        let identity = |path: &Path| match &root {
            Ok(root) => root.identity(path),
            Err(err) => Err(err.kind().into()),
        };
        plan.verify(&mountinfo.unwrap_or_default(), &identity)
    }

    /// Releases the agent, and waits until it ends.
    pub(crate) fn finish(mut self) -> Output {
        self.release.write_all(b"1").unwrap();
        self.bwrap.wait_with_output().unwrap()
    }

    /// Ends the sandbox without releasing it.
    pub(crate) fn kill(mut self) -> Output {
        let pid = rustix::process::Pid::from_raw(self.first_pid.cast_signed()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        self.bwrap.wait().unwrap();
        self.bwrap.wait_with_output().unwrap()
    }
}

/// Once everything is mounted, a wrong file stays wrong. Other differences may still disappear.
fn is_final(mismatch: &Mismatch) -> bool {
    matches!(mismatch, Mismatch::WrongFile { path, .. } if path.ends_with(".cursor"))
}

#[derive(Default)]
struct Mappings(Vec<FdMapping>);

impl Mappings {
    fn add(&mut self, parent_fd: OwnedFd) -> RawFd {
        let child_fd = RawFd::try_from(self.0.len()).unwrap() + 3;
        self.0.push(FdMapping { parent_fd, child_fd });
        child_fd
    }
}

fn memory_file(contents: &[u8]) -> OwnedFd {
    let fd = rustix::fs::memfd_create("plan", MemfdFlags::CLOEXEC).unwrap();
    File::from(fd.try_clone().unwrap()).write_all(contents).unwrap();
    rewind(&fd).unwrap();
    fd
}

fn rewind(fd: impl AsFd) -> io::Result<()> {
    rustix::fs::seek(fd, SeekFrom::Start(0))?;
    Ok(())
}
