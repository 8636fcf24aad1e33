//! Exported files (one JSON object, or one line per message) with changed bytes, and arbitrary files.

#![no_main]

mod changed_copy;
mod every_reading;

use std::fs;

use changed_copy::{Change, change};
use cursor_stores::{write_json, write_jsonl};
use libfuzzer_sys::fuzz_target;
use store_fixtures::conversation::rich;

fuzz_target!(|input: (Vec<Change>, &[u8])| {
    let (changes, anything) = input;
    let mut json = Vec::new();
    write_json(&rich(), &mut json).expect("in memory");
    let mut jsonl = Vec::new();
    write_jsonl(rich(), &mut jsonl).expect("in memory");
    for one in changes.iter().take(8) {
        change(if one.0 % 2 == 0 { &mut json } else { &mut jsonl }, one);
    }
    let home = tempfile::tempdir().expect("a directory");
    let exports = home.path().join("exports");
    fs::create_dir(&exports).expect("a directory");
    fs::write(exports.join("a.json"), json).expect("a file");
    fs::write(exports.join("b.jsonl"), jsonl).expect("a file");
    fs::write(exports.join("c.json"), anything).expect("a file");
    fs::write(exports.join("d.jsonl"), anything).expect("a file");
    every_reading::read_everything(home.path());
});
