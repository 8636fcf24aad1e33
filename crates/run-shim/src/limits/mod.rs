//! Limits a run's use of the machine.
//!
//! ```text
//!   prepare   in the background: finds the host's best mechanism, and tries it for real
//!   confine   puts all of the sandbox's processes under it while the gate holds the agent
//!   watch     reports a reached limit; look: checks again at the run's end
//!   drop      removes everything; the next run removes what a dead shim left
//! ```
//!
//! The mechanisms, in the order in which the shim tries them: a cgroup v2 directory, a systemd scope, directories in
//! the cgroup v1 trees as root, and finally per-process limits with a regular check of all processes. The run's record
//! names the chosen mechanism and the limits that it does not enforce.

mod activity;
mod census;
mod cgroups;
mod counters;
mod disk_account;
mod disk_growth;
mod entrance;
mod machine_memory;
mod process_limits;
mod process_look;
mod rooms;
mod shared_memory;
mod survey;
mod watching;

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Instant;

use run_protocol::{LimitBackend, LimitKind, LimitsInForce, ResourceLimits};
use tokio::sync::mpsc;

use activity::Activity;
use cgroups::cgroup_directory::{self, CgroupDirectory};
use cgroups::hierarchy::Hierarchies;
use cgroups::scope::{self, ScopeMaker};
use cgroups::version1::LegacyGroups;
use cgroups::version2;
use counters::Counters;
pub(crate) use disk_account::DiskAccount;
use disk_growth::DiskWatch;
pub(crate) use entrance::Entrance;
pub use machine_memory::machine_memory;
pub(crate) use process_limits::ProcessLimits;
use process_look::ProcessLook;
pub(crate) use rooms::Room;
use rooms::Rooms;
pub use survey::{LimitSurvey, survey_limits};
use watching::Watching;

/// Since this version, the kernel counts processes per user namespace. Earlier kernels count all of the user's
/// processes.
const COUNTED_PER_NAMESPACE: (u32, u32) = (5, 14);

/// The host cannot enforce the limits that the profile requires.
#[derive(Debug, thiserror::Error)]
#[error("the profile requires enforced limits, and this host cannot enforce them: {}", reasons.join("; "))]
pub struct LimitsNotHeld {
    reasons: Vec<String>,
}

/// The mechanism for a run, before its sandbox exists.
#[derive(Debug)]
pub(crate) struct PreparedLimits {
    asked: ResourceLimits,
    means: Means,
    /// Why each mechanism that was tried earlier does not work.
    refused: Vec<String>,
}

#[derive(Debug)]
enum Means {
    Unified {
        group: CgroupDirectory,
        held: ResourceLimits,
    },
    Scope(ScopeMaker),
    Legacy {
        groups: LegacyGroups,
        held: ResourceLimits,
    },
    /// Only per-process limits.
    Processes,
}

/// The limits of a sandbox. Dropping it removes the groups, which must be empty by then.
#[derive(Debug)]
pub(crate) struct Confined {
    pub(crate) in_force: LimitsInForce,
    pub(crate) warnings: Vec<String>,
    /// The limits that the gate sets for the agent.
    pub(crate) process_limits: ProcessLimits,
    asked: ResourceLimits,
    counters: Option<Counters>,
    /// The kernel's file with the sandbox's processor time.
    usage: Option<PathBuf>,
    look: ProcessLook,
    proc: PathBuf,
    /// Dropped before the groups, because the kernel must free files in memory before their group.
    rooms: Rooms,
    _means: Option<Means>,
    /// The watches. Dropping them ends them.
    watching: Vec<Watching>,
    alarm: Option<OwnedFd>,
}

/// The processes of a sandbox that the gate holds.
#[derive(Debug, Clone)]
pub(crate) struct HeldProcesses {
    /// bwrap and everything below it.
    pub(crate) all: Vec<u32>,
    /// The first process of its namespace.
    pub(crate) init: u32,
}

