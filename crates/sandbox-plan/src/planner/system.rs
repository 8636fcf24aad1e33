//! What is shown of the host's programs, and what the kernel shows.

use std::path::{Path, PathBuf};

use super::{Planner, look_error, resolve};
use crate::host_path::{self, FileKind};
use crate::origin::{Origin, Sourced};
use crate::plan::PlanError;
use crate::profile::{Access, HostPattern, Network};
use crate::step::Step;

impl Planner<'_> {
    pub(super) fn system(&mut self) -> Result<(), PlanError> {
        for Sourced { value, origin } in &self.rules.system_read_only {
            for path in self.paths(value) {
                self.show(&path, origin)?;
            }
        }
        for Sourced { value, origin } in &self.rules.system_links {
            for path in self.paths(value) {
                self.link_or_show(&path, origin)?;
            }
        }
        for Sourced { value, origin } in &self.rules.etc {
            for path in self.paths(value) {
                self.show(&path, origin)?;
            }
        }
        let network_files = match self.network {
            Network::Host => self.rules.network_files.as_slice(),
            Network::None => &[],
        };
        let mut shown = Vec::new();
        for Sourced { value, origin } in network_files {
            for path in self.paths(value) {
                if self.show(&path, origin)? == Shown::Yes {
                    shown.push(path);
                }
            }
        }
        for Sourced { value, origin } in &self.rules.generated {
            let dest = PathBuf::from(value.path());
            if !shown.contains(&dest) {
                let hostname = &self.rules.hostname.value.0;
                let contents = value.contents(&self.request.user, &self.request.home, hostname);
                self.push_file(dest, 0o444, contents, origin.clone());
            }
        }
        Ok(())
    }

    pub(super) fn kernel(&mut self) -> Result<(), PlanError> {
        self.push(Step::Proc, self.rules.proc.clone());
        let sysctl = Path::new("/proc/sys");
        let found = host_path::look(sysctl).map_err(|source| look_error(sysctl, source))?;
        let found = found.ok_or_else(|| PlanError::RunDirectoryMissing(sysctl.to_owned()))?;
        self.push_bind(sysctl, found, Access::ReadOnly, &self.rules.sysctl);
        self.push(Step::Dev, self.rules.dev.clone());
        let shm = &self.rules.shm;
        let step = Step::Tmpfs { dest: "/dev/shm".into(), size: shm.value.0, mode: 0o1777 };
        self.push(step, shm.origin.clone());
        self.push(Step::RemountReadOnly("/dev".into()), Origin::Always);
        Ok(())
    }

    fn paths(&self, pattern: &HostPattern) -> Vec<PathBuf> {
        pattern.paths(&self.request.home)
    }

    /// Shows what a path leads to at that path, read-only.
    fn show(&mut self, path: &Path, origin: &Origin) -> Result<Shown, PlanError> {
        let Some((physical, found)) = resolve(path)? else { return Ok(Shown::No) };
        // What lies in a directory that is shown is there already, as itself or as a link.
        let dest = if self.is_shown(path) { physical.clone() } else { path.to_owned() };
        let step = match self.is_shown(&physical) {
            true if physical == dest => return Ok(Shown::Yes),
            // A link costs less than a mount, and says the same.
            true => Step::Symlink { target: physical, dest },
            false => {
                let (access, identity) = (Access::ReadOnly, Some(found.identity));
                Step::Bind { source: physical, dest, access, identity }
            }
        };
        self.push(step, origin.clone());
        Ok(Shown::Yes)
    }

    fn link_or_show(&mut self, path: &Path, origin: &Origin) -> Result<(), PlanError> {
        let found = host_path::look(path).map_err(|source| look_error(path, source))?;
        match found.map(|found| found.kind) {
            Some(FileKind::Symlink) => {
                let target = std::fs::read_link(path).map_err(|source| look_error(path, source))?;
                self.push(Step::Symlink { target, dest: path.to_owned() }, origin.clone());
            }
            Some(FileKind::Directory) => {
                self.show(path, origin)?;
            }
            _ => {}
        }
        Ok(())
    }
}

/// Whether there was something to show.
#[derive(PartialEq, Eq)]
enum Shown {
    Yes,
    No,
}
