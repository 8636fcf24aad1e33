//! Finds the agent's program, checks it and pins its path.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use cursor_home::{
    AgentCheck, AgentSearch, BESIDE_THE_LAUNCHER, Beside, Candidate, Exposure, PinnedAgent,
    candidates, parse_version, says_it_is_cursor,
};
use ground::command::Bounds;
use nix::unistd::{AccessFlags, access};
use run_protocol::{AgentKind, AgentProgram, ExitCode};

use crate::command_error::CommandError;
use crate::host::environment::Environment;

/// The word for the simulated agent, and the name of its entry point.
pub const SIMULATED: &str = "simulated";
pub const SIMULATED_ENTRY: &str = "simulated-agent";

/// Node takes half a second to start on a fast machine.
const PATIENCE: Duration = Duration::from_secs(10);

/// The agent that the user wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentChoice {
    /// The installed cursor-agent.
    Installed,
    /// The program at this path.
    Named(PathBuf),
    Simulated,
}

impl AgentChoice {
    /// `--agent` wins over the configuration.
    pub fn of(flag: Option<&Path>, config: Option<&Path>, environment: &Environment) -> Self {
        match flag.or(config) {
            None => Self::Installed,
            Some(word) if word == Path::new(SIMULATED) => Self::Simulated,
            Some(path) => Self::Named(environment.absolute(path)),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error(
        "no cursor-agent is installed: neither `cursor-agent` nor Cursor's `agent` is on PATH or in ~/.local/bin"
    )]
    NotInstalled,
    #[error("there is no agent at `{}`", .0.display())]
    NotFound(PathBuf),
    #[error("the agent `{}` cannot be executed", .0.display())]
    NotExecutable(PathBuf),
}

impl From<AgentError> for CommandError {
    fn from(error: AgentError) -> Self {
        let command_error = |code| Self::new(code, error.to_string());
        match &error {
            AgentError::NotInstalled => command_error(ExitCode::AgentNotFound).hint(
                "install it as Cursor documents, with `curl https://cursor.com/install -fsS | bash`,\n\
                 or try Caretaker without it: caretaker run --agent simulated \"look around\"",
            ),
            AgentError::NotFound(_) => command_error(ExitCode::AgentNotFound)
                .hint("name the program with --agent PATH, or use --agent simulated"),
            AgentError::NotExecutable(_) => command_error(ExitCode::AgentNotExecutable)
                .hint("make it executable with `chmod +x`, or name another with --agent PATH"),
        }
    }
}

/// Finds the program and follows its links to one version of it. If the path does not name the version, asks the
/// program.
///
/// The simulated agent is part of our own program. `forbidden` is the workspace: Caretaker never executes anything
/// below it, not even to ask for a version.
pub fn find(
    choice: &AgentChoice,
    environment: &Environment,
    own_program: &Path,
    forbidden: &[&Path],
) -> Result<AgentProgram, CommandError> {
    let search = Search { environment, forbidden };
    match choice {
        AgentChoice::Simulated => Ok(simulated(own_program)),
        AgentChoice::Named(path) => search.named(path),
        AgentChoice::Installed => search.installed(),
    }
}

fn simulated(program: &Path) -> AgentProgram {
    AgentProgram {
        kind: AgentKind::Simulated,
        leading_arguments: vec![SIMULATED_ENTRY.to_owned()],
        expose: vec![program.to_owned().into()],
        kept: None,
        program: program.to_owned().into(),
        version: Some(cursor_home::SIMULATED_VERSION.to_owned()),
    }
}

struct Search<'a> {
    environment: &'a Environment,
    forbidden: &'a [&'a Path],
}

