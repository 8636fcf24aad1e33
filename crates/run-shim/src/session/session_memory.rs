//! Checks that a run continues its conversation, and repairs the store if it does not.
//!
//! ```text
//!   under the lease        while the agent runs             when it is dead
//!   look_before ─────────► watch: the first new root ─────► settle ─► check_after: the last root
//!   not resumable: the     does not continue: stop          does not continue: put the pointer back,
//!   agent does not start                                    the outcome is amnesia
//! ```

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cursor_stores::DatabaseFingerprint;
use cursor_stores::chat::{
    Depth, NotResumable, ResumePoint, Unresumable, latest_ancestry, put_back, resume_point,
    writers_of,
};
use run_journal::StateRoot;
use run_protocol::{RunEvent, RunId, RunSpec, SessionRecord, SessionStart};
use tokio::sync::mpsc;

use crate::sandbox::outlive_sandbox;
use crate::session::checkpoint::pending_tools;
use crate::session::session_places::{SessionPlaces, SeveralStores};
use crate::session::session_record::read_session_record;
use crate::session::write_lease::has_no_writer;

/// The interval between two checks of the store until the agent has written its first root. Most checks are a `stat`.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// The agent writes one root after another, and the pointer may step back for a moment. So one check is not enough.
const LOOKS: usize = 2;
/// How long other processes may take to close a store after the agent's death.
const SETTLING: Duration = Duration::from_secs(5);
const SETTLE_LOOK: Duration = Duration::from_millis(20);

/// Why the shim does not resume a session.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ResumeRefusal {
    #[error("the session cannot be resumed: {0}")]
    Store(NotResumable),
    #[error("the session cannot be resumed: {0}")]
    SeveralStores(#[from] SeveralStores),
    #[error("run {by} took the session after run {continued}; nothing was started")]
    ContinuedBy { by: RunId, continued: RunId },
}

/// Waits until the agent of the session's last run is dead, if its shim is. Otherwise the dying agent would count as a
/// process that writes to the store.
pub fn outlive_last_agent(state: &StateRoot, record: Option<&SessionRecord>) {
    if let Some(record) = record {
        outlive_sandbox(&state.run_dir(&record.run));
    }
}

/// Returns the point at which a run would resume a session, or why it cannot. Admission calls this before it makes a
/// run, and the shim again under the lease. `record` is the session's record. [`Depth::Glance`] does not search for
/// other processes.
pub fn look_at_session(
    record: Option<&SessionRecord>,
    store_db: &Path,
    depth: Depth,
) -> Result<ResumePoint, Box<Unresumable>> {
    let recorded =
        record.and_then(|record| record.checkpoint.as_ref()?.root.as_ref()?.parse().ok());
    if depth == Depth::Glance {
        return resume_point(store_db, recorded, depth);
    }
    let (writers, point) = std::thread::scope(|scope| {
        // Searching all processes takes as long as checking the store, so the two run at the same time.
        let writers = std::thread::Builder::new().spawn_scoped(scope, || writers_of(store_db));
        let point = resume_point(store_db, recorded, depth);
        let writers = match writers {
            Ok(thread) => thread.join().map_err(|_| NotResumable::CheckFailed),
            Err(_) => Ok(writers_of(store_db)),
        };
        (writers, point)
    });
    match writers?.into_iter().next() {
        Some(it) => Err(NotResumable::HeldByProcess { pid: it.pid, program: it.program }.into()),
        None => point,
    }
}

/// Returns the point at which the run resumes its session. `None` for a new session. The caller holds the lease.
pub(crate) fn look_before(
    state: &StateRoot,
    spec: &RunSpec,
) -> Result<Option<ResumePoint>, ResumeRefusal> {
    let places = SessionPlaces::of_run(state, spec);
    let found = places.as_ref().map(SessionPlaces::found).transpose()?.flatten();
    let Some((places, place)) = places.zip(found) else {
        return match spec.session_start {
            SessionStart::New => Ok(None),
            SessionStart::Resume => Err(ResumeRefusal::Store(NotResumable::NoStore)),
        };
    };
    // If a minted session has two runs, the second continues the conversation of the first.
    let store_db = places.directory(place).join("store.db");
    let record = read_session_record(state, &spec.session);
    // Admission did not hold the lease when it chose the run to continue, so another process may have chosen the same
    // run. The record names a run once it is about to start its agent. The record may name an older run than
    // `continued`, if `continued` died early. Run ids sort by creation time.
    if let (Some(continued), Some(record)) = (spec.continues, &record)
        && record.run > continued
    {
        return Err(ResumeRefusal::ContinuedBy { by: record.run, continued });
    }
    match look_at_session(record.as_ref(), &store_db, Depth::Whole) {
        Ok(point) => Ok(Some(point)),
        Err(refused) => Err(ResumeRefusal::Store(refused.reason)),
    }
}

