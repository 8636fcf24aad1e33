use std::os::unix::fs::MetadataExt;

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

fn look_at(proc: &Path) -> ProcessLook {
    ProcessLook { proc: proc.to_owned(), rooms: Rooms::default(), segments: None }
}

fn look(proc: &TempDir, memory_bytes: u64, processes: u64) -> Result<Duration, LimitKind> {
    let limits = ResourceLimits { memory_bytes, processes, ..ResourceLimits::default() };
    look_at(proc.path()).look(&limits)
}

#[test]
fn threads_count_as_the_kernel_counts_them() {
    let proc = proc(&[(1, 0, 0), (11, 0, 0)]);
    assert_eq!(look(&proc, 0, 12), Ok(LATEST));
    assert_eq!(look(&proc, 0, 11), Err(LimitKind::Processes { most: 11 }));
    assert_eq!(look(&proc, 0, 0), Ok(LATEST));
}

#[test]
fn the_cheap_count_adds_shared_memory_per_process_and_files_do_not_count() {
    let proc = proc(&[(1, 1024, 4096), (1, 1024, 4096)]);
    let taken = look_at(proc.path()).taken(cheap_memory);
    assert_eq!(taken, Taken { tasks: 2, memory_bytes: 10 * MIB });
    assert_eq!(look(&proc, 9 * MIB, 0), Err(LimitKind::Memory { bytes: 9 * MIB }));
    // The shim counts exactly before it ends a run.
    for process in ["1", "2"] {
        let rollup = "Pss_Anon: 1024 kB\nPss_Shmem: 2048 kB\n";
        std::fs::write(proc.path().join(process).join("smaps_rollup"), rollup).unwrap();
    }
    assert_eq!(look(&proc, 9 * MIB, 0), Ok(SOONEST));
    assert_eq!(look(&proc, 5 * MIB, 0), Err(LimitKind::Memory { bytes: 5 * MIB }));
}

#[test]
fn memory_that_no_process_has_mapped_counts_and_mapped_memory_counts_once() {
    use std::io::Write;
    let proc = proc(&[(1, 1024, 0)]);
    let mut file =
        File::from(rustix::fs::memfd_create("x", rustix::fs::MemfdFlags::CLOEXEC).unwrap());
    file.write_all(&vec![7; 8 << 20]).unwrap();
    // A directory with this one descriptor, as the kernel would show it.
    let directory = proc.path().join("1/fd");
    std::fs::create_dir(&directory).unwrap();
    let link = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
    std::os::unix::fs::symlink(link, directory.join("3")).unwrap();
    assert_eq!(look(&proc, 8 * MIB, 0), Err(LimitKind::Memory { bytes: 8 * MIB }));
    assert!(look(&proc, 9 * MIB, 0).is_ok());

    let found = file.metadata().unwrap();
    let (device, inode) = (found.dev(), found.ino());
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let kib = 8 << 10;
    let smaps = format!(
        "7f00-7f40 rw-s 0 {major:02x}:{minor:02x} {inode} /memfd:x (deleted)\nRss: {kib} kB\nPss: {kib} kB\nAnonymous: 0 kB\n"
    );
    std::fs::write(proc.path().join("1/smaps"), smaps).unwrap();
    let rollup = format!("Pss_Anon: 1024 kB\nPss_Shmem: {kib} kB\n");
    std::fs::write(proc.path().join("1/smaps_rollup"), rollup).unwrap();
    let status = format!("RssAnon: 1024 kB\nRssShmem: {kib} kB\nThreads: 1\n");
    std::fs::write(proc.path().join("1/status"), status).unwrap();
    assert!(look(&proc, 9 * MIB, 0).is_ok());
    assert_eq!(look(&proc, 8 * MIB, 0), Err(LimitKind::Memory { bytes: 8 * MIB }));
}

#[test]
fn pages_shared_after_a_fork_count_once_before_a_run_is_ended() {
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
    let taken = look_at(Path::new("/proc")).taken(fair_memory);
    assert!(taken.tasks > 1 && taken.memory_bytes > MIB, "{taken:?}");
}
