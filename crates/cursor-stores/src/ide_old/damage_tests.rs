use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::symlink;

use pretty_assertions::assert_eq;
use rusqlite::types::Value;
use serde_json::json;
use store_fixtures::Closing;
use store_fixtures::ide_old::{
    CHATS, COMPOSERS, PROMPTS, SESSIONS, StateDirectory, Storage, every_row,
};

use super::test_home::{HASH, Home, search};
use crate::model::Activity;
use crate::store::{ConversationStore, Extent, ReadConversationError};
use crate::test_store::picture_of;

fn word(field: &str) -> String {
    field.to_owned()
}

#[test]
fn a_word_planted_in_any_field_is_found_there() {
    let mut fields = Vec::new();
    let rows = every_row(&mut |field| {
        fields.push(field.to_owned());
        format!("planted{:02}", fields.len())
    });
    assert!(fields.len() >= 25);
    let home = Home::with(&rows);
    let frames =
        BTreeSet::from(["chatTitle", "composer name", "customTitle", "tool params", "tool result"]);
    for (number, field) in fields.iter().enumerate() {
        let word = format!("planted{:02}", number + 1);
        let hits = home.search(&word);
        assert_eq!(hits.len(), 1, "{field}: {hits:?}");
        let hit = &hits[0];
        let conversation = home.store().read(&hit.key, Extent::default()).unwrap();
        let whole = serde_json::to_string(&conversation).unwrap();
        assert!(whole.contains(&word), "the read conversation lacks {field}");
        match hit.position {
            None => assert!(frames.contains(field.as_str()), "{field}"),
            Some(position) => {
                let message = &conversation.messages[position];
                assert_eq!(hit.message_id, message.id, "{field}");
                assert!(serde_json::to_string(message).unwrap().contains(&word), "{field}");
            }
        }
    }
}

#[test]
fn credentials_in_the_same_table_are_not_found() {
    let home = Home::with(&every_row(&mut word));
    for secret in ["secret-access-token", "secret-github-token"] {
        assert_eq!(home.search(secret), []);
    }
}

#[test]
fn deleted_and_odd_rows_are_not_conversations() {
    let home = Home::new();
    let rows = [
        (CHATS, Value::Null),
        (COMPOSERS, Value::Integer(7)),
        (SESSIONS, Value::Text("null".to_owned())),
        (PROMPTS, Value::Text("[]".to_owned())),
    ];
    home.workspace.raw_rows(&rows, Closing::Clean);
    assert_eq!(home.heads(), []);
}

#[test]
fn a_broken_value_is_reported_and_its_words_are_still_found() {
    let home = Home::new();
    let mut chat =
        json!({"tabs": [{"tabId": "t", "bubbles": [{"type": "user", "text": "needle"}]}]})
            .to_string();
    chat.truncate(chat.len() - 3);
    let prompts = json!([{"text": "typed"}]).to_string();
    let rows = [(CHATS, Value::Text(chat)), (PROMPTS, Value::Blob(prompts.into_bytes()))];
    home.workspace.raw_rows(&rows, Closing::Clean);
    let listing = home.store().list();
    let left = format!("damaged-{HASH}-{CHATS}");
    let ids: Vec<&str> = listing.heads.iter().map(|head| head.id.as_str()).collect();
    assert_eq!(ids, [left.as_str(), &format!("prompts-{HASH}")]);
    assert_eq!(listing.heads[0].activity, Activity::Damaged);
    assert_eq!(listing.damage[0].place, format!("{HASH}/{CHATS}"));
    let (hits, damage) = search(&home.store(), "needle");
    let key = format!("{HASH}/damaged/{left}");
    assert_eq!((hits.len(), &hits[0].key, damage.len()), (1, &key, 1));
    let shown = home.store().read(&key, Extent::default()).unwrap();
    assert!(format!("{:?}", shown.messages).contains("needle"));
    assert_eq!(shown.damage.len(), 1);
    let read = home.store().read(&format!("{HASH}/chat/t"), Extent::default());
    assert!(matches!(read, Err(ReadConversationError::Unreadable { .. })));
}

#[test]
fn a_value_that_is_too_large_is_reported_and_not_loaded() {
    let home = Home::with(&[(PROMPTS, json!([{"text": "typed"}]))]);
    let writer = store_fixtures::open_writer(&home.workspace.database());
    writer.execute("INSERT INTO ItemTable VALUES (?1, zeroblob(67108865))", [CHATS]).unwrap();
    writer.close().unwrap();
    let listing = home.store().list();
    assert_eq!((listing.heads.len(), listing.damage.len()), (1, 1));
    assert!(listing.damage[0].what.contains("67108865"), "{:?}", listing.damage);
}