/// The event for a resumed session.
pub(crate) fn resuming(point: &ResumePoint) -> RunEvent {
    RunEvent::Resuming {
        root: point.state.id.to_string(),
        messages: u64::try_from(point.state.n_prompt_messages).unwrap_or(u64::MAX),
        pending: pending_tools(&point.state.pending),
    }
}

/// Watches for the first root that the agent writes, and sends a message if it does not continue the conversation. For
/// a new session it sends nothing.
pub(crate) fn watch(store_db: &Path, before: Option<&ResumePoint>) -> mpsc::Receiver<()> {
    let (sender, receiver) = mpsc::channel(1);
    if let Some(before) = before.cloned() {
        let store_db = store_db.to_owned();
        tokio::spawn(async move {
            if has_forgotten(store_db, before, &sender).await {
                sender.send(()).await.ok();
            }
            // The receiver would treat a closed channel as a message.
            sender.closed().await;
        });
    }
    receiver
}

async fn has_forgotten(
    store_db: PathBuf,
    before: ResumePoint,
    listener: &mpsc::Sender<()>,
) -> bool {
    let mut seen = None;
    let mut n_strange = 0;
    while !listener.is_closed() {
        tokio::time::sleep(LOOK_EVERY).await;
        let fingerprint = DatabaseFingerprint::of(&store_db).ok();
        if fingerprint == seen && n_strange == 0 {
            continue;
        }
        seen = fingerprint;
        let (path, point) = (store_db.clone(), before.clone());
        let looked = tokio::task::spawn_blocking(move || look(&path, &point)).await;
        let Ok(looked) = looked else { continue };
        match looked {
            Sight::Unclear(_) => {}
            Sight::Unchanged => n_strange = 0,
            Sight::Continued => return false,
            Sight::Forgotten => {
                n_strange += 1;
                if n_strange >= LOOKS {
                    return true;
                }
            }
        }
    }
    false
}

/// The state of the conversation in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Sight {
    /// The store is unreadable, with the reason.
    Unclear(String),
    /// The agent has not written yet.
    Unchanged,
    Continued,
    Forgotten,
}

fn look(store_db: &Path, before: &ResumePoint) -> Sight {
    match latest_ancestry(store_db) {
        Err(error) => Sight::Unclear(ground::with_causes(&*error)),
        Ok((Some(root), _)) if root == before.state.id => Sight::Unchanged,
        Ok((_, Some(ancestry))) if ancestry.extends(&before.ancestry) => Sight::Continued,
        Ok(_) => Sight::Forgotten,
    }
}

/// The state of a conversation after a run.
#[derive(Debug)]
pub(crate) enum Recollection {
    Continued,
    /// The event if the shim put the pointer back, or why it could not.
    Forgotten(Result<RunEvent, String>),
    /// The agent answered, but the store does not have the answer. The agent continued another conversation.
    Elsewhere,
    /// The store is unreadable now.
    Destroyed(String),
}

/// Checks whether the store continues the conversation, and puts its pointer back if not. The agent is dead, and the
/// caller holds the lease.
pub(crate) fn check_after(
    store_db: &Path,
    before: &ResumePoint,
    has_answered: bool,
) -> Recollection {
    match look(store_db, before) {
        Sight::Unchanged if has_answered => return Recollection::Elsewhere,
        Sight::Unchanged | Sight::Continued => return Recollection::Continued,
        Sight::Unclear(why) => return Recollection::Destroyed(why),
        Sight::Forgotten => {}
    }
    let put_back = put_back(store_db, before.state.id);
    Recollection::Forgotten(match put_back {
        Ok(done) => Ok(RunEvent::RootPutBack {
            from: done.from.map(|root| root.to_string()),
            to: done.to.to_string(),
        }),
        Err(error) => Err(ground::with_causes(&error)),
    })
}

/// Waits until no process writes to the store. The sandbox is gone, so only other programs can.
pub(crate) fn settle(store_db: &Path) {
    let deadline = Instant::now() + SETTLING;
    while !has_no_writer(store_db) && !writers_of(store_db).is_empty() && Instant::now() < deadline
    {
        std::thread::sleep(SETTLE_LOOK);
    }
}
