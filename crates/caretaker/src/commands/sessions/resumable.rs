//! Sessions of the command line that a resume would refuse: such a session is not idle, whatever its store looks like.

use cursor_stores::chat::{NotResumable, resume_point_at_a_glance};
use cursor_stores::model::{Activity, Head, StoreKind};
use cursor_stores::parallel;
use run_shim::read_session_record;
use uuid::Uuid;

use crate::host::Host;

/// Says of sessions that look idle what a resume would say of them, as far as a glance tells.
pub(super) fn tell_refused(host: &Host, heads: &mut [Head]) {
    let activities = parallel::map(heads, |head| refused(host, head).unwrap_or(head.activity));
    for (head, activity) in heads.iter_mut().zip(activities) {
        head.activity = activity;
    }
}

fn refused(host: &Host, head: &Head) -> Option<Activity> {
    if !matches!(head.activity, Activity::Idle | Activity::Interrupted | Activity::Failed) {
        return None;
    }
    // The store itself may be gone, and the session be known by what lies beside it.
    let origin = head.origins.iter().find(|origin| origin.store == StoreKind::Cli)?;
    let directory = origin.path.0.parent()?;
    let session = Uuid::parse_str(directory.file_name()?.to_str()?).ok()?;
    let recorded = read_session_record(&host.state, &session)
        .and_then(|record| record.checkpoint?.root?.parse().ok());
    match resume_point_at_a_glance(&directory.join("store.db"), recorded).err()? {
        NotResumable::Changing | NotResumable::Unreadable { .. } => None,
        NotResumable::NoStore | NotResumable::NoMeta | NotResumable::EmptyRoot => {
            Some(Activity::NoCheckpoint)
        }
        _ => Some(Activity::Damaged),
    }
}
