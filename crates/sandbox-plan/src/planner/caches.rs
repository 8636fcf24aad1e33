//! The dependency caches: seeds from the host, private parts, and the tools' variables. Credential files stay hidden.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use run_protocol::NetworkMode;
use rustix::fs::{Dir, FileType};

use super::{Planner, resolve};
use crate::host_path::{self, Directory, FileKind};
use crate::origin::Origin;
use crate::plan::{PlanError, PlanWarning};
use crate::profile::Access;
use crate::step::Step;
use crate::tool_caches::{PrivatePart, SEEDS_INSIDE, Seed};

/// The search for credential files ends after this many entries. It always lists the first directory completely.
const MOST_ENTRIES: usize = 2_000;
/// The number of installed files to check for hard links.
const MOST_SAMPLED: usize = 64;

impl Planner<'_> {
    /// Returns the tools' variables, with their profile lines.
    pub(super) fn cache_variables(&self) -> Vec<(String, String, Origin)> {
        let of_tool = self.request.caches.iter().flat_map(|cache| {
            let offline = cache.offline.iter().filter(|_| self.is_offline());
            cache.set.iter().chain(offline)
        });
        of_tool.cloned().collect()
    }

    /// Returns true if the run cannot reach a registry.
    fn is_offline(&self) -> bool {
        match self.network.mode {
            NetworkMode::Host => false,
            NetworkMode::Allowlist => !self.request.reaches_registries,
            NetworkMode::None => true,
        }
    }

    pub(super) fn caches(&mut self) -> Result<(), PlanError> {
        let request = self.request;
        for cache in &request.caches {
            let blocked = cache.private.iter().find_map(|part| self.blocked(part));
            if let Some(path) = blocked {
                self.warnings.push(PlanWarning::CacheHidden { tool: cache.tool.clone(), path });
                continue;
            }
            for seed in cache.seeds.iter().chain(&cache.show) {
                self.seed(seed);
            }
            let (directories, locks): (Vec<_>, Vec<_>) =
                cache.private.iter().partition(|part| part.is_directory);
            for part in locks {
                self.lock(part, directories.first());
            }
            for part in directories {
                let source = request.cache_directory.join(&cache.tool).join(&part.relative);
                let (source, found) = self.run_directory(&host_path::plain(&source))?;
                let identity = found.map(|found| found.identity);
                let (dest, access) = (part.inside.clone(), Access::ReadWrite);
                let step = Step::Bind { source, dest, access, identity };
                self.push(step, part.origin.clone());
            }
        }
        Ok(())
    }

    /// Links a lock file to the tool's first private directory, which all runs of the repository share. A link is much
    /// cheaper than a mount.
    fn lock(&mut self, part: &PrivatePart, directory: Option<&&PrivatePart>) {
        let target = directory.zip(part.inside.file_name());
        let Some(target) = target.map(|(directory, name)| directory.inside.join(name)) else {
            return;
        };
        // In a directory that the sandbox shows, the tool works without its lock.
        if !self.is_shown(&part.inside) {
            self.push(Step::Symlink { target, dest: part.inside.clone() }, part.origin.clone());
        }
    }

    fn seed(&mut self, seed: &Seed) {
        let is_private =
            |path: &Path| path.starts_with(&seed.source) || seed.source.starts_with(path);
        let ours = self.request.ours.iter().map(|ours| host_path::physical(ours));
        let mut never = ours.chain([self.request.workspace.clone()]);
        let is_above_home = self.request.home.starts_with(&seed.source);
        if is_above_home || never.any(|path| is_private(&path)) || self.is_shown(&seed.inside) {
            return;
        }
        let step = Step::Bind {
            source: seed.source.clone(),
            dest: seed.inside.clone(),
            access: Access::ReadOnly,
            identity: Some(seed.found.identity),
        };
        self.push(step, seed.origin.clone());
    }

    /// Returns the path that prevents mounting a private part.
    fn blocked(&self, part: &PrivatePart) -> Option<PathBuf> {
        let dest = &part.inside;
        let in_system = ["/proc", "/dev", "/etc", "/run/caretaker"];
        let covers = |path: &Path| path.starts_with(dest);
        let mut shown = self.steps.iter().filter_map(|planned| planned.step.shown_at());
        let mounted = self.steps.iter().filter_map(|planned| planned.step.mounted_at());
        let below = shown.clone().chain(mounted).find(|path| covers(path)).map(Path::to_owned);
        let system = in_system.iter().map(Path::new).find(|path| dest.starts_with(path));
        // In a read-only directory bubblewrap cannot make a mount point. But one of the right kind may already exist.
        let around = shown.rfind(|path| dest.starts_with(path)).map(Path::to_owned);
        let is_there = || {
            let found = host_path::look(dest).ok().flatten().map(|found| found.kind);
            found == Some(if part.is_directory { FileKind::Directory } else { FileKind::File })
        };
        below.or(system.map(Path::to_owned)).or_else(|| around.filter(|_| !is_there()))
    }

    /// Warns if installed packages are hard links to the user's package store.
    pub(super) fn store_links(&mut self) {
        for name in ["node_modules", ".venv"] {
            let path = self.request.workspace.join(name);
            if is_of_store(&path) {
                self.warnings.push(PlanWarning::StoreLinked(path));
            }
        }
    }

    /// Covers credential files in the directories that the sandbox shows read-only.
    pub(super) fn masks(&mut self) -> Result<(), PlanError> {
        let rules = self.rules;
        let Some(caches) = &rules.caches else { return Ok(()) };
        let system = &rules.system;
        let of_system = system.read_only.iter().chain(&system.links).chain(&system.etc);
        let of_system = of_system.flat_map(|it| it.value.paths(&self.request.home));
        let skipped: Vec<PathBuf> =
            of_system.chain(["/proc".into()]).chain(self.request.ours.iter().cloned()).collect();
        let mask_of = |name: &OsStr| caches.mask.iter().find(|mask| mask.value.fits(name));
        let mut covered = Vec::new();
        for planned in &self.steps {
            let Step::Bind { source, dest, access: Access::ReadOnly, .. } = &planned.step else {
                continue;
            };
            let is_skipped = |path: &Path| skipped.iter().any(|skipped| path.starts_with(skipped));
            if is_skipped(source) || is_skipped(dest) {
                continue;
            }
            // Below its first level, a seed has only packages.
            let deepest = usize::from(!dest.starts_with(SEEDS_INSIDE));
            for (relative, kind) in named_in(source, deepest, &|name| mask_of(name).is_some()) {
                let mask = relative.file_name().and_then(mask_of);
                covered.extend(mask.map(|mask| (dest.join(&relative), kind, mask.origin.clone())));
            }
        }
        for (dest, kind, origin) in covered {
            let placeholder = match kind {
                FileType::Directory => &self.request.placeholders.directory,
                // Inside, a link is dangling, or leads to a file that the sandbox shows under another name.
                FileType::Symlink => continue,
                _ => &self.request.placeholders.file,
            };
            let placed = resolve(placeholder)?;
            let identity = placed.as_ref().map(|(_, found)| found.identity);
            let source = placed.map_or_else(|| placeholder.clone(), |(at, _)| at);
            self.push(Step::Bind { source, dest, access: Access::ReadOnly, identity }, origin);
        }
        Ok(())
    }
}

