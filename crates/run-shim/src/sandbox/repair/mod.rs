//! Restores a protection that a process on the host removed.
//!
//! `git config`, `git push -u` and `git branch -D` on the host replace the repository's configuration with a new file.
//! Then the kernel removes the mount over it, and the agent can write to the new file until the shim has stopped the
//! agent:
//!
//! ```text
//!   lost ──► freeze every process of the sandbox
//!        ──► for each lost configuration: wait for git, judge the text, replace the file, mount it, verify the mount
//!        ──► thaw
//! ```
//!
//! If anything else is lost, or any step fails, the sandbox stays frozen and the run ends as suspended. When the agent
//! is dead, [`Repair::restore`] puts the last accepted text back.
//!
//! **Invariant:** the agent never runs while a protection is known to be lost.

mod config_file;
mod config_text;
mod freeze;
mod judge;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ground::{Durable, replace_file, with_causes};
use sandbox_plan::{SandboxPlan, SandboxRoot};

use self::config_file::{ConfigFile, Owner};
use self::freeze::freeze;
use self::judge::{Judgement, judge};
use crate::sandbox::entry::bind_again;

/// The longest time for a repair. The agent is stopped meanwhile.
const PATIENCE: Duration = Duration::from_secs(3);

/// Repairs the protections of one sandbox. It keeps the mounts alive, so it must be dropped before the clean-up.
#[derive(Debug)]
pub(crate) struct Repair {
    plan: Arc<SandboxPlan>,
    /// The host pid of the sandbox's first process.
    init: u32,
    mountinfo: File,
    /// The sandbox's cgroup v2, if it has one.
    group: Option<PathBuf>,
    /// The configuration files of the repositories, with the last text that no agent could have written.
    accepted: BTreeMap<PathBuf, Accepted>,
    /// The files whose text must be put back after the agent's end.
    to_restore: BTreeSet<PathBuf>,
}

#[derive(Debug)]
struct Accepted {
    text: Vec<u8>,
    owner: Owner,
}

/// A protection that is still lost.
#[derive(Debug)]
pub(crate) struct NotRepaired {
    pub(crate) path: PathBuf,
    /// The reason, for the user.
    pub(crate) why: String,
}

impl Repair {
    /// Reads the configuration files. The agent must be at the gate, behind the verified mounts.
    pub(crate) fn new(
        plan: &Arc<SandboxPlan>,
        init: u32,
        group: Option<PathBuf>,
    ) -> io::Result<Self> {
        let mut accepted = BTreeMap::new();
        for (path, planned) in plan.git_configs() {
            match ConfigFile::at(path).and_then(|file| file.read()) {
                Ok((text, identity, owner)) if identity == planned => {
                    accepted.insert(path.to_owned(), Accepted { text, owner });
                }
                // Without this text, the shim cannot judge a new one, so any change suspends the run.
                read => tracing::warn!(?path, error = ?read.err(), "cannot read a configuration"),
            }
        }
        let mountinfo = File::open(format!("/proc/{init}/mountinfo"))?;
        let (plan, to_restore) = (Arc::clone(plan), BTreeSet::new());
        Ok(Self { plan, init, mountinfo, group, accepted, to_restore })
    }

    /// Repairs everything that is lost, and returns the repaired paths. If it fails, the sandbox may still be frozen:
    /// kill it.
    pub(crate) fn run(&mut self) -> Result<BTreeSet<PathBuf>, NotRepaired> {
        let mut repaired = BTreeSet::new();
        let Err(NotRepaired { path, why }) = self.freeze_and_repair(&mut repaired) else {
            return Ok(repaired);
        };
        let mut written = self.lost().unwrap_or_default();
        written.extend(repaired);
        written.retain(|path| self.accepted.contains_key(path));
        self.to_restore.extend(written);
        Err(NotRepaired { path, why })
    }

    fn freeze_and_repair(&mut self, repaired: &mut BTreeSet<PathBuf>) -> Result<(), NotRepaired> {
        let until = Instant::now() + PATIENCE;
        let not_stopped = |error: io::Error| format!("the agent could not be stopped: {error}");
        let frozen = freeze(self.init, self.group.as_deref(), until).map_err(not_stopped);
        let frozen = frozen.map_err(|why| self.first_lost(why))?;
        loop {
            let lost = self.lost().map_err(|error| self.first_lost(error.to_string()))?;
            let other = lost.iter().find(|path| !self.accepted.contains_key(*path));
            let Some(path) = other.or(lost.first()) else { break };
            self.repair(path, until)
                .map_err(|why| NotRepaired { path: path.clone(), why: explained(path, &why) })?;
            repaired.insert(path.clone());
        }
        if !frozen.holds() {
            return Err(self.first_lost("the agent ran during the repair".to_owned()));
        }
        let not_continued = |error| format!("could not let the agent continue: {error}");
        frozen.thaw().map_err(|error| self.first_lost(not_continued(error)))
    }

