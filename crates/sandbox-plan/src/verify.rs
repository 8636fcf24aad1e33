//! Compares a sandbox that is waiting to be released with its plan.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use crate::host_path::{Directory, FileIdentity};
use crate::plan::SandboxPlan;
use crate::profile::Access;
use crate::step::{FIRST_PROCESS, Step};

/// A difference between a sandbox and its plan.
///
/// Until bubblewrap has finished, everything differs. A caller repeats the comparison until its deadline.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Mismatch {
    #[error("nothing is mounted at `{}`", .0.display())]
    NotMounted(PathBuf),
    #[error("`{}` is writable, but must be read-only", .0.display())]
    Writable(PathBuf),
    #[error("`{}` is mounted as {found} instead of {planned}", .path.display())]
    WrongKind { path: PathBuf, planned: &'static str, found: String },
    #[error(
        "`{}` is file {}:{} instead of {}:{}",
        .path.display(), .found.device, .found.inode, .planned.device, .planned.inode
    )]
    WrongFile { path: PathBuf, planned: FileIdentity, found: FileIdentity },
    #[error("`{}` did not exist when the plan was made, so it cannot be verified", .0.display())]
    Unplanned(PathBuf),
    #[error("cannot examine `{}` from outside", .path.display())]
    Look { path: PathBuf, source: io::Error },
}

/// One line of `/proc/<pid>/mountinfo`.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    point: PathBuf,
    access: Access,
    kind: String,
}

/// The root directory of a process in a sandbox. It shows what that process sees.
///
/// The root changes while bubblewrap sets up the sandbox, so take a new one for each comparison.
#[derive(Debug)]
pub struct SandboxRoot(Directory);

impl SandboxRoot {
    pub fn of(pid: u32) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(format!("/proc/{pid}/root"), flags, Mode::empty())?;
        Ok(Self(Directory::from(root)))
    }

    /// Returns the identity of a path inside the sandbox. Follows no symlink.
    pub fn identity(&self, inside: &Path) -> io::Result<FileIdentity> {
        let relative = inside.strip_prefix("/").unwrap_or(inside);
        let found = self.0.look(relative)?;
        found.map(|found| found.identity).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Opens a directory inside the sandbox. Follows no symlink. The open directory outlives the sandbox.
    pub fn directory(&self, inside: &Path) -> io::Result<OwnedFd> {
        self.0.open_to_list(inside.strip_prefix("/").unwrap_or(inside))
    }
}

impl SandboxPlan {
    /// Compares a sandbox with the plan, and returns the number of compared mounts.
    ///
    /// `mountinfo` belongs to the sandbox's first process. `identity` examines a path as that process sees it.
    pub fn verify(
        &self,
        mountinfo: &[u8],
        identity: &dyn Fn(&Path) -> io::Result<FileIdentity>,
    ) -> Result<u32, Mismatch> {
        let mounts: Vec<Mount> = mountinfo.split(|byte| *byte == b'\n').filter_map(mount).collect();
        // The last mount at a path covers the others.
        let at = |path: &Path| {
            let found = mounts.iter().rev().find(|mount| mount.point == path);
            found.ok_or_else(|| Mismatch::NotMounted(path.to_owned()))
        };
        let mut n_compared = 0;
        for planned in &self.steps {
            match &planned.step {
                Step::Bind { dest, access, identity: source, .. } => {
                    let mount = at(dest)?;
                    if *access == Access::ReadOnly && mount.access != Access::ReadOnly {
                        return Err(Mismatch::Writable(dest.clone()));
                    }
                    let planned = source.ok_or_else(|| Mismatch::Unplanned(dest.clone()))?;
                    let found = identity(dest)
                        .map_err(|source| Mismatch::Look { path: dest.clone(), source })?;
                    if found != planned {
                        return Err(Mismatch::WrongFile { path: dest.clone(), planned, found });
                    }
                }
                Step::Tmpfs { dest, .. } => at(dest)?.check_kind("tmpfs")?,
                Step::Proc => at(Path::new("/proc"))?.check_kind("proc")?,
                Step::HideFirstProcess => {
                    let mount = at(Path::new(FIRST_PROCESS))?;
                    mount.check_kind("tmpfs")?;
                    if mount.access != Access::ReadOnly {
                        return Err(Mismatch::Writable(mount.point.clone()));
                    }
                }
                Step::Dev => at(Path::new("/dev"))?.check_kind("tmpfs")?,
                Step::RemountReadOnly(dest) if at(dest)?.access != Access::ReadOnly => {
                    return Err(Mismatch::Writable(dest.clone()));
                }
                Step::RemountReadOnly(_) => {}
                _ => continue,
            }
            n_compared += 1;
        }
        self.check_others(&mounts, identity)?;
        Ok(n_compared)
    }

