//! Watches what a run adds to the directories of the host that it can write.
//!
//! ```text
//!   before the release   how much is used of the disks, and what is in the directories
//!   every second or two  how much is used of the disks: one call, whatever is on them
//!   when that could mean too much, and else as often as it costs next to nothing: the directories are walked again
//! ```
//!
//! While nothing in the sandbox runs, nothing is looked at, and while it hardly runs the directories are walked rarely.
//!
//! What it promises: growth is seen within a few seconds and the time of a walk, also in files that were unlinked and are
//! still open. What it does not: that a run is never over its limit for that long, or for fifty times as long as a walk
//! takes (ten seconds, if it hardly runs) where others free as much of the disk meanwhile; that what others write into the
//! same directories is told from what the run writes; unlinked files that are only mapped.

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
/// How fast a disk is filled by whoever is in a hurry.
const BYTES_A_SECOND: u64 = 512 << 20;
/// Walking may take one fiftieth of the time, at low priority, whatever the disks' own accounts say.
const COSTS_NEXT_TO_NOTHING: u32 = 50;

/// A run that took less of a processor since the last walk hardly runs: an agent that waits for its model.
const HARDLY: Duration = Duration::from_millis(20);
/// How long such a run may go without a walk.
const LONGEST_WITHOUT_A_WALK: Duration = Duration::from_secs(10);

/// What is to be watched.
#[derive(Debug, Clone)]
pub(super) struct DiskWatch {
    /// Directories of the host that the run can write.
    pub(super) writable: Vec<PathBuf>,
    /// What may be added to them; zero for no limit.
    pub(super) most_growth: u64,
    /// What one file may have; zero for no limit.
    pub(super) file_bytes: u64,
    /// The sandbox's own `/proc`, for files that have no name any more.
    pub(super) proc: PathBuf,
    /// Where what is found goes, beside what we write ourselves.
    pub(super) account: DiskAccount,
}

impl DiskWatch {
    /// Watches in a thread of its own, which is nice to everybody else.
    pub(super) fn start(
        self,
        mut activity: Activity,
        tell: Sender<LimitKind>,
    ) -> io::Result<Watching> {
        // As of now, not as of when the thread has its turn.
        let disks = self.disks();
        let used = used_of(&disks);
        Watching::start("disk-growth", move |wait| {
            if let Some(limit) = self.watch(disks, used, &mut activity, wait) {
                // Nobody listens any more when the run is over.
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

    /// Watches until a limit is met, or until it is told to stop.
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
        // What came while we counted may be in the count or not; it is taken for the run's own.
        // Our own record is on one of the same disks, and on the account already.
        let grown = used_of(&disks).saturating_sub(used).saturating_sub(self.account.by_us());
        let mut book = Book::new(&first, grown, begun.elapsed());
        let disks = first.disks.into_iter().chain(disks).collect();
        let mut used_then = used_of(&disks);
        loop {
            if !wait(book.next_look(self)) {
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
            // Every time, and not only when the disk's account is up: others may free as much as is hidden here.
            let nameless = if self.most_growth > 0 { self.nameless_bytes(&disks) } else { 0 };
            book.enter(&found, nameless, begun.elapsed());
            if book.is_file_full {
                return Some(LimitKind::FileSize { bytes: self.file_bytes });
            }
            if self.most_growth == 0 {
                continue;
            }
            if !found.is_complete {
                // What cannot be walked is taken from the disk's own account, which has our record too.
                let used = used_then.saturating_sub(used).saturating_sub(self.account.by_us());
                book.growth = book.growth.max(used);
            }
            self.account.agent_added(book.growth);
            if let Some(limit) = self.account.met(0, self.most_growth) {
                return Some(limit);
            }
        }
    }

    /// What is in files that a process of the sandbox has open and that have no name.
    fn nameless_bytes(&self, disks: &BTreeMap<u64, OwnedFd>) -> u64 {
        let mut seen = HashSet::new();
        let mut bytes: u64 = 0;
        for process in processes_in(&self.proc) {
            let files = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
            // Through the link, which leads to the open file itself.
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

/// What is known of the growth, and when to find out more.
#[derive(Debug)]
struct Book {
    /// What was there before.
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

    /// The nearer the limit could be, the sooner.
    fn next_look(&self, limits: &DiskWatch) -> Duration {
        let limit_or_none = |limit: u64| if limit == 0 { u64::MAX } else { limit };
        let headroom = limit_or_none(limits.most_growth)
            .saturating_sub(self.growth)
            .saturating_sub(limits.account.by_us())
            .min(limit_or_none(limits.file_bytes));
        let until_full = Duration::from_millis(headroom.saturating_mul(1000) / BYTES_A_SECOND);
        (until_full / 2).clamp(SOONEST, LATEST)
    }

    /// Whether the directories are to be walked, when the disks' own accounts grew by this much since the last walk, and the
    /// run has run for so long.
    fn is_walk_due(&self, added: u64, ran: Duration, limits: &DiskWatch) -> bool {
        let since = self.walked.elapsed();
        let known = self.growth.saturating_add(limits.account.by_us());
        let could_be_too_much =
            limits.most_growth > 0 && known.saturating_add(added) > limits.most_growth;
        let could_be_too_large = limits.file_bytes > 0 && added >= limits.file_bytes;
        // Others may have freed what the run took.
        let may_have_done_something = ran >= HARDLY || since >= LONGEST_WITHOUT_A_WALK;
        if may_have_done_something && since >= self.cost * COSTS_NEXT_TO_NOTHING {
            return true;
        }
        // Never more than a third of the time is spent walking.
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

/// What is used of these disks, by whomever.
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