impl PreparedLimits {
    /// Finds the best mechanism that works, and prepares it.
    pub(crate) fn prepare(id: &str, asked: ResourceLimits) -> Result<Self, LimitsNotHeld> {
        let (means, refused) = find_means(id, &asked);
        let is_held = !matches!(means, Means::Processes);
        let needs_cpu = asked.cpu_milli > 0;
        let has_cpu = match &means {
            Means::Unified { held, .. } | Means::Legacy { held, .. } => held.cpu_milli > 0,
            Means::Scope(_) => true,
            Means::Processes => false,
        };
        if asked.required && (!is_held || (needs_cpu && !has_cpu)) {
            return Err(LimitsNotHeld { reasons: refused });
        }
        if let Means::Unified { .. } = &means {
            warm_up();
        }
        Ok(Self { asked, means, refused })
    }

    /// Returns the files that a sandbox's first process uses to enter its groups.
    pub(crate) fn entrance(&self) -> Entrance {
        match &self.means {
            Means::Legacy { groups, .. } => groups.entrance(),
            // Version 2 can only move whole processes, which is slow.
            Means::Unified { .. } | Means::Scope(_) | Means::Processes => Entrance::default(),
        }
    }

    /// Moves the processes that the sandbox has so far, so that little is left to do later.
    pub(crate) fn begin(&self, processes: &HeldProcesses) {
        if let Means::Unified { group, .. } = &self.means {
            group.add(&processes.all).ok();
        }
    }

    /// Puts all processes of a sandbox under its limits. They also apply to later processes.
    pub(crate) fn confine(self, processes: &HeldProcesses) -> io::Result<Confined> {
        let Self { asked, means, mut refused } = self;
        let (backend, held, counters, means) = match means {
            Means::Unified { group, held } => {
                group.add(&processes.all)?;
                let counters = Counters::Unified { group: group.path().to_owned() };
                let means = Means::Unified { group, held };
                (LimitBackend::CgroupV2, held, Some(counters), Some(means))
            }
            Means::Legacy { groups, held } => {
                groups.add(&processes.all)?;
                let (memory, pids) = (groups.memory.clone(), groups.pids.clone());
                let means = Means::Legacy { groups, held };
                (LimitBackend::CgroupV1, held, Some(Counters::Legacy { memory, pids }), Some(means))
            }
            Means::Scope(maker) => match maker.make(&processes.all, &asked) {
                Ok(group) => {
                    let held = ResourceLimits {
                        memory_bytes: asked.memory_bytes,
                        processes: asked.processes,
                        cpu_weight: asked.cpu_weight,
                        cpu_milli: asked.cpu_milli,
                        ..ResourceLimits::default()
                    };
                    let counters = Counters::Unified { group };
                    (LimitBackend::SystemdScope, held, Some(counters), None)
                }
                Err(error) if asked.required => return Err(error),
                Err(error) => {
                    refused.push(error.to_string());
                    (LimitBackend::Rlimits, ResourceLimits::default(), None, None)
                }
            },
            Means::Processes => (LimitBackend::Rlimits, ResourceLimits::default(), None, None),
        };
        Ok(Confined::new(asked, backend, held, refused, processes.init).with(counters, means))
    }
}

impl Confined {
    fn new(
        asked: ResourceLimits,
        backend: LimitBackend,
        mut held: ResourceLimits,
        refused: Vec<String>,
        init: u32,
    ) -> Self {
        let some = |limit: u64| (limit > 0).then_some(limit);
        let mut process_limits = ProcessLimits {
            open_files: some(asked.open_files),
            file_bytes: some(asked.file_bytes),
            ..ProcessLimits::default()
        };
        let mut warnings = Vec::new();
        held.open_files = asked.open_files;
        held.file_bytes = asked.file_bytes;
        held.disk_bytes = asked.disk_bytes;
        if backend == LimitBackend::Rlimits {
            let is_root = nix::unistd::geteuid().is_root();
            process_limits.data_bytes = some(asked.memory_bytes).map(data_ceiling);
            process_limits.processes = some(asked.processes).map(process_ceiling);
            held.memory_bytes = asked.memory_bytes;
            held.processes = if is_root { 0 } else { asked.processes };
            if asked.memory_bytes | asked.processes > 0 {
                warnings.push(weak(is_root, &refused));
            }
        }
        if asked.cpu_milli > 0 && held.cpu_milli == 0 {
            warnings.push("this host cannot limit the run's processors".to_owned());
        }
        let proc = PathBuf::from(format!("/proc/{init}/root/proc"));
        Self {
            in_force: LimitsInForce { backend, held },
            warnings,
            process_limits,
            asked,
            counters: None,
            usage: None,
            look: ProcessLook::of(init),
            proc,
            rooms: Rooms::default(),
            _means: None,
            watching: Vec::new(),
            alarm: None,
        }
    }

