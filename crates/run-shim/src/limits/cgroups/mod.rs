//! Control groups: their mounts, and how a run gets its own group in each version.

pub(super) mod cgroup_directory;
pub(super) mod hierarchy;
pub(super) mod scope;
pub(super) mod version1;
pub(super) mod version2;
