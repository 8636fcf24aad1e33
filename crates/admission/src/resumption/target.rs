//! Finds the session that a user means: by its id or a prefix of it, by one of its runs, or the workspace's latest
//! session.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use cursor_home::WorkspacePath;
use cursor_stores::Catalogue;
use cursor_stores::model::{Head, Shelf, StoreKind};
use run_journal::{RunFilter, Which, resolve};
use run_protocol::{ExitCode, RunId, RunName};
use uuid::Uuid;

use crate::command_error::{CommandError, OrFail};
use crate::host::store_places::store_places;
use crate::host::{Host, list_runs};

/// A shorter prefix is more likely a typo than a choice.
const SHORTEST_PREFIX: usize = 4;

/// Finds the session that `text` means. It need not be resumable.
pub fn find(host: &Host, text: &str) -> Result<Uuid, CommandError> {
    if text == "-" {
        return latest_here(host);
    }
    if let Ok(id) = Uuid::parse_str(text) {
        // The text may also be the id of a run.
        let of_run = text.parse::<RunId>().ok().filter(|run| host.state.run_dir(run).is_dir());
        return of_run.map_or(Ok(id), |_| session_of_run(host, text));
    }
    if text.parse::<RunName>().is_ok() {
        return session_of_run(host, text).map_err(|error| match error.exit_code() {
            ExitCode::NotFound => nothing_called(text),
            _ => error,
        });
    }
    let mut found = sessions_with_prefix(host, text)?;
    match resolve(&host.state, text) {
        Ok(_) => drop(found.insert(session_of_run(host, text)?)),
        Err(run_journal::ResolveError::Ambiguous { .. }) if found.is_empty() => {
            return session_of_run(host, text);
        }
        Err(_) => {}
    }
    let mut found = found.into_iter();
    match (found.next(), found.next()) {
        (Some(session), None) => Ok(session),
        (None, _) => Err(nothing_called(text)),
        (Some(first), Some(second)) => {
            let mut ids: Vec<String> =
                [first, second].into_iter().chain(found).map(|id| id.to_string()).collect();
            let what = format!("`{text}` matches {} sessions", ids.len());
            ids.truncate(10);
            Err(CommandError::new(ExitCode::Usage, what)
                .hint(format!("use a longer prefix:\n{}", ids.join("\n"))))
        }
    }
}

fn nothing_called(text: &str) -> CommandError {
    CommandError::new(ExitCode::NotFound, format!("there is no session or run `{text}`"))
        .hint("see them with `caretaker sessions ls --all` and `caretaker ps --all`")
}

fn session_of_run(host: &Host, text: &str) -> Result<Uuid, CommandError> {
    let run = host.find_run(text)?;
    run.spec()
        .map(|spec| spec.session)
        .or_fail(|| format!("the session of run {} is unknown", run.run_id()))
}

/// Searches the sessions of the command line agent, ACP and Caretaker. If none matches, searches all other stores.
fn sessions_with_prefix(host: &Host, text: &str) -> Result<BTreeSet<Uuid>, CommandError> {
    let text = text.to_ascii_lowercase();
    if text.len() < SHORTEST_PREFIX {
        return Ok(BTreeSet::new());
    }
    let places = store_places(host)?;
    let mut roots = vec![host.state.sessions()];
    roots.extend(places.acp_sessions.iter().cloned());
    for chats in &places.chats {
        roots.extend(fs::read_dir(chats).into_iter().flatten().flatten().map(|entry| entry.path()));
    }
    let mut found = BTreeSet::new();
    for root in roots {
        found.extend(session_directories(&root).filter(|id| id.to_string().starts_with(&text)));
    }
    if found.is_empty() {
        let others = [StoreKind::Ide, StoreKind::IdeOld, StoreKind::Sdk, StoreKind::Transcript];
        let heads = Catalogue::open(&places, &others).list().heads;
        let ids = heads.iter().filter(|head| head.id.starts_with(&text));
        found.extend(ids.filter_map(|head| Uuid::parse_str(&head.id).ok()));
    }
    Ok(found)
}

fn session_directories(root: &Path) -> impl Iterator<Item = Uuid> + use<> {
    fs::read_dir(root)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Uuid::parse_str(entry.file_name().to_str()?).ok())
}

/// The session of this workspace with the latest activity: a run, or one of the user's own chats.
fn latest_here(host: &Host) -> Result<Uuid, CommandError> {
    let here = fs::canonicalize(&host.environment.working_directory)
        .unwrap_or_else(|_| host.environment.working_directory.clone());
    let nothing = || {
        let what = format!("the workspace `{}` has no session", here.display());
        CommandError::new(ExitCode::NotFound, what).hint("see all with `caretaker sessions ls`")
    };
    let workspace = WorkspacePath::new(&here).map_err(|_| nothing())?;
    let of_chats = latest_chat(host, &workspace)?;
    let of_runs = latest_run(host, &here)?;
    of_chats.into_iter().chain(of_runs).max().map(|(_, session)| session).ok_or_else(nothing)
}

fn latest_chat(
    host: &Host,
    workspace: &WorkspacePath,
) -> Result<Option<(u64, Uuid)>, CommandError> {
    let heads = Catalogue::open(&store_places(host)?, &[StoreKind::Cli]).list().heads;
    let is_here = |head: &&Head| {
        head.shelf == Shelf::Shown
            && head.parent.is_none()
            && head
                .workspace
                .as_ref()
                .is_some_and(|known| Path::new(&known.path) == workspace.as_path())
    };
    let moments = heads.iter().filter(is_here).filter_map(|head| {
        let at = u64::try_from(head.updated.or(head.created)?.at_ms).ok()?;
        Some((at, Uuid::parse_str(&head.id).ok()?))
    });
    Ok(moments.max())
}

fn latest_run(host: &Host, here: &Path) -> Result<Option<(u64, Uuid)>, CommandError> {
    let filter =
        RunFilter { which: Which::All, workspace: Some(here.into()), ..RunFilter::default() };
    let runs = list_runs(&host.state, &filter)?;
    let sessions = runs.iter().filter_map(|run| {
        Some((run.last_event_ms.max(run.created_ms), Uuid::parse_str(&run.session).ok()?))
    });
    Ok(sessions.max())
}
