//! Per-process limits. The gate sets them for itself just before the release, and the agent and all its processes
//! inherit them.
//!
//! The gate sets them, because it has only one thread and no other work. It sets them late, so that they do not apply
//! to the sandbox's set-up.

use std::fmt::Write as _;
use std::io;

use nix::sys::resource::{Resource, getrlimit, rlim_t, setrlimit};

/// The limits of each process. `None` leaves a limit unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ProcessLimits {
    pub(crate) open_files: Option<u64>,
    pub(crate) file_bytes: Option<u64>,
    /// Private written memory, not address space, because node reserves far more than it uses.
    pub(crate) data_bytes: Option<u64>,
    /// Processes and threads in the sandbox's own user namespace. The kernel does not limit root.
    pub(crate) processes: Option<u64>,
}

impl ProcessLimits {
    /// Writes the limits as one line for the gate.
    pub(crate) fn words(&self) -> String {
        let mut words = String::new();
        for (name, limit) in self.named() {
            if let Some(limit) = limit {
                write!(words, "{name}={limit} ").ok();
            }
        }
        words.push('\n');
        words
    }

    /// Reads the gate's line. `None` if it is malformed.
    pub(crate) fn parse(words: &str) -> Option<Self> {
        let mut limits = Self::default();
        for word in words.split_whitespace() {
            let (name, limit) = word.split_once('=')?;
            let limit = Some(limit.parse().ok()?);
            match name {
                "nofile" => limits.open_files = limit,
                "fsize" => limits.file_bytes = limit,
                "data" => limits.data_bytes = limit,
                "nproc" => limits.processes = limit,
                _ => return None,
            }
        }
        Some(limits)
    }

    fn named(&self) -> [(&'static str, Option<u64>); 4] {
        [
            ("nofile", self.open_files),
            ("fsize", self.file_bytes),
            ("data", self.data_bytes),
            ("nproc", self.processes),
        ]
    }

    /// Sets the limits for this process. No process inside can raise them again.
    pub(crate) fn apply(&self) -> io::Result<()> {
        // No core files, because the agent's memory has secrets.
        lower(Resource::RLIMIT_CORE, 0)?;
        let limits = [
            (Resource::RLIMIT_NOFILE, self.open_files),
            (Resource::RLIMIT_FSIZE, self.file_bytes),
            (Resource::RLIMIT_DATA, self.data_bytes),
            (Resource::RLIMIT_NPROC, self.processes),
        ];
        limits
            .into_iter()
            .filter_map(|(resource, limit)| Some((resource, limit?)))
            .try_for_each(|(resource, limit)| lower(resource, limit))
    }
}

/// Sets one limit. A lower limit stays.
fn lower(resource: Resource, limit: rlim_t) -> io::Result<()> {
    let (_, most) = getrlimit(resource)?;
    let limit = limit.min(most);
    Ok(setrlimit(resource, limit, limit)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_limits_are_read_back_and_bad_words_are_refused() {
        let limits = ProcessLimits {
            open_files: Some(4096),
            file_bytes: Some(1 << 34),
            data_bytes: None,
            processes: Some(512),
        };
        assert_eq!(limits.words(), "nofile=4096 fsize=17179869184 nproc=512 \n");
        assert_eq!(ProcessLimits::parse(&limits.words()), Some(limits));
        assert_eq!(ProcessLimits::parse("\n"), Some(ProcessLimits::default()));
        for bad in ["nofile", "nofile=x", "as=1", "nofile=-1"] {
            assert_eq!(ProcessLimits::parse(bad), None, "{bad}");
        }
    }
}
