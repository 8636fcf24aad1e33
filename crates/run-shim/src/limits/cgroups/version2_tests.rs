//! These tests use plain directories to check where the shim makes a group. The suite tests the kernel's part.

use std::path::PathBuf;

use pretty_assertions::assert_eq;
use tempfile::TempDir;

use super::*;

const LIMITS: ResourceLimits = ResourceLimits {
    memory_bytes: 1 << 30,
    processes: 64,
    cpu_weight: 50,
    cpu_milli: 1500,
    file_bytes: 0,
    open_files: 0,
    disk_bytes: 0,
    required: false,
};

fn placement(tree: &TempDir, own: &str) -> Placement {
    let own = tree.path().join(own);
    std::fs::create_dir_all(&own).unwrap();
    Placement { mount: tree.path().to_owned(), own }
}

#[test]
fn the_nearest_directories_come_first_and_none_beyond_the_mount() {
    let placement =
        Placement { mount: PathBuf::from("/sys/fs/cgroup"), own: "/sys/fs/cgroup/a/b".into() };
    let candidates: Vec<&Path> = candidates(&placement).collect();
    assert_eq!(
        candidates,
        ["/sys/fs/cgroup/a/b", "/sys/fs/cgroup/a", "/sys/fs/cgroup"].map(Path::new)
    );
}

#[test]
fn a_tree_that_systemd_manages_is_left_alone_unless_delegated() {
    let tree = tempfile::tempdir().unwrap();
    let placement = placement(&tree, "user.slice/x.scope");
    let reason = create(&placement, true, "1", &LIMITS).unwrap_err();
    assert!(reason.contains("not delegated"), "{reason}");
    assert_eq!(std::fs::read_dir(&placement.own).unwrap().count(), 0);
}

#[test]
fn a_directory_without_controllers_is_refused_and_left_as_it_was() {
    let tree = tempfile::tempdir().unwrap();
    let placement = placement(&tree, "here");
    // A plain directory has no file that names its controllers.
    let reason = create(&placement, false, "1", &LIMITS).unwrap_err();
    assert!(reason.contains("below `"), "{reason}");
    assert_eq!(std::fs::read_dir(&placement.own).unwrap().count(), 0);
    assert_eq!(std::fs::read_dir(tree.path()).unwrap().count(), 1);
}

#[test]
fn limits_are_written_in_the_format_of_version_2() {
    let tree = tempfile::tempdir().unwrap();
    let group = CgroupDirectory::create(tree.path(), "1").unwrap();
    let files =
        ["memory.max", "memory.swap.max", "memory.oom.group", "pids.max", "cpu.weight", "cpu.max"];
    for file in files {
        std::fs::write(group.path().join(file), "").unwrap();
    }
    let held = apply(&group, true, &LIMITS).unwrap();
    let said = files.map(|file| group.read(file).unwrap());
    assert_eq!(said, ["1073741824", "0", "1", "64", "50", "150000 100000"]);
    assert_eq!(held, LIMITS);
    // These files are real. In the kernel's tree they disappear with the directory.
    for file in files {
        std::fs::remove_file(group.path().join(file)).unwrap();
    }
}

#[test]
fn a_group_is_locked_while_its_maker_lives_and_swept_when_it_is_dead() {
    let tree = tempfile::tempdir().unwrap();
    let alive = CgroupDirectory::create(tree.path(), "alive").unwrap();
    std::fs::create_dir(tree.path().join("caretaker-dead")).unwrap();
    std::fs::create_dir(tree.path().join("somebody-else")).unwrap();
    assert_eq!(sweep(tree.path()), 1);
    assert!(alive.path().exists());
    assert!(tree.path().join("somebody-else").exists());
    assert!(CgroupDirectory::create(tree.path(), "alive").is_err());
    drop(alive);
    assert!(!tree.path().join("caretaker-alive").exists());
}
