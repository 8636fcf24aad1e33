//! Stores of the command-line agent with changed blobs, roots and meta rows, and with arbitrary blobs.

#![no_main]

mod changed_copy;
mod every_reading;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use changed_copy::{Change, change_rows, copy};
use cursor_stores::chat::{ChatStore, check_store};
use cursor_stores::session_copy::verify_store;
use libfuzzer_sys::fuzz_target;
use store_fixtures::Closing;
use store_fixtures::chat::{Call, Chat, Generation, MetaForm, Planted, Step, StoreWriter, Turn, planted_chat};
use tempfile::TempDir;

const ID: &str = "5f1c3a52-0a7e-4d9f-8f6e-0d3f3c1b2a10";

/// A home for each generation, and one that has everything.
fn templates() -> &'static [(TempDir, PathBuf)] {
    static TEMPLATES: OnceLock<Vec<(TempDir, PathBuf)>> = OnceLock::new();
    TEMPLATES.get_or_init(|| {
        let generations = [Generation::Aug2025, Generation::Feb2026, Generation::Jul2026, Generation::Sep2026];
        let mut homes: Vec<(TempDir, PathBuf)> = generations
            .into_iter()
            .map(|generation| {
                home(&|chats| {
                    let steps = vec![
                        Step::Thinking("planted".to_owned()),
                        Step::Call(Call::shell("call_1", "ls", "a b")),
                        Step::Text("done".to_owned()),
                    ];
                    let turns = vec![Turn::Agent { prompt: "hello".to_owned(), steps }, Turn::plain("and", "so")];
                    Chat::new(generation, ID).with_turns(turns).write_cli(chats, Closing::Clean)
                })
            })
            .collect();
        homes.push(home(&|chats| planted_chat(chats, ID, &mut Planted::default())));
        homes
    })
}

fn home(write: &dyn Fn(&Path) -> PathBuf) -> (TempDir, PathBuf) {
    let home = tempfile::tempdir().expect("a directory");
    let directory = write(&home.path().join("chats"));
    let store = directory.strip_prefix(home.path()).expect("inside").join("store.db");
    (home, store)
}

fuzz_target!(|input: (u8, Vec<Change>, Vec<u8>, Vec<Vec<u8>>)| {
    let (which, changes, root, blobs) = input;
    let templates = templates();
    let (template, store) = &templates[usize::from(which) % templates.len()];
    let home = copy(template.path());
    let store = home.path().join(store);
    change_rows(&store, &[("blobs", "data"), ("blobs", "data"), ("meta", "value")], &changes[..changes.len().min(8)]);
    if !blobs.is_empty() {
        write_anything(home.path(), root, &blobs);
    }
    if let Ok(opened) = ChatStore::open_read_only(&store) {
        check_store(&opened).ok();
    }
    verify_store(&store, &[]).ok();
    every_reading::read_everything(home.path());
});

/// Writes a chat made only of the fuzzer's bytes.
fn write_anything(home: &Path, root: Vec<u8>, blobs: &[Vec<u8>]) {
    let id = "5f1c3a52-0a7e-4d9f-8f6e-0d3f3c1b2a11";
    let mut store = StoreWriter::create(&home.join("chats/0123456789abcdef0123456789abcdef").join(id), id, 0);
    let mut bytes = root;
    for (number, blob) in blobs.iter().take(8).enumerate() {
        let blob_id = store.put(blob);
        // Field tags: messages, both kinds of turn, archives, todos, a plan, a summary.
        bytes.extend([0x0a, 0x12, 0x42, 0x6a, 0x1a, 0x3a, 0x32][number % 7..][..1].iter().chain(&[0x20]));
        bytes.extend(blob_id);
    }
    let root = store.put(&bytes);
    store.set_meta("latestRootBlobId", root.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
    store.put_meta(MetaForm::Hex);
    store.close(Closing::Clean);
}
