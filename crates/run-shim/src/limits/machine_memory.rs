//! The memory that this process and its runs may use together.

use std::fs;
use std::path::Path;

use super::cgroups::hierarchy::{Hierarchies, Placement};

/// Returns the machine's memory, or the limit of a control group above this process if that is lower, as in a
/// container.
pub fn machine_memory() -> Option<u64> {
    let of_machine = installed(&fs::read_to_string("/proc/meminfo").ok()?)?;
    let groups = Hierarchies::of_this_process().unwrap_or_default();
    let legacy = groups.legacy.get("memory").map(|place| lowest(place, "memory.limit_in_bytes"));
    let unified = groups.unified.as_ref().map(|place| lowest(place, "memory.max"));
    [legacy, unified].into_iter().flatten().flatten().chain([of_machine]).min()
}

/// `MemTotal:       24684100 kB`
fn installed(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// The lowest limit of a group and the groups above it. A group without a limit says `max`, or a very large number.
fn lowest(place: &Placement, file: &str) -> Option<u64> {
    let groups = place.own.ancestors().take_while(|group| group.starts_with(&place.mount));
    groups.filter_map(|group| limit(&group.join(file))).min()
}

fn limit(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_limit_above_a_group_counts() {
        let mount = tempfile::tempdir().unwrap();
        let own = mount.path().join("a/b");
        fs::create_dir_all(&own).unwrap();
        let place = Placement { mount: mount.path().to_owned(), own: own.clone() };
        assert_eq!(lowest(&place, "memory.max"), None);
        fs::write(own.join("memory.max"), "max\n").unwrap();
        fs::write(mount.path().join("a/memory.max"), "4096\n").unwrap();
        fs::write(mount.path().join("memory.max"), "8192\n").unwrap();
        assert_eq!(lowest(&place, "memory.max"), Some(4096));
    }

    #[test]
    fn this_machine_has_memory() {
        assert_eq!(installed("MemFree: 1 kB\nMemTotal:       24684100 kB\n"), Some(25_276_518_400));
        assert!(machine_memory().unwrap() > 0);
    }
}
