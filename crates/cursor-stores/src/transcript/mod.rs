//! Transcripts: `agent-transcripts` in all its layouts.
//!
//! ```text
//! files ──► peek ──► Head                 both ends of a file: a list of thousands
//!       ──► lines ──► json_line ─┐
//!       ──► speeches ► text_form ┴► body ──► Conversation
//!       ──► scan                          the matches, a line at a time, also in sidecars
//! ```
//!
//! A file's name identifies its conversation. If several files have the same name, the best one gets it as its key, and
//! the others get their path below `projects`.

mod body;
#[cfg(test)]
mod damage_tests;
mod files;
mod json_line;
mod peek;
mod scan;
#[cfg(test)]
mod scan_tests;
mod sidecars;
mod speeches;
mod store;
#[cfg(test)]
mod store_tests;
#[cfg(test)]
mod test_home;
mod text_form;
mod workspace;

use std::fs;

pub(crate) use json_line::decode_block;

use crate::StorePlaces;
use crate::model::StoreKind;
use crate::store::{Discovered, SkippedPlace};

pub(crate) fn discover(places: &StorePlaces) -> Vec<Discovered> {
    let look = |root: &std::path::PathBuf| match fs::metadata(root) {
        Ok(metadata) if metadata.is_dir() => {
            Some(Discovered::Store(Box::new(store::TranscriptStore::new(root.clone()))))
        }
        Ok(_) => Some(Discovered::Skipped(SkippedPlace {
            store: StoreKind::Transcript,
            path: root.as_path().into(),
            why: "is not a directory".to_owned(),
        })),
        Err(_) => None,
    };
    places.projects.iter().filter_map(look).collect()
}

/// Decodes the bytes as a transcript, first in the JSON form and then in the text form.
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz_lines(bytes: &[u8]) {
    let mut lines = crate::lines::LineReader::new(bytes);
    while let Ok(Some(line)) = lines.next() {
        if let crate::lines::Line::Whole { bytes, .. } = line {
            drop(json_line::decode_line(bytes));
        }
    }
    let mut speeches = speeches::Speeches::new(crate::lines::LineReader::new(bytes));
    while let Ok(Some(speech)) = speeches.next() {
        drop(text_form::decode_speech(speech.speaker, &speech.body));
    }
}
