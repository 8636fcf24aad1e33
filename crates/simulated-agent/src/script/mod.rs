//! The language for scripts of the simulated agent: one order per line.
#![doc = ""]
#![doc = include_str!("language.md")]

mod call;
mod line;
pub mod source;
mod suggestion;

use std::time::Duration;

use crate::misbehaviour::Armed;
use crate::process::LONGEST_LIFE;
use crate::process::failures::{self, Failure};
use crate::tools::{Generation, ToolRequest};
use line::{Line, Lines};

pub(crate) use suggestion::did_you_mean;

/// The page about the language, for `--help-script`.
pub const LANGUAGE: &str = include_str!("language.md");

/// A whole script, ready to play.
#[derive(Debug, Default, PartialEq)]
pub struct Script {
    pub orders: Vec<Order>,
    /// Applies from the first line of output, wherever the script sets it.
    pub generation: Option<Generation>,
}

/// One thing to do.
#[derive(Debug, PartialEq)]
pub enum Order {
    Say(String),
    Think(String),
    /// The calls of one model step. The agent makes them at the same time.
    Calls(Vec<ToolRequest>),
    /// Calls a tool again and again, until all its answers together contain the text `count` times.
    Until {
        text: String,
        count: usize,
        request: ToolRequest,
    },
    Recall,
    /// Prints the MCP servers and their tools as JSON.
    Servers,
    Wait(Duration),
    Compact(Duration),
    ModelDelay(Duration),
    Pace(Duration),
    Misbehave(Armed),
    Fail(&'static Failure),
    /// The service refuses every attempt at the request with this text. Scripts cannot ask for it.
    Refused(String),
    Exit(u8),
}

/// The line that is wrong, and what is wrong with it.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct ScriptError {
    pub line: usize,
    pub problem: Problem,
}

/// A sentence for the author of the script.
type Problem = String;

const SIMPLE_ORDERS: [&str; 15] = [
    "say",
    "think",
    "until",
    "recall",
    "servers",
    "wait",
    "compact",
    "model-delay",
    "pace",
    "misbehave",
    "fail",
    "exit",
    "generation",
    "parallel",
    "end",
];

const DEFAULT_COMPACTION: Duration = Duration::from_secs(2);

impl Script {
    pub fn parse(text: &str) -> Result<Self, ScriptError> {
        let mut script = Self::default();
        let mut lines = Lines::new(text);
        while let Some(line) = lines.next_order()? {
            let at = |problem| ScriptError { line: line.number, problem };
            match line.word.as_str() {
                "generation" => script.generation = Some(generation(&line).map_err(at)?),
                "parallel" => {
                    line.nothing_more().map_err(at)?;
                    script.orders.push(Order::Calls(parallel(&mut lines, line.number)?));
                }
                _ => script.orders.push(order(&line).map_err(at)?),
            }
        }
        Ok(script)
    }

    /// Returns the misbehaviours of the whole script. Some of them act before the first line of output.
    pub fn misbehaviours(&self) -> impl Iterator<Item = &Armed> {
        self.orders.iter().filter_map(|order| match order {
            Order::Misbehave(armed) => Some(armed),
            _ => None,
        })
    }
}

fn parallel(lines: &mut Lines<'_>, opened_at: usize) -> Result<Vec<ToolRequest>, ScriptError> {
    let mut calls = Vec::new();
    while let Some(line) = lines.next_order()? {
        if line.word == "end" {
            return Ok(calls);
        }
        let at = |problem| ScriptError { line: line.number, problem };
        match order(&line).map_err(at)? {
            Order::Calls(more) => calls.extend(more),
            _ => {
                let problem =
                    format!("`{}` is not a tool call; only calls can be parallel", line.word);
                return Err(at(problem));
            }
        }
    }
    Err(ScriptError { line: opened_at, problem: "no `end` closes `parallel`".to_owned() })
}

fn order(line: &Line) -> Result<Order, Problem> {
    if let Some(request) = call::request(line)? {
        return Ok(Order::Calls(vec![request]));
    }
    if line.word == "until" {
        return call::until(line);
    }
    line.has_no_options_but(&[])?;
    Ok(match line.word.as_str() {
        "say" => Order::Say(line.text("something to say")?),
        "think" => Order::Think(line.text("something to think")?),
        "recall" => line.nothing_more().map(|()| Order::Recall)?,
        "servers" => line.nothing_more().map(|()| Order::Servers)?,
        "wait" => Order::Wait(pause(&line.argument("a time")?)?),
        "compact" if line.rest.is_empty() => Order::Compact(DEFAULT_COMPACTION),
        "compact" => Order::Compact(pause(&line.rest)?),
        "model-delay" => Order::ModelDelay(pause(&line.argument("a time")?)?),
        "pace" => Order::Pace(pause(&line.argument("a time")?)?),
        "misbehave" => {
            let armed = Armed::parse(&line.argument("a name")?);
            Order::Misbehave(armed.map_err(|err| err.to_string())?)
        }
        "fail" => Order::Fail(failure(&line.argument("a kind of failure")?)?),
        "exit" => {
            let code = line.argument("an exit code")?;
            let bad = |_| format!("`{code}` is not an exit code from 0 to 255");
            Order::Exit(code.parse().map_err(bad)?)
        }
        "end" => return Err("`end` without `parallel`".to_owned()),
        unknown => {
            let hint = did_you_mean(unknown, SIMPLE_ORDERS.into_iter().chain(call::ORDERS));
            return Err(format!("unknown order `{unknown}`{hint}"));
        }
    })
}

fn failure(name: &str) -> Result<&'static Failure, Problem> {
    failures::find(name).ok_or_else(|| {
        let known: Vec<_> = failures::FAILURES.iter().map(|failure| failure.name).collect();
        format!("unknown failure `{name}`; known failures: {}", known.join(", "))
    })
}

fn generation(line: &Line) -> Result<Generation, Problem> {
    let name = line.argument("2026.01 or 2026.09")?;
    match name.as_str() {
        "2026.01" => Ok(Generation::V2026_01),
        "2026.09" => Ok(Generation::V2026_09),
        _ => Err(format!("unknown generation `{name}`; known generations: 2026.01, 2026.09")),
    }
}

/// Parses the length of a pause.
fn pause(text: &str) -> Result<Duration, Problem> {
    match time(text)? {
        time if time > LONGEST_LIFE => {
            Err(format!("`{text}` is too long; the agent waits ten minutes at most"))
        }
        time => Ok(time),
    }
}

/// Reads `500ms`, `2s` or `1m`.
fn time(text: &str) -> Result<Duration, Problem> {
    let digits = text.trim_end_matches(|character: char| character.is_ascii_alphabetic());
    let scale = match &text[digits.len()..] {
        "ms" => Some(1),
        "s" => Some(1_000),
        "m" => Some(60_000),
        _ => None,
    };
    let ms = scale.and_then(|scale: u64| digits.parse::<u64>().ok()?.checked_mul(scale));
    ms.map(Duration::from_millis)
        .ok_or_else(|| format!("`{text}` is not a time such as `500ms`, `2s` or `1m`"))
}

#[cfg(test)]
#[path = "script_tests.rs"]
mod tests;
