//! Bundles with changed headers and blobs but a correct hash, imported into an empty home and into one that already has
//! the session.

#![no_main]

mod changed_copy;
mod every_reading;

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use changed_copy::{Change, change};
use cursor_stores::session_copy::{BundleOrigin, BundleReader, MachinePaths, NewSession, import, write_bundle};
use libfuzzer_sys::fuzz_target;
use sha2::{Digest, Sha256};
use store_fixtures::Closing;
use store_fixtures::chat::{Call, Chat, Generation, Step, Turn};

const ID: &str = "5f1c3a52-0a7e-4d9f-8f6e-0d3f3c1b2a10";
const N_HASH_BYTES: usize = 32;

fn bundled() -> &'static [u8] {
    static BUNDLE: OnceLock<Vec<u8>> = OnceLock::new();
    BUNDLE.get_or_init(|| {
        let home = tempfile::tempdir().expect("a directory");
        let steps = vec![Step::Call(Call::shell("call_1", "ls", "a b")), Step::Text("done".to_owned())];
        let turns = vec![Turn::Agent { prompt: "hello".to_owned(), steps }];
        let chat = Chat::new(Generation::Sep2026, ID).with_turns(turns).write_cli(home.path(), Closing::Clean);
        let origin = BundleOrigin { program: "fuzz".to_owned(), store: "cli".to_owned(), bundled_at_ms: 0 };
        let paths = MachinePaths::new(Some("/home/u/project"), &["/home/u"]);
        let (bytes, _) = write_bundle(&chat.join("store.db"), ID, &origin, &paths, || Ok(Vec::new())).expect("a bundle");
        bytes
    })
}

fuzz_target!(|input: (Vec<Change>, bool, bool)| {
    let (changes, is_signed, is_known) = input;
    let whole = bundled();
    let mut bytes = whole.to_vec();
    if is_signed {
        bytes.truncate(bytes.len() - N_HASH_BYTES);
    }
    for one in changes.iter().take(8) {
        // Half of the changes go to the header, which is only a small part of the bundle.
        let n_header = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(0);
        if one.0 % 2 == 0 {
            change(&mut bytes, one);
        } else {
            let rest = bytes.split_off(n_header);
            change(&mut bytes, one);
            bytes.extend(rest);
        }
    }
    if is_signed {
        bytes.extend(Sha256::digest(&bytes));
    }
    let home = tempfile::tempdir().expect("a directory");
    if is_known {
        take(home.path(), whole);
    }
    take(home.path(), &bytes);
    // The import leaves nothing half-made, so everything in the home is readable.
    every_reading::read_everything(home.path());
});

fn take(home: &Path, bundle: &[u8]) {
    let path = home.join("bundle");
    fs::write(&path, bundle).expect("a file");
    let target = NewSession {
        chats: home.join("chats"),
        bucket: "0123456789abcdef0123456789abcdef".to_owned(),
        id: ID.to_owned(),
        workspace: "/srv".to_owned(),
        now_ms: 1_790_000_000_000,
    };
    fs::create_dir_all(&target.chats).expect("a directory");
    if let Ok(mut reader) = BundleReader::open(&path) {
        import(&mut reader, &target).ok();
    }
}
