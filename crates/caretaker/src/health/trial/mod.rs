//! The checks of `doctor --trial`: what two real runs of the agent showed, and what each failure means.
//!
//! ```text
//!   prompts ──► two ordinary runs ──► turn: what each journal shows ──┐
//!                                     the session's store on the host ├─► judge (pure) ──► findings ──► report
//!                                     what is left after the clean-up ┘
//! ```

pub(crate) mod prompts;
pub(crate) mod report;
pub(crate) mod turn;

use run_protocol::{NetworkMode, RunOutcome};

use self::turn::Turn;
use crate::health::{Finding, Status};

/// The ids of the checks, in the order in which a run would fail. A report names no other.
pub(crate) const CHECKS: [&str; 9] =
    ["first_line", "session", "mcp", "network", "exit", "bucket", "store", "memory", "clean"];

/// Everything that the checks look at.
#[derive(Debug, Clone)]
pub(crate) struct Evidence {
    /// The word that the agent was asked to remember.
    pub(crate) word: String,
    /// The session that Caretaker chose.
    pub(crate) session: String,
    pub(crate) first: Turn,
    pub(crate) store: Store,
    pub(crate) second: Second,
    /// What was left after the clean-up, each in a few words.
    pub(crate) left: Vec<String>,
}

/// The session's store on the host, after the first run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Store {
    /// True if it is in a bucket where Cursor keeps its sessions.
    pub(crate) is_in_bucket: bool,
    /// The number of messages that the next turn begins with.
    pub(crate) n_messages: u64,
    /// What is wrong with it.
    pub(crate) damage: Option<String>,
}

/// The run that resumes the session.
#[derive(Debug, Clone)]
pub(crate) enum Second {
    /// There was nothing to resume.
    None,
    /// Caretaker did not resume the session, for this reason.
    Refused(String),
    Ended(Turn),
}

impl Second {
    fn turn(&self) -> Option<&Turn> {
        match self {
            Self::Ended(turn) => Some(turn),
            Self::None | Self::Refused(_) => None,
        }
    }
}

