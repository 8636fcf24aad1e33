//! What the journal hears of an agent's login: every kind of change at once, and how often each was repeated at the end.

use run_protocol::{LoginDrop, RunEvent};

use super::copy::Exchanged;

/// The events of one run's login, as few as say everything.
#[derive(Debug, Default)]
pub(super) struct Tidings {
    /// The content that was dropped last, so that looking at it again is not counted again.
    dropped: Option<Vec<u8>>,
    /// Reasons that the journal has, and how often each came again since.
    told: Vec<(LoginDrop, u64)>,
}

impl Tidings {
    /// What to say of a look at both files.
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

    /// What was repeated and not said.
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
    fn each_reason_is_told_at_once_and_repetitions_are_counted() {
        let mut tidings = Tidings::default();
        let mut drop = |reason, content: &[u8]| {
            tidings.event_of(&Exchanged::Dropped { reason, content: content.to_owned() })
        };
        let told = |reason, count| RunEvent::LoginDropped { reason, count };
        assert_eq!(drop(LoginDrop::Malformed, b"a"), Some(told(LoginDrop::Malformed, 1)));
        assert_eq!(drop(LoginDrop::Malformed, b"a"), None, "it is the same content");
        assert_eq!(drop(LoginDrop::HostChanged, b"a"), None, "it is dropped already");
        assert_eq!(drop(LoginDrop::Malformed, b"b"), None);
        assert_eq!(drop(LoginDrop::Malformed, b"c"), None);
        assert_eq!(drop(LoginDrop::NotDue, b"d"), Some(told(LoginDrop::NotDue, 1)));
        assert_eq!(tidings.rest(), [told(LoginDrop::Malformed, 2)]);
        assert_eq!(tidings.rest(), []);
    }
}
