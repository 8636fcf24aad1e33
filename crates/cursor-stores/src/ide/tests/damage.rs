//! Stores that are broken, special, locked or being written: no hang, no crash, no change, and the reader reads
//! everything that is intact.

use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::symlink;
use std::path::Path;

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use store_fixtures::Closing;
use store_fixtures::ide::{IdeHome, generate_large, user_bubble};

use super::{Home, ID, Stage, open, parts, texts};
use crate::model::{Activity, Head, Part};
use crate::search::{Case, Matcher, Pattern};
use crate::store::{ConversationStore, Discovered, Extent};
use crate::test_store::{cut_off_pages, picture_of};
use crate::{Catalogue, CatalogueListing, StoreDamage, StorePlaces};

fn exercise(store: &dyn ConversationStore) -> usize {
    let matcher = Matcher::new(Pattern::Words("needle"), Case::Smart).unwrap();
    let heads = store.list().heads;
    for mut head in heads.clone() {
        let _read = store.read(&head.id, Extent::default());
        store.complete(&mut head);
        let _stamp = store.stamp(&head.id);
    }
    let _damage = store.search(&matcher, &|_| ControlFlow::Continue(()));
    let _account = store.account();
    heads.len()
}

fn global(directory: &Path) -> std::path::PathBuf {
    directory.join("globalStorage").join("state.vscdb")
}

#[test]
fn reading_changes_nothing_whether_the_writer_is_gone_killed_or_at_work() {
    for closing in [Closing::Clean, Closing::Killed] {
        let stage = Stage::new();
        stage.say(ID, &[user_bubble("b0", "needle")]);
        stage.home.put_workspace("aa11", None, &[]);
        let Stage { directory, home } = stage;
        home.close(closing);
        let folder = directory.path().join("globalStorage");
        if closing == Closing::Killed {
            // Readers may change `-shm`.
            fs::remove_file(folder.join("state.vscdb-shm")).unwrap();
        }
        let before = picture_of(&folder);
        let workspace = picture_of(&directory.path().join("workspaceStorage/aa11"));
        let store = open(directory.path()).unwrap();
        assert_eq!(exercise(&*store), 1);
        let mut after = picture_of(&folder);
        after.retain(|name, _| closing == Closing::Clean || !name.ends_with("-shm"));
        assert_eq!(after, before);
        assert_eq!(picture_of(&directory.path().join("workspaceStorage/aa11")), workspace);
    }
    let stage = Stage::new();
    stage.say(ID, &[user_bubble("b0", "needle")]);
    let folder = stage.directory.path().join("globalStorage");
    let before = picture_of(&folder);
    let store = open(stage.directory.path()).unwrap();
    assert_eq!(exercise(&*store), 1);
    let without_shm = |mut picture: std::collections::BTreeMap<String, _>| {
        picture.retain(|name, _| !name.ends_with("-shm"));
        picture
    };
    assert_eq!(without_shm(picture_of(&folder)), without_shm(before));
    // Rows written while the store is open are read, too.
    stage.say("later", &[user_bubble("b0", "later")]);
    assert_eq!(store.list().heads.len(), 2);
    let Stage { home, directory: _directory } = stage;
    home.close(Closing::Clean);
    assert_eq!(store.list().heads.len(), 2);
}

#[test]
fn a_file_that_is_not_plain_is_skipped_with_a_reason() {
    let makers: [fn(&Path); 3] = [
        |path| nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).unwrap(),
        |path| symlink("/dev/zero", path).unwrap(),
        |path| fs::create_dir(path).unwrap(),
    ];
    for make in makers {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("globalStorage")).unwrap();
        make(&global(directory.path()));
        let places = crate::StorePlaces {
            cursor_user_dirs: vec![directory.path().to_owned()],
            ..Default::default()
        };
        let found = super::super::discover(&places);
        assert!(
            matches!(&found[..], [Discovered::Skipped(place)] if place.why.contains("not a plain file"))
        );
    }
    let empty = tempfile::tempdir().unwrap();
    let places = crate::StorePlaces {
        cursor_user_dirs: vec![empty.path().to_owned()],
        ..Default::default()
    };
    assert!(super::super::discover(&places).is_empty());
}

