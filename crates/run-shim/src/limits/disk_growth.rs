//! Watches the growth of the host directories that a run can write to.
//!
//! ```text
//!   before the release   measure the use of the disks, and walk the directories
//!   every second or two  measure the use of the disks: one call
//!   walk the directories again if the disks grew enough to exceed a limit; otherwise so rarely that it costs little
//! ```
//!
//! While nothing runs in the sandbox, it measures nothing. While the sandbox is nearly idle, it rarely walks the
//! directories.
//!
//! It sees growth within a few seconds plus the time that a walk takes, even in unlinked files that are still open.
//!
//! Known gaps:
//! - A run may be over its limit for that long. If other programs free as much space meanwhile, that may be fifty times
//!   as long as a walk takes (ten seconds if the sandbox is nearly idle).
//! - Files that other programs write into the same directories count too.
//! - Unlinked files that are only mapped do not count.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use run_protocol::LimitKind;
use tokio::sync::mpsc::Sender;

use super::activity::Activity;
use super::census::{Census, census, outermost};
use super::disk_account::DiskAccount;
use super::processes_in;
use super::watching::{Wait, Watching};

const SOONEST: Duration = Duration::from_millis(100);
const LATEST: Duration = Duration::from_secs(2);
/// The speed at which a fast program fills a disk.
const BYTES_A_SECOND: u64 = 512 << 20;
/// Walks may take one fiftieth of the time, at low priority, even if the disks show no growth.
const COSTS_NEXT_TO_NOTHING: u32 = 50;

/// A run that used less processor time than this since the last walk is nearly idle: its agent is waiting for the
/// model.
const HARDLY: Duration = Duration::from_millis(20);
/// The longest time without a walk for such a run.
const LONGEST_WITHOUT_A_WALK: Duration = Duration::from_secs(10);

/// The watched directories and limits.
#[derive(Debug, Clone)]
pub(super) struct DiskWatch {
    /// The host directories that the run can write to.
    pub(super) writable: Vec<PathBuf>,
    /// The largest growth. Zero means no limit.
    pub(super) most_growth: u64,
    /// The largest size of a single file. Zero means no limit.
    pub(super) file_bytes: u64,
    /// The sandbox's own `/proc`, to find unlinked files.
    pub(super) proc: PathBuf,
    /// The account that gets the growth.
    pub(super) account: DiskAccount,
}

impl DiskWatch {
    /// Watches on another thread with low priority.
    pub(super) fn start(
        self,
        mut activity: Activity,
        tell: Sender<LimitKind>,
    ) -> io::Result<Watching> {
        // Measure now, not when the thread gets its turn.
        let disks = self.disks();
        let used = used_of(&disks);
        Watching::start("disk-growth", move |wait| {
            if let Some(limit) = self.watch(disks, used, &mut activity, wait) {
                // This fails only after the run's end.
                tell.blocking_send(limit).ok();
            }
        })
    }

    fn disks(&self) -> BTreeMap<u64, OwnedFd> {
        let open = |path: &PathBuf| {
            let directory = fs::File::open(path).ok()?;
            Some((directory.metadata().ok()?.dev(), directory.into()))
        };
        self.writable.iter().filter_map(open).collect()
    }

    /// Watches until the run reaches a limit, or until the shim stops the watch.
    fn watch(
        &self,
        disks: BTreeMap<u64, OwnedFd>,
        used: u64,
        activity: &mut Activity,
        wait: Wait<'_>,
    ) -> Option<LimitKind> {
        let is_stopped = || !wait(Duration::ZERO);
        let roots = outermost(self.writable.clone());
        let begun = Instant::now();
        let first = census(&roots, self.file_bytes, &is_stopped)?;
        // The result of the first walk may or may not include growth during the walk. Count such growth as the run's
        // own. The run's record is on one of the same disks, and the account already has it.
        let grown = used_of(&disks).saturating_sub(used).saturating_sub(self.account.by_us());
        let mut book = Book::new(&first, grown, begun.elapsed());
        let disks = first.disks.into_iter().chain(disks).collect();
        let mut used_then = used_of(&disks);
        loop {
            if !wait(activity.pause(book.next_look(self))) {
                return None;
            }
            let ran = activity.unseen();
            if ran.is_zero() {
                continue;
            }
            let added = used_of(&disks).saturating_sub(used_then);
            if !book.is_walk_due(added, ran, self) {
                continue;
            }
            activity.look_begins();
            let begun = Instant::now();
            used_then = used_of(&disks);
            let found = census(&roots, self.file_bytes, &is_stopped)?;
            // Measure this every time, even if the disk's use did not grow, because other programs may have freed as
            // much.
            let nameless = if self.most_growth > 0 { self.nameless_bytes(&disks) } else { 0 };
            book.enter(&found, nameless, begun.elapsed());
            if book.is_file_full {
                return Some(LimitKind::FileSize { bytes: self.file_bytes });
            }
            if self.most_growth == 0 {
                continue;
            }
            if !found.is_complete {
                // An incomplete walk may miss files. So also count the growth in the disks' use, minus the run's own
                // record.
                let used = used_then.saturating_sub(used).saturating_sub(self.account.by_us());
                book.growth = book.growth.max(used);
            }
            self.account.agent_added(book.growth);
            if let Some(limit) = self.account.met(0, self.most_growth) {
                return Some(limit);
            }
        }
    }

