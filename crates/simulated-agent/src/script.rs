//! The language in which a person says what the simulated agent does: one order a line.
#![doc = ""]
#![doc = include_str!("script/language.md")]

mod call;
pub mod source;

use std::time::Duration;

use crate::children::LONGEST_LIFE;
use crate::command_line::suggest;
use crate::failures::{self, Failure};
use crate::misbehaviour::{Armed, UnknownMisbehaviour};
use crate::tools::{Generation, ToolRequest};

/// The page about the language, for `--help-script`.
pub const LANGUAGE: &str = include_str!("script/language.md");

/// A whole script, ready to be played.
#[derive(Debug, Default, PartialEq)]
pub struct Script {
    pub orders: Vec<Order>,
    /// Asked for anywhere, holds from the first line on.
    pub generation: Option<Generation>,
}

/// One thing to do.
#[derive(Debug, PartialEq)]
pub enum Order {
    Say(String),
    Think(String),
    /// Calls of one model step; more than one run at the same time.
    Calls(Vec<ToolRequest>),
    /// Calls a tool again and again, until its answers have held a text so often, all together.
    Until {
        text: String,
        count: usize,
        request: ToolRequest,
    },
    Recall,
    /// Says which MCP servers there are, and what tools each has, as JSON.
    Servers,
    Wait(Duration),
    Compact(Duration),
    ModelDelay(Duration),
    Pace(Duration),
    Misbehave(Armed),
    Fail(&'static Failure),
    /// The service refuses the request however often it is asked; this is what it says. No script asks for it.
    Refused(String),
    Exit(u8),
}

/// Which line is wrong, and how.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct ScriptError {
    pub line: usize,
    pub problem: Problem,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error("there is no order `{0}`{1}")]
    UnknownOrder(String, String),
    #[error("`{order}` needs {what}")]
    Missing { order: String, what: &'static str },
    #[error("`{order}` takes no option `{option}`")]
    UnknownOption { order: String, option: String },
    #[error("the options of `{0}` are not closed by `]`")]
    OpenOptions(String),
    #[error("`{0}` takes nothing after it")]
    Surplus(String),
    #[error("`{0}` has a text on its line and another below it; put all of it below")]
    TextTwice(String),
    #[error("`{0}` is not a time such as `500ms`, `2s` or `1m`")]
    BadTime(String),
    #[error("`{0}` is too long: the agent does nothing for ten minutes at most")]
    TooLong(String),
    #[error("`{0}` is not a number from 1 on")]
    BadCount(String),
    #[error("`{0}` is not an exit code from 0 to 255")]
    BadExitCode(String),
    #[error("`{0}` is not a JSON object: {1}")]
    BadJson(String, String),
    #[error("the text is never closed by a line `{0}`")]
    OpenText(String),
    #[error("an edit has one line `===` between the old text and the new")]
    NoSeparator,
    #[error("`{0}` is not a to-do such as `[ ] later`, `[>] now`, `[x] done` or `[-] dropped`")]
    BadTodo(String),
    #[error("`{0}` is no tool call, and only those can be parallel")]
    NotACall(String),
    #[error("`parallel` is never closed by `end`")]
    OpenParallel,
    #[error("`end` without `parallel`")]
    StrayEnd,
    #[error("there is no failure `{0}`; there are {1}")]
    UnknownFailure(String, String),
    #[error("there is no generation `{0}`; there are 2026.01 and 2026.09")]
    UnknownGeneration(String),
    #[error(transparent)]
    UnknownMisbehaviour(#[from] UnknownMisbehaviour),
}

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

    /// What goes wrong before the first line of output is asked for in the middle of a script.
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
            _ => return Err(at(Problem::NotACall(line.word.clone()))),
        }
    }
    Err(ScriptError { line: opened_at, problem: Problem::OpenParallel })
}

fn order(line: &Line) -> Result<Order, Problem> {
    if let Some(request) = call::request(line)? {
        return Ok(Order::Calls(vec![request]));
    }
    if line.word == "until" {
        return call::until(line);
    }
    if let Some((option, _)) = line.options.first() {
        let order = line.word.clone();
        return Err(Problem::UnknownOption { order, option: option.clone() });
    }
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
        "misbehave" => Order::Misbehave(Armed::parse(&line.argument("a name")?)?),
        "fail" => {
            let name = line.argument("a kind of failure")?;
            let failure = failures::find(&name).ok_or_else(|| {
                let names: Vec<_> = failures::FAILURES.iter().map(|one| one.name).collect();
                Problem::UnknownFailure(name.clone(), names.join(", "))
            })?;
            Order::Fail(failure)
        }
        "exit" => {
            let code = line.argument("an exit code")?;
            Order::Exit(code.parse().map_err(|_| Problem::BadExitCode(code))?)
        }
        "end" => return Err(Problem::StrayEnd),
        unknown => {
            let known = SIMPLE_ORDERS.into_iter().chain(call::ORDERS);
            let hint = suggest(unknown, known).first().map(|near| format!(", only `{near}`"));
            return Err(Problem::UnknownOrder(unknown.to_owned(), hint.unwrap_or_default()));
        }
    })
}

fn generation(line: &Line) -> Result<Generation, Problem> {
    let name = line.argument("2026.01 or 2026.09")?;
    match name.as_str() {
        "2026.01" => Ok(Generation::V2026_01),
        "2026.09" => Ok(Generation::V2026_09),
        _ => Err(Problem::UnknownGeneration(name)),
    }
}

