//! Every way the simulated agent can be told to misbehave, by name.
//!
//! A script says `misbehave NAME [ARGUMENT]` where it should begin; `SIMULATED_AGENT_MISBEHAVE=name[=argument],name…`
//! asks from outside, for the whole run.

mod acts;
mod startup;
mod table;

use crate::command_line::suggest;
use crate::ending::Ending;
use crate::preflight::Startup;
use crate::session_store::CrashPoint;
use crate::turn::Turn;
use table::SCENARIOS;

/// One way to misbehave.
#[derive(Debug)]
pub struct Scenario {
    pub name: &'static str,
    pub summary: &'static str,
    takes: Takes,
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
    Number { unit: &'static str, default: u64 },
    CrashPoint,
}

/// What it does, and when.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// Before the first line, at the latest when the script is known.
    AtStartup(fn(&Startup<'_>) -> Ending),
    /// Where the script says so; asked for from outside, right after the prompt was echoed.
    AtOnce(fn(&mut Turn, u64) -> Result<(), Ending>),
    /// At the next such moment.
    At(Moment, fn(&mut Turn, u64) -> Result<(), Ending>),
    /// SIGKILL at the next such point of the session's writer; `None` is the one in the argument.
    KillAt(Option<CrashPoint>),
    /// Before the prompt is stored.
    Forget,
    /// `create-chat` prints its id and stays.
    CreateChat,
}

/// A moment of a turn at which something may go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// `started` is printed and the tools run.
    MidTool,
    /// All is said and stored.
    BeforeResult,
    AfterResult,
}

/// A misbehaviour somebody asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Armed {
    scenario: &'static Scenario,
    number: u64,
    point: Option<CrashPoint>,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownMisbehaviour {
    #[error("there is no misbehaviour `{name}`{hint}; --help-scenarios lists them")]
    Name { name: String, hint: String },
    #[error("`{name}` takes no argument")]
    Surplus { name: &'static str },
    #[error("`{name}` takes a number of {unit}, not `{argument}`")]
    NotANumber { name: &'static str, unit: &'static str, argument: String },
    #[error("`{name}` takes one of {points}")]
    CrashPoint { name: &'static str, points: String },
}

impl Armed {
    /// Reads `name`, `name=argument` or `name argument`.
    pub fn parse(text: &str) -> Result<Self, UnknownMisbehaviour> {
        let (name, argument) = match text.trim().split_once(['=', ' ']) {
            Some((name, argument)) => (name, Some(argument.trim())),
            None => (text.trim(), None),
        };
        let scenario =
            SCENARIOS.iter().find(|scenario| scenario.name == name).ok_or_else(|| {
                let similar = suggest(name, SCENARIOS.iter().map(|scenario| scenario.name));
                let hint =
                    similar.first().map_or_else(String::new, |near| format!(", only `{near}`"));
                UnknownMisbehaviour::Name { name: name.to_owned(), hint }
            })?;
        let name = scenario.name;
        let mut armed = Self { scenario, number: 0, point: None };
        match (scenario.takes, argument) {
            (Takes::Nothing, None) => {}
            (Takes::Nothing, Some(_)) => return Err(UnknownMisbehaviour::Surplus { name }),
            (Takes::Number { default, .. }, None) => armed.number = default,
            (Takes::Number { unit, .. }, Some(argument)) => {
                armed.number = argument.parse().map_err(|_| UnknownMisbehaviour::NotANumber {
                    name,
                    unit,
                    argument: argument.to_owned(),
                })?;
            }
            (Takes::CrashPoint, argument) => {
                let point = argument.and_then(CrashPoint::from_name);
                armed.point = Some(point.ok_or_else(|| UnknownMisbehaviour::CrashPoint {
                    name,
                    points: CrashPoint::ALL.map(CrashPoint::name).join(", "),
                })?);
            }
        }
        Ok(armed)
    }

    /// Reads a list with commas between its members.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, UnknownMisbehaviour> {
        text.split(',').filter(|member| !member.trim().is_empty()).map(Self::parse).collect()
    }

    /// Ends the process if this one does so before the first line.
    pub fn at_startup(&self, startup: &Startup<'_>) -> Result<(), Ending> {
        match self.scenario.act {
            Act::AtStartup(act) => Err(act(startup)),
            _ => Ok(()),
        }
    }

    /// Does it now, if it is of that kind.
    pub fn at_once(&self, turn: &mut Turn) -> Result<(), Ending> {
        match self.scenario.act {
            Act::AtOnce(act) => act(turn, self.number),
            _ => Ok(()),
        }
    }

    /// Does it, if this is its moment.
    pub fn at(&self, now: Moment, turn: &mut Turn) -> Result<(), Ending> {
        match self.scenario.act {
            Act::At(moment, act) if moment == now => act(turn, self.number),
            _ => Ok(()),
        }
    }

    /// Where the session's writer is to die.
    pub fn crash_point(&self) -> Option<CrashPoint> {
        match self.scenario.act {
            Act::KillAt(fixed) => fixed.or(self.point),
            _ => None,
        }
    }

    /// Whether the session's memory is lost.
    pub fn forgets(&self) -> bool {
        matches!(self.scenario.act, Act::Forget)
    }

    pub fn keeps_create_chat(&self) -> bool {
        matches!(self.scenario.act, Act::CreateChat)
    }
}

/// What `--help-scenarios` prints: one line each.
pub fn list() -> String {
    let usage = |scenario: &Scenario| match scenario.takes {
        Takes::Nothing => scenario.name.to_owned(),
        Takes::Number { unit, default } => format!("{}[={unit}, {default}]", scenario.name),
        Takes::CrashPoint => format!("{}=POINT", scenario.name),
    };
    let mut lines: Vec<String> = SCENARIOS
        .iter()
        .map(|scenario| format!("{:<36} {}", usage(scenario), scenario.summary))
        .collect();
    lines.push(format!("\nPOINT is one of {}.", CrashPoint::ALL.map(CrashPoint::name).join(", ")));
    lines.push("In a script: misbehave NAME [ARGUMENT]".to_owned());
    lines.push("From outside: SIMULATED_AGENT_MISBEHAVE=NAME[=ARGUMENT],…\n".to_owned());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn every_name_is_unique_and_parses_alone_unless_it_needs_a_point() {
        for (index, scenario) in SCENARIOS.iter().enumerate() {
            assert!(SCENARIOS[index + 1..].iter().all(|other| other != scenario));
            let parsed = Armed::parse(scenario.name);
            assert_eq!(parsed.is_ok(), !matches!(scenario.takes, Takes::CrashPoint));
        }
    }

    #[test]
    fn arguments_follow_an_equals_sign_or_a_space() {
        assert_eq!(Armed::parse("silence=7").unwrap().number, 7);
        assert_eq!(Armed::parse("silence 7"), Armed::parse("silence=7"));
        assert_eq!(Armed::parse("silence").unwrap().number, 30);
        let point = Armed::parse("kill-at=mid-tool").unwrap().crash_point();
        assert_eq!(point, Some(CrashPoint::MidTool));
        assert_eq!(Armed::parse_list("noise, linger=1").unwrap().len(), 2);
    }

    #[test]
    fn mistakes_are_explained() {
        let message = |text| Armed::parse(text).unwrap_err().to_string();
        assert_eq!(
            message("lingr"),
            "there is no misbehaviour `lingr`, only `linger`; --help-scenarios lists them"
        );
        assert_eq!(message("noise=3"), "`noise` takes no argument");
        assert_eq!(
            message("flood=many"),
            "`flood` takes a number of EVENTS PER SECOND, not `many`"
        );
        assert!(message("kill-at=nowhere").starts_with("`kill-at` takes one of store-created, "));
    }

    #[test]
    fn the_list_has_one_line_for_each() {
        let list = list();
        for scenario in SCENARIOS {
            assert_eq!(list.lines().filter(|line| line.contains(scenario.summary)).count(), 1);
        }
    }
}