#[test]
fn a_file_that_is_not_a_database_is_reported() {
    let contents: [&[u8]; 3] =
        [b"", b"garbage, and a good deal of it", b"SQLite format 3\0 and then nothing of the kind"];
    for content in contents {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("globalStorage")).unwrap();
        fs::write(global(directory.path()), content).unwrap();
        let store = open(directory.path()).unwrap();
        assert_eq!(exercise(&*store), 0);
        assert_eq!((store.list().damage.len(), store.account().damage.len()), (1, 1));
        assert!(store.read(ID, Extent::default()).is_err());
    }
    // A sparse file of 20 GB.
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("globalStorage")).unwrap();
    fs::File::create(global(directory.path())).unwrap().set_len(20 << 30).unwrap();
    assert_eq!(open(directory.path()).unwrap().list().damage.len(), 1);
}

#[test]
fn a_database_without_the_tables_is_empty() {
    let directory = tempfile::tempdir().unwrap();
    let writer = store_fixtures::open_writer(&global(directory.path()));
    // A view that hides an endless computation.
    writer
        .execute_batch(
            "CREATE VIEW cursorDiskKV AS WITH RECURSIVE n(key) AS (SELECT 1 UNION ALL SELECT key + 1 FROM n) \
             SELECT 'composerData:' || key AS key, '{}' AS value FROM n;
             CREATE TABLE ItemTable (key TEXT, other BLOB);",
        )
        .unwrap();
    writer.close().unwrap();
    let store = open(directory.path()).unwrap();
    assert_eq!(exercise(&*store), 0);
    assert_eq!(store.account().families, []);
}

#[test]
fn the_backup_is_read_when_the_database_cannot_be() {
    let stage = Stage::new();
    stage.say(ID, &[user_bubble("b0", "needle")]);
    let Stage { directory, home } = stage;
    home.close_with_backup();
    let path = global(directory.path());
    let store = open(directory.path()).unwrap();
    assert!(store.account().backup.is_some());
    assert_eq!(store.list().damage, []);
    for ruin in [Some(&b"ruined"[..]), None] {
        fs::remove_file(&path).unwrap();
        if let Some(content) = ruin {
            fs::write(&path, content).unwrap();
        }
        let store = open(directory.path()).unwrap();
        let listing = store.list();
        assert_eq!((listing.heads.len(), listing.heads[0].activity), (1, Activity::Damaged));
        assert!(listing.damage[0].what.contains("state.vscdb.backup"), "{:?}", listing.damage);
        let read = store.read(ID, Extent::default()).unwrap();
        assert_eq!(texts(&read), ["needle"]);
        assert!(read.damage[0].what.contains("dates from the end of the last session"));
        if ruin.is_none() {
            fs::write(&path, "").unwrap();
        }
    }
}

#[test]
fn a_row_that_is_not_json_or_too_large_is_reported_and_its_neighbours_are_read() {
    let stage = Stage::new();
    stage.say(
        ID,
        &[user_bubble("b0", "kept"), user_bubble("b1", "lost"), user_bubble("b2", "huge")],
    );
    stage.home.put_bytes(&format!("bubbleId:{ID}:b1"), b"\xff\xfe{");
    stage
        .home
        .connection()
        .execute(
            "UPDATE cursorDiskKV SET value = zeroblob(70000000) WHERE key = ?1",
            [format!("bubbleId:{ID}:b2")],
        )
        .unwrap();
    stage.home.put_bytes("composerData:broken", b"{\"name\":");
    let home = stage.close();
    let read = home.read(ID);
    assert_eq!(texts(&read), ["kept", ""]);
    assert_eq!(parts(&read, 1), [Part::damaged(b"\xff\xfe{")], "the rest of the row is shown");
    let what: Vec<&str> = read.damage.iter().map(|damage| damage.what.as_str()).collect();
    assert_eq!(what, ["is not JSON", "has 70000000 bytes, too many to read"]);
    assert_eq!(home.head("broken").activity, Activity::Damaged);
    assert_eq!(home.store.list().damage[0].place, "composerData:broken");
}

