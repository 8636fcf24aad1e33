//! The memory of a session across a run: what it was before, whether the run continues it, and what is done if not.
//!
//! ```text
//!   under the lease        while the agent runs             when it is dead
//!   look_before ─────────► watch: the first new root ─────► settle ─► check_after: the last root
//!   not resumable: the     does not continue: stop          does not continue: the pointer is put back,
//!   agent is not started                                    the outcome is amnesia
//! ```

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cursor_home::WorkspacePath;
use cursor_stores::DatabaseFingerprint;
use cursor_stores::chat::{
    Depth, NotResumable, ResumePoint, Unresumable, latest_ancestry, put_back, resume_point,
    writers_of,
};
use run_journal::StateRoot;
use run_protocol::{RunEvent, RunId, RunSpec, SessionRecord, SessionStart};
use tokio::sync::mpsc;

use crate::session::checkpoint::pending_tools;
use crate::session::session_record::read_session_record;
use crate::session::write_lease::is_written_by_nobody;

/// How often the store is looked at until the agent has written its first root: a `stat`, mostly.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Roots are written one after the other, and the pointer may step back for a moment: one look is no look.
const LOOKS: usize = 2;
/// How long others may take to let go of a store after the agent is dead.
const SETTLING: Duration = Duration::from_secs(5);
const SETTLE_LOOK: Duration = Duration::from_millis(20);

/// Why a session is not resumed although its turn has come.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ResumeRefusal {
    #[error("the session cannot be resumed: {0}")]
    Store(NotResumable),
    #[error("run {by} took the session after run {continued}; nothing was started")]
    ContinuedBy { by: RunId, continued: RunId },
}

/// The session's store on the host.
pub(crate) fn store_db_of(spec: &RunSpec) -> Option<PathBuf> {
    let workspace = WorkspacePath::new(Path::new(&spec.workspace)).ok()?;
    let chats = spec.host_config_root.0.join("chats").join(workspace.bucket());
    Some(chats.join(spec.session.to_string()).join("store.db"))
}

/// Says what a run would find that resumes a session, or why none can: before a run is made, and again by its shim under
/// the lease. `record` is of the session's last run. A list of many does not look for other processes.
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
        // Looking through all processes takes as long as looking at the store.
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

/// What a run that resumes a session will find. `None` for one that begins a session. The lease must be held.
pub(crate) fn look_before(
    state: &StateRoot,
    spec: &RunSpec,
) -> Result<Option<ResumePoint>, ResumeRefusal> {
    let store_db = store_db_of(spec);
    // Of two runs of a session that was minted, the second continues what the first began.
    let is_begun = store_db.as_ref().is_some_and(|store_db| store_db.exists());
    if spec.session_start == SessionStart::New && !is_begun {
        return Ok(None);
    }
    let store_db = store_db.ok_or(ResumeRefusal::Store(NotResumable::NoStore))?;
    let record = read_session_record(state, &spec.session);
    // The run to continue was chosen without the lease, and another process may have chosen the same. The record names a
    // run only once that run is about to start its agent. So it may name one older than the run to continue, which then died
    // early. Ids of runs are in the order of their making.
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

/// What the journal says of it.
pub(crate) fn resuming(point: &ResumePoint) -> RunEvent {
    RunEvent::Resuming {
        root: point.state.id.to_string(),
        messages: u64::try_from(point.state.n_prompt_messages).unwrap_or(u64::MAX),
        pending: pending_tools(&point.state.pending),
    }
}

/// Looks for the first root that the agent writes, and says so if it does not continue what was before. Says nothing
/// about a session that is new.
pub(crate) fn watch(store_db: &Path, before: Option<&ResumePoint>) -> mpsc::Receiver<()> {
    let (sender, receiver) = mpsc::channel(1);
    if let Some(before) = before.cloned() {
        let store_db = store_db.to_owned();
        tokio::spawn(async move {
            if has_forgotten(store_db, before, &sender).await {
                sender.send(()).await.ok();
            }
            // A closed channel would be mistaken for news.
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

/// What the store says of the conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Sight {
    /// It cannot be read, and why.
    Unclear(String),
    /// Nothing was written yet.
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

/// What became of a conversation.
#[derive(Debug)]
pub(crate) enum Recollection {
    Continued,
    /// The event says that the pointer was put back, the text why it was not.
    Forgotten(Result<RunEvent, String>),
    /// The agent answered, and nothing of it is in the store: it was another conversation that went on.
    Elsewhere,
    /// The store cannot be read any more.
    Destroyed(String),
}

/// Tells whether the store continues what was before the run, and puts its pointer back where it does not. The agent must
/// be dead and the lease held.
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

/// Waits until nobody writes to the store any more. What was in the sandbox is gone, so this is about others.
pub(crate) fn settle(store_db: &Path) {
    let deadline = Instant::now() + SETTLING;
    while !is_written_by_nobody(store_db)
        && !writers_of(store_db).is_empty()
        && Instant::now() < deadline
    {
        std::thread::sleep(SETTLE_LOOK);
    }
}
