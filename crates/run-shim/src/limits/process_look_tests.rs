use pretty_assertions::assert_eq;
use tempfile::TempDir;

use super::*;

const MIB: u64 = 1 << 20;

fn proc(processes: &[(u64, u64, u64)]) -> TempDir {
    let proc = tempfile::tempdir().unwrap();
    for (index, (threads, anon_kib, shared_kib)) in processes.iter().enumerate() {
        let process = proc.path().join((index + 1).to_string());
        std::fs::create_dir(&process).unwrap();
        let status = format!(
            "Name:\tx\nRssAnon:\t{anon_kib} kB\nRssFile:\t999999 kB\nRssShmem:\t{shared_kib} kB\nThreads:\t{threads}\n"
        );
        std::fs::write(process.join("status"), status).unwrap();
    }
    std::fs::create_dir(proc.path().join("self")).unwrap();
    std::fs::write(proc.path().join("meminfo"), "").unwrap();
    proc
}

fn look(proc: &TempDir, memory_bytes: u64, processes: u64) -> Result<Duration, LimitKind> {
    let limits = ResourceLimits { memory_bytes, processes, ..ResourceLimits::default() };
    ProcessLook { proc: proc.path().to_owned() }.look(&limits)
}

#[test]
fn threads_count_as_the_kernel_counts_them() {
    let proc = proc(&[(1, 0, 0), (11, 0, 0)]);
    assert_eq!(look(&proc, 0, 12), Ok(LATEST));
    assert_eq!(look(&proc, 0, 11), Err(LimitKind::Processes { most: 11 }));
    assert_eq!(look(&proc, 0, 0), Ok(LATEST));
}

#[test]
fn what_is_shared_counts_once_and_files_do_not_count() {
    let proc = proc(&[(1, 1024, 4096), (1, 1024, 4096)]);
    let taken = ProcessLook { proc: proc.path().to_owned() }.taken(cheap_memory);
    assert_eq!(taken, Taken { tasks: 2, memory_bytes: 6 * MIB });
    assert_eq!(look(&proc, 5 * MIB, 0), Err(LimitKind::Memory { bytes: 5 * MIB }));
}

#[test]
fn pages_shared_after_a_fork_are_counted_right_before_anything_is_ended() {
    let proc = proc(&[(1, 1024, 0), (1, 1024, 0)]);
    for process in ["1", "2"] {
        let rollup = "Rss: 1024 kB\nPss: 512 kB\nPss_Anon: 512 kB\nPss_Shmem: 0 kB\n";
        std::fs::write(proc.path().join(process).join("smaps_rollup"), rollup).unwrap();
    }
    assert_eq!(look(&proc, 3 * MIB / 2, 0), Ok(SOONEST));
    assert_eq!(look(&proc, MIB / 2, 0), Err(LimitKind::Memory { bytes: MIB / 2 }));
}

#[test]
fn the_nearer_the_limit_the_sooner_the_next_look() {
    let proc = proc(&[(1, 1024, 0)]);
    assert_eq!(look(&proc, 64 << 30, 0), Ok(LATEST));
    assert_eq!(look(&proc, 2 * MIB, 0), Ok(SOONEST));
    let between = look(&proc, 2 << 30, 0).unwrap();
    assert!(SOONEST < between && between < LATEST, "{between:?}");
}

#[test]
fn our_own_processes_are_seen_as_they_are() {
    let taken = ProcessLook { proc: "/proc".into() }.taken(fair_memory);
    assert!(taken.tasks > 1 && taken.memory_bytes > MIB, "{taken:?}");
}
