//! A bubblewrap operation, and its arguments.

use std::ffi::{OsStr, OsString};
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::host_path::FileIdentity;
use crate::origin::Origin;
use crate::profile::Access;
use crate::request::Secrecy;

/// The directory of the sandbox's first process.
pub(crate) const FIRST_PROCESS: &str = "/proc/1";

/// An operation, and who decided it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlannedStep {
    pub(crate) step: Step,
    pub(crate) origin: Origin,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    Namespace {
        option: &'static str,
        what: &'static str,
    },
    Hostname(String),
    Guard {
        options: &'static [&'static str],
        what: &'static str,
    },
    SetVariable {
        name: OsString,
        value: OsString,
        secrecy: Secrecy,
    },
    Bind {
        source: PathBuf,
        dest: PathBuf,
        access: Access,
        /// The identity of the source. Unknown if the source did not exist when the plan was made.
        identity: Option<FileIdentity>,
    },
    Symlink {
        target: PathBuf,
        dest: PathBuf,
    },
    Tmpfs {
        dest: PathBuf,
        size: u64,
        mode: u32,
    },
    Proc,
    /// Hides the sandbox's first process. It is bubblewrap's own and has no system call filter, so an agent that could write
    /// its memory could make any call through it.
    HideFirstProcess,
    Dev,
    /// A file with the contents of data file number `index`.
    File {
        dest: PathBuf,
        mode: u32,
        index: usize,
        author: Author,
    },
    RemountReadOnly(PathBuf),
    ChangeDirectory(PathBuf),
    /// Seccomp program number `index`.
    Filter {
        name: &'static str,
        index: usize,
    },
}

/// The author of a file's contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Author {
    Caretaker,
    Host,
}

/// The numbers, in the sandbox's process, of the descriptors that the arguments name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanFds {
    /// One for each of [`crate::SandboxPlan::data_files`], in order, at offset zero.
    pub data: Vec<RawFd>,
    /// One for each of [`crate::SandboxPlan::seccomp_programs`], in order, at offset zero.
    pub seccomp: Vec<RawFd>,
    /// Bubblewrap reports here which process it started.
    pub json_status: RawFd,
    /// Bubblewrap waits on this until the shim has verified the sandbox.
    pub block: Option<RawFd>,
}

impl Step {
    /// Adds the arguments of the step.
    pub(crate) fn write(&self, fds: &PlanFds, args: &mut Arguments) {
        match self {
            Self::Namespace { option, .. } => args.add([option]),
            Self::Guard { options, .. } => args.add(*options),
            Self::Hostname(name) => args.add(["--hostname", name]),
            Self::SetVariable { name, value, .. } => {
                args.add([OsStr::new("--setenv"), name, value]);
            }
            Self::Bind { source, dest, access, .. } => {
                let option = match access {
                    Access::ReadOnly => "--ro-bind",
                    Access::ReadWrite => "--bind",
                };
                args.add([OsStr::new(option), source.as_os_str(), dest.as_os_str()]);
            }
            Self::Symlink { target, dest } => {
                args.add([OsStr::new("--symlink"), target.as_os_str(), dest.as_os_str()]);
            }
            Self::Tmpfs { dest, size, mode } => {
                args.add(["--size", &size.to_string(), "--perms", &format!("{mode:04o}")]);
                args.add([OsStr::new("--tmpfs"), dest.as_os_str()]);
            }
            Self::Proc => args.add(["--proc", "/proc"]),
            Self::HideFirstProcess => {
                args.add(["--size", "4096", "--perms", "0555", "--tmpfs", FIRST_PROCESS]);
                args.add(["--remount-ro", FIRST_PROCESS]);
            }
            Self::Dev => args.add(["--dev", "/dev"]),
            Self::File { dest, mode, index, .. } => {
                args.add([
                    "--perms",
                    &format!("{mode:04o}"),
                    "--file",
                    &fd_text(&fds.data, *index),
                ]);
                args.add([dest]);
            }
            Self::RemountReadOnly(dest) => {
                args.add([OsStr::new("--remount-ro"), dest.as_os_str()]);
            }
            Self::ChangeDirectory(dest) => args.add([OsStr::new("--chdir"), dest.as_os_str()]),
            Self::Filter { index, .. } => {
                args.add(["--add-seccomp-fd", &fd_text(&fds.seccomp, *index)]);
            }
        }
    }

    /// Returns the path where the step shows a file or link. Later steps must not cover it.
    pub(crate) fn shown_at(&self) -> Option<&Path> {
        match self {
            Self::Bind { dest, .. } | Self::Symlink { dest, .. } | Self::File { dest, .. } => {
                Some(dest)
            }
            _ => None,
        }
    }

    /// Returns the path of a mount that stays as long as anything holds the sandbox. The mount over the first process
    /// is not one of them: it ends with that process, and no process on the host can remove it earlier.
    pub(crate) fn mounted_at(&self) -> Option<&Path> {
        match self {
            Self::Bind { dest, .. } | Self::Tmpfs { dest, .. } => Some(dest),
            Self::Proc => Some(Path::new("/proc")),
            Self::Dev => Some(Path::new("/dev")),
            _ => None,
        }
    }
}

// For a missing descriptor this writes a number that bubblewrap refuses, so that a mistake cannot start a sandbox.
fn fd_text(fds: &[RawFd], index: usize) -> String {
    fds.get(index).copied().unwrap_or(-1).to_string()
}

/// Arguments as `--args` reads them, each followed by a NUL.
#[derive(Debug, Default)]
pub(crate) struct Arguments {
    pub(crate) bytes: Vec<u8>,
    pub(crate) count: usize,
}

impl Arguments {
    pub(crate) fn add<S: AsRef<OsStr>>(&mut self, words: impl IntoIterator<Item = S>) {
        for word in words {
            self.bytes.extend_from_slice(word.as_ref().as_bytes());
            self.bytes.push(0);
            self.count += 1;
        }
    }
}
