//! Prepares each run of a batch: first every check, then its own worktree.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use admission::admit::{Admission, Admitted, Conversation, RunContext};
use admission::command_error::CommandError;
use admission::request::name_claim;
use admission::sandbox::profiles::warn_of_no_sandbox;
use admission::sandbox::workspace;
use admission::worktrees::{Fresh, Wanted};
use caretaker_daemon::BatchRun;
use run_journal::RunDirectory;
use run_protocol::{RunId, RunRequest};

use super::items::Item;
use crate::running::launching::Launch;

pub(crate) struct Preparation<'a> {
    pub(crate) launch: Launch<'a>,
    /// The workspace of runs that do not name one.
    pub(crate) workspace: Option<&'a Path>,
    pub(crate) in_place: bool,
}

/// Checks every run as if it were alone, and creates nothing. Returns the resources of each run that caps apply to.
pub(crate) fn check(
    preparation: &Preparation<'_>,
    items: &[Item],
) -> Result<Vec<BatchRun>, CommandError> {
    let Launch { host, config, .. } = preparation.launch;
    let mut seen = BTreeSet::new();
    let mut places: BTreeMap<Option<PathBuf>, PathBuf> = BTreeMap::new();
    let mut taken = Vec::with_capacity(items.len());
    for item in items {
        let in_line = |error: CommandError| match item.line {
            Some(line) => error.in_line(line),
            None => error,
        };
        let named = preparation.named(item);
        let key = named.map(Path::to_owned);
        let place = match places.get(&key) {
            Some(place) => place.clone(),
            None => {
                let place = workspace::check(host, named).map_err(in_line)?.as_path().to_owned();
                if !preparation.in_place {
                    Fresh::check(host, named).map_err(without_worktrees).map_err(in_line)?;
                }
                places.insert(key, place.clone());
                place
            }
        };
        if let Some(name) = &item.request.name {
            name_claim::check_free(&host.state, name).map_err(in_line)?;
        }
        // Runs that differ only in name and labels need only one check.
        let mut plain = RunRequest { name: None, labels: Vec::new(), ..item.request.clone() };
        if !preparation.in_place {
            // Its worktree does not exist yet.
            plain.setup = None;
        }
        if seen.insert((place.clone(), format!("{plain:?}"))) {
            let admitted = preparation.admit(&plain, named, None).map_err(in_line)?;
            if seen.len() == 1 {
                warn_of_no_sandbox(&admitted.spec);
            }
        }
        let model = item.request.model.clone().or_else(|| config.model.clone());
        let workspace = preparation.in_place.then_some(place);
        let priority = item.request.priority.unwrap_or_default();
        taken.push(BatchRun { model, workspace, priority });
    }
    Ok(taken)
}

/// The runs of a batch are live together, so they cannot share one workspace.
fn without_worktrees(error: CommandError) -> CommandError {
    error.hint(
        "each run of a batch works in its own git worktree; make this a repository with `git init` and a first \
        commit, or use --in-place: then runs that share a workspace run one after the other",
    )
}

impl<'a> Preparation<'a> {
    fn named<'i>(&'i self, item: &'i Item) -> Option<&'i Path> {
        item.request.workspace.as_deref().or(self.workspace)
    }

    fn admit(
        &self,
        request: &RunRequest,
        workspace: Option<&Path>,
        fresh: Option<RunId>,
    ) -> Result<Admitted<'a>, CommandError> {
        let Launch { host, config, program, route, console } = self.launch;
        let conversation = Conversation::New { workspace: workspace.map(Path::to_owned) };
        let way = route.way(host, console, request)?;
        let context = RunContext { fresh, ..RunContext::new(conversation, way) };
        Admission::new(host, config, program, request, context)?.admit()
    }

    /// Starts or queues the run.
    pub(crate) fn start(&self, item: &Item) -> Result<RunDirectory, CommandError> {
        let host = self.launch.host;
        let request = &item.request;
        let named = self.named(item);
        let fresh = match self.in_place {
            true => None,
            false => {
                let include = self.launch.config.worktree.include.as_slice();
                let wanted = Wanted { name: request.name.as_ref(), include };
                Some(Fresh::make_quietly(host, named, wanted)?)
            }
        };
        let workspace = fresh.as_ref().map_or(named, |fresh| Some(fresh.path()));
        let run = fresh.as_ref().map(Fresh::run);
        let started = self.admit(request, workspace, run).and_then(|admitted| {
            self.launch.start_silently(admitted, &item.prompt).map(|(run, _)| run)
        });
        if let Some(fresh) = fresh {
            fresh.settle(started.is_ok());
        }
        started
    }
}