const N_CONVERSATIONS: usize = 12;
const N_BUBBLES: usize = 120;
const PAGE: usize = 4096;

/// The bytes of a database with a few conversations.
fn some_database() -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let path = global(directory.path());
    generate_large(&path, N_CONVERSATIONS, N_BUBBLES, 60, 700_000, None);
    fs::read(path).unwrap()
}

/// Some of the pages that begin with `kind`.
fn pages_of_kind(bytes: &[u8], kind: u8) -> Vec<usize> {
    let pages: Vec<usize> =
        (1..bytes.len() / PAGE).filter(|page| bytes[page * PAGE] == kind).collect();
    let step = pages.len().div_ceil(6).max(1);
    pages.into_iter().step_by(step).collect()
}

fn with_ruined_page(bytes: &[u8], page: usize) -> Home {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("globalStorage")).unwrap();
    let mut bytes = bytes.to_vec();
    bytes[page * PAGE..(page + 1) * PAGE].fill(0);
    fs::write(global(directory.path()), &bytes).unwrap();
    let store = open(directory.path()).unwrap();
    Home { directory, store }
}

fn n_messages(home: &Home) -> usize {
    home.heads().iter().map(|head| home.read(&head.id).messages.len()).sum()
}

#[test]
fn a_ruined_index_costs_time_but_no_conversation() {
    let bytes = some_database();
    let pages = pages_of_kind(&bytes, 0x0a);
    assert!(pages.len() > 3, "there are index pages");
    for page in pages {
        let home = with_ruined_page(&bytes, page);
        assert_eq!(home.heads().len(), N_CONVERSATIONS, "page {page}");
        // Without their index, the search skips the blobs, but reports that.
        assert!(n_messages(&home) >= N_BUBBLES, "page {page}");
        exercise(&*home.store);
    }
}

#[test]
fn messages_keep_their_owner_even_if_their_index_and_their_composer_are_lost() {
    let home = many_conversations().close();
    let path = global(home.directory.path());
    let whole = fs::read(&path).unwrap();
    let index: Vec<usize> =
        (1..whole.len() / PAGE).filter(|page| whole[page * PAGE] == 0x0a).collect();
    assert!(index.len() > 3);
    // Ruins the whole index, and the first conversations.
    let mut bytes = whole.clone();
    for page in index {
        bytes[page * PAGE..(page + 1) * PAGE].fill(0xff);
    }
    let leaves: Vec<usize> =
        (1..whole.len() / PAGE).filter(|page| whole[page * PAGE] == 0x0d).collect();
    let middle = leaves[leaves.len() / 2];
    bytes[middle * PAGE..(middle + 1) * PAGE].fill(0xff);
    fs::write(&path, &bytes).unwrap();
    assert_eq!(home.heads().len(), 40, "{:?}", home.store.list().damage);
    assert!(n_messages(&home) >= 780, "{} of 800", n_messages(&home));
}

#[test]
fn a_ruined_page_costs_its_rows_and_they_are_reported() {
    let bytes = some_database();
    let pages = pages_of_kind(&bytes, 0x0d);
    assert!(pages.len() > 3, "there are table pages");
    for page in pages {
        let home = with_ruined_page(&bytes, page);
        let listing = home.store.list();
        let n_lost = listing
            .damage
            .iter()
            .filter(|damage| damage.place.starts_with("composerData:"))
            .count();
        assert_eq!(listing.heads.len(), N_CONVERSATIONS, "page {page}: {:?}", listing.damage);
        assert!(n_lost < 3, "page {page}: {:?}", listing.damage);
        exercise(&*home.store);
    }
}

