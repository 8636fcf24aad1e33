use std::fs;

use pretty_assertions::assert_eq;
use store_fixtures::Closing;
use store_fixtures::chat::Generation;

use super::*;
use crate::chat::{Fetched, LatestRoot};
use crate::session_copy::test_sessions::*;
use crate::test_store::picture_of;

#[test]
fn only_blobs_that_nothing_names_are_dropped() {
    for generation in GENERATIONS {
        for closing in [Closing::Clean, Closing::Killed] {
            let chats = Chats::new();
            let directory = rich_chat(generation).write_cli(&chats.path(), closing);
            let (whole, meta) = (chats.read(ID), meta_of(&directory));
            let told = droppable(&directory.join("store.db"), &[]).unwrap();
            assert!(told.n_blobs > 0 && told.untouchable.is_none(), "{told:?}");
            let dropped = collect(&directory, &chats.path(), &[], Original::Dropped).unwrap();
            assert_eq!((dropped.n_blobs, dropped.n_bytes), (told.n_blobs, told.n_bytes));
            assert_same_talk(&chats.read(ID), &whole);
            assert!(meta_of(&directory) == meta, "neither the row nor its key changed");
            let after = droppable(&directory.join("store.db"), &[]).unwrap();
            assert_eq!((after.n_blobs, after.n_all_blobs), (0, told.n_all_blobs - told.n_blobs));
            assert!(!directory.join("store.db-wal").exists(), "the old log is gone");
        }
    }
}

#[test]
fn a_kept_checkpoint_stays_with_everything_it_leads_to() {
    let chats = Chats::new();
    let directory = chats.write(&rich_chat(Generation::Sep2026));
    let database = directory.join("store.db");
    let source = Source::open(&database).unwrap();
    let latest = source.meta().unwrap();
    let LatestRoot::Blob(latest) = latest.latest_root() else { panic!() };
    // An earlier checkpoint that nothing leads to, and that leads to messages.
    let reached = source.reach_from(&[latest]).unwrap();
    let is_checkpoint = |id: &BlobId| match source.fetch(*id).unwrap() {
        Fetched::Data(data) => data.starts_with(&[0x0a, 0x20]),
        _ => false,
    };
    let orphans = source.blobs.iter().map(|blob| blob.id).filter(|id| !reached.ids.contains(id));
    let earlier: Vec<BlobId> = orphans.filter(is_checkpoint).collect();
    let earlier = *earlier.last().unwrap();
    let wanted = source.reach_from(&[earlier]).unwrap().ids;
    drop(source);

    let all = droppable(&database, &[]).unwrap();
    let told = droppable(&database, &[earlier, BlobId::of(b"of another store")]).unwrap();
    assert!(told.n_blobs < all.n_blobs, "{told:?} {all:?}");
    let backup = chats.path().with_file_name("backup");
    let before = picture_of(&directory);
    collect(&directory, &chats.path(), &[earlier], Original::KeptIn(&backup)).unwrap();
    let source = Source::open(&database).unwrap();
    assert!(wanted.iter().all(|id| source.ids.contains(id)));
    assert_eq!(droppable(&database, &[earlier]).unwrap().n_blobs, 0);
    let kept = picture_of(&backup);
    for (name, file) in before.iter().filter(|(name, _)| *name != "store.db-shm") {
        assert_eq!(kept[name].content, file.content, "{name}");
    }
}

#[test]
fn a_damaged_store_or_one_in_use_is_left_unchanged() {
    let chats = Chats::new();
    let directory = chats.write(&rich_chat(Generation::Sep2026));
    let database = directory.join("store.db");
    let writer = OtherWriter::of(&database);
    let before = picture_of(&directory);
    assert_eq!(droppable(&database, &[]).unwrap().untouchable, Some(Untouchable::InUse));
    let err = collect(&directory, &chats.path(), &[], Original::Dropped).unwrap_err();
    assert!(matches!(err, CopyError::InUse), "{err:?}");
    assert_eq!(picture_of(&directory), before);
    drop(writer);

    forget_root(&directory);
    let before = picture_of(&directory);
    assert_eq!(droppable(&database, &[]).unwrap().untouchable, Some(Untouchable::Unsound));
    let err = collect(&directory, &chats.path(), &[], Original::Dropped).unwrap_err();
    assert!(matches!(err, CopyError::Unsound), "{err:?}");
    assert_eq!(picture_of(&directory), before);
}

#[test]
fn only_a_description_that_is_a_day_old_is_abandoned() {
    let directory = tempfile::tempdir().unwrap();
    let session = directory.path();
    let now = SystemTime::now();
    let tomorrow = now + ABANDONED_AFTER + Duration::from_secs(60);
    assert!(!is_abandoned_session(session, tomorrow), "an empty directory is not a session");
    fs::write(session.join("meta.json"), "{}").unwrap();
    assert!(!is_abandoned_session(session, now));
    assert!(is_abandoned_session(session, tomorrow));
    fs::write(session.join("store.db"), "").unwrap();
    assert!(!is_abandoned_session(session, tomorrow));
}