/// Reads a time to do nothing in.
fn pause(text: &str) -> Result<Duration, Problem> {
    let time = time(text)?;
    if time > LONGEST_LIFE { Err(Problem::TooLong(text.to_owned())) } else { Ok(time) }
}

/// Reads `500ms`, `2s` or `1m`.
fn time(text: &str) -> Result<Duration, Problem> {
    let digits = text.trim_end_matches(|character: char| character.is_ascii_alphabetic());
    let scale = match &text[digits.len()..] {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        _ => 0,
    };
    let number: Option<u64> = digits.parse().ok().filter(|_| scale > 0);
    number
        .and_then(|number| number.checked_mul(scale))
        .map(Duration::from_millis)
        .ok_or_else(|| Problem::BadTime(text.to_owned()))
}

/// One order as written: `word[options] rest`, and the lines of its `<<END` if it has one.
#[derive(Debug)]
struct Line {
    number: usize,
    word: String,
    options: Vec<(String, String)>,
    rest: String,
    body: Option<String>,
}

impl Line {
    /// The text on the line, or else the lines below it.
    fn text(&self, what: &'static str) -> Result<String, Problem> {
        match &self.body {
            Some(body) if self.rest.is_empty() => Ok(body.clone()),
            _ => self.argument(what),
        }
    }

    /// The text on the line, which is all there may be.
    fn argument(&self, what: &'static str) -> Result<String, Problem> {
        match (self.rest.as_str(), &self.body) {
            ("", _) => Err(Problem::Missing { order: self.word.clone(), what }),
            (_, Some(_)) => Err(Problem::TextTwice(self.word.clone())),
            (rest, None) => Ok(rest.to_owned()),
        }
    }

    fn body(&self, what: &'static str) -> Result<&str, Problem> {
        let missing = || Problem::Missing { order: self.word.clone(), what };
        self.body.as_deref().ok_or_else(missing)
    }

    fn nothing_more(&self) -> Result<(), Problem> {
        if self.rest.is_empty() && self.body.is_none() && self.options.is_empty() {
            return Ok(());
        }
        Err(Problem::Surplus(self.word.clone()))
    }

    fn option(&self, name: &str) -> Option<&str> {
        self.options.iter().find(|(option, _)| option == name).map(|(_, value)| value.as_str())
    }
}

struct Lines<'a> {
    lines: std::iter::Enumerate<std::str::Lines<'a>>,
}

impl<'a> Lines<'a> {
    fn new(text: &'a str) -> Self {
        Self { lines: text.lines().enumerate() }
    }

    fn next_order(&mut self) -> Result<Option<Line>, ScriptError> {
        let Some((index, text)) = self
            .lines
            .find(|(_, text)| !matches!(text.trim_start().as_bytes().first(), None | Some(b'#')))
        else {
            return Ok(None);
        };
        let number = index + 1;
        let at = |problem| ScriptError { line: number, problem };
        let (word, options, rest) = split_head(text.trim()).map_err(at)?;
        let mut line = Line { number, word, options, rest, body: None };
        if let Some((before, tag)) = here_document(&line.rest) {
            line.body = Some(self.body(tag).map_err(at)?);
            line.rest = before.to_owned();
        }
        Ok(Some(line))
    }

    fn body(&mut self, tag: &str) -> Result<String, Problem> {
        let mut body = Vec::new();
        for (_, text) in self.lines.by_ref() {
            if text.trim() == tag {
                return Ok(body.join("\n"));
            }
            body.push(text);
        }
        Err(Problem::OpenText(tag.to_owned()))
    }
}

/// Splits `notes.txt <<END` into the text before and the tag.
fn here_document(rest: &str) -> Option<(&str, &str)> {
    let (before, tag) = rest.rsplit_once("<<")?;
    let is_tag = !tag.is_empty() && tag.bytes().all(|byte| byte.is_ascii_uppercase());
    (is_tag && (before.is_empty() || before.ends_with(' '))).then(|| (before.trim(), tag))
}

type Head = (String, Vec<(String, String)>, String);

fn split_head(text: &str) -> Result<Head, Problem> {
    let word_end = text.find(|character: char| character == '[' || character.is_whitespace());
    let (word, after) = text.split_at(word_end.unwrap_or(text.len()));
    let Some(inside) = after.strip_prefix('[') else {
        return Ok((word.to_owned(), Vec::new(), after.trim().to_owned()));
    };
    let mut options = Vec::new();
    let mut left = inside.trim_start();
    loop {
        if let Some(rest) = left.strip_prefix(']') {
            return Ok((word.to_owned(), options, rest.trim().to_owned()));
        }
        let open = || Problem::OpenOptions(word.to_owned());
        let name_end = left.find(['=', ' ', ']']).ok_or_else(open)?;
        let (name, after_name) = left.split_at(name_end);
        let (value, after_value) = match after_name.strip_prefix("=\"") {
            Some(quoted) => quoted.split_once('"').ok_or_else(open)?,
            None => match after_name.strip_prefix('=') {
                Some(bare) => bare.split_at(bare.find([' ', ']']).ok_or_else(open)?),
                None => ("", after_name),
            },
        };
        options.push((name.to_owned(), value.to_owned()));
        left = after_value.trim_start();
    }
}

#[cfg(test)]
#[path = "script_tests.rs"]
mod tests;