/// Conversations that fill a few hundred pages, in order.
fn many_conversations() -> Stage {
    let stage = Stage::new();
    for number in 0..40 {
        let bubbles: Vec<_> = (0..20)
            .map(|place| {
                let text = format!("needle{number}x{place} {}", "pad ".repeat(100));
                user_bubble(&format!("b{number}-{place}"), &text)
            })
            .collect();
        stage.say(&format!("composer-{number:02}"), &bubbles);
    }
    stage
}

#[test]
fn a_truncated_database_is_read_as_far_as_possible_and_reported() {
    let home = many_conversations().close();
    let path = global(home.directory.path());
    cut_off_pages(&path, 2);
    let before = picture_of(path.parent().unwrap());
    let listing = home.store.list();
    assert!(listing.heads.len() >= 38, "{} of 40", listing.heads.len());
    assert!(listing.damage[0].what.contains("salvaged"), "{:?}", listing.damage);
    assert!(n_messages(&home) > 750, "{} of 800", n_messages(&home));
    let whole = home.read("composer-07");
    assert_eq!((whole.messages.len(), whole.damage.len()), (20, 0));
    let found = std::sync::Mutex::new(0);
    let matcher = Matcher::new(Pattern::Words("needle7x3"), Case::Smart).unwrap();
    let damage = home.store.search(&matcher, &|_| {
        *found.lock().unwrap() += 1;
        ControlFlow::Continue(())
    });
    assert_eq!(*found.lock().unwrap(), 1);
    assert!(damage.iter().any(|damage| damage.what.contains("salvaged")), "{damage:?}");
    assert_eq!(picture_of(path.parent().unwrap()), before);
}

/// Returns the conversations from all stores of a user directory, each once.
fn told_by_all(user_dir: &Path) -> (Catalogue, Vec<Head>, Vec<StoreDamage>) {
    let places =
        StorePlaces { cursor_user_dirs: vec![user_dir.to_owned()], ..StorePlaces::default() };
    let catalogue = Catalogue::open(&places, &[]);
    let CatalogueListing { mut heads, damage } = catalogue.list();
    heads.sort_by(|one, other| one.id.cmp(&other.id));
    (catalogue, heads, damage)
}

#[test]
fn salvaged_rows_and_the_backup_are_merged() {
    let Stage { directory, home } = many_conversations();
    home.close_with_backup();
    let path = global(directory.path());
    let whole = fs::read(&path).unwrap();
    // After the backup, one conversation continued, one began, and one was deleted.
    let home = IdeHome::new(directory.path());
    let stage = Stage { directory, home };
    stage.say("composer-40", &[user_bubble("b40-0", "only in the damaged database")]);
    let mut bubbles: Vec<_> =
        (0..20).map(|place| user_bubble(&format!("b05-{place}"), "said again")).collect();
    bubbles.push(user_bubble("b05-20", "later than the backup"));
    stage.say("composer-05", &bubbles);
    stage.home.put_tombstone("composerData:composer-06");
    let Stage { directory, home } = stage;
    home.close(Closing::Clean);
    // New rows are at the end. A part of the middle is lost, and the header says that the end is missing.
    let mut rest = fs::read(&path).unwrap();
    assert!(rest.len() > whole.len());
    let n_pages = whole.len() / PAGE;
    for page in n_pages / 4..n_pages / 2 {
        rest[page * PAGE..(page + 1) * PAGE].fill(0xff);
    }
    let n_claimed = u32::try_from(rest.len() / PAGE + 1).unwrap();
    rest[28..32].copy_from_slice(&n_claimed.to_be_bytes());
    fs::write(&path, rest).unwrap();

    let (catalogue, heads, damage) = told_by_all(directory.path());
    let ids: Vec<&str> = heads.iter().map(|head| head.id.as_str()).collect();
    let expected: Vec<String> = (0..=40)
        .filter(|number| *number != 6)
        .map(|number| format!("composer-{number:02}"))
        .collect();
    assert_eq!(ids, expected);
    let is_said = |words: &str| damage.iter().any(|lost| lost.damage.what.contains(words));
    assert!(is_said("salvaged") && is_said("state.vscdb.backup"), "{damage:?}");
    for head in &heads {
        let read = catalogue.read(head, Extent::default()).unwrap();
        let texts = texts(&read);
        match head.id.as_str() {
            "composer-40" => assert_eq!(texts, ["only in the damaged database"]),
            "composer-05" => {
                assert_eq!(texts.last().unwrap(), "later than the backup");
                assert_eq!(texts.iter().filter(|text| *text == "said again").count(), 20);
            }
            id => assert_eq!(texts.len(), 20, "{id}: {:?}", read.damage),
        }
    }
}

