//! The decoders by themselves, for fuzzing them: built only with the feature `fuzzing`, which only the targets ask for.
//!
//! A whole home takes milliseconds to write and to read; a value takes none, so that these get a thousand times as far.

use crate::search::{Case, Matcher, Pattern, search_bytes, search_json};
use crate::{
    chat, editor_text, export, ide, ide_old, lenient_json, mending, prompt_time, raw_record, sdk,
    transcript, user_text, workspace_json,
};

/// One decoder, or a few that are given the same.
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
    mending::fuzz_page,
];

/// Has one of them decode anything. None may panic, hang or take the memory that there is.
pub fn decode(which: u8, bytes: &[u8]) {
    DECODERS[usize::from(which) % DECODERS.len()](bytes);
}

/// What stands inside of values.
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
