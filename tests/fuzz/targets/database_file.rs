//! Database files with changed bytes (pages, headers, logs), read by SQLite and by our own reader.

#![no_main]

mod changed_copy;
mod every_reading;

use std::sync::OnceLock;

use changed_copy::{Change, change_file, copy};
use libfuzzer_sys::fuzz_target;
use store_fixtures::Closing;
use store_fixtures::chat::{Chat, Generation, Turn};
use store_fixtures::ide::{IdeHome, assistant_bubble, composer, header, user_bubble};
use tempfile::TempDir;

const ID: &str = "5f1c3a52-0a7e-4d9f-8f6e-0d3f3c1b2a10";

fn templates() -> &'static [(TempDir, Vec<String>)] {
    static TEMPLATES: OnceLock<Vec<(TempDir, Vec<String>)>> = OnceLock::new();
    TEMPLATES.get_or_init(|| {
        let mut templates = Vec::new();
        for closing in [Closing::Clean, Closing::Killed] {
            let suffixes: &[&str] = if closing == Closing::Clean { &[""] } else { &["", "-wal", "-shm"] };
            let home = tempfile::tempdir().expect("a directory");
            // This generation has no `meta.json`, so a list must read the database page itself.
            let chat = Chat::new(Generation::Feb2026, ID).with_turns(vec![Turn::plain("hello", "there")]);
            let directory = chat.write_cli(&home.path().join("chats"), closing);
            let name = directory.strip_prefix(home.path()).expect("inside").join("store.db");
            let files = suffixes.iter().map(|suffix| format!("{}{suffix}", name.display())).collect();
            templates.push((home, files));

            let home = tempfile::tempdir().expect("a directory");
            let ide = IdeHome::new(&home.path().join("User"));
            let bubbles = [user_bubble("b0", "hello"), assistant_bubble("b1", "there")];
            let headers: Vec<_> = bubbles.iter().map(header).collect();
            ide.put_conversation(&composer(ID, 16, &headers), &bubbles);
            ide.close(closing);
            let name = "User/globalStorage/state.vscdb";
            templates.push((home, suffixes.iter().map(|suffix| format!("{name}{suffix}")).collect()));
        }
        templates
    })
}

fuzz_target!(|input: (u8, Vec<Change>)| {
    let (which, changes) = input;
    let templates = templates();
    let (template, files) = &templates[usize::from(which) % templates.len()];
    let home = copy(template.path());
    for (number, name) in files.iter().enumerate() {
        let meant: Vec<Change> =
            changes.iter().filter(|change| usize::from(change.0) % files.len() == number).take(6).cloned().collect();
        change_file(&home.path().join(name), &meant);
    }
    every_reading::read_everything(home.path());
});
