//! `caretaker group budget`.

use admission::budgets;
use admission::budgets::budget::{Overspent, Spending, Sum, judge};
use admission::budgets::group_record::GroupRecord;
use admission::command_error::{CommandError, OrFail};
use admission::host::Host;
use admission::words::units;
use run_protocol::{Budget, ExitCode, RunRequest, WrittenBudget};
use serde::Serialize;

use super::known_runs_of;
use crate::command_helper::CommandHelper;
use crate::daemon_client::DaemonClient;
use crate::data_out::{print_json, print_text};

/// Show or set what the runs of a group may spend together; when it is spent, no more of them are started.
///
/// Runs that are live go on; only new ones do not start. A run that does not say what it took counts as much as the dearest that did; where none did,
/// nothing more is started. Runs that `caretaker gc` removes stay counted.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The group.
    group: String,
    /// The new budget, in place of the old: `tool_calls=500,time=8h,tokens=5M`, or `none`.
    budget: Option<WrittenBudget>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    v: u32,
    group: &'a str,
    budget: Budget,
    spent: Spending,
    /// What of it is spent, so that nothing more is started.
    overspent: Option<Overspent>,
}

pub(crate) fn run(helper: &CommandHelper, args: &Args) -> Result<ExitCode, CommandError> {
    let host = &helper.host;
    let config = helper.config()?;
    let runs = known_runs_of(host, &args.group)?;
    if let Some(WrittenBudget(budget)) = args.budget {
        set(host, &args.group, budget)?;
    }
    let budget = budgets::of_group(host, config, &args.group);
    let spent = budgets::spending_of_group(host, &args.group, &runs);
    let overspent = judge(&budget, &spent);
    if args.json {
        print_json(&Report { v: 1, group: &args.group, budget, spent, overspent })?;
    } else {
        print_text(&lines(
            &budgets::group_words(&args.group),
            &budget,
            &spent,
            overspent.as_ref(),
        ))?;
    }
    Ok(ExitCode::Success)
}

/// Gives a group its budget. The daemon, if there is one, hears of it at once.
fn set(host: &Host, group: &str, budget: Budget) -> Result<(), CommandError> {
    if let Some(daemon) = DaemonClient::find(host)? {
        let path = format!("/v1/groups/{group}/budget");
        return daemon.post::<serde_json::Value>(&path, &budget).map(drop);
    }
    let set = GroupRecord::update(&host.state, group, |record| record.budget = Some(budget));
    set.map(drop).or_fail(|| format!("the budget of group `{group}` could not be saved"))
}

/// Gives the group of a run the budget that `--group-budget` asks for.
pub(crate) fn set_asked(
    host: &Host,
    request: &RunRequest,
    group: Option<&str>,
) -> Result<(), CommandError> {
    match (&request.group_budget, group) {
        (None, _) => Ok(()),
        (Some(_), None) => {
            let what = "--group-budget is of a group, and no --group is given";
            Err(CommandError::new(ExitCode::Usage, what).hint(
                "name the group, or limit the run alone: --max-tool-calls, --max-tokens, --timeout",
            ))
        }
        (Some(WrittenBudget(budget)), Some(group)) => set(host, group, *budget),
    }
}

/// What was spent of what, one thing a line.
pub(crate) fn lines(
    whose: &str,
    budget: &Budget,
    spent: &Spending,
    overspent: Option<&Overspent>,
) -> String {
    let line = |name: &str, sum: &Sum, limit: Option<u64>, number: fn(u64) -> String| {
        let price = match (limit, sum.each_unknown()) {
            (None, _) => String::new(),
            (Some(_), Some(each)) => format!(" (each counts as {})", number(each)),
            (Some(_), None) => " (none is known to go by)".to_owned(),
        };
        let limit = limit.map_or(String::new(), |limit| format!(" of {}", number(limit)));
        let unknown = match sum.n_unknown {
            0 => String::new(),
            n => format!(", and unknown of {}{price}", units::counted(n.into(), "run", "runs")),
        };
        format!("{name:<11}{}{limit}{unknown}\n", number(sum.known))
    };
    let mut text = line("tool calls", &spent.tool_calls, budget.tool_calls, units::grouped)
        + &line("time", &spent.time_ms, budget.time_ms, units::duration)
        + &line("tokens", &spent.tokens, budget.tokens, units::grouped);
    if let Some(overspent) = overspent {
        text.push_str(&format!("{}\n", budgets::spent_line(whose, overspent)));
    }
    text
}
