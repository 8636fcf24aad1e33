//! Interpolates times for messages that have none.

use crate::model::{Message, Moment};

/// Gives each message without a time one of its own. The times are spread evenly between the recorded ones, starting at
/// `from` before the first message and ending at `until` after the last. Without `from`, messages before the first
/// recorded time stay without one.
pub(crate) fn spread_times<'m>(
    messages: impl IntoIterator<Item = &'m mut Message>,
    from: Option<i64>,
    until: Option<i64>,
) {
    let mut before = from;
    let mut waiting: Vec<&mut Message> = Vec::new();
    for message in messages {
        match message.at {
            None => waiting.push(message),
            Some(at) => {
                spread_between(std::mem::take(&mut waiting), before, Some(at.at_ms));
                before = Some(at.at_ms);
            }
        }
    }
    spread_between(waiting, before, until);
}

fn spread_between(messages: Vec<&mut Message>, before: Option<i64>, after: Option<i64>) {
    let (Some(before), Some(after)) = (before, after) else { return };
    let n_steps = messages.len() as i64 + 1;
    // Copied files and adjusted clocks can make time run backwards.
    let span = after.saturating_sub(before).max(0);
    for (message, step) in messages.into_iter().zip(1..) {
        // Divide first: a hostile time multiplied by the number of messages would overflow.
        let passed = span / n_steps * step + span % n_steps * step / n_steps;
        message.at = Some(Moment::interpolated(before.saturating_add(passed)));
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;
    use crate::model::Role;

    fn messages(times: &[Option<i64>]) -> Vec<Message> {
        let message = |at: &Option<i64>| Message {
            at: at.map(Moment::recorded),
            ..Message::new(Role::Assistant, Vec::new())
        };
        times.iter().map(message).collect()
    }

    fn spread(times: &[Option<i64>], until: Option<i64>) -> Vec<Option<Moment>> {
        let mut messages = messages(times);
        spread_times(&mut messages, None, until);
        messages.into_iter().map(|message| message.at).collect()
    }

    #[test]
    fn missing_times_are_spread_between_the_recorded_ones() {
        let (recorded, between) = (Moment::recorded, Moment::interpolated);
        assert_eq!(
            spread(&[None, Some(100), None, None, Some(400), None], Some(600)),
            [
                None,
                Some(recorded(100)),
                Some(between(200)),
                Some(between(300)),
                Some(recorded(400)),
                Some(between(500))
            ]
        );
        assert_eq!(spread(&[Some(100), None], None), [Some(recorded(100)), None]);
        assert_eq!(spread(&[Some(100), None], Some(50)), [Some(recorded(100)), Some(between(100))]);
        assert_eq!(spread(&[None], Some(50)), [None]);
    }

    proptest! {
        #[test]
        fn no_times_make_it_fail(times: Vec<Option<i64>>, until: Option<i64>) {
            let spread = spread(&times, until);
            for (before, after) in times.iter().zip(spread) {
                prop_assert!(before.is_none_or(|before| after == Some(Moment::recorded(before))));
            }
        }
    }
}
