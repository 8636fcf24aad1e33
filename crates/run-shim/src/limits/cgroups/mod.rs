//! Control groups: where they are mounted, and how a run gets one of its own in either version.

pub(super) mod cgroup_directory;
pub(super) mod hierarchy;
pub(super) mod scope;
pub(super) mod version1;
pub(super) mod version2;