    fn with(mut self, counters: Option<Counters>, means: Option<Means>) -> Self {
        self.usage = match (&counters, &means) {
            (_, Some(Means::Legacy { groups, .. })) => groups.usage.clone(),
            (Some(Counters::Unified { group }), _) => Some(group.join("cpu.stat")),
            _ => None,
        };
        self.counters = counters;
        self._means = means;
        self
    }

    /// Returns the sandbox's group in cgroup v2, if it has one.
    pub(crate) fn group(&self) -> Option<PathBuf> {
        match &self.counters {
            Some(Counters::Unified { group }) => Some(group.clone()),
            _ => None,
        }
    }

    /// Adds the run's other memory: its in-memory directories, and the list of its shared memory segments.
    pub(crate) fn hold_memory(&mut self, rooms: Vec<Room>, segments: Option<File>) {
        self.rooms = Rooms::new(rooms);
        self.look.also_count(self.rooms.clone(), segments);
    }

    /// Reports reached limits from now on. `writable` lists the host directories that the run can write to. The account
    /// gets their growth.
    pub(crate) fn watch(
        &mut self,
        writable: Vec<PathBuf>,
        account: DiskAccount,
        tell: mpsc::Sender<LimitKind>,
    ) {
        let activity = || Activity::of(self.usage.as_deref());
        let alarm = self.counters.as_ref().map(|counters| {
            counters.watch(self.asked, self.rooms.clone(), activity(), tell.clone())
        });
        let disk_activity = activity();
        match alarm {
            Some(Ok(alarm)) => self.alarm = Some(alarm),
            // The kernel enforces the limits even without a watch, and the shim checks the counters at the end.
            Some(Err(error)) => {
                tracing::warn!(%error, "cannot watch the limits");
                self.watch_rooms(&tell);
            }
            None => {
                self.watch_rooms(&tell);
                self.watch_processes(&tell);
            }
        }
        if self.asked.disk_bytes > 0 || self.asked.file_bytes > 0 {
            let watch = DiskWatch {
                writable,
                most_growth: self.asked.disk_bytes,
                file_bytes: self.asked.file_bytes,
                proc: self.proc.clone(),
                account,
            };
            match watch.start(disk_activity, tell) {
                Ok(watching) => self.watching.push(watching),
                Err(error) => tracing::warn!(%error, "cannot watch the growth of the workspace"),
            }
        }
    }

    fn watch_rooms(&mut self, tell: &mpsc::Sender<LimitKind>) {
        match self.rooms.watch(tell.clone()) {
            Ok(watching) => self.watching.extend(watching),
            Err(error) => tracing::warn!(%error, "cannot watch the directories in memory"),
        }
    }

    /// Watches on another thread, because checking hundreds of processes takes a while.
    fn watch_processes(&mut self, tell: &mpsc::Sender<LimitKind>) {
        let (look, limits, tell) = (self.look.clone(), self.asked, tell.clone());
        let watched = Watching::start("process-look", move |wait| {
            loop {
                let begun = Instant::now();
                match look.look(&limits) {
                    // Checks take at most half of the time.
                    Ok(pause) if wait(pause.max(begun.elapsed())) => {}
                    Ok(_) => return,
                    Err(limit) => {
                        tell.blocking_send(limit).ok();
                        return;
                    }
                }
            }
        });
        match watched {
            Ok(watching) => self.watching.push(watching),
            Err(error) => tracing::warn!(%error, "cannot watch the sandbox's processes"),
        }
    }

    /// Returns the limit that the run reached. Call it after the run's end.
    pub(crate) fn look(&self, exit_code: Option<i32>) -> Option<LimitKind> {
        /// The exit code of a process that SIGXFSZ ended.
        const FILE_TOO_LARGE: i32 = 128 + 25;
        let counted = self.counters.as_ref().and_then(|counters| counters.look(&self.asked));
        let too_large = (exit_code == Some(FILE_TOO_LARGE) && self.asked.file_bytes > 0)
            .then_some(LimitKind::FileSize { bytes: self.asked.file_bytes });
        counted.or(too_large).or_else(|| self.rooms.full())
    }
}

