use std::fs;
use std::path::Path;

use pretty_assertions::assert_eq;
use store_fixtures::chat::{Generation, Turn};

use super::*;
use crate::chat::LatestRoot;
use crate::session_copy::bundle::header::tests::bundle;
use crate::session_copy::test_sessions::*;
use crate::session_copy::verify_store;
use crate::test_store::picture_of;

fn import_into(chats: &Chats, file: &Path) -> Result<Imported, ImportError> {
    import(&mut BundleReader::open(file)?, &chats.new_session(ID))
}

/// Two bundles of the rich chat: one with its first turns, one with more turns.
fn bundle_of(n_turns: usize, more: &[Turn]) -> (Chats, PathBuf) {
    let chats = Chats::new();
    let mut chat = rich_chat(Generation::Sep2026);
    chat.turns.truncate(n_turns);
    chat.turns.extend_from_slice(more);
    let directory = chats.write(&chat);
    let file = chats.path().with_file_name("bundle");
    bundle(&directory, &file);
    (chats, file)
}

#[test]
fn a_newer_bundle_adds_missing_blobs_and_an_older_one_changes_nothing() {
    let ((_one, older), (newer_chats, newer)) = (bundle_of(2, &[]), bundle_of(3, &[]));
    let here = Chats::new();
    import_into(&here, &older).unwrap();
    let n_before = here.names().len();
    let imported = import_into(&here, &newer).unwrap();
    let Imported::Extended { directory, root, n_added_blobs, .. } = imported else {
        panic!("{imported:?}")
    };
    assert!(n_added_blobs > 0);
    assert_eq!(here.names().len(), n_before, "no log or staging directory is left");
    assert_same_talk(&here.read(ID), &newer_chats.read(ID));
    assert_eq!(meta_of(&directory).latest_root(), LatestRoot::Blob(root));
    let before = picture_of(&directory);
    assert!(matches!(import_into(&here, &older), Ok(Imported::NothingNew { .. })));
    assert!(matches!(import_into(&here, &newer), Ok(Imported::NothingNew { .. })));
    assert_eq!(picture_of(&directory), before);
    // Roots from the first bundle are orphans now. Everything else is in use.
    assert_eq!(verify_store(&directory.join("store.db"), &[]).unwrap().findings, []);
}

#[test]
fn only_missing_blobs_are_added() {
    let ((_one, older), (_other, newer)) = (bundle_of(2, &[]), bundle_of(3, &[]));
    let here = Chats::new();
    let Ok(Imported::Placed { n_blobs, .. }) = import_into(&here, &older) else { panic!() };
    let Ok(Imported::Extended { n_added_blobs, .. }) = import_into(&here, &newer) else { panic!() };
    let all = BundleReader::open(&newer).unwrap().header().n_blobs;
    assert!(n_added_blobs < all && n_added_blobs + n_blobs >= all, "{n_added_blobs} of {all}");
}

#[test]
fn a_diverged_session_is_not_overwritten() {
    let one = bundle_of(2, &[Turn::plain("Now left.", "Left.")]);
    let other = bundle_of(2, &[Turn::plain("Now right.", "Right.")]);
    let here = Chats::new();
    let Ok(Imported::Placed { directory, .. }) = import_into(&here, &one.1) else { panic!() };
    let before = picture_of(&directory);
    let err = import_into(&here, &other.1).unwrap_err();
    assert!(matches!(err, ImportError::Diverged { .. }), "{err:?}");
    assert_eq!(picture_of(&directory), before);
    assert_same_talk(&here.read(ID), &one.0.read(ID));
}

#[test]
fn a_session_with_a_writer_is_not_touched() {
    let ((_one, older), (_other, newer)) = (bundle_of(2, &[]), bundle_of(3, &[]));
    let here = Chats::new();
    let Ok(Imported::Placed { directory, .. }) = import_into(&here, &older) else { panic!() };
    let before = picture_of(&directory);
    let writer = OtherWriter::of(&directory.join("store.db"));
    assert!(matches!(import_into(&here, &newer), Err(ImportError::InUse)));
    assert_eq!(picture_of(&directory), before);
    drop(writer);
    assert!(matches!(import_into(&here, &newer), Ok(Imported::Extended { .. })));
}

#[test]
fn a_session_without_a_root_is_not_extended() {
    let (_first, file) = bundle_of(2, &[]);
    let here = Chats::new();
    let Ok(Imported::Placed { directory, .. }) = import_into(&here, &file) else { panic!() };
    forget_root(&directory);
    let err = import_into(&here, &file).unwrap_err();
    assert!(matches!(err, ImportError::Incomparable(CopyError::NoRoot)), "{err:?}");
}

#[test]
fn an_import_fills_an_empty_session_directory_but_not_one_with_other_files() {
    let (first, file) = bundle_of(2, &[]);
    let here = Chats::new();
    let directory = here.new_session(ID).directory();
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("meta.json"), "{}").unwrap();
    fs::write(directory.join("notes"), "mine").unwrap();
    let err = import_into(&here, &file).unwrap_err();
    assert!(matches!(err, ImportError::Place { .. }), "{err:?}");
    fs::remove_file(directory.join("notes")).unwrap();
    assert!(matches!(import_into(&here, &file), Ok(Imported::Placed { .. })));
    assert_same_talk(&here.read(ID), &first.read(ID));
    assert_eq!(here.names().len(), 4, "the bucket, the session and its two files");
}

#[test]
fn a_bundle_that_lacks_a_prompt_message_is_refused() {
    let chats = Chats::new();
    let directory = chats.write(&rich_chat(Generation::Sep2026));
    let file = chats.path().with_file_name("bundle");
    bundle(&directory, &file);
    // The bundle without its first JSON blob, with a correct header and hash.
    let mut reader = BundleReader::open(&file).unwrap();
    let mut header = reader.header().clone();
    let mut kept: Vec<Vec<u8>> = Vec::new();
    let mut is_dropped = false;
    reader
        .visit_all::<ReadBundleError>(|_, data| {
            if !is_dropped && data.starts_with(b"{") {
                is_dropped = true;
            } else {
                kept.push(data.to_vec());
            }
            Ok(())
        })
        .unwrap();
    header.n_blobs = kept.len() as u64;
    header.n_bytes = kept.iter().map(|data| data.len() as u64).sum();
    let mut bytes = serde_json::to_vec(&header).unwrap();
    bytes.push(b'\n');
    for data in kept {
        bytes.extend((data.len() as u64).to_le_bytes());
        bytes.extend(data);
    }
    bytes.extend(BlobId::of(&bytes).as_bytes().to_vec());
    fs::write(&file, bytes).unwrap();
    let here = Chats::new();
    let err = import_into(&here, &file).unwrap_err();
    assert!(matches!(err, ImportError::NotWhole(CopyError::PromptDamaged { .. })), "{err:?}");
    assert_eq!(here.names(), [] as [PathBuf; 0]);
}
