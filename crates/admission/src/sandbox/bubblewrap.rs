//! Finds this host's bubblewrap, and checks that it is trustworthy and can make a sandbox.

use std::fs::{self};
use std::io::{self};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ground::command::{Answer, Bounds, NoAnswer};
use ground::{Durable, replace_file};
use run_protocol::ExitCode;
use sandbox_plan::{
    BwrapFileError, BwrapProblem, BwrapVersion, KnownHole, OLD_ROOT, bwrap_symlink_trial,
    bwrap_trial, check_bwrap_file, missing_bwrap_options,
};

use crate::command_error::CommandError;
use crate::host::environment::Environment;

/// A trial takes about 10 ms, or longer on a busy machine.
const PATIENCE: Duration = Duration::from_secs(10);
/// The file in the state directory that identifies the bubblewrap that has passed a trial since the last boot.
const PASSED_FILE: &str = "bubblewrap-passed";

/// Why bubblewrap cannot make a sandbox.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BubblewrapError {
    #[error("bubblewrap is not installed, and the sandbox needs it")]
    Missing,
    #[error("bubblewrap cannot be trusted")]
    File(#[source] BwrapFileError),
    #[error("bubblewrap at `{}` does not answer", .path.display())]
    Silent { path: PathBuf, source: NoAnswer },
    #[error("bubblewrap at `{}` is too old: it has no {}", .path.display(), .missing.join(", "))]
    TooOld { path: PathBuf, missing: Vec<&'static str> },
    #[error("bubblewrap cannot make a sandbox here: {problem}")]
    Trial { path: PathBuf, problem: BwrapProblem, complaint: String },
}

impl BubblewrapError {
    /// Returns a hint for the user, with the exact remedy if the kernel settings show the cause.
    pub fn hint(&self) -> String {
        match self {
            Self::Missing => "install it: `sudo apt-get install bubblewrap` (Debian, Ubuntu), \
                 `sudo dnf install bubblewrap` (Fedora), `sudo pacman -S bubblewrap` (Arch)"
                .to_owned(),
            Self::File(error) => hint_for_file(error),
            Self::Silent { .. } => "see what `bwrap --version` says".to_owned(),
            Self::TooOld { .. } => "install bubblewrap 0.8.0 or newer".to_owned(),
            Self::Trial { path, problem, .. } => {
                hint_for(problem, path, &KernelSettings::of_host())
            }
        }
    }
}

impl From<BubblewrapError> for CommandError {
    fn from(error: BubblewrapError) -> Self {
        let hint = error.hint();
        let command_error = Self::new(ExitCode::SupervisorFailed, error.to_string()).hint(hint);
        match error {
            BubblewrapError::File(source) => command_error.because(source),
            BubblewrapError::Silent { source, .. } => command_error.because(source),
            BubblewrapError::Trial { complaint, .. } => command_error.because(complaint),
            BubblewrapError::Missing | BubblewrapError::TooOld { .. } => command_error,
        }
    }
}

/// A bubblewrap whose file can be trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bubblewrap {
    pub path: PathBuf,
}

impl Bubblewrap {
    /// Finds it on PATH, or in `/usr/bin` if there is no PATH; never in the workspace.
    pub fn find(
        environment: &Environment,
        workspace: Option<&Path>,
    ) -> Result<Self, BubblewrapError> {
        let search = environment.variable("PATH").unwrap_or("/usr/bin".as_ref());
        let found = std::env::split_paths(search)
            .filter(|directory| directory.is_absolute())
            .map(|directory| directory.join("bwrap"))
            .find(|candidate| candidate.is_file())
            .ok_or(BubblewrapError::Missing)?;
        let path = check_bwrap_file(&found, workspace).map_err(BubblewrapError::File)?;
        Ok(Self { path })
    }

    pub fn version(&self) -> Result<Option<BwrapVersion>, BubblewrapError> {
        let answer = self.ask(["--version".into()])?;
        Ok(BwrapVersion::parse(&answer.stdout_text()))
    }

