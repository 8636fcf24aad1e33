//! Finds sessions of the command line agent that cannot be resumed, although their store looks idle.

use cursor_stores::chat::NotResumable;
use cursor_stores::model::{Activity, Head, StoreKind};
use cursor_stores::parallel;
use uuid::Uuid;

use crate::host::Host;
use crate::resumption::refusal::Reason;
use crate::resumption::{ListedChats, Question, WhenHeld};

/// Checks quickly which idle-looking sessions a resume would refuse, and updates their activity. Returns why each is
/// refused, in the order of the heads.
pub fn tell_refused(host: &Host, heads: &mut [Head]) -> Vec<Option<Reason>> {
    // If the stores cannot be located, do not mark any session as refused.
    let Ok(chats) = ListedChats::of(host) else { return heads.iter().map(|_| None).collect() };
    let reasons = parallel::map(heads, |head| refused(host, &chats, head));
    for (head, reason) in heads.iter_mut().zip(&reasons) {
        head.activity = reason.as_ref().map_or(head.activity, |it| activity(it, head.activity));
    }
    reasons
}

fn refused(host: &Host, chats: &ListedChats, head: &Head) -> Option<Reason> {
    if !matches!(head.activity, Activity::Idle | Activity::Interrupted | Activity::Failed) {
        return None;
    }
    // The store itself may be gone. Then only the files next to it show the session.
    let origin = head.origins.iter().find(|origin| origin.store == StoreKind::Cli)?;
    let session = Uuid::parse_str(origin.path.0.parent()?.file_name()?.to_str()?).ok()?;
    let question = Question { host, session, workspace: None, when_held: WhenHeld::Refuse };
    Some(question.decide_at_a_glance(chats).ok()?.err()?.reason)
}

/// The activity of a session that cannot be resumed for this reason.
fn activity(reason: &Reason, seen: Activity) -> Activity {
    match reason {
        Reason::HeldByRun { .. } | Reason::Store(NotResumable::HeldByProcess { .. }) => {
            Activity::Live
        }
        Reason::Store(NotResumable::Changing) => seen,
        Reason::Store(NotResumable::NoStore | NotResumable::NoMeta | NotResumable::EmptyRoot) => {
            Activity::NoCheckpoint
        }
        Reason::Store(NotResumable::Unreadable { .. } | NotResumable::Subagent { .. }) => {
            Activity::NotResumable
        }
        Reason::Store(_) => Activity::Damaged,
        _ => Activity::NotResumable,
    }
}
