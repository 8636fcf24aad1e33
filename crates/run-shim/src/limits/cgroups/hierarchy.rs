//! Finds the mounts of the kernel's control groups, and this process's place in them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

/// The trees of control groups, as this process sees them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::limits) struct Hierarchies {
    /// The one tree of version 2.
    pub(in crate::limits) unified: Option<Placement>,
    /// The trees of version 1, by controller.
    pub(in crate::limits) legacy: BTreeMap<String, Placement>,
}

/// This process's place in a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::limits) struct Placement {
    /// The mount point of the tree.
    pub(in crate::limits) mount: PathBuf,
    /// The directory of this process's group.
    pub(in crate::limits) own: PathBuf,
}

/// A line of `mountinfo` that mounts a tree.
struct Mount {
    /// The mounted directory of the tree. In a container it is not the root.
    root: PathBuf,
    point: PathBuf,
    is_unified: bool,
    options: String,
}

impl Hierarchies {
    pub(in crate::limits) fn of_this_process() -> io::Result<Self> {
        let groups = std::fs::read_to_string("/proc/self/cgroup")?;
        let mounts = std::fs::read("/proc/self/mountinfo")?;
        Ok(Self::parse(&groups, &mounts))
    }

    /// Reads `/proc/PID/cgroup` and `/proc/PID/mountinfo`. Skips lines that it does not understand.
    pub(in crate::limits) fn parse(groups: &str, mountinfo: &[u8]) -> Self {
        let mounts: Vec<Mount> =
            mountinfo.split(|byte| *byte == b'\n').filter_map(Mount::parse).collect();
        let mut found = Self::default();
        for line in groups.lines() {
            let mut fields = line.splitn(3, ':');
            let (Some(number), Some(controllers), Some(path)) =
                (fields.next(), fields.next(), fields.next())
            else {
                continue;
            };
            if number == "0" && controllers.is_empty() {
                let mount = mounts.iter().find(|mount| mount.is_unified);
                found.unified = mount.and_then(|mount| mount.placement(path));
                continue;
            }
            for controller in controllers.split(',').filter(|name| !name.contains('=')) {
                let has = |mount: &&Mount| {
                    !mount.is_unified && mount.options.split(',').any(|name| name == controller)
                };
                let placement = mounts.iter().find(has).and_then(|mount| mount.placement(path));
                if let Some(placement) = placement {
                    found.legacy.insert(controller.to_owned(), placement);
                }
            }
        }
        found
    }
}

impl Mount {
    fn parse(line: &[u8]) -> Option<Self> {
        // `36 35 0:31 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory`
        let mut fields = line.split(|byte| *byte == b' ');
        let root = unescaped(fields.nth(3)?);
        let point = unescaped(fields.next()?);
        let mut after = fields.skip_while(|field| *field != b"-").skip(1);
        let is_unified = match after.next()? {
            b"cgroup2" => true,
            b"cgroup" => false,
            _ => return None,
        };
        let options = String::from_utf8(after.nth(1)?.to_vec()).ok()?;
        Some(Self { root, point, is_unified, options })
    }

    /// Returns the directory in this mount for a path from `/proc/PID/cgroup`. `None` if it is outside the mount.
    fn placement(&self, path: &str) -> Option<Placement> {
        let below = Path::new(path).strip_prefix(&self.root).ok()?;
        if below.components().any(|part| !matches!(part, Component::Normal(_))) {
            return None;
        }
        // Joining an empty path would add a slash.
        let own = match below.as_os_str().is_empty() {
            true => self.point.clone(),
            false => self.point.join(below),
        };
        Some(Placement { mount: self.point.clone(), own })
    }
}

/// Decodes the escapes of `mountinfo`, such as `\040`, for spaces, tabs, line feeds and backslashes.
fn unescaped(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let code = (*first == b'\\')
            .then(|| after.get(..3))
            .flatten()
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
#[path = "hierarchy_tests.rs"]
mod tests;