    /// Makes a sandbox that does nothing.
    pub fn try_out(&self) -> Result<(), BubblewrapError> {
        let missing = missing_bwrap_options(&self.ask(["--help".into()])?.stdout_text());
        if !missing.is_empty() {
            return Err(BubblewrapError::TooOld { path: self.path.clone(), missing });
        }
        let answer = self.ask(bwrap_trial())?;
        if answer.status.success() {
            return Ok(());
        }
        let complaint = answer.stderr_text().trim().to_owned();
        let (path, problem) = (self.path.clone(), BwrapProblem::classify(&complaint));
        Err(BubblewrapError::Trial { path, problem, complaint })
    }

    /// Returns the weaknesses of this bubblewrap, which must have passed [`Self::try_out`]. Distributions fix them without a
    /// new version number, so this tries them out, in a temporary directory.
    pub fn known_holes(&self, version: BwrapVersion) -> Vec<KnownHole> {
        let mut holes = version.known_holes();
        holes.retain(|hole| match hole {
            KnownHole::SymlinkDestination => self.follows_symlinks().unwrap_or(true),
            _ => true,
        });
        holes
    }

    /// Returns whether this bubblewrap creates a directory on the host if a symlink leads there.
    fn follows_symlinks(&self) -> io::Result<bool> {
        let directory = tempfile::tempdir()?;
        let root = fs::canonicalize(directory.path())?;
        let (workspace, elsewhere) = (root.join("workspace"), root.join("elsewhere"));
        fs::create_dir(&workspace)?;
        fs::create_dir(&elsewhere)?;
        let by_old_root =
            Path::new(OLD_ROOT).join(elsewhere.strip_prefix("/").unwrap_or(&elsewhere));
        std::os::unix::fs::symlink(by_old_root, workspace.join("link"))?;
        // A fixed one complains, which is as good as a sandbox here.
        self.ask(bwrap_symlink_trial(&workspace, "link", "made")).map_err(io::Error::other)?;
        Ok(elsewhere.join("made").exists())
    }

    /// Like [`Self::try_out`], but only once per boot.
    pub(crate) fn try_out_once(&self, state: &Path) -> Result<Trial, BubblewrapError> {
        let fingerprint = self.fingerprint();
        let passed = fs::read_to_string(state.join(PASSED_FILE)).ok();
        if fingerprint.is_some() && passed == fingerprint {
            return Ok(Trial::PassedBefore);
        }
        self.try_out()?;
        Ok(Trial::Passed { fingerprint })
    }

    /// Identifies this program until the next boot.
    fn fingerprint(&self) -> Option<String> {
        let found = fs::metadata(&self.path).ok()?;
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let (boot, path) = (boot.trim(), self.path.display());
        let (device, inode) = (found.dev(), found.ino());
        let (seconds, nanoseconds) = (found.mtime(), found.mtime_nsec());
        // Containers and users have different rights, even with the same kernel and program.
        let namespace = fs::read_link("/proc/self/ns/user").ok()?;
        let uid = nix::unistd::geteuid();
        Some(format!(
            "{boot} {} {uid} {device}:{inode} {seconds}.{nanoseconds} {path}\n",
            namespace.display()
        ))
    }

    fn ask(
        &self,
        arguments: impl IntoIterator<Item = std::ffi::OsString>,
    ) -> Result<Answer, BubblewrapError> {
        let mut command = Command::new(&self.path);
        command.env_clear().args(arguments);
        ground::command::run(&mut command, None, Bounds::of_question(PATIENCE))
            .map_err(|source| BubblewrapError::Silent { path: self.path.clone(), source })
    }
}

/// A successful trial.
#[derive(Debug, PartialEq, Eq)]
pub enum Trial {
    /// The run has no sandbox.
    NotNeeded,
    PassedBefore,
    Passed {
        fingerprint: Option<String>,
    },
}

