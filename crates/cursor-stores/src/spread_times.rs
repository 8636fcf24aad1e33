//! Times of messages between those that are recorded.

use crate::model::{Message, Moment};

/// Gives every message after a recorded time one of its own, spread evenly up to the next recorded time, or up to
/// `until` after the last. Before the first recorded time nothing is known.
pub(crate) fn spread_times(messages: &mut [Message], until: Option<Moment>) {
    let mut start = None;
    for number in 0..=messages.len() {
        let known = match messages.get(number) {
            Some(message) => message.at,
            None => until,
        };
        let Some(known) = known else { continue };
        if let Some((first, first_ms)) = start {
            spread_between(messages, (first, first_ms), (number, known.at_ms));
        }
        start = Some((number, known.at_ms));
    }
}

fn spread_between(messages: &mut [Message], first: (usize, i64), next: (usize, i64)) {
    let n_steps = (next.0 - first.0) as i64;
    // Files that were copied, and clocks that were set, may run backwards.
    let span = next.1.saturating_sub(first.1).max(0);
    for (message, step) in messages[first.0 + 1..next.0].iter_mut().zip(1..) {
        // Divided first: a hostile time times the number of messages is too large.
        let passed = span / n_steps * step + span % n_steps * step / n_steps;
        message.at = Some(Moment::interpolated(first.1.saturating_add(passed)));
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
        spread_times(&mut messages, until.map(Moment::of_file));
        messages.into_iter().map(|message| message.at).collect()
    }

    #[test]
    fn times_are_spread_between_what_is_recorded() {
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
