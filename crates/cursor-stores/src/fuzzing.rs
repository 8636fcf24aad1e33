//! Single decoders, for the fuzz targets. Built only with the feature `fuzzing`.
//!
//! A whole home directory takes milliseconds to write and read. A single value takes almost no time, so these targets
//! try a thousand times as many inputs.

use crate::database::salvage;
use crate::search::{Case, Matcher, Pattern, search_bytes, search_json};
use crate::text::{editor_text, prompt_time, user_text};
use crate::{
    chat, export, ide, ide_old, lenient_json, raw_record, sdk, transcript, workspace_json,
};

/// One decoder, or a few that take the same input.
type Decoder = fn(&[u8]);

const DECODERS: [Decoder; 10] = [
    chat::fuzz_message,
    chat::fuzz_blob,
    chat::fuzz_meta,
    ide::fuzz_row,
    ide_old::fuzz_row,
    sdk::fuzz_lines,
    transcript::fuzz_lines,
    export::fuzz_file,
    texts,
    salvage::fuzz_page,
];

/// Runs one decoder. No input may make it panic, hang or run out of memory.
pub fn decode(which: u8, bytes: &[u8]) {
    DECODERS[usize::from(which) % DECODERS.len()](bytes);
}

/// The decoders for text inside values.
fn texts(bytes: &[u8]) {
    drop(raw_record::RawContent::of_bytes(bytes));
    let text = String::from_utf8_lossy(bytes);
    drop(user_text::split_user_text(&text));
    prompt_time::parse_prompt_time(&text);
    workspace_json::workspace_of_uri(&text);
    if let Ok(json) = lenient_json::parse(bytes) {
        editor_text::text_of_editor(&json);
        workspace_json::workspace_of_json(&json);
    }
    for pattern in [Pattern::Words(&text), Pattern::Phrase(&text), Pattern::Regex(&text)] {
        if let Ok(matcher) = Matcher::new(pattern, Case::Ignored) {
            drop(search_json(&matcher, bytes));
            drop(search_bytes(&matcher, "", bytes));
        }
    }
}
