//! `caretaker sessions verify` and `repair`: check and repair session stores.

pub(crate) mod words;

use std::io::Write;
use std::path::PathBuf;

use admission::command_error::{CommandError, OrFail};
use admission::host::Host;
use admission::sessions::report;
use admission::words::safe_text::on_one_line;
use admission::words::talk::{note, say};
use admission::words::units::{bytes, counted, grouped};
use cursor_home::WorkspacePath;
use cursor_stores::chat::{BlobId, Depth, NotResumable, SessionMetaFile, resume_point};
use cursor_stores::model::StoreKind;
use cursor_stores::session_copy::{
    CopyError, Leftover, RepairAction, RepairPlan, StoreVerdict, leftovers, plan_repair, repair,
    verify_store,
};
use cursor_stores::{Catalogue, parallel};
use ground::now_ms;
use run_journal::{KernelLock, LockHolder, LockSight, RunDirectory, RunOverview, RunState};
use run_protocol::ExitCode;
use serde::Serialize;

use crate::command_helper::CommandHelper;
use crate::commands::sessions::chat_place::ChatPlace;
use crate::commands::sessions::selection::{Where, find};
use crate::data_out::{print_json, print_view};
use crate::running::progress::Progress;

/// Check the store of a session, or of every session.
///
/// Reads and decodes everything that the latest checkpoint refers to, and compares each hash. Changes nothing. The exit
/// code is 1 if something is wrong.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  caretaker sessions verify 5f1c3a52
  caretaker sessions verify --all --json | jq '.sessions[] | select(.n_findings > 0)'")]
pub(crate) struct VerifyArgs {
    /// The session.
    #[arg(required_unless_present = "all")]
    session: Option<String>,
    /// Check every command-line and ACP session.
    #[arg(long, conflicts_with = "session")]
    all: bool,
    #[command(flatten)]
    place: Where,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Repair a session with a damaged store.
///
/// Shows the plan; with `--yes`, carries it out on a copy, checks the copy, and swaps it with the original. The
/// original goes to `backups/`. Refuses a session that is in use.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  caretaker sessions repair 5f1c3a52
  caretaker sessions repair 5f1c3a52 --yes")]
pub(crate) struct RepairArgs {
    /// The session.
    session: String,
    #[command(flatten)]
    place: Where,
    /// Carry out the plan.
    #[arg(long)]
    yes: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct VerifyReport {
    v: u32,
    is_sound: bool,
    sessions: Vec<SessionReport>,
    /// Directories of unfinished copies.
    leftovers: Vec<Leftover>,
}

#[derive(Serialize)]
struct SessionReport {
    session: String,
    store: StoreKind,
    directory: PathBuf,
    #[serde(flatten)]
    verdict: StoreVerdict,
    /// Other directories with the same id. `resume` finds only the one in its workspace's bucket.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    also_in: Vec<PathBuf>,
    /// The workspace in its description, if the session is in another workspace's bucket.
    #[serde(skip_serializing_if = "Option::is_none")]
    bucket_is_not_of: Option<String>,
    /// The last run that held the session, if it was lost. Its lock is free, and the next run takes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    stale_lock_of: Option<String>,
    /// The checkpoint that the last run left, if the store lacks it: SQLite's log was lost, or this is a different
    /// store.
    #[serde(skip_serializing_if = "Option::is_none")]
    checkpoint_lost: Option<BlobId>,
    /// The checkpoint that the last run left, if the store does not continue it.
    #[serde(skip_serializing_if = "Option::is_none")]
    diverged_from: Option<BlobId>,
}

impl SessionReport {
    fn is_sound(&self) -> bool {
        self.verdict.is_sound()
            && self.also_in.is_empty()
            && self.bucket_is_not_of.is_none()
            && self.checkpoint_lost.is_none()
            && self.diverged_from.is_none()
    }

