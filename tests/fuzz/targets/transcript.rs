//! Transcripts of all forms with changed bytes, arbitrary transcripts, and the files next to them that name their owner.

#![no_main]

mod changed_copy;
mod every_reading;

use std::fs;
use std::sync::OnceLock;

use changed_copy::{Change, change_file, copy};
use libfuzzer_sys::fuzz_target;
use store_fixtures::transcript::{Layout, TranscriptProject, every_line};
use tempfile::TempDir;

const FILES: [&str; 5] = [
    "agent-transcripts/nested/nested.jsonl",
    "agent-transcripts/flat.jsonl",
    "agent-transcripts/text.txt",
    "agent-transcripts/nested/subagents/child.jsonl",
    "worker.log",
];

fn template() -> &'static TempDir {
    static TEMPLATE: OnceLock<TempDir> = OnceLock::new();
    TEMPLATE.get_or_init(|| {
        let home = tempfile::tempdir().expect("a directory");
        let project = TranscriptProject::new(&home.path().join("projects"), "srv-app");
        project.trust("/srv/app");
        project.worker_log("/srv/app");
        let lines = every_line(&mut |field| format!("planted {field}"));
        for (layout, id) in [
            (Layout::Nested, "nested"),
            (Layout::Flat, "flat"),
            (Layout::Text, "text"),
            (Layout::Subagent { parent: "nested" }, "child"),
        ] {
            project.transcript(layout, id, &lines);
        }
        home
    })
}

fuzz_target!(|input: (Vec<Change>, &[u8])| {
    let (changes, anything) = input;
    let home = copy(template().path());
    let project = home.path().join("projects/srv-app");
    for (number, name) in FILES.iter().enumerate() {
        let meant: Vec<Change> =
            changes.iter().filter(|change| usize::from(change.0) % FILES.len() == number).take(4).cloned().collect();
        change_file(&project.join(name), &meant);
    }
    if !anything.is_empty() {
        let transcripts = project.join("agent-transcripts");
        fs::write(transcripts.join("a.jsonl"), anything).expect("a file");
        fs::write(transcripts.join("b.txt"), anything).expect("a file");
    }
    every_reading::read_everything(home.path());
});
