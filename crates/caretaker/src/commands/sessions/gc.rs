//! `caretaker sessions gc`: drops unused data from session stores.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use admission::command_error::{CommandError, OrFail};
use admission::host::Host;
use admission::sessions::report;
use admission::words::safe_text::on_one_line;
use admission::words::talk::{note, say};
use admission::words::units::{bytes, counted};
use cursor_stores::chat::BlobId;
use cursor_stores::model::{Head, Shelf, StoreKind};
use cursor_stores::parallel;
use cursor_stores::session_copy::{
    CopyError, Droppable, Leftover, Original, Untouchable, collect, droppable, is_abandoned_session,
};
use run_protocol::ExitCode;
use run_shim::session_holder;
use serde::Serialize;

use super::chat_place::ChatPlace;
use super::selection::{Where, find};
use super::verify::all_leftovers;
use crate::command_helper::CommandHelper;
use crate::data_out::{print_json, print_view};
use crate::running::progress::Progress;

/// Drop unused data from command-line and ACP sessions; a dry run without `--yes`.
///
/// Drops blobs that no conversation refers to, such as earlier checkpoints and edited messages; sessions without a
/// message that are older than a day; and unfinished copies. Sessions that are in use or damaged stay unchanged.
/// Caretaker works on a copy, checks it, and swaps it with the original. The original goes to `backups/` in the state
/// directory, and takes up space until you delete it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  caretaker sessions gc
  caretaker sessions gc 5f1c3a52 --yes")]
pub(crate) struct Args {
    /// Only this session.
    session: Option<String>,
    #[command(flatten)]
    place: Where,
    /// Delete; without this flag it is a dry run.
    #[arg(long)]
    yes: bool,
    /// Do not keep the originals: the dropped data is gone for good.
    #[arg(long, requires = "yes")]
    no_backup: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    v: u32,
    is_done: bool,
    sessions: Vec<Store>,
    empty_sessions: Vec<PathBuf>,
    leftovers: Vec<Leftover>,
    n_bytes: u64,
    /// Where the originals are.
    backups: Vec<PathBuf>,
}

#[derive(Serialize)]
struct Store {
    session: String,
    directory: PathBuf,
    #[serde(flatten)]
    droppable: Droppable,
    is_dropped: bool,
}

pub(crate) fn run(helper: &CommandHelper, args: &Args) -> Result<ExitCode, CommandError> {
    let host = &helper.host;
    let catalogue = args.place.open(host)?;
    let heads = match &args.session {
        Some(text) => vec![find(&catalogue, text)?],
        None => {
            let listing = catalogue.list();
            report(&listing.damage);
            listing.heads
        }
    };
    let places: Vec<ChatPlace> = heads.iter().flat_map(ChatPlace::all_of).collect();
    let found = examine(host, &places);
    let empty = empty_sessions(&heads);
    let left = if args.session.is_none() { all_leftovers(host)? } else { Vec::new() };
    let mut stores = Vec::new();
    let mut wanted = Vec::new();
    for (place, droppable) in places.into_iter().zip(found) {
        let Some(droppable) = droppable.filter(|droppable| droppable.n_blobs > 0) else { continue };
        stores.push(Store {
            session: place.id.clone(),
            directory: place.directory.clone(),
            droppable: droppable.clone(),
            is_dropped: false,
        });
        if droppable.untouchable.is_none() {
            wanted.push(place);
        }
    }
    let touchable = stores.iter().filter(|store| store.droppable.untouchable.is_none());
    let n_bytes = touchable.map(|store| store.droppable.n_bytes).sum::<u64>()
        + left.iter().map(|left| left.n_bytes).sum::<u64>();
    let is_nothing = n_bytes == 0 && empty.is_empty();
    let mut gc = Report {
        v: 1,
        is_done: args.yes,
        sessions: stores,
        empty_sessions: empty,
        leftovers: left,
        n_bytes,
        backups: Vec::new(),
    };
    let mut code = ExitCode::Success;
    if args.yes {
        code = drop_all(host, args, &wanted, &mut gc);
        let dropped = gc.sessions.iter().filter(|store| store.is_dropped);
        gc.n_bytes = dropped.map(|store| store.droppable.n_bytes).sum::<u64>()
            + gc.leftovers.iter().map(|left| left.n_bytes).sum::<u64>();
    }
    if args.json {
        print_json(&gc)?;
    } else {
        print_view(|out| print(out, &gc))?;
    }
    if is_nothing {
        say("nothing to delete");
    } else if !args.yes {
        say("dry run; pass --yes to delete");
    }
    if let [first, ..] = gc.backups.as_slice() {
        let kept_in = first.parent().unwrap_or(first).display().to_string();
        let n_kept = counted(gc.backups.len() as u64, "original", "originals");
        let n_kept_bytes = gc.backups.iter().map(|backup| n_bytes_in(backup)).sum();
        say(&format!(
            "kept {n_kept}, {}, in {} (delete them when you like)",
            bytes(n_kept_bytes),
            on_one_line(&kept_in)
        ));
    }
    let is_in_use = |store: &Store| store.droppable.untouchable == Some(Untouchable::InUse);
    if args.yes && args.session.is_some() && gc.sessions.iter().any(is_in_use) {
        return Err(CommandError::new(ExitCode::Conflict, "the session is in use")
            .hint("wait until its run has ended, or suspend it: caretaker suspend RUN"));
    }
    Ok(code)
}

