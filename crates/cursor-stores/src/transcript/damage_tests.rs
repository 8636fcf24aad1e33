use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use pretty_assertions::assert_eq;
use store_fixtures::transcript::{Layout, TranscriptProject, every_line};

use super::test_home::{Home, ID, make_old, search, small};
use crate::store::{ConversationStore, Extent, ReadConversationError};

#[test]
fn a_file_that_is_not_plain_is_reported_and_does_not_hang_the_reader() {
    let home = Home::new();
    let good = home.write(Layout::Flat, "good", &small());
    let transcripts = good.parent().unwrap().to_owned();
    let fifo = transcripts.join("fifo.jsonl");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    symlink(&good, transcripts.join("link.jsonl")).unwrap();
    fs::create_dir_all(transcripts.join("directory/directory.jsonl")).unwrap();
    let outside = tempfile::tempdir().unwrap();
    TranscriptProject::new(outside.path(), "elsewhere").transcript(
        Layout::Flat,
        "outside",
        &small(),
    );
    symlink(outside.path().join("elsewhere"), home.directory.path().join("linked")).unwrap();
    let sparse = transcripts.join("sparse.jsonl");
    File::create(&sparse).unwrap().set_len(20 << 30).unwrap();
    make_old(&sparse);

    let listing = home.store().list();
    let ids: Vec<&str> = listing.heads.iter().map(|head| head.id.as_str()).collect();
    assert_eq!(ids, ["good", "sparse"]);
    let mut places: Vec<&str> =
        listing.damage.iter().map(|damage| damage.place.rsplit('/').next().unwrap()).collect();
    places.sort_unstable();
    assert_eq!(places, ["fifo", "link", "linked", "sparse"]);

    let (hits, damage) = search(&home.store(), "done");
    assert_eq!(hits.iter().map(|hit| hit.key.as_str()).collect::<Vec<_>>(), ["good"]);
    assert_eq!(damage.len(), 4);
    for key in ["fifo", "link", "sparse"] {
        let read = home.store().read(key, Extent::default());
        assert!(matches!(read, Err(ReadConversationError::Unreadable { .. })), "{key}");
    }
    let end = Extent { last: Some(3), ..Extent::default() };
    assert_eq!(home.store().read("sparse", end).unwrap().messages, []);
    for key in [
        "../good",
        "srv-app/../srv-app/agent-transcripts/good.jsonl",
        "linked/agent-transcripts/outside.jsonl",
        "",
        ".",
    ] {
        let read = home.store().read(key, Extent::default());
        assert!(matches!(read, Err(ReadConversationError::Missing(_))), "{key}");
    }
}

#[test]
fn a_file_cut_or_flipped_anywhere_is_read_as_far_as_possible() {
    let home = Home::new();
    let path = home.write(Layout::Nested, ID, &every_line(&mut str::to_owned));
    let whole = fs::read(&path).unwrap();
    let n_messages = home.read(ID).messages.len();
    for at in 0..whole.len() {
        fs::write(&path, &whole[..at]).unwrap();
        assert!(home.read(ID).messages.len() <= n_messages);
        let mut flipped = whole.clone();
        flipped[at] ^= 0x81;
        fs::write(&path, &flipped).unwrap();
        // A flipped bit may break one line, or join two.
        assert!(home.read(ID).messages.len() + 2 >= n_messages);
        if at % 50 == 0 {
            assert_eq!(home.store().list().heads.len(), 1);
            search(&home.store(), "tool");
        }
    }
}

#[test]
fn reading_changes_nothing() {
    let home = Home::new();
    let path = home.write(Layout::Nested, ID, &every_line(&mut str::to_owned));
    home.write(Layout::Text, "old", &small());
    home.project.tool_output("out", "x");
    let picture = || {
        let of = |path: &Path| {
            let metadata = fs::metadata(path).unwrap();
            (
                metadata.ino(),
                metadata.size(),
                metadata.mtime(),
                metadata.mtime_nsec(),
                metadata.ctime_nsec(),
            )
        };
        let mut paths = home.store().watched(None);
        paths.push(path.clone());
        paths.sort();
        paths.iter().map(|path| (path.clone(), of(path))).collect::<Vec<_>>()
    };
    let before = picture();
    let store = home.store();
    let mut heads = store.list().heads;
    heads.iter_mut().for_each(|head| store.complete(head));
    home.read(ID);
    home.read("old");
    home.search("tool");
    store.account();
    assert_eq!(picture(), before);
}
