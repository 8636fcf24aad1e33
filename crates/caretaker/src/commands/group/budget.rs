//! `caretaker group budget`.

use admission::budgets;
use admission::budgets::budget::{Overspent, Spending, Sum, judge};
use admission::budgets::group_record::GroupRecord;
use admission::command_error::{CommandError, OrFail};
use admission::host::Host;
use admission::words::units;
use run_protocol::{Budget, ExitCode, RunRequest, WrittenBudget};
use serde_json::json;

use super::known_runs_of;
use crate::command_helper::CommandHelper;
use crate::daemon_client::DaemonClient;
use crate::data_out::{print_json, print_text};

/// Show or set the budget of a group. When it is spent, no more runs of the group start.
///
/// Live runs continue. A run that did not report its usage counts as much as the most expensive one that did. If no
/// run reported, no more runs start. Runs that `caretaker gc` removes still count.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The group.
    group: String,
    /// The new budget: `tool_calls=500,time=8h,tokens=5M`, or `none`.
    budget: Option<WrittenBudget>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
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
        let group = &args.group;
        return print_json(&json!({
            "v": 1, "group": group, "budget": budget, "spent": spent, "overspent": overspent,
        }));
    }
    let name = budgets::budget_of_group(&args.group);
    print_text(&lines(&name, &budget, &spent, overspent.as_ref()))
}

/// Sets the budget of a group, through the daemon if one is running.
fn set(host: &Host, group: &str, budget: Budget) -> Result<(), CommandError> {
    if let Some(daemon) = DaemonClient::find(host)? {
        let path = format!("/v1/groups/{group}/budget");
        return daemon.post::<serde_json::Value>(&path, &budget).map(drop);
    }
    let set = GroupRecord::update(&host.state, group, |record| record.budget = Some(budget));
    set.map(drop).or_fail(|| format!("cannot save the budget of group `{group}`"))
}

/// Sets the budget from `--group-budget`.
pub(crate) fn set_asked(
    host: &Host,
    request: &RunRequest,
    group: Option<&str>,
) -> Result<(), CommandError> {
    match (&request.group_budget, group) {
        (None, _) => Ok(()),
        (Some(_), None) => {
            let what = "--group-budget needs --group";
            Err(CommandError::new(ExitCode::Usage, what).hint(
                "name the group, or limit the run alone: --max-tool-calls, --max-tokens, --timeout",
            ))
        }
        (Some(WrittenBudget(budget)), Some(group)) => set(host, group, *budget),
    }
}

/// One line per quantity: the usage and the limit.
pub(crate) fn lines(
    name: &str,
    budget: &Budget,
    spent: &Spending,
    overspent: Option<&Overspent>,
) -> String {
    let line = |name: &str, sum: &Sum, limit: Option<u64>, number: fn(u64) -> String| {
        let price = match (limit, sum.each_unknown()) {
            (None, _) => String::new(),
            (Some(_), Some(each)) => format!(" (each counts as {})", number(each)),
            (Some(_), None) => " (no run reported)".to_owned(),
        };
        let limit = limit.map_or(String::new(), |limit| format!(" of {}", number(limit)));
        let unknown = match sum.n_unknown {
            0 => String::new(),
            n => format!(", unknown for {}{price}", units::counted(n.into(), "run", "runs")),
        };
        format!("{name:<11}{}{limit}{unknown}\n", number(sum.known))
    };
    let mut text = line("tool calls", &spent.tool_calls, budget.tool_calls, units::grouped)
        + &line("time", &spent.time_ms, budget.time_ms, units::duration)
        + &line("tokens", &spent.tokens, budget.tokens, units::grouped);
    if let Some(overspent) = overspent {
        text.push_str(&format!("{}\n", budgets::spent_line(name, overspent)));
    }
    text
}