    fn first_lost(&self, why: String) -> NotRepaired {
        let path = self.lost().ok().and_then(|lost| lost.into_iter().next());
        let path = path.or_else(|| self.accepted.keys().next().cloned()).unwrap_or_default();
        NotRepaired { why: explained(&path, &why), path }
    }

    fn lost(&self) -> io::Result<Vec<PathBuf>> {
        lost(&self.plan, &self.mountinfo)
    }

    /// Judges a configuration, and mounts a new file with its text.
    fn repair(&mut self, path: &Path, until: Instant) -> Result<(), String> {
        let Some(accepted) = self.accepted.get_mut(path) else {
            return Err("Caretaker can restore only git's configuration".to_owned());
        };
        let words = |error: io::Error| with_causes(&error);
        let file = ConfigFile::at(path).map_err(words)?;
        loop {
            let rest = until.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                return Err("it kept changing, or another process kept its lock".to_owned());
            }
            let stamp = file.settle();
            let (found, ..) = file.read().map_err(words)?;
            let text = match judge(&accepted.text, &found) {
                Judgement::Accepted(text) => text,
                Judgement::Refused(reason) => return Err(reason),
            };
            let Some(identity) = file.replace(&text, accepted.owner, stamp).map_err(words)? else {
                continue;
            };
            accepted.text = text;
            bind_again(self.init, path, rest)?;
            // Git may have replaced the file once more.
            let seen = SandboxRoot::of(self.init).and_then(|root| root.identity(path));
            let lost = lost(&self.plan, &self.mountinfo).map_err(words)?;
            if seen.is_ok_and(|seen| seen == identity) && !lost.iter().any(|lost| lost == path) {
                return Ok(());
            }
        }
    }

    /// Puts the last accepted texts back, and keeps the refused ones in the run's directory. Returns the paths of the
    /// kept texts. The agent must be dead.
    pub(crate) fn restore(&self, run_dir: &Path) -> Vec<PathBuf> {
        let mut kept = Vec::new();
        for (path, accepted) in &self.accepted {
            if !self.to_restore.contains(path) {
                continue;
            }
            let to = run_dir.join(format!("refused-config-{}", kept.len() + 1));
            match restore(path, accepted, &to) {
                Ok(true) => kept.push(to),
                Ok(false) => {}
                Err(error) => tracing::error!(?path, %error, "cannot restore a configuration"),
            }
        }
        kept
    }
}

/// Repairs the sandbox that has lost `path`. Orders wait until this is done.
pub(crate) async fn repair(
    repair: &mut Option<Repair>,
    path: PathBuf,
) -> Result<BTreeSet<PathBuf>, NotRepaired> {
    let failed = |why: &str| NotRepaired { why: explained(&path, why), path: path.clone() };
    let Some(mut taken) = repair.take() else {
        return Err(failed("nothing can repair it"));
    };
    let repairing = tokio::task::spawn_blocking(move || (taken.run(), taken));
    let (repaired, taken) = repairing.await.map_err(|error| failed(&error.to_string()))?;
    *repair = Some(taken);
    repaired
}

/// Restores the files of a run that ended because of `why`, and returns the reason with advice for the user.
pub(crate) fn restored(repair: Option<Repair>, run_dir: &Path, why: String) -> String {
    let kept = repair.map(|repair| repair.restore(run_dir)).unwrap_or_default();
    let kept: Vec<String> = kept.iter().map(|path| format!("`{}`", path.display())).collect();
    match kept.is_empty() {
        true => format!("{why}; resume the run to continue"),
        false => format!(
            "{why}; the last safe text is back, and the refused one is in {}; resume the run to continue, and make the \
             change while no agent runs",
            kept.join(" and ")
        ),
    }
}

fn lost(plan: &SandboxPlan, mut mountinfo: &File) -> io::Result<Vec<PathBuf>> {
    let mut text = Vec::new();
    mountinfo.rewind()?;
    mountinfo.read_to_end(&mut text)?;
    Ok(plan.lost(&text).into_iter().map(ToOwned::to_owned).collect())
}

/// Puts one text back. Returns whether it kept a refused text.
fn restore(path: &Path, accepted: &Accepted, to: &Path) -> io::Result<bool> {
    let file = ConfigFile::at(path)?;
    file.settle();
    let (text, is_kept) = match file.read() {
        Ok((found, ..)) => match judge(&accepted.text, &found) {
            Judgement::Accepted(text) => (text, false),
            Judgement::Refused(_) => {
                replace_file(to, &found, Durable::No)?;
                (accepted.text.clone(), true)
            }
        },
        Err(_) => (accepted.text.clone(), false),
    };
    file.restore(&text, accepted.owner)?;
    Ok(is_kept)
}

fn explained(path: &Path, why: &str) -> String {
    let path = path.display();
    format!(
        "a process on the host removed or replaced `{path}` while the agent ran, so it was no longer protected: {why}"
    )
}
