//! Arbitrary blobs in a chat's store: as its root, as what the root refers to, as its meta row.

#![no_main]

mod every_reading;

use libfuzzer_sys::fuzz_target;
use store_fixtures::Closing;
use store_fixtures::chat::StoreWriter;

fuzz_target!(|input: (Vec<u8>, Vec<Vec<u8>>, bool)| {
    let (root, blobs, is_linked) = input;
    let home = tempfile::tempdir().expect("a directory");
    let id = "5f1c3a52-0a7e-4d9f-8f6e-0d3f3c1b2a10";
    let mut store = StoreWriter::create(&home.path().join("chats/0123456789abcdef0123456789abcdef").join(id), id, 0);
    let mut bytes = root;
    for (number, blob) in blobs.iter().take(8).enumerate() {
        let blob_id = store.put(blob);
        if is_linked {
            // Messages, turns of both kinds, archives: by their numbers.
            bytes.extend([[0x0a, 0x20], [0x12, 0x20], [0x42, 0x20], [0x6a, 0x20]][number % 4]);
            bytes.extend(blob_id);
        }
    }
    let root = store.put(&bytes);
    store.set_meta("latestRootBlobId", root.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
    store.put_meta(store_fixtures::chat::MetaForm::Hex);
    store.close(Closing::Clean);
    every_reading::read_everything(home.path());
});
