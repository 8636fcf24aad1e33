//! Reads a call to one of the shim's tools: checks its arguments and cuts them to size.

use run_protocol::{ChildRequest, ReportedStatus, RunEvent};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::definitions::{
    self, ASK_HUMAN, CHECK_INBOX, CHECKPOINT, GET_RUN, LIST_RUNS, REPORT_PROGRESS, REPORT_RESULT,
    REQUEST_ACCESS, SEND_MESSAGE, SPAWN_RUN, STOP_RUN, WHOAMI,
};
use crate::agent_tools::agent_desk::DeskCall;

const MOST_TEXT_CHARS: usize = 2000;
const MOST_ARTIFACTS: usize = 64;
const MOST_ARTIFACT_CHARS: usize = 500;
const MOST_NAME_CHARS: usize = 80;
/// The longest question or message. Longer text belongs in a file.
const MOST_MESSAGE_CHARS: usize = 8000;
const MOST_PROMPT_CHARS: usize = 100_000;
const MOST_OPTIONS: usize = 10;
const MOST_OPTION_CHARS: usize = 200;

#[derive(Debug, PartialEq)]
pub(super) enum Call {
    WhoAmI,
    ReportProgress(Progress),
    ReportResult(Report),
    Desk(DeskCall),
}

#[derive(Debug, PartialEq, Deserialize)]
pub(super) struct Progress {
    text: String,
    percent: Option<f64>,
}

#[derive(Debug, PartialEq, Deserialize)]
pub(super) struct Report {
    status: ReportedStatus,
    summary: String,
    #[serde(default)]
    artifacts: Option<Vec<String>>,
}

