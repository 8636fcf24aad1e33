//! Arbitrary bytes as transcripts of both forms, and as an exported file.

#![no_main]

mod every_reading;

use std::fs;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let home = tempfile::tempdir().expect("a directory");
    let transcripts = home.path().join("projects/srv/agent-transcripts");
    fs::create_dir_all(&transcripts).expect("directories");
    fs::write(transcripts.join("a.jsonl"), bytes).expect("a file");
    fs::write(transcripts.join("b.txt"), bytes).expect("a file");
    every_reading::read_everything(home.path());
});
