//! Phase five: the shim cleans up the run's files, judges the session, and writes the last event.

use std::path::Path;

use cursor_stores::chat::ResumePoint;
use ground::now_ms;
use run_protocol::{Checkpoint, Resumable, RunEvent, RunOutcome, RunSpec};
use uuid::Uuid;

use crate::agent_tools::agent_desk::report_end;
use crate::record::run_record::RunRecord;
use crate::sandbox::forget_sandbox;
use crate::session::session_memory::Recollection;
use crate::session::{checkpoint, session_memory, session_record};
use crate::supervise::claim::Claim;
use crate::supervise::drive::Driven;
use crate::supervise::outcome_words;
use crate::supervise::prepare::InPlace;
use crate::supervise::supervisor::Supervisor;

/// Closes a run, even if its agent never ran. The agent must be dead.
pub(crate) async fn close(
    supervisor: Supervisor,
    claim: &Claim,
    mut in_place: InPlace,
    driven: Driven,
) {
    // From here on the control socket refuses orders.
    let mut record = supervisor.into_record();
    if let Some(mcp) = in_place.mcp.take() {
        mcp.abort();
    }
    in_place.session.written().await;
    take_back(&mut record, claim, &mut in_place);
    let InPlace { prepared, workspace, .. } = in_place;
    if driven.has_run
        && let Some(audit) = workspace.audit().await
    {
        record.event(&audit);
    }
    let ended = judge(&mut record, claim, driven, &prepared.store_db()).await;
    record.finish(ended);
    if let Err(error) = report_end(&claim.state_root, &claim.run) {
        tracing::warn!(%error, "could not report the end to the parent");
    }
}

/// Undoes the run's preparation: its mount points in the workspace, its login, its servers, and the session's files.
fn take_back(record: &mut RunRecord, claim: &Claim, in_place: &mut InPlace) {
    let InPlace { prepared, own_events, .. } = in_place;
    prepared.end_what_is_left();
    // The namespace is gone. The shim removes its mount points before another run may start in the workspace.
    forget_sandbox(claim.run.path());
    prepared.remove_mount_points();
    let of_login = prepared.give_login_back();
    while let Ok(event) = own_events.try_recv() {
        record.event(&event);
    }
    of_login.iter().for_each(|event| record.event(event));
    prepared.settle_session().iter().for_each(|event| record.event(event));
    prepared.forget_servers();
}

/// Examines the session, records its checkpoint, and returns the last event.
async fn judge(record: &mut RunRecord, claim: &Claim, driven: Driven, store_db: &Path) -> RunEvent {
    let Driven { ending, exit_code, stderr_tail, tokens, suspended_because, .. } = driven;
    let Claim { spec, locks, .. } = claim;
    let mut outcome = outcome_words::outcome_of(ending, &stderr_tail);
    let mut why = match (&outcome, suspended_because) {
        (RunOutcome::SandboxFailed, _) => stderr_tail.clone(),
        (RunOutcome::Suspended, Some(why)) => why,
        (outcome, _) => outcome_words::why(outcome, exit_code, &stderr_tail, &spec.limits),
    };
    if !locks.is_current() {
        outcome = RunOutcome::LeaseLost;
        why = outcome_words::why(&outcome, exit_code, &stderr_tail, &spec.limits);
    } else if let Some(looked) = look(store_db, spec.session, claim.before.clone(), &outcome).await
    {
        if let Some(lost) = outcome_words::lost_memory(&looked.recollection) {
            outcome = RunOutcome::Amnesia;
            why = lost;
        }
        write_down(record, claim, looked);
    }
    if spec.limits.tokens > 0 && tokens.is_none() {
        why.push_str(outcome_words::UNCOUNTED);
    }
    let duration_ms = now_ms().saturating_sub(spec.created_ms);
    RunEvent::Ended { outcome, why, exit_code, duration_ms, stderr_tail }
}

/// The result of examining the session's store.
struct Looked {
    recollection: Recollection,
    checkpoint: Checkpoint,
}

/// Examines the store on another thread. A hostile store may take a while, and clients must get their answers
/// meanwhile.
async fn look(
    store_db: &Path,
    session: Uuid,
    before: Option<ResumePoint>,
    outcome: &RunOutcome,
) -> Option<Looked> {
    let (store_db, has_answered) = (store_db.to_owned(), outcome_words::has_answered(outcome));
    let looking = tokio::task::spawn_blocking(move || {
        session_memory::settle(&store_db);
        let recollection = match &before {
            Some(before) => session_memory::check_after(&store_db, before, has_answered),
            None => Recollection::Continued,
        };
        let mut checkpoint = checkpoint::checkpoint(&store_db, session);
        if has_answered && store_db.symlink_metadata().is_err() {
            let reason = outcome_words::NO_KNOWN_BUCKET.to_owned();
            checkpoint.resumable = Resumable::No { reason };
        }
        Looked { recollection, checkpoint }
    });
    looking.await.ok()
}

fn write_down(record: &mut RunRecord, claim: &Claim, looked: Looked) {
    let Looked { recollection, checkpoint } = looked;
    if let Recollection::Forgotten(Ok(put_back)) = &recollection {
        record.event(put_back);
    }
    let (generation, kept) = (claim.locks.generation(), Some(checkpoint.clone()));
    if let Err(error) = session_record::write(&claim.state_root, &claim.spec, generation, kept) {
        tracing::warn!(%error, "could not write the session's checkpoint");
    }
    record.event(&RunEvent::Checkpoint(checkpoint));
}

/// Ends a run whose agent never ran.
pub(crate) fn end_unrun(supervisor: Supervisor, spec: &RunSpec, outcome: RunOutcome, why: String) {
    let duration_ms = now_ms().saturating_sub(spec.created_ms);
    let ended =
        RunEvent::Ended { outcome, why, exit_code: None, duration_ms, stderr_tail: String::new() };
    supervisor.into_record().finish(ended);
}
