//! The events about an agent's login. The first change of each kind becomes an event immediately; the shim counts
//! repetitions until the end.

use run_protocol::{LoginDrop, RunEvent};

use super::copy::Exchanged;

/// The events of one run's login, as few as possible.
#[derive(Debug, Default)]
pub(super) struct LoginEvents {
    /// The content that the shim dropped last. Finding the same content again does not count.
    dropped: Option<Vec<u8>>,
    /// The reasons that the journal already has, with the number of repetitions since.
    told: Vec<(LoginDrop, u64)>,
}

impl LoginEvents {
    /// Returns the event for the result of comparing both files.
    pub(super) fn event_of(&mut self, exchanged: &Exchanged) -> Option<RunEvent> {
        match exchanged {
            Exchanged::Nothing | Exchanged::HandedIn => None,
            Exchanged::CarriedBack { kept } => {
                self.dropped = None;
                Some(RunEvent::LoginCarriedBack { kept: kept.clone() })
            }
            Exchanged::Dropped { reason, content } => self.dropped(*reason, content),
        }
    }

    fn dropped(&mut self, reason: LoginDrop, content: &[u8]) -> Option<RunEvent> {
        if self.dropped.as_deref() == Some(content) {
            return None;
        }
        self.dropped = Some(content.to_owned());
        match self.told.iter_mut().find(|(told, _)| *told == reason) {
            Some((_, count)) => {
                *count += 1;
                None
            }
            None => {
                self.told.push((reason, 0));
                Some(RunEvent::LoginDropped { reason, count: 1 })
            }
        }
    }

    /// Returns the events for the repetitions.
    pub(super) fn rest(&mut self) -> Vec<RunEvent> {
        let untold = std::mem::take(&mut self.told).into_iter().filter(|(_, count)| *count > 0);
        untold.map(|(reason, count)| RunEvent::LoginDropped { reason, count }).collect()
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn each_reason_is_reported_at_once_and_repetitions_are_counted() {
        let mut events = LoginEvents::default();
        let mut drop = |reason, content: &[u8]| {
            events.event_of(&Exchanged::Dropped { reason, content: content.to_owned() })
        };
        let told = |reason, count| RunEvent::LoginDropped { reason, count };
        assert_eq!(drop(LoginDrop::Malformed, b"a"), Some(told(LoginDrop::Malformed, 1)));
        assert_eq!(drop(LoginDrop::Malformed, b"a"), None, "the content is the same");
        assert_eq!(drop(LoginDrop::HostChanged, b"a"), None, "it was already dropped");
        assert_eq!(drop(LoginDrop::Malformed, b"b"), None);
        assert_eq!(drop(LoginDrop::Malformed, b"c"), None);
        assert_eq!(drop(LoginDrop::NotDue, b"d"), Some(told(LoginDrop::NotDue, 1)));
        assert_eq!(events.rest(), [told(LoginDrop::Malformed, 2)]);
        assert_eq!(events.rest(), []);
    }
}