impl Trial {
    /// Saves the result in the state directory, which must exist. If that fails, the next run repeats the trial.
    pub fn remember(&self, state: &Path) {
        if let Self::Passed { fingerprint: Some(fingerprint) } = self {
            replace_file(&state.join(PASSED_FILE), fingerprint.as_bytes(), Durable::No).ok();
        }
    }
}

/// The command that repairs the file, if there is one.
fn hint_for_file(error: &BwrapFileError) -> String {
    let mend = |path: &Path, command: &str| format!("sudo {command} '{}'", path.display());
    match error {
        BwrapFileError::SetUserId(path) => format!(
            "remove the bit, because the kernel makes namespaces without it: {}",
            mend(path, "chmod u-s")
        ),
        BwrapFileError::NotRoots { path, .. } => format!(
            "use the one that your distribution packages, or make root its owner: {}",
            mend(path, "chown root:root")
        ),
        BwrapFileError::WritableByOthers(path) => mend(path, "chmod go-w"),
        BwrapFileError::NotExecutable(path) => mend(path, "chmod a+x"),
        _ => "use the one that your distribution packages, /usr/bin/bwrap".to_owned(),
    }
}

/// The kernel's settings for user namespaces.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KernelSettings {
    unprivileged_userns_clone: Option<String>,
    max_user_namespaces: Option<String>,
    apparmor_restricts: Option<String>,
}

impl KernelSettings {
    pub fn of_host() -> Self {
        let read =
            |path: &str| -> io::Result<String> { Ok(fs::read_to_string(path)?.trim().to_owned()) };
        Self {
            unprivileged_userns_clone: read("/proc/sys/kernel/unprivileged_userns_clone").ok(),
            max_user_namespaces: read("/proc/sys/user/max_user_namespaces").ok(),
            apparmor_restricts: read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns").ok(),
        }
    }
}

/// How to let bubblewrap use namespaces although AppArmor forbids that to ordinary users, as on Ubuntu 24.04.
fn apparmor_fix(bwrap: &Path) -> String {
    let bwrap = bwrap.display();
    format!(
        "\
allow it for bubblewrap in AppArmor:
sudo tee /etc/apparmor.d/bwrap >/dev/null <<'END'
abi <abi/4.0>,
include <tunables/global>
profile bwrap {bwrap} flags=(unconfined) {{
  userns,
}}
END
sudo apparmor_parser -r /etc/apparmor.d/bwrap
this frees more than Caretaker: every program of every user can then make user namespaces by way of {bwrap}, and so \
reach parts of the kernel that AppArmor keeps from them. It is still less than to free all programs, without bubblewrap \
too: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
    )
}

/// The exact setting to change if the host shows it, else the usual remedy.
fn hint_for(problem: &BwrapProblem, bwrap: &Path, settings: &KernelSettings) -> String {
    let is = |setting: &Option<String>, value: &str| setting.as_deref() == Some(value);
    match problem {
        BwrapProblem::TooManyNamespaces | BwrapProblem::NamespacesForbidden
            if is(&settings.unprivileged_userns_clone, "0") =>
        {
            "allow user namespaces: sudo sysctl -w kernel.unprivileged_userns_clone=1".to_owned()
        }
        BwrapProblem::TooManyNamespaces | BwrapProblem::NamespacesForbidden
            if is(&settings.max_user_namespaces, "0") =>
        {
            "allow user namespaces: sudo sysctl -w user.max_user_namespaces=15000".to_owned()
        }
        BwrapProblem::AppArmor => apparmor_fix(bwrap),
        BwrapProblem::NamespacesForbidden if is(&settings.apparmor_restricts, "1") => {
            apparmor_fix(bwrap)
        }
        problem => problem.hint().unwrap_or("see `caretaker doctor`").to_owned(),
    }
}

#[cfg(test)]
#[path = "bubblewrap_tests.rs"]
mod tests;
