//! SDK conversations: `index.db` with runs and events, or NDJSON files.
//!
//! ```text
//! index.db ─ agents ─ runs ─ run_events ──► RunStory: pieces joined, one call out of many events
//!     │                                         │
//!     └─ agents/agent-<sha256>/store.db ──► Exchange: prompts and results that the events lack
//!                                               │
//!        ../../agent-transcripts ───────────────┴──► Conversation: a turn for every run
//! ```

mod account;
mod discovery;
mod heads;
mod history;
#[cfg(test)]
mod own_database_tests;
mod raw;
#[cfg(test)]
mod real_sdk_tests;
mod records;
mod search;
mod store;
#[cfg(test)]
mod store_damage_tests;
#[cfg(test)]
mod store_tests;
#[cfg(test)]
mod test_home;

pub(crate) use discovery::discover;

/// Each line is decoded as the payload of an event, as a row and as a document.
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz_lines(bytes: &[u8]) {
    use records::{Agent, Event, Payload, Run};
    let lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    for line in &lines {
        if let Ok(serde_json::Value::Object(fields)) = crate::lenient_json::parse(line) {
            drop((Agent::from_row(&fields), Agent::from_document(&fields)));
            drop((Run::from_row(&fields), Run::from_document(&fields)));
        }
    }
    let event = |(seq, line): (i64, &&[u8])| {
        let payload = Payload::Json(line.to_vec());
        Event { seq, kind: String::new(), at: None, payload }
    };
    let events = (0..).zip(&lines).map(event).collect();
    drop(history::run_story::RunStory::of(&Run::default(), events, &|_| None));
}
