use pretty_assertions::assert_eq;

use super::*;

fn placement(mount: &str, own: &str) -> Placement {
    Placement { mount: mount.into(), own: own.into() }
}

#[test]
fn the_one_tree_of_version_2_is_found() {
    let mounts = b"24 1 0:22 / /proc rw - proc proc rw\n\
        30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
    let found = Hierarchies::parse("0::/system.slice/caretaker.service/supervisor\n", mounts);
    let own = "/sys/fs/cgroup/system.slice/caretaker.service/supervisor";
    assert_eq!(found.unified, Some(placement("/sys/fs/cgroup", own)));
    assert!(found.legacy.is_empty());
}

#[test]
fn trees_of_version_1_are_found_by_controller_even_when_mounted_together() {
    let mounts = b"31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
        32 30 0:28 / /sys/fs/cgroup/memory rw shared:1 master:2 - cgroup cgroup rw,memory\n\
        33 30 0:29 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n\
        34 30 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
    let groups = "9:name=systemd:/x\n4:memory:/jobs/7\n1:cpu,cpuacct:/\n0::/\n";
    let found = Hierarchies::parse(groups, mounts);
    assert_eq!(found.unified, Some(placement("/sys/fs/cgroup/unified", "/sys/fs/cgroup/unified")));
    let legacy: Vec<_> = found.legacy.iter().map(|(name, at)| (name.as_str(), at)).collect();
    let cpu = placement("/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/cpu,cpuacct");
    let memory = placement("/sys/fs/cgroup/memory", "/sys/fs/cgroup/memory/jobs/7");
    assert_eq!(legacy, [("cpu", &cpu), ("cpuacct", &cpu), ("memory", &memory)]);
}

#[test]
fn inside_a_container_only_what_is_mounted_there_counts() {
    let mounts = b"40 39 0:28 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n\
        41 39 0:29 /docker/abc /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n";
    let found = Hierarchies::parse("5:memory:/docker/abc/inner\n6:pids:/elsewhere\n", mounts);
    let memory = placement("/sys/fs/cgroup/memory", "/sys/fs/cgroup/memory/inner");
    assert_eq!(found.legacy, BTreeMap::from([("memory".to_owned(), memory)]));
    // A process outside its cgroup namespace is above the root.
    let mounts = b"30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
    assert_eq!(Hierarchies::parse("0::/../other\n", mounts).unified, None);
}

#[test]
fn odd_mount_points_and_torn_lines_do_no_harm() {
    let mounts = b"1 2\n\nnonsense - cgroup\n30 23 0:26 / /mnt/a\\040b\\134c rw - cgroup2 x rw\n";
    let found = Hierarchies::parse("garbage\n0::/\n:::\n", mounts);
    assert_eq!(found.unified, Some(placement("/mnt/a b\\c", "/mnt/a b\\c")));
}

#[test]
fn this_machine_is_understood() {
    // On any machine, every named directory exists.
    let found = Hierarchies::of_this_process().unwrap();
    for placement in found.unified.iter().chain(found.legacy.values()) {
        assert!(placement.own.join("cgroup.procs").exists(), "{placement:?}");
    }
}
