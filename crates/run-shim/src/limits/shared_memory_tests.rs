use std::io::Write;
use std::os::unix::fs::symlink;

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use rustix::fs::{MemfdFlags, memfd_create};

use super::*;

const MIB: u64 = 1 << 20;

/// A `/proc` with two processes. Both are this test.
fn proc() -> tempfile::TempDir {
    let proc = tempfile::tempdir().unwrap();
    for process in ["1", "2"] {
        fs::create_dir(proc.path().join(process)).unwrap();
        symlink("/proc/self/fd", proc.path().join(process).join("fd")).unwrap();
    }
    proc
}

fn part_of(file: &File) -> Part {
    let found = file.metadata().unwrap();
    Part::File(found.dev(), found.ino())
}

#[test]
fn a_file_in_memory_counts_once_however_many_descriptors_lead_to_it() {
    let mut file = File::from(memfd_create("x", MemfdFlags::CLOEXEC).unwrap());
    file.write_all(&vec![7; 8 << 20]).unwrap();
    let again = file.try_clone().unwrap();
    // A sparse file takes nothing, and files on a disk are not memory.
    let hollow = File::from(memfd_create("y", MemfdFlags::CLOEXEC).unwrap());
    hollow.set_len(1 << 40).unwrap();
    let on_disk = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let found = SharedMemory::of(proc().path(), &Rooms::default(), None);
    assert_eq!(found.parts.get(&part_of(&file)), Some(&(8 * MIB)));
    assert_eq!(found.parts.get(&part_of(&hollow)), Some(&0));
    assert_eq!(found.parts.get(&part_of(&on_disk)), None);
    drop((again, on_disk));
}

#[test]
fn segments_are_read_as_the_kernel_lists_them() {
    let list = "       key      shmid perms                  size  cpid  lpid nattch   uid   gid  cuid  cgid      atime      dtime      ctime                   rss                  swap
         0          3   600              52428800 19939 19939      0     0     0     0     0 1794945207 1794945207 1794945207              52428800                  4096\n";
    let found: Vec<_> = list.lines().filter_map(segment).collect();
    assert_eq!(found, [(3, 52_428_800 + 4096)]);
}

fn memory(parts: &[(Part, u64)]) -> SharedMemory {
    SharedMemory { parts: parts.iter().copied().collect() }
}

const SMAPS: &str = "\
7f0000000000-7f0000400000 rw-s 00000000 00:01 77                         /memfd:x (deleted)
Size:               4096 kB
Rss:                2048 kB
Pss:                1024 kB
Anonymous:             0 kB
VmFlags: rd wr sh
7f1000000000-7f1000400000 rw-p 00000000 00:01 77                         /memfd:x (deleted)
Rss:                3072 kB
Pss:                3072 kB
Anonymous:          3072 kB
7f2000000000-7f2000400000 rw-s 00000000 00:01 0                          /SYSV00000000 (deleted)
Rss:                4096 kB
Pss:                4096 kB
Anonymous:             0 kB
7f3000000000-7f3000400000 rw-s 00000000 00:2a 5                          /dev/shm/named
Rss:                 512 kB
Pss:                 512 kB
Anonymous:             0 kB
7f4000000000-7f4000400000 rw-p 00000000 00:00 0
Rss:                9999 kB
Pss:                9999 kB
Anonymous:          9999 kB
";

#[test]
fn mapped_memory_is_subtracted_but_private_copies_are_not() {
    let device = |minor| rustix::fs::makedev(0, minor);
    let parts = [
        (Part::File(device(1), 77), 4 * MIB),
        (Part::Segment(0), 4 * MIB),
        (Part::Room(device(0x2a)), MIB),
    ];
    let left = memory(&parts).without_mapped(std::iter::once(SMAPS.to_owned()));
    let expected = [
        (Part::File(device(1), 77), 3 * MIB),
        (Part::Segment(0), 0),
        (Part::Room(device(0x2a)), MIB / 2),
    ];
    assert_eq!(left.parts, expected.into_iter().collect());
}

#[test]
fn our_own_mappings_are_read_without_an_error() {
    let text = fs::read_to_string("/proc/self/smaps").unwrap();
    assert!(mappings(&text).count() > 3);
}

proptest! {
    #[test]
    fn mapped_memory_is_subtracted_but_never_below_zero(bytes in 0..u64::MAX, n_times in 0..5_usize) {
        let before = memory(&[(Part::Segment(0), bytes)]);
        let after = before.without_mapped(std::iter::repeat_n(SMAPS.to_owned(), n_times));
        let mapped = (4 * MIB).saturating_mul(n_times as u64);
        prop_assert_eq!(after.bytes(), bytes.saturating_sub(mapped));
    }

    #[test]
    fn any_text_is_read_without_a_panic(text in "[ -~\n]{0,200}") {
        memory(&[]).without_mapped(std::iter::once(text.clone()));
        prop_assert!(text.lines().filter_map(segment).count() <= text.lines().count());
    }
}
