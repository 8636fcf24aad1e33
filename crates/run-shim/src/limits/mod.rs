//! What a run may take of the machine, and what holds it to that.
//!
//! ```text
//!   prepare   in the background, while the run is prepared: the best means that this host has, tried for real
//!   confine   everything of the sandbox is put under it while the gate holds the agent
//!   watch     hears of a limit that was met; look: asks once more when the run is over
//!   drop      nothing of it stays, and whatever a dead supervisor left goes with the next run
//! ```
//!
//! In the order in which they are tried: a cgroup v2 directory of our own, a scope of systemd's, directories in the trees
//! of cgroup v1 as root, and at last the limits of single processes with a look at all of them now and then. Which one it
//! is, and what it does not hold, is part of the run's record.

mod activity;
mod census;
mod cgroups;
mod counters;
mod disk_account;
mod disk_growth;
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
use cgroups::hierarchy::{Hierarchies, Placement};
use cgroups::scope::{self, ScopeMaker};
use cgroups::version1::LegacyGroups;
use cgroups::version2;
use counters::Counters;
pub(crate) use disk_account::DiskAccount;
use disk_growth::DiskWatch;
pub(crate) use process_limits::ProcessLimits;
use process_look::ProcessLook;
pub(crate) use rooms::Room;
use rooms::Rooms;
pub use survey::{LimitSurvey, survey_limits};
use watching::Watching;

/// The kernel counts processes per user namespace since this version; before, it counted all that the user had anywhere.
const COUNTED_PER_NAMESPACE: (u32, u32) = (5, 14);

/// Nothing on this host holds what the profile requires to be held.
#[derive(Debug, thiserror::Error)]
#[error("the profile requires limits that hold, and nothing here can hold them: {}", reasons.join("; "))]
pub struct LimitsNotHeld {
    reasons: Vec<String>,
}

/// The means that were found for a run, before there is anything to hold.
#[derive(Debug)]
pub(crate) struct PreparedLimits {
    asked: ResourceLimits,
    means: Means,
    /// Why not one that comes before it.
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
    /// Nothing but the limits of single processes.
    Processes,
}

/// What a sandbox is held by. Dropping it removes what was made for it; nothing may be left in it then.
#[derive(Debug)]
pub(crate) struct Confined {
    pub(crate) in_force: LimitsInForce,
    pub(crate) warnings: Vec<String>,
    /// What the gate is to set for the agent.
    pub(crate) process_limits: ProcessLimits,
    asked: ResourceLimits,
    counters: Option<Counters>,
    /// Where the kernel counts the processor time of everything that is held.
    usage: Option<PathBuf>,
    look: ProcessLook,
    proc: PathBuf,
    /// Before the means: what is in memory must be given back before a group goes.
    rooms: Rooms,
    _means: Option<Means>,
    /// Watches that end with this.
    watching: Vec<Watching>,
    alarm: Option<OwnedFd>,
}

/// The processes of a sandbox that is held at its gate.
#[derive(Debug, Clone)]
pub(crate) struct HeldProcesses {
    /// bwrap and everything below it.
    pub(crate) all: Vec<u32>,
    /// The first of its namespace.
    pub(crate) init: u32,
}