// These structs refuse unknown arguments, because the shim must not guess what the model meant.

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asking {
    question: String,
    options: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wish {
    host: Option<String>,
    why: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Letter {
    to: String,
    text: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OneRun {
    run: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Mark {
    label: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

impl Call {
    /// Reads a call, or returns a sentence that tells the model what is wrong.
    pub(super) fn parse(tool: &str, arguments: Value) -> Result<Self, String> {
        match tool {
            WHOAMI => Ok(Self::WhoAmI),
            REPORT_PROGRESS => {
                let progress: Progress = read(tool, arguments)?;
                progress.check()?;
                Ok(Self::ReportProgress(progress))
            }
            REPORT_RESULT => read(tool, arguments).map(Self::ReportResult),
            _ => Self::desk(tool, arguments).map(Self::Desk),
        }
    }

    fn desk(tool: &str, arguments: Value) -> Result<DeskCall, String> {
        match tool {
            ASK_HUMAN => {
                let Asking { question, options } = read(tool, arguments)?;
                let options = options.unwrap_or_default();
                if options.len() > MOST_OPTIONS {
                    return Err(format!("There may be at most {MOST_OPTIONS} options."));
                }
                let options = options.iter().map(|it| text("option", it, MOST_OPTION_CHARS));
                Ok(DeskCall::AskHuman {
                    question: text("question", &question, MOST_MESSAGE_CHARS)?,
                    options: options.collect::<Result<_, _>>()?,
                })
            }
            REQUEST_ACCESS => {
                let Wish { host, why } = read(tool, arguments)?;
                let host = host.map(|host| text("host", &host, MOST_NAME_CHARS * 4)).transpose()?;
                let host = host.map(|host| on_one_line(&host));
                Ok(DeskCall::RequestAccess { host, why: text("why", &why, MOST_MESSAGE_CHARS)? })
            }
            CHECK_INBOX => nothing(tool, arguments).map(|()| DeskCall::CheckInbox),
            SEND_MESSAGE => {
                let Letter { to, text: words } = read(tool, arguments)?;
                let to = text("to", &to, MOST_NAME_CHARS)?;
                Ok(DeskCall::SendMessage { to, text: text("text", &words, MOST_MESSAGE_CHARS)? })
            }
            SPAWN_RUN => {
                let request: ChildRequest = read(tool, arguments)?;
                text("prompt", &request.prompt, MOST_PROMPT_CHARS)?;
                Ok(DeskCall::SpawnRun(Box::new(request)))
            }
            LIST_RUNS => nothing(tool, arguments).map(|()| DeskCall::ListRuns),
            GET_RUN => {
                let OneRun { run } = read(tool, arguments)?;
                Ok(DeskCall::GetRun { run: text("run", &run, MOST_NAME_CHARS)? })
            }
            STOP_RUN => {
                let OneRun { run } = read(tool, arguments)?;
                Ok(DeskCall::StopRun { run: text("run", &run, MOST_NAME_CHARS)? })
            }
            CHECKPOINT => {
                let Mark { label } = read(tool, arguments)?;
                let label = on_one_line(&text("label", &label, MOST_NAME_CHARS)?);
                Ok(DeskCall::Checkpoint { label })
            }
            _ => Err(format!(
                "There is no tool with this name; the tools are {}.",
                definitions::NAMES.join(", ")
            )),
        }
    }

    /// Returns the event for the call's content. The call itself is a separate event.
    pub(super) fn event(&self) -> Option<RunEvent> {
        match self {
            Self::WhoAmI | Self::Desk(_) => None,
            Self::ReportProgress(Progress { text, percent }) => Some(RunEvent::Progress {
                text: on_one_line(&cut(text.trim(), MOST_TEXT_CHARS)),
                percent: *percent,
            }),
            Self::ReportResult(Report { status, summary, artifacts }) => Some(RunEvent::Reported {
                status: *status,
                summary: cut(summary.trim(), MOST_TEXT_CHARS),
                artifacts: artifacts
                    .iter()
                    .flatten()
                    .take(MOST_ARTIFACTS)
                    .map(|artifact| on_one_line(&cut(artifact, MOST_ARTIFACT_CHARS)))
                    .collect(),
            }),
        }
    }
}

impl Progress {
    fn check(&self) -> Result<(), String> {
        if self.text.trim().is_empty() {
            return Err("The text of a progress report may not be empty.".to_owned());
        }
        match self.percent {
            Some(percent) if !(0.0..=100.0).contains(&percent) => {
                Err("The percentage must be between 0 and 100.".to_owned())
            }
            _ => Ok(()),
        }
    }
}

fn read<T: DeserializeOwned>(tool: &str, arguments: Value) -> Result<T, String> {
    serde_json::from_value(arguments)
        .map_err(|err| format!("The arguments of {tool} are wrong: {err}."))
}

/// Checks that there are no arguments. Some clients send `null`.
fn nothing(tool: &str, arguments: Value) -> Result<(), String> {
    match arguments {
        Value::Null => Ok(()),
        arguments => read(tool, arguments).map(|Nothing {}| ()),
    }
}

/// Checks a text: not empty, and not too long.
fn text(what: &str, words: &str, most_chars: usize) -> Result<String, String> {
    let words = words.trim();
    if words.is_empty() {
        return Err(format!("The `{what}` may not be empty."));
    }
    if words.chars().nth(most_chars).is_some() {
        return Err(format!("The `{what}` may have at most {most_chars} characters."));
    }
    Ok(words.to_owned())
}

/// Shortens a client's name for something to one short line for the journal.
pub(super) fn cut_line(name: &str) -> String {
    on_one_line(&cut(name, MOST_NAME_CHARS))
}

pub(super) fn cut(text: &str, most_chars: usize) -> String {
    match text.char_indices().nth(most_chars) {
        None => text.to_owned(),
        // The mark replaces the last character that would fit.
        Some(_) => text.chars().take(most_chars - 1).chain(['…']).collect(),
    }
}

pub(super) fn on_one_line(text: &str) -> String {
    text.chars().map(|character| if character.is_control() { ' ' } else { character }).collect()
}
