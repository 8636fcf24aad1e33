use std::fs::File;
use std::io::Write;

use pretty_assertions::assert_eq;

use super::*;

const MIB: u64 = 1 << 20;
const BUSY: Duration = Duration::MAX;

fn watch_of(writable: Vec<PathBuf>, most_growth: u64, file_bytes: u64) -> DiskWatch {
    let account = DiskAccount::default();
    DiskWatch { writable, most_growth, file_bytes, proc: "/proc/self/root/none".into(), account }
}

fn census_of(bytes: u64, full_files: u64) -> Census {
    Census { bytes, full_files, is_complete: true, ..Census::default() }
}

#[test]
fn a_walk_is_due_only_when_the_disk_could_have_grown_too_much() {
    let watch = watch_of(Vec::new(), 100 * MIB, 0);
    let cost = Duration::from_secs(3600);
    let mut book = Book::new(&census_of(500 * MIB, 0), 0, cost);
    // The last walk took a long time, and was long ago.
    let long_ago = |book: &mut Book| book.walked = Instant::now() - cost * 3;
    long_ago(&mut book);
    assert!(!book.is_walk_due(100 * MIB, BUSY, &watch));
    assert!(book.is_walk_due(101 * MIB, BUSY, &watch));
    book.enter(&census_of(550 * MIB, 0), 10 * MIB, cost);
    assert_eq!(book.growth, 60 * MIB);
    // A long walk does not start again immediately.
    assert!(!book.is_walk_due(41 * MIB, BUSY, &watch));
    long_ago(&mut book);
    assert!(!book.is_walk_due(40 * MIB, BUSY, &watch));
    assert!(book.is_walk_due(41 * MIB, BUSY, &watch));
    assert!(!book.is_walk_due(u64::MAX, BUSY, &watch_of(Vec::new(), 0, 0)));
    // A walk that costs almost nothing happens even if the disk shows no growth.
    book.cost = Duration::ZERO;
    assert!(book.is_walk_due(0, BUSY, &watch));
}

#[test]
fn walks_are_rare_while_the_run_is_nearly_idle_unless_the_disk_fills() {
    let watch = watch_of(Vec::new(), 100 * MIB, 0);
    let mut book = Book::new(&census_of(0, 0), 0, Duration::ZERO);
    let hardly = HARDLY / 2;
    assert!(!book.is_walk_due(0, hardly, &watch));
    assert!(book.is_walk_due(0, HARDLY, &watch));
    assert!(book.is_walk_due(101 * MIB, hardly, &watch));
    book.walked = Instant::now() - LONGEST_WITHOUT_A_WALK;
    assert!(book.is_walk_due(0, hardly, &watch));
}

#[test]
fn growth_during_the_first_walk_counts_as_the_runs_own() {
    let book = Book::new(&census_of(500 * MIB, 0), 30 * MIB, Duration::ZERO);
    assert_eq!((book.base, book.growth), (470 * MIB, 30 * MIB));
    // Other programs wrote more to the same disk than the directories hold.
    let book = Book::new(&census_of(10 * MIB, 0), 30 * MIB, Duration::ZERO);
    assert_eq!((book.base, book.growth), (0, 10 * MIB));
}

#[test]
fn only_a_file_that_grew_to_the_limit_counts_not_one_that_always_had_that_size() {
    let mut book = Book::new(&census_of(0, 2), 0, Duration::ZERO);
    book.enter(&census_of(0, 2), 0, Duration::ZERO);
    assert!(!book.is_file_full);
    book.enter(&census_of(0, 3), 0, Duration::ZERO);
    assert!(book.is_file_full);
}

#[test]
fn the_nearer_the_limit_the_sooner_the_next_look() {
    let mut book = Book::new(&census_of(0, 0), 0, Duration::ZERO);
    let next = |book: &Book, most, file| book.next_look(&watch_of(Vec::new(), most, file));
    assert_eq!(next(&book, 0, 0), LATEST);
    assert_eq!(next(&book, 64 << 30, 0), LATEST);
    assert_eq!(next(&book, MIB, 0), SOONEST);
    assert_eq!(next(&book, 64 << 30, MIB), SOONEST);
    book.growth = 3 << 29;
    let between = next(&book, 2 << 30, 0);
    assert!(SOONEST < between && between < LATEST, "{between:?}");
}

/// Watches a new directory. `fill` fills it after the watch has measured it.
fn told(
    most_growth: u64,
    file_bytes: u64,
    fill: impl Fn(&std::path::Path) -> Option<File>,
) -> Option<LimitKind> {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("before"), vec![7; 4 << 20]).unwrap();
    let mut watch = watch_of(vec![directory.path().to_owned()], most_growth, file_bytes);
    watch.proc = "/proc".into();
    let kept = std::cell::RefCell::new(None);
    let wait = |pause: Duration| {
        if !pause.is_zero() && kept.borrow().is_none() {
            *kept.borrow_mut() = Some(fill(directory.path()));
        }
        true
    };
    let disks = watch.disks();
    let used = used_of(&disks);
    watch.watch(disks, used, &mut Activity::of(None), &wait)
}

#[test]
fn growth_beyond_the_limit_is_reported() {
    let limit = told(2 * MIB, 0, |directory| {
        std::fs::write(directory.join("new"), vec![7; 8 << 20]).unwrap();
        None
    });
    assert_eq!(limit, Some(LimitKind::Disk { bytes: 2 * MIB }));
}

#[test]
fn growth_in_a_deleted_file_is_reported() {
    let limit = told(2 * MIB, 0, |directory| {
        let mut file = File::create(directory.join("new")).unwrap();
        std::fs::remove_file(directory.join("new")).unwrap();
        file.write_all(&vec![7; 8 << 20]).unwrap();
        Some(file)
    });
    assert_eq!(limit, Some(LimitKind::Disk { bytes: 2 * MIB }));
}

#[test]
fn a_file_that_reaches_the_size_limit_is_reported() {
    let limit = told(0, MIB, |directory| {
        std::fs::write(directory.join("full"), vec![7; 1 << 20]).unwrap();
        None
    });
    assert_eq!(limit, Some(LimitKind::FileSize { bytes: MIB }));
}

#[test]
fn a_watch_ends_when_it_is_no_longer_wanted() {
    let directory = tempfile::tempdir().unwrap();
    let watch = watch_of(vec![directory.path().to_owned()], u64::MAX, 0);
    let disks = watch.disks();
    assert_eq!(watch.watch(disks, 0, &mut Activity::of(None), &|_| false), None);
}