/// Prepares the kernel to move processes between groups. The first move after a while waits until every processor has
/// passed a quiescent point. That is most of the cost of limits at a run's start. Later moves do not wait. So the shim
/// moves itself to its own group in the background.
fn warm_up() {
    let warm_up = || {
        if let Ok(found) = Hierarchies::of_this_process()
            && let Some(placement) = &found.unified
        {
            // Zero stands for the writing process. If this fails, the run starts a little later.
            cgroup_directory::set(&placement.own.join("cgroup.procs"), "0").ok();
        }
    };
    std::thread::Builder::new().spawn(warm_up).ok();
}

/// Returns the first mechanism that works, and why each one that was tried earlier does not.
fn find_means(id: &str, asked: &ResourceLimits) -> (Means, Vec<String>) {
    let mut refused = Vec::new();
    if asked.memory_bytes | asked.processes | asked.cpu_weight | asked.cpu_milli == 0 {
        return (Means::Processes, refused);
    }
    let hierarchies = match Hierarchies::of_this_process() {
        Ok(hierarchies) => hierarchies,
        Err(error) => {
            refused.push(format!("cannot find the control groups: {error}"));
            return (Means::Processes, refused);
        }
    };
    let unified = match &hierarchies.unified {
        Some(placement) => version2::create(placement, scope::systemd_is_running(), id, asked),
        None => Err("not mounted".to_owned()),
    };
    match unified {
        Ok((group, held)) => return (Means::Unified { group, held }, refused),
        Err(reason) => refused.push(format!("cgroup v2: {reason}")),
    }
    match ScopeMaker::find(&hierarchies, id) {
        Ok(maker) => return (Means::Scope(maker), refused),
        Err(reason) => refused.push(format!("systemd scope: {reason}")),
    }
    match LegacyGroups::create(&hierarchies, id, asked) {
        Ok((groups, held)) => return (Means::Legacy { groups, held }, refused),
        Err(reason) => refused.push(format!("cgroup v1: {reason}")),
    }
    (Means::Processes, refused)
}

/// Returns the directories of all processes in a `/proc`.
fn processes_in(proc: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir(proc).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit))
        .map(|entry| entry.path())
}

fn weak(is_root: bool, refused: &[String]) -> String {
    let what = match is_root {
        true => {
            "the memory limit applies to each process only, and the shim only checks the number of processes now and then, because the kernel does not limit root"
        }
        false => {
            "the memory limit applies to each process, and the shim checks their sum only now and then"
        }
    };
    format!("no cgroup enforces the limits of this run: {what} ({})", refused.join("; "))
}

/// The amount of memory beyond which the kernel refuses a process more. It is above the limit, so that the shim can see
/// that the limit was reached. Such a run should end with that outcome, not with some obscure failure.
fn data_ceiling(limit: u64) -> u64 {
    limit.saturating_add((limit / 2).max(256 << 20))
}

/// The number of processes beyond which the kernel refuses more. It is a little above the limit, so that the shim can
/// see that the limit was reached.
fn process_ceiling(limit: u64) -> u64 {
    let ceiling = limit.saturating_add((limit / 16).max(8));
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    match is_older(&release, COUNTED_PER_NAMESPACE) {
        true => ceiling.saturating_add(tasks_of_user()),
        false => ceiling,
    }
}

fn is_older(release: &str, than: (u32, u32)) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) < than,
        _ => false,
    }
}

/// Counts all processes and threads of this user.
fn tasks_of_user() -> u64 {
    use std::os::unix::fs::MetadataExt;
    let uid = nix::unistd::geteuid().as_raw();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter(|process| process.metadata().is_ok_and(|metadata| metadata.uid() == uid))
        .filter_map(|process| Some(std::fs::read_dir(process.path().join("task")).ok()?.count()))
        .fold(0, |sum: u64, tasks| sum.saturating_add(tasks as u64))
}

#[cfg(test)]
#[path = "limits_tests.rs"]
mod tests;