/// Returns true if most of the files that a short search finds have other hard links.
fn is_of_store(directory: &Path) -> bool {
    let Ok(root) = Directory::open(directory) else { return false };
    let mut pending = vec![PathBuf::new()];
    let (mut n_entries, mut n_files, mut n_linked) = (0, 0, 0);
    while let Some(at) = pending.pop() {
        let Ok(opened) = root.open_to_list(&at) else { continue };
        for entry in Dir::read_from(&opened).into_iter().flatten().flatten() {
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            match entry.file_type() {
                _ if name == "." || name == ".." => continue,
                FileType::Directory => pending.push(at.join(name)),
                FileType::RegularFile => {
                    let found = root.look(&at.join(name)).ok().flatten();
                    n_files += 1;
                    n_linked += usize::from(found.is_some_and(|found| found.has_other_names));
                }
                _ => {}
            }
            n_entries += 1;
            if n_files >= MOST_SAMPLED || n_entries >= MOST_ENTRIES {
                return n_linked * 2 > n_files;
            }
        }
    }
    n_linked * 2 > n_files
}

/// Returns the entries of a directory whose names match, and those of the directories in it.
fn named_in(
    directory: &Path,
    deepest: usize,
    fits: &dyn Fn(&OsStr) -> bool,
) -> Vec<(PathBuf, FileType)> {
    let Ok(root) = Directory::open(directory) else { return Vec::new() };
    let mut named = Vec::new();
    let mut n_entries = 0;
    let mut pending = VecDeque::from([(PathBuf::new(), 0)]);
    while let Some((at, depth)) = pending.pop_front() {
        // The directory itself is always listed completely.
        if n_entries > MOST_ENTRIES {
            break;
        }
        let Ok(opened) = root.open_to_list(&at) else { continue };
        for entry in Dir::read_from(&opened).into_iter().flatten().flatten() {
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            n_entries += 1;
            let kind = entry.file_type();
            if fits(name) {
                named.push((at.join(name), kind));
            } else if kind == FileType::Directory && depth < deepest {
                pending.push_back((at.join(name), depth + 1));
            }
        }
    }
    named
}
