//! `caretaker group`: runs that belong together through `run --each`, `--matrix` or `--group`.

pub(crate) mod budget;
mod kill;
mod ls;
mod show;
mod wait;

use admission::budgets::group_record::GroupRecord;
use admission::command_error::CommandError;
use admission::host::{Host, list_runs};
use clap::Subcommand;
use run_journal::{RunDirectory, RunFilter, RunOverview, Which};
use run_protocol::{ExitCode, RunName};

use crate::command_helper::CommandHelper;

/// Show, wait for and stop the runs of a group, and set their budget.
///
/// Runs with the same `--group` form a group, and so do the runs of `run --each` and `run --matrix`. Groups work with
/// and without a daemon.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  caretaker group ls
  caretaker group show nightly
  caretaker group wait nightly --timeout 1h
  caretaker group kill nightly
  caretaker group budget nightly tokens=5M,time=8h")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Ls(ls::Args),
    Show(show::Args),
    Wait(wait::Args),
    Kill(kill::Args),
    Budget(budget::Args),
}

pub(crate) fn run(helper: &CommandHelper, args: &Args) -> Result<ExitCode, CommandError> {
    match &args.action {
        Action::Ls(args) => ls::run(helper, args),
        Action::Show(args) => show::run(helper, args),
        Action::Wait(args) => wait::run(helper, args),
        Action::Kill(args) => kill::run(helper, args),
        Action::Budget(args) => budget::run(helper, args),
    }
}

pub(crate) use budget::lines as budget_lines;

/// All runs that belong to a group, oldest first.
fn grouped_runs(host: &Host) -> Result<Vec<RunOverview>, CommandError> {
    let filter = RunFilter { which: Which::All, ..RunFilter::default() };
    let mut runs = list_runs(&host.state, &filter)?;
    runs.retain(|run| run.group.is_some());
    runs.sort_by_key(|run| run.run);
    Ok(runs)
}

/// The runs of one group, oldest first.
fn runs_of(host: &Host, group: &str) -> Result<Vec<RunOverview>, CommandError> {
    let mut runs = grouped_runs(host)?;
    runs.retain(|run| run.group.as_deref() == Some(group));
    if runs.is_empty() {
        let what = format!("no runs in group `{group}`");
        return Err(CommandError::new(ExitCode::NotFound, what)
            .hint("see all groups with `caretaker group ls`"));
    }
    Ok(runs)
}

/// The runs of one group, oldest first. Empty if all were removed and only the group's record is left.
fn known_runs_of(host: &Host, group: &str) -> Result<Vec<RunOverview>, CommandError> {
    runs_of(host, group).or_else(|error| {
        // Only a valid group name may become a file name.
        let is_name = group.parse::<RunName>().is_ok();
        let is_known = is_name && GroupRecord::read(&host.state, group) != GroupRecord::default();
        if is_known { Ok(Vec::new()) } else { Err(error) }
    })
}

/// The directories of the runs that have not ended.
fn unfinished<'a>(
    host: &'a Host,
    runs: &'a [RunOverview],
) -> impl Iterator<Item = RunDirectory> + 'a {
    runs.iter()
        .filter(|run| run.state.is_unfinished())
        .filter_map(|run| RunDirectory::open(&host.state, run.run).ok())
}
