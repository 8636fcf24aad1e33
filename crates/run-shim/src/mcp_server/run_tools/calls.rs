//! A call of one of our tools: its arguments, read, checked and cut to size.

use run_protocol::{ReportedStatus, RunEvent};
use serde::Deserialize;
use serde_json::Value;

use super::definitions::{REPORT_PROGRESS, REPORT_RESULT, WHOAMI};

const MOST_TEXT_CHARS: usize = 2000;
const MOST_ARTIFACTS: usize = 64;
const MOST_ARTIFACT_CHARS: usize = 500;
const MOST_NAME_CHARS: usize = 80;

#[derive(Debug, PartialEq)]
pub(super) enum Call {
    WhoAmI,
    ReportProgress(Progress),
    ReportResult(Report),
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

impl Call {
    /// Reads a call, or says in a sentence what is wrong with it, for the model to do better.
    pub(super) fn parse(tool: &str, arguments: Value) -> Result<Self, String> {
        let wrong = |err: serde_json::Error| format!("The arguments of {tool} are wrong: {err}.");
        match tool {
            WHOAMI => Ok(Self::WhoAmI),
            REPORT_PROGRESS => {
                let progress: Progress = serde_json::from_value(arguments).map_err(wrong)?;
                progress.check()?;
                Ok(Self::ReportProgress(progress))
            }
            REPORT_RESULT => {
                serde_json::from_value(arguments).map(Self::ReportResult).map_err(wrong)
            }
            _ => Err(format!(
                "There is no tool of this name; there are {WHOAMI}, {REPORT_PROGRESS} and {REPORT_RESULT}."
            )),
        }
    }

    /// What it leaves in the journal, beside the fact that it was made.
    pub(super) fn event(&self) -> Option<RunEvent> {
        match self {
            Self::WhoAmI => None,
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

/// A name that the client made up, short enough for a journal and on one line.
pub(super) fn cut_line(name: &str) -> String {
    on_one_line(&cut(name, MOST_NAME_CHARS))
}

fn cut(text: &str, most_chars: usize) -> String {
    match text.char_indices().nth(most_chars) {
        None => text.to_owned(),
        // The mark takes the place of the last character that would fit.
        Some(_) => text.chars().take(most_chars - 1).chain(['…']).collect(),
    }
}

fn on_one_line(text: &str) -> String {
    text.chars().map(|character| if character.is_control() { ' ' } else { character }).collect()
}