    /// Measures the unlinked files that the sandbox's processes have open.
    fn nameless_bytes(&self, disks: &BTreeMap<u64, OwnedFd>) -> u64 {
        let mut seen = HashSet::new();
        let mut bytes: u64 = 0;
        for process in processes_in(&self.proc) {
            let files = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
            // This link leads to the open file itself.
            for file in files.filter_map(|file| fs::metadata(file.path()).ok()) {
                let is_ours =
                    disks.contains_key(&file.dev()) && file.is_file() && file.nlink() == 0;
                if is_ours && seen.insert((file.dev(), file.ino())) {
                    bytes = bytes.saturating_add(file.blocks().saturating_mul(512));
                }
            }
        }
        bytes
    }
}

/// The known growth, and when to measure again.
#[derive(Debug)]
struct Book {
    /// The size before the run.
    base: u64,
    full_files: u64,
    growth: u64,
    is_file_full: bool,
    cost: Duration,
    walked: Instant,
}

impl Book {
    fn new(first: &Census, grown: u64, cost: Duration) -> Self {
        Self {
            base: first.bytes.saturating_sub(grown),
            full_files: first.full_files,
            growth: grown.min(first.bytes),
            is_file_full: false,
            cost,
            walked: Instant::now(),
        }
    }

    /// Returns the pause until the next check. It is shorter near the limit.
    fn next_look(&self, limits: &DiskWatch) -> Duration {
        let limit_or_none = |limit: u64| if limit == 0 { u64::MAX } else { limit };
        let headroom = limit_or_none(limits.most_growth)
            .saturating_sub(self.growth)
            .saturating_sub(limits.account.by_us())
            .min(limit_or_none(limits.file_bytes));
        let until_full = Duration::from_millis(headroom.saturating_mul(1000) / BYTES_A_SECOND);
        (until_full / 2).clamp(SOONEST, LATEST)
    }

    /// Decides whether to walk the directories, from the growth of the disks and the run's processor time since the
    /// last walk.
    fn is_walk_due(&self, added: u64, ran: Duration, limits: &DiskWatch) -> bool {
        let since = self.walked.elapsed();
        let known = self.growth.saturating_add(limits.account.by_us());
        let could_be_too_much =
            limits.most_growth > 0 && known.saturating_add(added) > limits.most_growth;
        let could_be_too_large = limits.file_bytes > 0 && added >= limits.file_bytes;
        // Other programs may have freed as much as the run used.
        let may_have_done_something = ran >= HARDLY || since >= LONGEST_WITHOUT_A_WALK;
        if may_have_done_something && since >= self.cost * COSTS_NEXT_TO_NOTHING {
            return true;
        }
        // Walks take at most a third of the time.
        let may_walk = since >= self.cost * 2;
        may_walk && (could_be_too_much || could_be_too_large)
    }

    fn enter(&mut self, found: &Census, nameless: u64, cost: Duration) {
        self.growth = found.bytes.saturating_sub(self.base).saturating_add(nameless);
        self.is_file_full = found.full_files > self.full_files;
        self.cost = cost;
        self.walked = Instant::now();
    }
}

/// Returns the total use of these disks.
fn used_of(disks: &BTreeMap<u64, OwnedFd>) -> u64 {
    let used = |disk: &OwnedFd| {
        let stat = rustix::fs::fstatvfs(disk).ok()?;
        Some(stat.f_blocks.saturating_sub(stat.f_bfree).saturating_mul(stat.f_frsize))
    };
    disks.values().filter_map(used).fold(0, u64::saturating_add)
}

#[cfg(test)]
#[path = "disk_growth_tests.rs"]
mod tests;
