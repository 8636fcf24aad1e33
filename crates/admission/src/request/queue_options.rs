//! How a run waits for its turn.

use ground::now_ms;
use run_journal::RunDirectory;
use run_protocol::{QueueTerms, RunId};

use crate::budgets::BudgetOption;
use crate::command_error::CommandError;
use crate::host::Host;
use crate::request::run_marks::RunName;
use crate::words::human_duration::HumanDuration;

#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Queue (with a daemon)")]
pub struct QueueOptions {
    /// Insist on the queue: fail where no daemon runs, instead of starting at once.
    #[arg(long)]
    pub queue: bool,
    /// Start at once, past the queue and its caps, though a daemon runs.
    #[arg(long, conflicts_with_all = ["queue", "priority", "delay", "after", "after_ok"])]
    pub direct: bool,
    /// Higher ones go first; whoever waits long enough overtakes them. From -100 to 100.
    #[arg(long, value_name = "N", allow_negative_numbers = true,
          value_parser = clap::value_parser!(i32).range(-100..=100))]
    pub priority: Option<i32>,
    /// Do not start before this long from now.
    #[arg(long, value_name = "DURATION")]
    pub delay: Option<HumanDuration>,
    /// Do not start before this run is over; may be given several times.
    #[arg(long, value_name = "RUN")]
    pub after: Vec<String>,
    /// Do not start before this run has succeeded, and not at all if it does not; may be given several times.
    #[arg(long, value_name = "RUN")]
    pub after_ok: Vec<String>,
    /// Count the run with these: a group can have a cap of its own.
    #[arg(long, value_name = "NAME")]
    pub group: Option<RunName>,
    /// What the runs of the group may spend together, in place of the budget it had: `tool_calls=500,time=8h,tokens=5M`, or
    /// `none`. When it is spent, live runs go on and no new ones start. See `caretaker group budget`.
    #[arg(long, value_name = "BUDGET")]
    pub group_budget: Option<BudgetOption>,
    /// Count the run against this account: a name of your choice for the login that it uses.
    #[arg(long, value_name = "NAME")]
    pub account: Option<RunName>,
}

impl QueueOptions {
    /// Whether something was asked for that only the queue can do.
    pub fn need_the_queue(&self) -> bool {
        let Self { queue, priority, delay, after, after_ok, .. } = self;
        *queue || priority.is_some() || delay.is_some() || !after.is_empty() || !after_ok.is_empty()
    }

    /// These terms, and what the run that is continued had where nothing else is asked for.
    pub fn with_inherited(&self, terms: QueueTerms, inherited: Option<&QueueTerms>) -> QueueTerms {
        let Some(inherited) = inherited else { return terms };
        QueueTerms {
            priority: self.priority.unwrap_or(inherited.priority),
            account: terms.account.or_else(|| inherited.account.clone()),
            ..terms
        }
    }

    /// The terms, without keys.
    pub fn terms(&self, host: &Host) -> Result<QueueTerms, CommandError> {
        let runs = |texts: &[String]| -> Result<Vec<RunId>, CommandError> {
            Ok(host.find_runs(texts)?.iter().map(RunDirectory::run_id).collect())
        };
        let delay = self.delay.and_then(HumanDuration::limit);
        let delay = delay.map(|delay| u64::try_from(delay.as_millis()).unwrap_or(u64::MAX));
        Ok(QueueTerms {
            priority: self.priority.unwrap_or_default(),
            not_before_ms: delay.map(|delay| now_ms().saturating_add(delay)),
            after: runs(&self.after)?,
            after_ok: runs(&self.after_ok)?,
            account: self.account.as_ref().map(|account| account.as_str().to_owned()),
            keys: Vec::new(),
        })
    }
}
