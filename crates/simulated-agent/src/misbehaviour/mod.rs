//! Every misbehaviour of the simulated agent, by name.
//!
//! A script says `misbehave NAME [ARGUMENT]` where the misbehaviour starts.
//! `SIMULATED_AGENT_MISBEHAVE=name[=argument],name…` in the environment applies to the whole run.

mod acts;
mod table;

use std::path::PathBuf;

use cursor_home::{CursorRoots, WorkspacePath};

use crate::process::ending::Ending;
use crate::script::did_you_mean;
use crate::session_store::CrashPoint;
use crate::startup::Startup;
use crate::turn::Turn;
use table::SCENARIOS;

/// One way to misbehave.
#[derive(Debug)]
struct Scenario {
    name: &'static str,
    takes: Takes,
    summary: &'static str,
    act: Act,
}

/// Names are unique, and functions have no useful identity.
impl PartialEq for Scenario {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

#[derive(Clone, Copy, Debug)]
enum Takes {
    Nothing,
    Number(&'static str, u64),
    CrashPoint,
}

/// The misbehaviour itself, and its moment.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// Ends the process before the first line of output, at the latest when the script has been read.
    AtStartup(fn(&Startup<'_>) -> Ending),
    /// Acts at its place in the script, or, if it comes from the environment, right after the echo of the prompt.
    AtOnce(fn(&mut Turn, u64) -> Result<(), Ending>),
    /// Acts at the next such moment.
    At(Moment, fn(&mut Turn, u64) -> Result<(), Ending>),
    /// SIGKILL ends the agent when the session's writer next reaches this point. If it is `None`, the argument names
    /// the point.
    KillAt(Option<CrashPoint>),
    /// Loses the conversation before the prompt is stored.
    Forget,
    /// `create-chat` prints its id and does not exit.
    CreateChat,
    /// Returns another directory for the workspace's sessions.
    Bucket(fn(&CursorRoots, &WorkspacePath) -> PathBuf),
}

/// A moment in a turn when something may go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// `started` is printed and the tools run.
    MidTool,
    /// Everything is printed and stored.
    BeforeResult,
    AfterResult,
}

/// A misbehaviour with its argument.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Armed {
    scenario: &'static Scenario,
    number: u64,
    point: Option<CrashPoint>,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownMisbehaviour {
    #[error("unknown misbehaviour `{name}`{hint} (see --help-scenarios)")]
    Name { name: String, hint: String },
    #[error("`{0}` takes no argument")]
    Surplus(&'static str),
    #[error("`{name}` takes a number of {unit}, not `{argument}`")]
    NotANumber { name: &'static str, unit: &'static str, argument: String },
    #[error("`{name}` takes one of {points}")]
    CrashPoint { name: &'static str, points: String },
}

impl Armed {
    /// Parses `name`, `name=argument` or `name argument`.
    pub fn parse(text: &str) -> Result<Self, UnknownMisbehaviour> {
        let (name, argument) = match text.trim().split_once(['=', ' ']) {
            Some((name, argument)) => (name, Some(argument.trim())),
            None => (text.trim(), None),
        };
        let Some(scenario) = SCENARIOS.iter().find(|scenario| scenario.name == name) else {
            let hint = did_you_mean(name, SCENARIOS.iter().map(|scenario| scenario.name));
            return Err(UnknownMisbehaviour::Name { name: name.to_owned(), hint });
        };
        let name = scenario.name;
        let mut armed = Self { scenario, number: 0, point: None };
        match (scenario.takes, argument) {
            (Takes::Nothing, None) => {}
            (Takes::Nothing, Some(_)) => return Err(UnknownMisbehaviour::Surplus(name)),
            (Takes::Number(_, default), None) => armed.number = default,
            (Takes::Number(unit, _), Some(argument)) => {
                let argument = argument.to_owned();
                let bad =
                    |_| UnknownMisbehaviour::NotANumber { name, unit, argument: argument.clone() };
                armed.number = argument.parse().map_err(bad)?;
            }
            (Takes::CrashPoint, argument) => {
                armed.point = argument.and_then(CrashPoint::from_name);
                if armed.point.is_none() {
                    return Err(UnknownMisbehaviour::CrashPoint { name, points: crash_points() });
                }
            }
        }
        Ok(armed)
    }

    /// Parses a comma-separated list.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, UnknownMisbehaviour> {
        text.split(',').filter(|member| !member.trim().is_empty()).map(Self::parse).collect()
    }

    /// Ends the process if this misbehaviour does so before the first line.
    pub fn at_startup(&self, startup: &Startup<'_>) -> Result<(), Ending> {
        match self.scenario.act {
            Act::AtStartup(act) => Err(act(startup)),
            _ => Ok(()),
        }
    }

    /// Acts now, if that is its moment.
    pub fn at_once(&self, turn: &mut Turn) -> Result<(), Ending> {
        match self.scenario.act {
            Act::AtOnce(act) => act(turn, self.number),
            _ => Ok(()),
        }
    }

    /// Acts, if this is its moment.
    pub fn at(&self, now: Moment, turn: &mut Turn) -> Result<(), Ending> {
        match self.scenario.act {
            Act::At(moment, act) if moment == now => act(turn, self.number),
            _ => Ok(()),
        }
    }

    /// Returns the point where the session's writer dies.
    pub fn crash_point(&self) -> Option<CrashPoint> {
        match self.scenario.act {
            Act::KillAt(fixed) => fixed.or(self.point),
            _ => None,
        }
    }

    /// Returns true if the agent loses the conversation.
    pub fn forgets(&self) -> bool {
        matches!(self.scenario.act, Act::Forget)
    }

    /// Returns the directory where the agent keeps the workspace's sessions, if it is not the usual one.
    pub fn bucket(&self, roots: &CursorRoots, workspace: &WorkspacePath) -> Option<PathBuf> {
        match self.scenario.act {
            Act::Bucket(act) => Some(act(roots, workspace)),
            _ => None,
        }
    }

    pub fn keeps_create_chat(&self) -> bool {
        matches!(self.scenario.act, Act::CreateChat)
    }
}

/// Returns the output of `--help-scenarios`: one line per misbehaviour.
pub fn list() -> String {
    let lines = SCENARIOS.iter().map(|scenario| {
        let usage = match scenario.takes {
            Takes::Nothing => scenario.name.to_owned(),
            Takes::Number(unit, default) => format!("{}[={unit}, {default}]", scenario.name),
            Takes::CrashPoint => format!("{}=POINT", scenario.name),
        };
        format!("{usage:<36} {}\n", scenario.summary)
    });
    format!(
        "{}\nPOINT is one of {}.\nIn a script: misbehave NAME [ARGUMENT]\n\
         In the environment: SIMULATED_AGENT_MISBEHAVE=NAME[=ARGUMENT],…\n",
        lines.collect::<String>(),
        crash_points()
    )
}

fn crash_points() -> String {
    CrashPoint::names().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
#[path = "misbehaviour_tests.rs"]
mod tests;