/// What is wrong, and what that means.
type Wrong = (String, &'static str);

/// The result of one check; `None` if something that failed before made it impossible.
type Checked = Option<Result<String, Wrong>>;

/// Makes all checks.
pub(crate) fn judge(evidence: &Evidence) -> Vec<Finding> {
    let checked: [Checked; CHECKS.len()] = [
        Some(evidence.first_line()),
        evidence.session(),
        evidence.mcp(),
        evidence.network(),
        evidence.exit(),
        evidence.bucket(),
        evidence.store(),
        evidence.memory(),
        Some(evidence.clean()),
    ];
    CHECKS.into_iter().zip(checked).map(|(id, checked)| finding(id, checked)).collect()
}

fn finding(id: &'static str, checked: Checked) -> Finding {
    match checked {
        Some(Ok(summary)) => Finding::ok(id, summary),
        Some(Err((summary, means))) => Finding::failure(id, summary, means),
        None => {
            let summary = "not reached".to_owned();
            Finding { id, status: Status::NotReached, summary, fix: None }
        }
    }
}

impl Evidence {
    fn first_line(&self) -> Result<String, Wrong> {
        match &self.first.init {
            Some(_) => Ok("the agent printed its first line, `system/init`".to_owned()),
            None => Err((
                format!(
                    "the agent did not print its first line, `system/init`: {}",
                    self.first.why
                ),
                "Every run would end like this. If the agent works outside (`cursor-agent -p hello`), the sandbox hides \
                 something that it needs, or its output has changed.",
            )),
        }
    }

    fn session(&self) -> Checked {
        let init = self.first.init.as_ref()?;
        let means = "Caretaker could not find the conversation again, so it ends such a run. This agent treats \
                     `--resume` differently.";
        Some(match &init.session {
            Some(session) if *session != self.session => {
                Err(("the agent began another session than it was asked to".to_owned(), means))
            }
            Some(_) if self.first.outcome == Some(RunOutcome::SessionMismatch) => {
                Err(("the agent works in another directory than it was asked to".to_owned(), means))
            }
            Some(_) => Ok("the agent uses the session id that Caretaker chose".to_owned()),
            None => Err(("the agent's first line names no session".to_owned(), means)),
        })
    }

    /// True if the agent came so far that it worked on the prompt.
    fn has_begun(&self) -> bool {
        matches!(self.session(), Some(Ok(_)))
    }

    /// True if the first turn came to its end.
    fn has_answered(&self) -> bool {
        self.has_begun() && self.first.answer.is_some()
    }

    fn mcp(&self) -> Checked {
        if self.has_begun() && self.first.has_called_tool {
            return Some(Ok("the agent called Caretaker's tool `report_progress`".to_owned()));
        }
        self.has_answered().then(|| {
            Err((
                "the agent did not call Caretaker's tool `report_progress`".to_owned(),
                "Runs work, but progress, questions and messages do not. Either the agent did not start Caretaker's MCP \
                 server, or the model ignored the request: try again.",
            ))
        })
    }

    fn network(&self) -> Checked {
        let host = prompts::UNLISTED_HOST;
        let means = "Nothing shows that the sandbox refuses hosts that are not on its list.";
        let wrong = |summary: String| Some(Err((summary, means)));
        match self.first.network {
            _ if !self.has_begun() => None,
            _ if self.first.is_host_listed => wrong(format!(
                "your profile or configuration has {host} on the list, so nothing refuses it"
            )),
            _ if self.first.was_refused_host => {
                Some(Ok(format!("the sandbox refused {host}, which is not on its list")))
            }
            Some(NetworkMode::Host) => wrong(format!(
                "the profile gives runs the host's network, so nothing refuses {host}"
            )),
            Some(NetworkMode::None) => {
                wrong(format!("the profile gives runs no network, so nothing refuses {host}"))
            }
            _ if self.has_answered() => wrong(format!(
                "the agent did not try to reach {host}: it did not run the shell command, or the model ignored the \
                 request"
            )),
            _ => None,
        }
    }

    fn exit(&self) -> Checked {
        if !self.has_begun() {
            return None;
        }
        // If the second run gave no answer, the check of its memory says why.
        let second = self.second.turn().filter(|turn| turn.answer.is_some());
        let turns = [Some(&self.first), second];
        let wrong = turns.into_iter().flatten().find_map(Turn::end);
        Some(match wrong {
            Some(wrong) => Err(wrong),
            None => Ok("the agent gave its result and ended by itself".to_owned()),
        })
    }

    fn bucket(&self) -> Checked {
        self.has_answered().then(|| match self.store.is_in_bucket {
            true => Ok("the session is where Cursor keeps the sessions of a workspace".to_owned()),
            false => Err((
                "the session is not where Cursor keeps the sessions of a workspace".to_owned(),
                "This agent names the directories of its sessions differently. Its own `--resume` would not find this \
                 session, and Caretaker may lose it.",
            )),
        })
    }

    fn store(&self) -> Checked {
        let is_there = self.store.is_in_bucket || self.store.damage.is_none();
        (self.has_answered() && is_there).then(|| match &self.store.damage {
            None => Ok(format!("Caretaker can read the whole session: {} messages", self.store.n_messages)),
            Some(damage) => Err((
                format!("Caretaker cannot read the whole session: {damage}"),
                "Runs work, but Caretaker does not resume such sessions, and shows only parts of them. This agent may \
                 write its store differently.",
            )),
        })
    }

    fn memory(&self) -> Checked {
        let means = "A resumed session would begin with an empty memory. Do not rely on `resume` with this agent.";
        match &self.second {
            Second::None => None,
            Second::Refused(why) => {
                Some(Err((format!("Caretaker did not resume the session: {why}"), means)))
            }
            Second::Ended(turn) => Some(match &turn.answer {
                Some(answer) if answer.contains(&self.word) => {
                    Ok("a second run resumed the session, and the agent remembered a word"
                        .to_owned())
                }
                Some(_) => Err((
                    "a second run resumed the session, and the agent had forgotten a word"
                        .to_owned(),
                    means,
                )),
                None => Err((format!("the second run gave no answer: {}", turn.why), means)),
            }),
        }
    }

    fn clean(&self) -> Result<String, Wrong> {
        match self.left.as_slice() {
            [] => Ok("the agent left no process and no file, and the trial is removed".to_owned()),
            left => Err((
                format!("something was left: {}", left.join("; ")),
                "Every run would leave this. The prompts ask for no file, so look at what an agent changed with \
                 `caretaker diff` after your runs.",
            )),
        }
    }
}

impl Turn {
    /// What is wrong with the end of the turn.
    fn end(&self) -> Option<Wrong> {
        if self.answer.is_none() {
            let means = "Caretaker never counts a run without a result as a success.";
            return Some((format!("the agent gave no result: {}", self.why), means));
        }
        if self.has_lingered {
            let means = "Caretaker ends such an agent after `linger`, so only time is lost.";
            return Some((
                "the agent gave its result, but its process did not end".to_owned(),
                means,
            ));
        }
        let means = "The run's outcome may be wrong.";
        match (&self.outcome, self.exit_code) {
            (Some(RunOutcome::AgentError), _) => {
                Some((format!("the agent's result is an error: {}", self.why), means))
            }
            (_, Some(0)) => None,
            (_, Some(code)) => {
                Some((format!("the agent gave its result and then exited with code {code}"), means))
            }
            (_, None) => {
                Some(("a signal ended the agent after it had given its result".to_owned(), means))
            }
        }
    }
}

#[cfg(test)]
#[path = "trial_tests.rs"]
mod tests;