/// The size of a session's files.
fn n_bytes_in(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum()
}

/// Blobs that must stay in addition to the store's checkpoint: the checkpoint in Caretaker's record.
fn kept(host: &Host, place: &ChatPlace) -> Vec<BlobId> {
    place.recorded_root(host).into_iter().collect()
}

/// A run may hold the session before it opens the store.
fn is_held(host: &Host, place: &ChatPlace) -> bool {
    let session = place.id.parse().ok();
    session.is_some_and(|session| matches!(session_holder(&host.state, &session), Ok(Some(_))))
}

fn examine(host: &Host, places: &[ChatPlace]) -> Vec<Option<Droppable>> {
    let progress = Progress::of(places.len(), "looking");
    let examined = parallel::map(places, |place| {
        let mut droppable = droppable(&place.database(), &kept(host, place));
        progress.step();
        if let Ok(droppable) = &mut droppable
            && is_held(host, place)
        {
            droppable.untouchable = Some(Untouchable::InUse);
        }
        droppable
    });
    drop(progress);
    let told = places.iter().zip(examined).map(|(place, examined)| {
        examined
            .map_err(|error| {
                let what = format!("cannot check {} now", place.id);
                let error = CommandError::new(ExitCode::Failed, what).because(error);
                note(&error.message_with_causes());
            })
            .ok()
    });
    told.collect()
}

/// Sessions that have only a description.
fn empty_sessions(heads: &[Head]) -> Vec<PathBuf> {
    let now = SystemTime::now();
    heads
        .iter()
        .filter(|head| head.shelf == Shelf::Empty)
        .flat_map(|head| &head.origins)
        .filter(|origin| matches!(origin.store, StoreKind::Cli | StoreKind::Acp))
        .filter_map(|origin| origin.path.0.parent().map(Path::to_path_buf))
        .filter(|directory| is_abandoned_session(directory, now))
        .collect()
}

