//! Conversations of the SDK: `index.db` with runs and events, or its files of lines.
//!
//! ```text
//! index.db ─ agents ─ runs ─ run_events ──► RunStory: pieces joined, one call out of many events
//!     │                                         │
//!     └─ agents/agent-<sha256>/store.db ──► Exchange: prompts and results that the events lack
//!                                               │
//!        ../../agent-transcripts ───────────────┴──► Conversation: a turn for every run
//! ```

mod account;
mod agent_blobs;
mod checkpoint;
mod conversation;
mod discovery;
mod fields;
mod heads;
mod index_db;
mod line_files;
mod outcome;
#[cfg(test)]
mod own_database_tests;
mod raw;
#[cfg(test)]
mod real_sdk_tests;
mod records;
mod row_query;
mod run_story;
mod search;
mod search_store;
#[cfg(test)]
mod search_tests;
mod store;
#[cfg(test)]
mod store_damage_tests;
#[cfg(test)]
mod store_tests;
#[cfg(test)]
mod test_home;
mod tool_event;
mod transcript_exchanges;
mod unreached;

pub(crate) use discovery::discover;
use store::SdkStore;

/// Lines: each the payload of an event, a row and a document.
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
    drop(run_story::RunStory::of(&Run::default(), events, &|_| None));
}
