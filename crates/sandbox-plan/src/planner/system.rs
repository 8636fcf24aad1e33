//! The host's programs, the files in `/etc`, and `/proc` and `/dev`.

use std::path::{Path, PathBuf};

use run_protocol::NetworkMode;

use super::{Planner, look_error, resolve};
use crate::host_path::{self, Directory, FileKind, Found};
use crate::origin::{Origin, Sourced};
use crate::plan::{DataFile, PlanError};
use crate::profile::{Access, GeneratedFile, HostPattern};
use crate::step::{Author, Step};

/// The longest file to copy. A copy takes memory in each run, so the sandbox mounts longer files.
const MOST_COPIED: u64 = 256 * 1024;

/// The directory of the administrator's settings for cursor-agent.
const ENTERPRISE: &str = "/etc/cursor";

impl Planner<'_> {
    pub(super) fn system(&mut self) -> Result<(), PlanError> {
        let rules = &self.rules.system;
        self.each_path(&rules.read_only, Self::show)?;
        self.each_path(&rules.links, Self::link_or_show)?;
        self.each_path(&rules.etc, Self::show)?;
        // The administrator's hooks for the agent. No profile can hide them.
        self.show(Path::new(ENTERPRISE), &Origin::Always)?;
        if self.network.mode == NetworkMode::Host {
            self.each_path(&self.rules.network.files, Self::show)?;
        }
        for Sourced { value, origin } in &self.rules.system.generated {
            // The shim answers DNS queries only in `allowlist` mode.
            if *value == GeneratedFile::Resolver && self.network.mode != NetworkMode::Allowlist {
                continue;
            }
            let inside = PathBuf::from(value.path());
            let is_there =
                self.steps.iter().any(|planned| planned.step.shown_at() == Some(&inside));
            if !is_there {
                let hostname = &self.rules.namespaces.hostname.value.0;
                let contents = value.contents(&self.request.user, &self.request.home, hostname);
                self.push_file(DataFile { inside, contents }, 0o444, Author::Caretaker, origin);
            }
        }
        Ok(())
    }

    pub(super) fn kernel(&mut self) -> Result<(), PlanError> {
        self.push(Step::Proc, self.rules.kernel.proc.origin.clone());
        self.push(Step::HideFirstProcess, Origin::Always);
        let sysctl = Path::new("/proc/sys");
        let found = host_path::look(sysctl).map_err(|source| look_error(sysctl, source))?;
        let found = found.ok_or_else(|| PlanError::RunDirectoryMissing(sysctl.to_owned()))?;
        self.push_bind(sysctl, found, Access::ReadOnly, &self.rules.kernel.sysctl.origin);
        self.push(Step::Dev, self.rules.kernel.dev.origin.clone());
        let shm = &self.rules.kernel.shm;
        let step = Step::Tmpfs { dest: "/dev/shm".into(), size: shm.value.0, mode: 0o1777 };
        self.push(step, shm.origin.clone());
        self.push(Step::RemountReadOnly("/dev".into()), Origin::Always);
        Ok(())
    }

    fn each_path(
        &mut self,
        patterns: &[Sourced<HostPattern>],
        show: impl Fn(&mut Self, &Path, &Origin) -> Result<(), PlanError>,
    ) -> Result<(), PlanError> {
        for Sourced { value, origin } in patterns {
            for path in value.paths(&self.request.home) {
                show(self, &path, origin)?;
            }
        }
        Ok(())
    }

    /// Shows the file that a path leads to, at that path and read-only. Chooses the cheapest way: a link, a copy or a mount.
    // For each mount, bubblewrap reads the list of all mounts, which takes about half a millisecond.
    fn show(&mut self, path: &Path, origin: &Origin) -> Result<(), PlanError> {
        let Some((physical, found)) = resolve(path)? else { return Ok(()) };
        // A path in a directory that the sandbox shows is already inside, as a file or as a link.
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

/// Returns the contents of a small file.
fn contents_to_copy(physical: &Path, found: Found) -> Option<Vec<u8>> {
    if found.kind != FileKind::File {
        return None;
    }
    let directory = Directory::open(physical.parent()?).ok()?;
    directory.read_small(Path::new(physical.file_name()?), MOST_COPIED).ok()
}