impl Search<'_> {
    fn named(&self, path: &Path) -> Result<AgentProgram, CommandError> {
        match look_at(path) {
            Found::Program(canonical) => {
                self.refuse_inside(path, &canonical)?;
                self.pinned(&canonical)
            }
            Found::NotExecutable => Err(AgentError::NotExecutable(path.to_path_buf()).into()),
            Found::Nothing => Err(AgentError::NotFound(path.to_path_buf()).into()),
        }
    }

    fn installed(&self) -> Result<AgentProgram, CommandError> {
        let search = AgentSearch {
            explicit: None,
            path: self.environment.variable("PATH").map(ToOwned::to_owned),
            home: Some(self.environment.home.clone()),
        };
        let mut not_executable = None;
        for candidate in candidates(&search) {
            match look_at(&candidate.path) {
                Found::Nothing => {}
                Found::NotExecutable => {
                    not_executable.get_or_insert(candidate.path);
                }
                Found::Program(canonical) => {
                    self.refuse_inside(&candidate.path, &canonical)?;
                    if self.passes(&candidate, &canonical) {
                        return self.pinned(&canonical);
                    }
                }
            }
        }
        Err(match not_executable {
            Some(path) => AgentError::NotExecutable(path),
            None => AgentError::NotInstalled,
        }
        .into())
    }

    /// Neither the program nor the last link to it may be in a forbidden directory.
    fn refuse_inside(&self, named: &Path, canonical: &Path) -> Result<(), CommandError> {
        refuse_inside(canonical, self.forbidden)?;
        let directory = named.parent().and_then(|directory| fs::canonicalize(directory).ok());
        match (directory, named.file_name()) {
            (Some(directory), Some(name)) => refuse_inside(&directory.join(name), self.forbidden),
            _ => Ok(()),
        }
    }

    /// True if a program with an ambiguous name is Cursor's.
    fn passes(&self, candidate: &Candidate, canonical: &Path) -> bool {
        match candidate.check {
            AgentCheck::Executable => true,
            // A path in Cursor's own tree is proof enough, and starting node takes time.
            AgentCheck::ExecutableThatSaysCursor => {
                let pinned = PinnedAgent::from_canonical(canonical, Beside::SomethingElse);
                pinned.is_ok_and(|agent| agent.version.is_some())
                    || self.answer(canonical, "--help").is_some_and(|help| says_it_is_cursor(&help))
            }
        }
    }

    fn pinned(&self, canonical: &Path) -> Result<AgentProgram, CommandError> {
        let agent = PinnedAgent::from_canonical(canonical, beside(canonical))
            .map_err(|_| AgentError::NotFound(canonical.to_path_buf()))?;
        let version = match agent.version {
            Some(version) => Some(version.to_string()),
            None => self.answer(canonical, "--version").and_then(|text| version_in(&text)),
        };
        let expose = match agent.exposure {
            Exposure::Directory(path) | Exposure::File(path) => path,
        };
        Ok(AgentProgram {
            kind: AgentKind::Cursor,
            program: agent.program.into(),
            leading_arguments: Vec::new(),
            expose: vec![expose.into()],
            kept: None,
            version,
        })
    }

    fn answer(&self, program: &Path, flag: &str) -> Option<String> {
        let mut command = agent_command(program, self.environment);
        command.arg(flag);
        let bounds = Bounds::of_question(PATIENCE);
        let answer = ground::command::run(&mut command, None, bounds).ok()?;
        answer.status.success().then(|| answer.stdout_text())
    }
}

fn beside(program: &Path) -> Beside {
    let is_there = |name: &&str| program.with_file_name(name).is_file();
    match BESIDE_THE_LAUNCHER.iter().all(is_there) {
        true => Beside::TheAgent,
        false => Beside::SomethingElse,
    }
}

/// True if an update of the installed agent has put `now` in the place of `before`: another version at the same path,
/// or beside a version that is gone.
pub(crate) fn is_update(now: &AgentProgram, before: &AgentProgram) -> bool {
    let directories = now.installed_directory().zip(before.installed_directory());
    directories.is_some_and(|(now_in, before_in)| match now_in == before_in {
        true => now.version.is_some() && before.version.is_some() && now.version != before.version,
        false => {
            let versions = now_in.parent().filter(|parent| parent.ends_with("versions"));
            versions.is_some() && versions == before_in.parent() && !before.program.0.exists()
        }
    })
}

/// The agent as an ordinary host process, for calls that start no turn.
pub fn agent_command(program: &Path, environment: &Environment) -> Command {
    let mut command = Command::new(program);
    command.env_clear().current_dir("/").env("HOME", &environment.home).env("NO_OPEN_BROWSER", "1");
    for name in ["PATH", "LANG", "TERM", "CURSOR_CONFIG_DIR", "XDG_CONFIG_HOME", "CURSOR_DATA_DIR"]
    {
        command.envs(environment.variable(name).map(|value| (OsString::from(name), value)));
    }
    command
}

/// The version in the text, or the text itself if it is one short word.
fn version_in(text: &str) -> Option<String> {
    let first = text.lines().next().unwrap_or_default().trim();
    match parse_version(first) {
        Some(version) => Some(version.to_string()),
        None => {
            let is_word = !first.is_empty()
                && first.len() <= 64
                && first.chars().all(|c| c.is_ascii_graphic());
            is_word.then(|| first.to_owned())
        }
    }
}

enum Found {
    Program(PathBuf),
    NotExecutable,
    Nothing,
}

fn look_at(path: &Path) -> Found {
    let Ok(canonical) = fs::canonicalize(path) else { return Found::Nothing };
    let is_file = fs::metadata(&canonical).is_ok_and(|found| found.is_file());
    if is_file && access(&canonical, AccessFlags::X_OK).is_ok() {
        Found::Program(canonical)
    } else {
        Found::NotExecutable
    }
}

/// Refuses a program in a forbidden directory: an earlier run may have written it, and it would run outside the sandbox.
pub(crate) fn refuse_inside(program: &Path, forbidden: &[&Path]) -> Result<(), CommandError> {
    match forbidden.iter().any(|directory| program.starts_with(directory)) {
        true => {
            let what = format!(
                "the program `{}` is inside the workspace or its repository, where an agent could replace it",
                program.display()
            );
            Err(CommandError::new(ExitCode::Usage, what)
                .hint("install it elsewhere, or work in another directory with --workspace DIR"))
        }
        false => Ok(()),
    }
}

#[cfg(test)]
#[path = "agent_discovery_tests.rs"]
mod tests;