    /// Returns the paths of planned mounts that are gone or have become writable.
    pub fn lost(&self, mountinfo: &[u8]) -> Vec<&Path> {
        let mounts: Vec<Mount> = mountinfo.split(|byte| *byte == b'\n').filter_map(mount).collect();
        let holds = |path: &Path, access: Access| {
            let found = mounts.iter().rev().find(|mount| mount.point == path);
            found.is_some_and(|found| access == Access::ReadWrite || found.access == access)
        };
        let lost = self.steps.iter().filter_map(|planned| {
            let (path, access) = match &planned.step {
                Step::Bind { dest, access, .. } => (dest.as_path(), *access),
                Step::RemountReadOnly(dest) => (dest.as_path(), Access::ReadOnly),
                step => (step.mounted_at()?, Access::ReadWrite),
            };
            (!holds(path, access)).then_some(path)
        });
        lost.collect()
    }

    /// Returns the host's files and directories that other mounts of the sandbox cover. If a process on the host renames
    /// one, the mount moves with it, and the kernel reports no change of the mounts.
    pub fn mount_points_on_host(&self) -> impl Iterator<Item = PathBuf> {
        self.steps.iter().enumerate().filter_map(|(index, planned)| {
            let point = planned.step.mounted_at()?;
            // The last mount around the point shows the file that the point is.
            let mut around = self.steps[..index].iter().rev().map(|earlier| &earlier.step);
            let around =
                around.find(|step| step.mounted_at().is_some_and(|at| point.starts_with(at)))?;
            match around {
                Step::Bind { source, dest, .. } if dest != point => {
                    Some(source.join(point.strip_prefix(dest).ok()?))
                }
                _ => None,
            }
        })
    }

    /// Checks the host's mounts below a read-only mount. They must be read-only too.
    fn check_others(
        &self,
        mounts: &[Mount],
        identity: &dyn Fn(&Path) -> io::Result<FileIdentity>,
    ) -> Result<(), Mismatch> {
        let planned: Vec<(&Path, Access)> = self
            .steps
            .iter()
            .filter_map(|planned| {
                let access = match planned.step {
                    Step::Bind { access, .. } => access,
                    _ => Access::ReadWrite,
                };
                planned.step.mounted_at().map(|path| (path, access))
            })
            .collect();
        for mount in mounts {
            let around = planned
                .iter()
                .filter(|(path, _)| mount.point.starts_with(path))
                .max_by_key(|(path, _)| path.components().count());
            let is_other = around.is_some_and(|(path, _)| mount.point != *path);
            let must_be_read_only = around.is_some_and(|(_, access)| *access == Access::ReadOnly);
            // Bubblewrap skips mounts that this user cannot reach. The agent cannot reach them either.
            let is_reached = || match identity(&mount.point) {
                Err(err) => err.kind() != io::ErrorKind::PermissionDenied,
                Ok(_) => true,
            };
            let is_writable = mount.access != Access::ReadOnly;
            if is_other && must_be_read_only && is_writable && is_reached() {
                return Err(Mismatch::Writable(mount.point.clone()));
            }
        }
        Ok(())
    }
}

impl Mount {
    fn check_kind(&self, planned: &'static str) -> Result<(), Mismatch> {
        if self.kind == planned {
            return Ok(());
        }
        let (path, found) = (self.point.clone(), self.kind.clone());
        Err(Mismatch::WrongKind { path, planned, found })
    }
}

/// Reads a line: `id parent device root point options … - kind source options`.
fn mount(line: &[u8]) -> Option<Mount> {
    let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let options = fields.get(5)?;
    let is_read_only = options.split(|byte| *byte == b',').any(|option| option == b"ro");
    let dash = fields.iter().skip(6).position(|field| field == b"-")? + 6;
    Some(Mount {
        point: PathBuf::from(OsString::from_vec(unescaped(fields.get(4)?))),
        access: if is_read_only { Access::ReadOnly } else { Access::ReadWrite },
        kind: String::from_utf8_lossy(fields.get(dash + 1)?).into_owned(),
    })
}

/// Decodes the kernel's escapes, such as `\040` for a space.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let octal =
            after.get(..3).filter(|digits| digits.iter().all(|d| (b'0'..=b'7').contains(d)));
        match (first, octal) {
            (b'\\', Some(digits)) => {
                let value =
                    digits.iter().fold(0u16, |value, digit| value * 8 + u16::from(digit - b'0'));
                plain.push(value.to_le_bytes()[0]);
                rest = &after[3..];
            }
            _ => {
                plain.push(*first);
                rest = after;
            }
        }
    }
    plain
}

#[cfg(test)]
#[path = "verify_tests.rs"]
mod tests;
