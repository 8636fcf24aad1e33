use std::fs;

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use store_fixtures::Closing;
use store_fixtures::chat::{Chat, Generation, Turn};

use super::*;

const MD5: BucketHash = BucketHash::Md5;
const SHA256: BucketHash = BucketHash::Sha256;
const SESSION: Uuid = Uuid::from_u128(0x6f1d_0000_0000_4000_8000_0000_0000_0001);

fn users(hash: BucketHash) -> Place {
    Place { owner: Owner::User, hash }
}

fn ours(hash: BucketHash) -> Place {
    Place { owner: Owner::Caretaker, hash }
}

#[test]
fn each_case_has_its_place() {
    // The buckets in the user's chats; the place of a new session, by the name that the agent uses; of a copy.
    for (has, by_md5, by_sha256, copy) in [
        (&[][..], users(MD5), ours(SHA256), users(MD5)),
        (&[MD5], users(MD5), ours(SHA256), users(MD5)),
        (&[SHA256], ours(MD5), users(SHA256), users(SHA256)),
        (&[MD5, SHA256], users(MD5), users(SHA256), users(SHA256)),
    ] {
        assert_eq!(Place::shown(None, has), [(MD5, by_md5), (SHA256, by_sha256)], "{has:?}");
        assert_eq!(Place::of_copy(has), copy, "{has:?}");
    }
}

fn hashes() -> impl Strategy<Value = Vec<BucketHash>> {
    prop::sample::subsequence(BucketHash::ALL.to_vec(), 0..=2)
}

fn place() -> impl Strategy<Value = Place> {
    prop::sample::select(Place::ALL.to_vec())
}

proptest! {
    #[test]
    fn an_existing_session_is_shown_under_every_name(found in place(), has in hashes()) {
        let shown = Place::shown(Some(found), &has);
        prop_assert_eq!(shown.map(|(hash, _)| hash), BucketHash::ALL);
        prop_assert!(shown.iter().all(|(_, place)| *place == found));
    }

    #[test]
    fn the_users_chats_never_get_a_second_bucket(has in hashes(), found in place()) {
        let new = Place::shown(None, &has).map(|(_, place)| place);
        let moved = found.moves_to(&has);
        for place in new.into_iter().chain(moved).chain([Place::of_copy(&has)]) {
            let is_second = place.owner == Owner::User && !has.is_empty() && !has.contains(&place.hash);
            prop_assert!(!is_second, "{:?} beside {:?}", place, has);
        }
    }

    #[test]
    fn a_new_session_has_a_place_of_its_own_under_each_name(has in hashes()) {
        for (hash, place) in Place::shown(None, &has) {
            prop_assert_eq!(place.hash, hash);
        }
    }

    #[test]
    fn a_session_moves_only_from_caretakers_chats_and_only_once(found in place(), has in hashes()) {
        if let Some(to) = found.moves_to(&has) {
            prop_assert_eq!((found.owner, to.owner, to.hash), (Owner::Caretaker, Owner::User, found.hash));
            prop_assert_eq!(to.moves_to(&has), None);
        }
    }
}

struct Host {
    directory: tempfile::TempDir,
    places: SessionPlaces,
}

fn host() -> Host {
    let directory = tempfile::tempdir().unwrap();
    let state = StateRoot::new(directory.path().join("state"));
    let workspace = WorkspacePath::new(Path::new("/tmp/work")).unwrap();
    let config = directory.path().join("home/.cursor");
    let places = SessionPlaces::new(&state, &config, &workspace, SESSION);
    Host { directory, places }
}

impl Host {
    /// Writes a conversation with these prompts.
    fn write(&self, place: Place, prompts: &[&str]) {
        let turns = prompts.iter().map(|prompt| Turn::plain(prompt, "ok")).collect();
        let chat = Chat::new(Generation::Sep2026, &SESSION.to_string()).with_turns(turns);
        let written = chat.write_cli(&self.directory.path().join("written"), Closing::Clean);
        let directory = self.places.directory(place);
        fs::create_dir_all(directory.parent().unwrap()).unwrap();
        fs::rename(written, directory).unwrap();
    }
}

#[test]
fn the_store_that_continues_the_others_is_resumed() {
    let host = host();
    assert_eq!(host.places.found(), Ok(None));
    host.write(users(MD5), &["one", "two"]);
    assert_eq!(host.places.found(), Ok(Some(users(MD5))));
    // A copy is as good, and the user's own agent would use the newer bucket.
    host.write(users(SHA256), &["one", "two"]);
    assert_eq!(host.places.found(), Ok(Some(users(SHA256))));
    host.write(ours(SHA256), &["one", "two", "three"]);
    assert_eq!(host.places.found(), Ok(Some(ours(SHA256))));
    host.write(ours(MD5), &["another"]);
    let SeveralStores(directories) = host.places.found().unwrap_err();
    assert_eq!(directories.len(), 4);
    // A damaged store may have more than it shows.
    fs::write(host.places.directory(ours(MD5)).join("store.db"), "garbage").unwrap();
    host.places.found().unwrap_err();
}

#[test]
fn a_copy_goes_where_its_session_is_or_where_the_users_own_agent_looks() {
    let host = host();
    let chats = |place: Place| (host.places.chats(place).to_owned(), host.places.name(place.hash));
    assert_eq!(host.places.for_copy(), chats(users(MD5)));
    fs::create_dir_all(host.places.bucket(users(SHA256))).unwrap();
    assert_eq!(host.places.for_copy(), chats(users(SHA256)));
    fs::create_dir_all(host.places.directory(ours(SHA256))).unwrap();
    assert_eq!(host.places.for_copy(), chats(ours(SHA256)));
    host.write(ours(MD5), &["one"]);
    assert_eq!(host.places.for_copy(), chats(ours(MD5)));
}