#[test]
fn the_backup_stands_in_for_a_database_that_cannot_be_read() {
    let home = Home::with(&every_row(&mut word));
    let backup = home.workspace.back_up();
    for content in [b"garbage".as_slice(), b""] {
        fs::write(home.workspace.database(), content).unwrap();
        let listing = home.store().list();
        assert_eq!(listing.heads.len(), 4);
        assert!(listing.heads.iter().all(|head| head.origins[0].path.as_ref() == backup));
        assert_eq!(listing.damage.len(), 1);
        assert_eq!(listing.damage[0].place, format!("{HASH}/state.vscdb"));
        assert!(listing.damage[0].what.contains("backup"), "{:?}", listing.damage);
        assert_eq!(home.read("chat", "tab-1").messages.len(), 7);
        let account = home.store().account();
        assert_eq!((account.n_conversations, account.damage.len()), (4, 1));
        assert_eq!(account.backup.unwrap().as_ref(), backup);
    }
    fs::remove_file(home.workspace.database()).unwrap();
    assert_eq!(home.store().list().heads.len(), 4, "a database may be gone altogether");
    fs::write(&backup, "garbage").unwrap();
    let listing = home.store().list();
    assert_eq!((listing.heads.len(), listing.damage.len()), (0, 1));
}

#[test]
fn a_file_that_is_not_a_database_is_reported_and_does_not_hang_the_reader() {
    let home = Home::with(&every_row(&mut word));
    let place = |hash: &str| StateDirectory::workspace(home.directory.path(), hash).database();
    nix::unistd::mkfifo(&place("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    symlink(home.workspace.database(), place("link")).unwrap();
    fs::create_dir(place("directory")).unwrap();
    fs::write(place("empty"), "").unwrap();
    fs::write(place("garbage"), "x".repeat(9000)).unwrap();
    File::create(place("sparse")).unwrap().set_len(20 << 30).unwrap();
    symlink(home.workspace.path(), home.storage().join("linked")).unwrap();
    place("nothing");
    let listing = home.store().list();
    assert_eq!(listing.heads.len(), 4);
    let places: BTreeSet<&str> =
        listing.damage.iter().filter_map(|damage| damage.place.split('/').next()).collect();
    let expected = ["directory", "empty", "fifo", "garbage", "link", "linked", "sparse"];
    assert_eq!(places, BTreeSet::from(expected));
    let (hits, damage) = search(&home.store(), "chatTitle");
    assert_eq!((hits.len(), damage.len()), (1, expected.len()));
    assert_eq!(home.store().account().n_conversations, 4);
}

#[test]
fn a_database_cut_or_flipped_anywhere_is_read_as_far_as_possible() {
    let home = Home::with(&every_row(&mut word));
    let path = home.workspace.database();
    let whole = fs::read(&path).unwrap();
    for at in (0..whole.len()).step_by(97) {
        let mut flipped = whole.clone();
        flipped[at] ^= 0x81;
        for content in [&flipped, &whole[..at].to_vec()] {
            fs::write(&path, content).unwrap();
            let listing = home.store().list();
            assert!(listing.heads.len() <= 8, "{:?}", listing.heads);
            for head in listing.heads {
                let _read = home.store().read(head.origins[0].key(&head), Extent::default());
            }
            let _searched = search(&home.store(), "text");
            assert_eq!(fs::read(&path).unwrap(), *content);
        }
    }
}

#[test]
fn reading_changes_nothing() {
    for closing in [Closing::Clean, Closing::Killed] {
        let home = Home::new();
        home.workspace.rows(&every_row(&mut word), Storage::Blob, closing);
        home.workspace.back_up();
        let without_shm = || {
            let mut picture = picture_of(home.workspace.path());
            picture.remove("state.vscdb-shm");
            picture
        };
        let before = without_shm();
        let store = home.store();
        for head in home.heads() {
            store.read(head.origins[0].key(&head), Extent::default()).unwrap();
        }
        home.search("text");
        store.account();
        assert_eq!(without_shm(), before, "{closing:?}");
    }
}

/// Found by fuzzing: an array has no fields to take.
#[test]
fn a_row_of_json_that_is_not_an_object_has_no_conversations() {
    for value in ["[]", "[{\"tabs\":[]}]", "7", "\"text\"", "null", "true"] {
        let home = Home::new();
        let value = Value::Text(value.to_owned());
        let rows = [CHATS, COMPOSERS].map(|key| (key, value.clone()));
        home.workspace.raw_rows(&rows, Closing::Clean);
        assert_eq!(home.heads(), []);
        assert_eq!(home.search("anything"), []);
    }
}
