//! A reader's position in all runs, encoded as a short opaque string.
//!
//! Runs have no common order, so the position has a place in each run. It keeps the runs that have not ended, and those
//! whose journal changed within the last minute. The reader has all events of all other runs.

use std::collections::BTreeMap;

use run_journal::EventNumber;
use run_protocol::RunId;

/// How long an ended run stays in the cursor after the last change to its journal.
pub(super) const KEPT_MS: u64 = 60_000;

/// The reader's place in one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// The reader has all events up to this one.
    After(EventNumber),
    /// The reader has no event.
    Start,
    /// The reader has all events, and the run has ended.
    Done,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Cursor {
    /// When the cursor was made.
    pub(super) at_ms: u64,
    pub(super) places: BTreeMap<RunId, Place>,
}

impl Cursor {
    pub(super) fn encode(&self) -> String {
        let mut text = format!("1.{:x}", self.at_ms);
        for (run, place) in &self.places {
            let id = run.to_string().replace('-', "");
            text.push('.');
            text.push_str(&id);
            match place {
                Place::Start => text.push('s'),
                Place::Done => text.push('d'),
                Place::After(EventNumber { epoch: EventNumber::FIRST_EPOCH, seq }) => {
                    text.push_str(&format!("a{seq:x}"));
                }
                Place::After(EventNumber { epoch, seq }) => {
                    text.push_str(&format!("e{epoch:x}-{seq:x}"));
                }
            }
        }
        text
    }

    pub(super) fn decode(text: &str) -> Option<Self> {
        let mut pieces = text.split('.');
        if pieces.next() != Some("1") {
            return None;
        }
        let at_ms = u64::from_str_radix(pieces.next()?, 16).ok()?;
        let places = pieces.map(decode_place).collect::<Option<_>>()?;
        Some(Self { at_ms, places })
    }
}

fn decode_place(piece: &str) -> Option<(RunId, Place)> {
    if !piece.is_ascii() || piece.len() < 33 {
        return None;
    }
    let (id, place) = piece.split_at(32);
    let run = [&id[..8], &id[8..12], &id[12..16], &id[16..20], &id[20..]].join("-").parse().ok()?;
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let place = match place.split_at(1) {
        ("s", "") => Place::Start,
        ("d", "") => Place::Done,
        ("a", seq) => Place::After(EventNumber { epoch: EventNumber::FIRST_EPOCH, seq: hex(seq)? }),
        ("e", number) => {
            let (epoch, seq) = number.split_once('-')?;
            let epoch = u32::try_from(hex(epoch)?).ok()?;
            Place::After(EventNumber { epoch, seq: hex(seq)? })
        }
        _ => return None,
    };
    Some((run, place))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_cursor_is_read_back_and_nonsense_is_rejected() {
        let places = [
            Place::Start,
            Place::Done,
            Place::After(EventNumber { epoch: 1, seq: 300 }),
            Place::After(EventNumber { epoch: 3, seq: 17 }),
        ];
        let places = places.into_iter().map(|place| (RunId::generate(), place)).collect();
        let cursor = Cursor { at_ms: 1_790_000_000_123, places };
        assert_eq!(Cursor::decode(&cursor.encode()), Some(cursor));
        assert_eq!(Cursor::decode("1.0"), Some(Cursor::default()));
        for text in [
            "",
            "1",
            "2.0",
            "1.x",
            "1.0.",
            "1.0.abc",
            "1.0.é",
            "1.0.0191d0f600007000800000000000000q",
        ] {
            assert_eq!(Cursor::decode(text), None, "{text}");
        }
    }
}
