//! What is shown of the host's programs, and what the kernel shows.

use std::path::{Path, PathBuf};

use run_protocol::NetworkMode;

use super::{Planner, look_error, resolve};
use crate::host_path::{self, Directory, FileKind, Found};
use crate::origin::{Origin, Sourced};
use crate::plan::{DataFile, PlanError};
use crate::profile::{Access, GeneratedFile, HostPattern};
use crate::step::{Author, Step};

/// A larger file is mounted: copies live in memory, once for each run.
const MOST_COPIED: u64 = 256 * 1024;

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
        let network_files = match self.network.mode {
            NetworkMode::Host => self.rules.network.files.as_slice(),
            NetworkMode::None | NetworkMode::Allowlist => &[],
        };
        for Sourced { value, origin } in network_files {
            for path in self.paths(value) {
                self.show(&path, origin)?;
            }
        }
        for Sourced { value, origin } in &self.rules.generated {
            // Names are asked of us, or of whom the host asks, or of nobody.
            if *value == GeneratedFile::Resolver && self.network.mode != NetworkMode::Allowlist {
                continue;
            }
            let inside = PathBuf::from(value.path());
            let is_there =
                self.steps.iter().any(|planned| planned.step.shown_at() == Some(&inside));
            if !is_there {
                let hostname = &self.rules.hostname.value.0;
                let contents = value.contents(&self.request.user, &self.request.home, hostname);
                self.push_file(DataFile { inside, contents }, 0o444, Author::Us, origin);
            }
        }
        Ok(())
    }

    pub(super) fn kernel(&mut self) -> Result<(), PlanError> {
        self.push(Step::Proc, self.rules.proc.clone());
        self.push(Step::HideFirstProcess, Origin::Always);
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

    /// Shows what a path leads to at that path, read-only: as a link, a copy or a mount, the cheapest that serves.
    // For every mount bubblewrap reads the list of all mounts: each costs a start about half a millisecond.
    fn show(&mut self, path: &Path, origin: &Origin) -> Result<(), PlanError> {
        let Some((physical, found)) = resolve(path)? else { return Ok(()) };
        // What lies in a directory that is shown is there already, as itself or as a link.
        let dest = if self.is_shown(path) { physical.clone() } else { path.to_owned() };
        if self.is_shown(&physical) {
            if physical != dest {
                self.push(Step::Symlink { target: physical, dest }, origin.clone());
            }
        } else if let Some(contents) = contents_to_copy(&physical, found) {
            let file = DataFile { inside: dest, contents };
            self.push_file(file, 0o444, Author::Host, origin);
        } else {
            let (access, identity) = (Access::ReadOnly, Some(found.identity));
            let step = Step::Bind { source: physical, dest, access, identity };
            self.push(step, origin.clone());
        }
        Ok(())
    }

    fn link_or_show(&mut self, path: &Path, origin: &Origin) -> Result<(), PlanError> {
        let found = host_path::look(path).map_err(|source| look_error(path, source))?;
        match found.map(|found| found.kind) {
            Some(FileKind::Symlink) => {
                let target = std::fs::read_link(path).map_err(|source| look_error(path, source))?;
                self.push(Step::Symlink { target, dest: path.to_owned() }, origin.clone());
            }
            Some(FileKind::Directory) => self.show(path, origin)?,
            _ => {}
        }
        Ok(())
    }
}

/// Returns what a small file holds.
fn contents_to_copy(physical: &Path, found: Found) -> Option<Vec<u8>> {
    if found.kind != FileKind::File {
        return None;
    }
    let directory = Directory::open(physical.parent()?).ok()?;
    directory.read_small(Path::new(physical.file_name()?), MOST_COPIED).ok()
}