#[test]
fn a_backup_with_less_than_the_damaged_database_hides_nothing_in_it() {
    let stage = Stage::new();
    stage.say("composer-00", &[user_bubble("b0-0", "said before the backup")]);
    let Stage { directory, home } = stage;
    home.close_with_backup();
    let stage = Stage { home: IdeHome::new(directory.path()), directory };
    for number in 0..30 {
        let text = format!("said after the backup {}", "pad ".repeat(200));
        stage.say(&format!("later-{number:02}"), &[user_bubble(&format!("l{number}"), &text)]);
    }
    let Home { directory, .. } = stage.close();
    cut_off_pages(&global(directory.path()), 2);
    let (catalogue, heads, _) = told_by_all(directory.path());
    assert!(heads.len() > 25, "{} of 31", heads.len());
    let first_words = |head: &Head| {
        let read = catalogue.read(head, Extent::default()).unwrap();
        texts(&read).first().map(|text| text.split(' ').take(3).collect::<Vec<_>>().join(" "))
    };
    let words: Vec<String> = heads.iter().filter_map(first_words).collect();
    let n_said = |words_said: &str| words.iter().filter(|words| *words == words_said).count();
    assert_eq!(n_said("said before the"), 1);
    assert!(n_said("said after the") > 25, "{words:?}");
}

#[test]
fn a_locked_database_does_not_block_a_reader_forever() {
    let stage = Stage::new();
    stage.say(ID, &[user_bubble("b0", "x")]);
    let home: Home = stage.close();
    let path = global(home.directory.path());
    #[expect(clippy::disallowed_methods, reason = "acts as Cursor, which locks the database")]
    let writer = rusqlite::Connection::open(&path).unwrap();
    writer.execute_batch("PRAGMA journal_mode = DELETE; PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; CREATE TABLE t (x);").unwrap();
    let listing = home.store.list();
    assert_eq!(listing.heads.len() + listing.damage.len(), 1, "{:?}", listing.damage);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn no_flipped_or_missing_bytes_make_it_fail(flips in prop::collection::vec((0_usize..80_000, any::<u8>()), 1..40), length in 0_usize..80_000) {
        let directory = tempfile::tempdir().unwrap();
        let home = IdeHome::new(directory.path());
        for number in 0..8 {
            home.put_bubble(&format!("c{number}"), &user_bubble("b0", "needle"));
            home.put(&format!("composerData:c{number}"), &store_fixtures::ide::composer("c", 10, &[]));
        }
        home.close(Closing::Clean);
        let path = global(directory.path());
        let mut bytes = fs::read(&path).unwrap();
        for (at, byte) in flips {
            let at = at % bytes.len();
            bytes[at] ^= byte;
        }
        bytes.truncate(bytes.len().saturating_sub(length / 4));
        fs::write(&path, &bytes).unwrap();
        if let Some(store) = open(directory.path()) {
            exercise(&*store);
        }
    }
}