    /// Problems outside the store, which a repair of the store cannot solve.
    fn around_the_store(&self) -> Vec<String> {
        let mut around: Vec<String> = self
            .also_in
            .iter()
            .map(|other| format!("the same id is also in {}", other.display()))
            .collect();
        around.extend(self.bucket_is_not_of.as_ref().map(|workspace| {
            format!("it names the workspace {workspace}, where `resume` would not find it")
        }));
        around.extend(
            self.checkpoint_lost.map(|lost| format!("the last run's checkpoint {lost} is gone")),
        );
        around.extend(
            self.diverged_from
                .map(|left| format!("it does not continue the last run's checkpoint {left}")),
        );
        around
    }
}

pub(crate) fn run_verify(
    helper: &CommandHelper,
    args: &VerifyArgs,
) -> Result<ExitCode, CommandError> {
    let host = &helper.host;
    let catalogue = args.place.open(host)?;
    let all = all_places(&catalogue);
    let wanted: Vec<ChatPlace> = match &args.session {
        None => all.clone(),
        Some(text) => {
            let head = find(&catalogue, text)?;
            ChatPlace::to_copy(&head)?;
            ChatPlace::all_of(&head)
        }
    };
    let progress = Progress::of(wanted.len(), "checking");
    let verdicts = parallel::map(&wanted, |place| {
        let kept: Vec<BlobId> = place.recorded_root(host).into_iter().collect();
        let verdict = verify_store(&place.database(), &kept);
        progress.step();
        verdict
    });
    drop(progress);
    let mut sessions = Vec::new();
    let mut unread = None;
    for (place, verdict) in wanted.iter().zip(verdicts) {
        match verdict {
            Ok(verdict) => sessions.push(session_report(host, place, verdict, &all)),
            Err(error) => {
                let what = format!("cannot check {} now", place.id);
                let error = CommandError::new(ExitCode::Failed, what).because(error);
                note(&error.message_with_causes());
                unread = Some(error);
            }
        }
    }
    let left = if args.all { all_leftovers(host)? } else { Vec::new() };
    let is_sound =
        unread.is_none() && left.is_empty() && sessions.iter().all(SessionReport::is_sound);
    let report = VerifyReport { v: 1, is_sound, sessions, leftovers: left };
    if args.json {
        print_json(&report)?;
    } else {
        print_view(|out| print(out, &report))?;
    }
    Ok(if is_sound { ExitCode::Success } else { ExitCode::Failed })
}

fn all_places(catalogue: &Catalogue) -> Vec<ChatPlace> {
    let listing = catalogue.list();
    report(&listing.damage);
    listing.heads.iter().flat_map(ChatPlace::all_of).collect()
}

/// Unfinished copies in all directories where Caretaker makes copies.
pub(super) fn all_leftovers(host: &Host) -> Result<Vec<Leftover>, CommandError> {
    let places = admission::host::store_places::store_places(host)?;
    Ok(places.chats.iter().chain(&places.acp_sessions).flat_map(|root| leftovers(root)).collect())
}

fn session_report(
    host: &Host,
    place: &ChatPlace,
    verdict: StoreVerdict,
    all: &[ChatPlace],
) -> SessionReport {
    let is_other = |other: &&ChatPlace| {
        (other.kind, &other.id) == (StoreKind::Cli, &place.id) && other.directory != place.directory
    };
    let also_in = match place.kind {
        StoreKind::Cli => {
            all.iter().filter(is_other).map(|other| other.directory.clone()).collect()
        }
        _ => Vec::new(),
    };
    let recorded = place.recorded_root(host);
    let refused = recorded
        .and_then(|_| resume_point(&place.database(), recorded, Depth::Whole).err())
        .map(|refused| refused.reason);
    let is_lost = matches!(refused, Some(NotResumable::CheckpointLost { .. }));
    let is_left = matches!(refused, Some(NotResumable::Diverged { .. }));
    SessionReport {
        session: place.id.clone(),
        store: place.kind,
        directory: place.directory.clone(),
        verdict,
        also_in,
        bucket_is_not_of: wrong_workspace(place),
        stale_lock_of: stale_lock(host, place),
        checkpoint_lost: recorded.filter(|_| is_lost),
        diverged_from: recorded.filter(|_| is_left),
    }
}

fn wrong_workspace(place: &ChatPlace) -> Option<String> {
    let bucket = place.directory.parent()?.file_name()?.to_str()?;
    let told = SessionMetaFile::read(&place.directory.join("meta.json")).ok()?.cwd?;
    let workspace = WorkspacePath::new(told.as_ref()).ok()?;
    (place.kind == StoreKind::Cli && !workspace.has_bucket(bucket)).then_some(told)
}

fn stale_lock(host: &Host, place: &ChatPlace) -> Option<String> {
    let lock = host.state.session_dir(&place.id.parse().ok()?).join("lease.lock");
    let Ok(Some(LockSight::Free(Some(holder)))) = KernelLock::look::<LockHolder>(&lock) else {
        return None;
    };
    let run = RunDirectory::open(&host.state, holder.run).ok()?;
    let state = RunOverview::read(&run).ok()?.state;
    matches!(state, RunState::Lost { .. }).then(|| holder.run.to_string())
}

fn print(out: &mut impl Write, report: &VerifyReport) -> std::io::Result<()> {
    let is_one = report.sessions.len() == 1;
    for session in report.sessions.iter().filter(|session| is_one || !session.is_sound()) {
        let SessionReport { verdict, .. } = session;
        let directory = session.directory.display().to_string();
        writeln!(out, "{}  {}", on_one_line(&session.session), on_one_line(&directory))?;
        for finding in &verdict.findings {
            writeln!(out, "  {}", on_one_line(&words::finding(finding)))?;
        }
        let n_more = verdict.n_findings.saturating_sub(verdict.findings.len());
        if n_more > 0 {
            writeln!(out, "  and {}", counted(n_more as u64, "more problem", "more problems"))?;
        }
        for around in session.around_the_store() {
            writeln!(out, "  {}", on_one_line(&around))?;
        }
        if let Some(run) = &session.stale_lock_of {
            writeln!(out, "  the last run {run} was lost; its lock is free")?;
        }
        if let Some(candidate) = &verdict.candidate {
            let candidate = words::candidate(candidate);
            writeln!(out, "  `caretaker sessions repair` could use {candidate}")?;
        }
        if session.is_sound() {
            writeln!(
                out,
                "  sound: its checkpoint uses {} of {}{}",
                verdict.n_blobs - verdict.n_orphans,
                counted(verdict.n_blobs, "blob", "blobs"),
                match verdict.n_orphans {
                    0 => String::new(),
                    n => format!(
                        "; {} unused, {} (see `caretaker sessions gc`)",
                        grouped(n),
                        bytes(verdict.n_orphan_bytes)
                    ),
                }
            )?;
        }
    }
    for left in &report.leftovers {
        let path = left.path.display().to_string();
        let size = bytes(left.n_bytes);
        writeln!(out, "{}  unfinished copy, {size}", on_one_line(&path))?;
    }
    if !is_one {
        let n_all = report.sessions.len() as u64;
        let n_sound = report.sessions.iter().filter(|session| session.is_sound()).count();
        writeln!(out, "{n_sound} of {} sound", counted(n_all, "session is", "sessions are"))?;
    }
    Ok(())
}

#[derive(Serialize)]
struct RepairReport<'a> {
    v: u32,
    session: &'a str,
    plan: &'a RepairPlan,
    is_done: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    backup: Option<PathBuf>,
}

pub(crate) fn run_repair(
    helper: &CommandHelper,
    args: &RepairArgs,
) -> Result<ExitCode, CommandError> {
    let host = &helper.host;
    let catalogue = args.place.open(host)?;
    let head = find(&catalogue, &args.session)?;
    let place = ChatPlace::to_copy(&head)?;
    let unmended = |error: CopyError| {
        let code = match &error {
            CopyError::InUse | CopyError::Changed | CopyError::PlanIsOld => ExitCode::Conflict,
            _ => ExitCode::Failed,
        };
        CommandError::new(code, format!("cannot repair {}", place.id)).because(error)
    };
    let plan = plan_repair(&place.directory).map_err(unmended)?;
    if !args.json {
        print_view(|out| print_plan(out, &plan))?;
    }
    let is_whole = plan.actions.is_empty() && plan.beyond_repair.is_empty();
    let mut backup = None;
    if args.yes && !plan.actions.is_empty() {
        let _lease = place.lease(host)?;
        let kept = place.backup(host);
        let at = i64::try_from(now_ms()).unwrap_or(i64::MAX);
        let repaired = repair(&place.directory, &place.root, &plan, &kept, at).map_err(unmended)?;
        place.renew_record(host);
        backup = Some(repaired.backup);
    }
    if args.json {
        let is_done = backup.is_some();
        let backup = backup.clone();
        print_json(&RepairReport { v: 1, session: &place.id, plan: &plan, is_done, backup })?;
    }
    match &backup {
        Some(backup) => say(&format!(
            "repaired; the original is in {}",
            on_one_line(&backup.display().to_string())
        )),
        None if is_whole => return whole_store(host, &place, &catalogue),
        None if plan.actions.is_empty() => {
            return Err(CommandError::new(ExitCode::Failed, "the session cannot be repaired"));
        }
        None => say("dry run; pass --yes to repair"),
    }
    Ok(ExitCode::Success)
}

/// Handles a sound store: `resume` may still look for another one.
fn whole_store(
    host: &Host,
    place: &ChatPlace,
    catalogue: &Catalogue,
) -> Result<ExitCode, CommandError> {
    let verdict = verify_store(&place.database(), &[])
        .or_fail(|| format!("cannot check {} now", place.id))?;
    let around = session_report(host, place, verdict, &all_places(catalogue)).around_the_store();
    if around.is_empty() {
        say("nothing to repair");
        return Ok(ExitCode::Success);
    }
    let what = format!("the store of {} is sound, but {}", place.id, around.join("; "));
    let hint = format!("caretaker resume --check {}", place.id);
    Err(CommandError::new(ExitCode::Failed, what).hint(hint))
}

fn print_plan(out: &mut impl Write, plan: &RepairPlan) -> std::io::Result<()> {
    for action in &plan.actions {
        writeln!(out, "to do: {}", on_one_line(&words::action(action)))?;
        if let RepairAction::SetRoot { from: Some(from), .. } = action {
            writeln!(out, "       instead of {}", on_one_line(from))?;
        }
    }
    for finding in &plan.beyond_repair {
        writeln!(out, "stays: {}", on_one_line(&words::finding(finding)))?;
    }
    Ok(())
}
