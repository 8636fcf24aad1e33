//! Finds the agent: where to look, how to prove that it is Cursor's, and how to pin one version of it.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

/// Everything that the caller knows about the agent's possible paths.
#[derive(Debug, Clone, Default)]
pub struct AgentSearch {
    /// The program that the user named, as an absolute path.
    pub explicit: Option<PathBuf>,
    /// The value of `PATH`.
    pub path: Option<OsString>,
    pub home: Option<PathBuf>,
}

/// A path where the agent may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    pub path: PathBuf,
    pub found_by: FoundBy,
    pub check: AgentCheck,
}

/// Why a path is a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FoundBy {
    Explicit,
    SearchPath,
    /// Cursor's installer puts its links into `~/.local/bin`, which is not always on `PATH`.
    InstallerDefault,
}

/// The check that a candidate must pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentCheck {
    /// It exists and may be executed.
    Executable,
    /// Also, its `--help` passes [`says_it_is_cursor`]: other vendors install a program called `agent` too.
    ExecutableThatSaysCursor,
}

/// Returns the candidates in order. The first one that passes its check is the agent.
///
/// If the user named a program, it is the only candidate: the user asked for this program and no other.
pub fn candidates(search: &AgentSearch) -> Vec<Candidate> {
    if let Some(path) = &search.explicit {
        return vec![Candidate {
            path: path.clone(),
            found_by: FoundBy::Explicit,
            check: AgentCheck::Executable,
        }];
    }
    let path = search.path.as_deref().unwrap_or_default();
    // A relative entry would let the current directory, often the workspace, supply the agent.
    let on_path = std::env::split_paths(path)
        .filter(|directory| directory.is_absolute())
        .map(|directory| (directory, FoundBy::SearchPath));
    let by_default =
        search.home.iter().map(|home| (home.join(".local/bin"), FoundBy::InstallerDefault));
    let places: Vec<(PathBuf, FoundBy)> = on_path.chain(by_default).collect();

    let mut found: Vec<Candidate> = Vec::new();
    for (name, check) in
        [("cursor-agent", AgentCheck::Executable), ("agent", AgentCheck::ExecutableThatSaysCursor)]
    {
        for (directory, found_by) in &places {
            let path = directory.join(name);
            if found.iter().all(|earlier| earlier.path != path) {
                found.push(Candidate { path, found_by: *found_by, check });
            }
        }
    }
    found
}

/// Returns true if this `--help` text is Cursor's.
// The capital letter matters: any terminal program may mention "the cursor".
pub fn says_it_is_cursor(help_text: &str) -> bool {
    help_text
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .any(|word| word == "Cursor" || word.starts_with("CURSOR_"))
}

/// The version of the simulated agent. It is well-formed, and no real build has it: those have hex digits at the end.
pub const SIMULATED_VERSION: &str = "2026.10.01-51m0000";

/// The agent's version, such as `2026.10.01-e373342`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentVersion {
    pub year: u16,
    pub month: u8,
    pub day: u8,
    /// The part after the dash. Its sort order means nothing.
    pub build: Option<String>,
}

impl fmt::Display for AgentVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}.{:02}.{:02}", self.year, self.month, self.day)?;
        self.build.iter().try_for_each(|build| write!(f, "-{build}"))
    }
}

/// Parses the output of `--version`, or the name of a version's directory.
pub fn parse_version(text: &str) -> Option<AgentVersion> {
    let text = text.trim();
    let (date, build) = match text.split_once('-') {
        Some((date, build)) => (date, Some(build)),
        None => (text, None),
    };
    let is_build = |build: &str| {
        !build.is_empty()
            && build.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'.')
    };
    if !build.is_none_or(is_build) {
        return None;
    }
    let mut parts = date.split('.');
    let mut digits = |width: usize| {
        parts.next().filter(|part| part.len() == width && part.bytes().all(|b| b.is_ascii_digit()))
    };
    let version = AgentVersion {
        year: digits(4)?.parse().ok()?,
        month: digits(2)?.parse().ok().filter(|month| (1..=12).contains(month))?,
        day: digits(2)?.parse().ok().filter(|day| (1..=31).contains(day))?,
        build: build.map(str::to_owned),
    };
    parts.next().is_none().then_some(version)
}

/// One fixed program, which an update of the agent cannot replace while a run uses it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinnedAgent {
    /// The program to execute.
    pub program: PathBuf,
    /// Known if the program is in Cursor's own `versions` directory.
    pub version: Option<AgentVersion>,
    /// The files that the sandbox must show, read-only.
    pub exposure: Exposure,
}

/// The files that lie beside the launcher of every installed agent, wherever it is installed.
pub const BESIDE_THE_LAUNCHER: [&str; 2] = ["node", "index.js"];

/// What lies beside a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beside {
    /// All of [`BESIDE_THE_LAUNCHER`]: the program is the launcher of an installed agent.
    TheAgent,
    SomethingElse,
}

/// The files that a program needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exposure {
    /// The directory of an installed agent: launcher, node, chunks and tools belong together.
    Directory(PathBuf),
    /// A program from elsewhere. Its directory stays hidden, because that may be the user's home.
    File(PathBuf),
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not the absolute path of a program", .0.display())]
pub struct NotAProgramPath(pub PathBuf);

impl PinnedAgent {
    /// Pins the program of a candidate, given its path with all symlinks resolved.
    pub fn from_canonical(canonical: &Path, beside: Beside) -> Result<Self, NotAProgramPath> {
        let not_a_program = || NotAProgramPath(canonical.to_path_buf());
        if !canonical.is_absolute() || canonical.file_name().is_none() {
            return Err(not_a_program());
        }
        let directory = canonical.parent().ok_or_else(not_a_program)?;
        let version = version_directory(canonical);
        let exposure = match (&version, beside) {
            (None, Beside::SomethingElse) => Exposure::File(canonical.to_path_buf()),
            (Some(_), _) | (None, Beside::TheAgent) => Exposure::Directory(directory.to_path_buf()),
        };
        Ok(Self { program: canonical.to_path_buf(), version, exposure })
    }
}

/// Recognises `…/cursor-agent/versions/<version>/<program>`.
fn version_directory(program: &Path) -> Option<AgentVersion> {
    let directory = program.parent()?;
    let version = parse_version(directory.file_name()?.to_str()?)?;
    let versions = directory.parent()?;
    let product = versions.parent()?;
    (versions.file_name()? == "versions" && product.file_name()? == "cursor-agent")
        .then_some(version)
}

#[cfg(test)]
#[path = "agent_binary_tests.rs"]
mod tests;