/// Returns the exit code of the first failure.
fn drop_all(host: &Host, args: &Args, wanted: &[ChatPlace], gc: &mut Report) -> ExitCode {
    let mut code = ExitCode::Success;
    let mut failed = |error: CommandError| {
        note(&error.message_with_causes());
        if code == ExitCode::Success {
            code = error.exit_code();
        }
    };
    for place in wanted {
        let backup = place.backup(host);
        let original = if args.no_backup { Original::Dropped } else { Original::KeptIn(&backup) };
        let dropped = place.lease(host).and_then(|_lease| {
            // Read again under the lease: a run may have left another checkpoint in the meantime.
            let kept = kept(host, place);
            collect(&place.directory, &place.root, &kept, original).map_err(|error| {
                let code = match &error {
                    CopyError::InUse | CopyError::Changed => ExitCode::Conflict,
                    _ => ExitCode::Failed,
                };
                let what = format!("cannot clean up {}", place.id);
                CommandError::new(code, what).because(error)
            })
        });
        match dropped {
            Ok(_) => {
                if !args.no_backup {
                    gc.backups.push(backup);
                }
                let is_it = |store: &&mut Store| store.directory == place.directory;
                gc.sessions.iter_mut().filter(is_it).for_each(|store| store.is_dropped = true);
            }
            Err(error) => failed(error),
        }
    }
    gc.empty_sessions.retain(|directory| {
        let removed = drop_empty(host, directory);
        let is_removed = matches!(removed, Ok(true));
        if let Err(error) = removed {
            failed(error);
        }
        is_removed
    });
    gc.leftovers.retain(|left| {
        let removed = fs::remove_dir_all(&left.path);
        let is_removed = removed.is_ok();
        if let Err(error) = removed {
            let what = format!("cannot remove `{}`", left.path.display());
            failed(CommandError::new(ExitCode::Failed, what).because(error));
        }
        is_removed
    });
    code
}

/// Removes a session without messages, unless a run holds it or it has received messages since. Returns true if it is
/// gone.
fn drop_empty(host: &Host, directory: &Path) -> Result<bool, CommandError> {
    // The lease depends only on the session's id.
    let place = ChatPlace::of_directory(StoreKind::Cli, directory);
    let _lease = match place.map(|place| place.lease(host)).transpose() {
        // Skip a session in use.
        Err(error) if error.exit_code() == ExitCode::Conflict => return Ok(false),
        lease => lease?,
    };
    if !is_abandoned_session(directory, SystemTime::now()) {
        return Ok(false);
    }
    // Do not delete recursively, so that files that appear in the meantime stay.
    let removed =
        fs::remove_file(directory.join("meta.json")).and_then(|()| fs::remove_dir(directory));
    removed.map(|()| true).or_fail(|| format!("cannot remove `{}`", directory.display()))
}

fn print(out: &mut impl Write, gc: &Report) -> std::io::Result<()> {
    for store in &gc.sessions {
        let Droppable { n_blobs, n_bytes, n_all_blobs, n_all_bytes, untouchable } =
            &store.droppable;
        let (verb, why) = match untouchable {
            None if store.is_dropped => ("deleted", ""),
            None if gc.is_done => ("not deleted", ""),
            None => ("can delete", ""),
            Some(Untouchable::Unsound) => ("keeps", ": damaged, see `caretaker sessions verify`"),
            Some(Untouchable::InUse) => ("keeps", ": in use"),
        };
        writeln!(
            out,
            "{}  {verb} {n_blobs} of {}, {} of {}{why}",
            on_one_line(&store.session),
            counted(*n_all_blobs, "blob", "blobs"),
            bytes(*n_bytes),
            bytes(*n_all_bytes)
        )?;
    }
    for left in &gc.leftovers {
        let path = left.path.display().to_string();
        let size = bytes(left.n_bytes);
        writeln!(out, "{}  unfinished copy, {size}", on_one_line(&path))?;
    }
    if !gc.empty_sessions.is_empty() {
        let n_empty = gc.empty_sessions.len() as u64;
        writeln!(out, "{}", counted(n_empty, "empty session", "empty sessions"))?;
    }
    if gc.n_bytes > 0 {
        let verb = if gc.is_done { "deleted" } else { "can be deleted" };
        writeln!(out, "{} {verb}", bytes(gc.n_bytes))?;
    }
    Ok(())
}