impl PreparedLimits {
    /// Finds the best means that works, and makes what it needs.
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
        match &means {
            Means::Unified { .. } => warm_up(|found| found.unified.as_ref()),
            Means::Legacy { .. } => warm_up(|found| found.legacy.get("memory")),
            Means::Scope(_) | Means::Processes => {}
        }
        Ok(Self { asked, means, refused })
    }

    /// Moves what there is already of a sandbox, so that little is left to do when all of it is there.
    pub(crate) fn begin(&self, processes: &HeldProcesses) {
        match &self.means {
            Means::Unified { group, .. } => group.add(&processes.all).ok(),
            Means::Legacy { groups, .. } => groups.add(&processes.all).ok(),
            Means::Scope(_) | Means::Processes => None,
        };
    }

    /// Puts everything that is there of a sandbox under its limits. What it starts later is under them too.
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
            warnings.push("nothing here can hold the run to its processors".to_owned());
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

    /// What the run has in memory beside its processes: directories, which it is not to fill, and what lists its segments.
    pub(crate) fn hold_memory(&mut self, rooms: Vec<Room>, segments: Option<File>) {
        self.rooms = Rooms::new(rooms);
        self.look.also_count(self.rooms.clone(), segments);
    }

    /// Tells of limits that are met from now on. `writable`: the directories of the host that the run can write; what it
    /// adds to them goes on the account.
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
            // What is over its limit is held there by the kernel, heard of or not, and is asked about at the end.
            Some(Err(error)) => {
                tracing::warn!(%error, "limits that are met are not heard of");
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
                Err(error) => tracing::warn!(%error, "the growth of the workspace is not watched"),
            }
        }
    }

    fn watch_rooms(&mut self, tell: &mpsc::Sender<LimitKind>) {
        match self.rooms.watch(tell.clone()) {
            Ok(watching) => self.watching.extend(watching),
            Err(error) => tracing::warn!(%error, "directories that are full are not heard of"),
        }
    }

    /// In a thread of its own: hundreds of processes take a while to look at.
    fn watch_processes(&mut self, tell: &mpsc::Sender<LimitKind>) {
        let (look, limits, tell) = (self.look.clone(), self.asked, tell.clone());
        let watched = Watching::start("process-look", move |wait| {
            loop {
                let begun = Instant::now();
                match look.look(&limits) {
                    // Never more than half of the time is spent looking.
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
            Err(error) => tracing::warn!(%error, "the processes of the sandbox are not watched"),
        }
    }

    /// Which limit the run met, asked when it is over.
    pub(crate) fn look(&self, exit_code: Option<i32>) -> Option<LimitKind> {
        /// What a shell says of a process that SIGXFSZ ended.
        const FILE_TOO_LARGE: i32 = 128 + 25;
        let counted = self.counters.as_ref().and_then(|counters| counters.look(&self.asked));
        let too_large = (exit_code == Some(FILE_TOO_LARGE) && self.asked.file_bytes > 0)
            .then_some(LimitKind::FileSize { bytes: self.asked.file_bytes });
        counted.or(too_large).or_else(|| self.rooms.full())
    }
}

/// Makes the kernel ready to move processes between groups. The first move after a while waits for every processor to
/// have passed a quiet point, which is most of what limits cost at the start of a run; the next ones do not. So we move
/// ourselves to where we are, beside everything else that is prepared, and nobody waits for it.
fn warm_up(place: impl Fn(&Hierarchies) -> Option<&Placement> + Send + 'static) {
    let warm_up = move || {
        if let Ok(found) = Hierarchies::of_this_process()
            && let Some(placement) = place(&found)
        {
            // Zero stands for whoever writes it. Where it is refused, the run starts a little later.
            cgroup_directory::set(&placement.own.join("cgroup.procs"), "0").ok();
        }
    };
    std::thread::Builder::new().spawn(warm_up).ok();
}

/// The first means that works, and why not those before it.
fn find_means(id: &str, asked: &ResourceLimits) -> (Means, Vec<String>) {
    let mut refused = Vec::new();
    if asked.memory_bytes | asked.processes | asked.cpu_weight | asked.cpu_milli == 0 {
        return (Means::Processes, refused);
    }
    let hierarchies = match Hierarchies::of_this_process() {
        Ok(hierarchies) => hierarchies,
        Err(error) => {
            refused.push(format!("where the control groups are cannot be read: {error}"));
            return (Means::Processes, refused);
        }
    };
    let unified = match &hierarchies.unified {
        Some(placement) => version2::create(placement, scope::systemd_is_running(), id, asked),
        None => Err("there is no such tree".to_owned()),
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

/// The directories of all processes that a `/proc` shows. What else is there has no descriptors.
fn processes_in(proc: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir(proc).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit))
        .map(|entry| entry.path())
}

fn weak(is_root: bool, refused: &[String]) -> String {
    let what = match is_root {
        true => {
            "memory is held for each process only, and the number of processes is only looked at now and then, since the kernel does not hold root to it"
        }
        false => {
            "memory is held for each process, and for all of them together it is only looked at now and then"
        }
    };
    format!("no cgroup holds this run to its limits: {what} ({})", refused.join("; "))
}

/// Where the kernel refuses a process more memory. Above the limit, so that whoever looks can see that it was met: a run
/// that goes over it is to end and to say so, not to fail in some odd way.
fn data_ceiling(limit: u64) -> u64 {
    limit.saturating_add((limit / 2).max(256 << 20))
}

/// Where the kernel stops the run from starting more. A little above the limit, so that whoever counts can see that it
/// was met.
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

/// Processes and threads that our user has anywhere.
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
