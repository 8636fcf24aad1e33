//! Listing chats, and the cases that other readers get wrong.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use nix::sys::stat::Mode;
use pretty_assertions::assert_eq;
use store_fixtures::Closing;
use store_fixtures::chat::{Call, Chat, Generation, Step, Turn, bucket_of};

use super::chats_root::{ChatsRoot, discover};
use crate::StorePlaces;
use crate::catalogue::Catalogue;
use crate::model::{Activity, Head, Moment, Shelf, StoreKind, Workspace};
use crate::store::{ConversationStore, Discovered, Extent, Treatment};
use crate::test_store::{open_writer, picture_of};

fn cli(path: &Path) -> ChatsRoot {
    ChatsRoot::new(StoreKind::Cli, path.to_owned())
}

fn chat(generation: Generation, id: &str) -> Chat {
    Chat::new(generation, id).with_turns(vec![Turn::plain("hi", "hello")])
}

fn heads(path: &Path) -> Vec<Head> {
    let listing = cli(path).list();
    assert_eq!(listing.damage, []);
    let mut heads = listing.heads;
    heads.sort_by(|one, other| one.id.cmp(&other.id));
    heads
}

#[test]
fn a_list_shows_the_facts_of_the_files() {
    let home = tempfile::tempdir().unwrap();
    let directory = chat(Generation::Sep2026, "a").write_cli(home.path(), Closing::Clean);
    let [head] = <[Head; 1]>::try_from(heads(home.path())).unwrap();
    assert_eq!(head.title.as_deref(), Some("A chat"));
    assert_eq!(head.workspace, Some(Workspace::here("/home/u/project")));
    assert_eq!(head.created, Some(Moment::recorded(1_790_000_000_000)));
    assert_eq!(head.updated, Some(Moment::recorded(1_790_003_600_000)));
    assert_eq!(head.n_bytes, Some(fs::metadata(directory.join("store.db")).unwrap().len()));
    assert_eq!((head.activity, head.shelf, head.n_messages), (Activity::Idle, Shelf::Shown, None));
    assert_eq!(
        head.origins[0].key.as_deref(),
        Some(format!("{}/a", bucket_of("/home/u/project")).as_str())
    );
}

#[test]
fn a_list_reads_chats_of_old_builds_from_their_database_in_every_state() {
    let home = tempfile::tempdir().unwrap();
    for (id, closing) in [("clean", Closing::Clean), ("killed", Closing::Killed)] {
        chat(Generation::Feb2026, id).write_cli(home.path(), closing);
    }
    for head in heads(home.path()) {
        assert_eq!(head.title.as_deref(), Some("A chat"), "{}", head.id);
        assert_eq!(head.created, Some(Moment::recorded(1_790_000_000_000)));
    }
}

#[test]
fn sub_agents_know_their_parents_and_parents_their_sub_agents() {
    let home = tempfile::tempdir().unwrap();
    chat(Generation::Jul2026, "parent").write_cli(home.path(), Closing::Clean);
    let mut child = chat(Generation::Jul2026, "child");
    child.subagent_of = Some(("parent".to_owned(), "call_1".to_owned(), "explore".to_owned()));
    child.write_cli(home.path(), Closing::Clean);
    // Some builds write `meta.json` for sub-agents too.
    let mut marked = chat(Generation::Jul2026, "marked");
    marked.subagent_of = child.subagent_of.clone();
    let directory = marked.write_cli(home.path(), Closing::Clean);
    fs::write(directory.join("meta.json"), r#"{"schemaVersion":1,"isSubagent":true}"#).unwrap();
    let [child, marked, parent] = <[Head; 3]>::try_from(heads(home.path())).unwrap();
    for subagent in [child, marked] {
        let origin = subagent.parent.unwrap();
        assert_eq!(
            (origin.id.as_str(), origin.tool_call_id.as_deref()),
            ("parent", Some("call_1"))
        );
    }
    assert_eq!(parent.subagents, ["child", "marked"]);
}

#[test]
fn one_id_in_several_buckets_is_several_conversations() {
    let home = tempfile::tempdir().unwrap();
    let write = |workspace: &str, text: &str| {
        let mut chat =
            Chat::new(Generation::Sep2026, "same").with_turns(vec![Turn::plain(text, "ok")]);
        chat.workspace = workspace.to_owned();
        let directory = chat.write_cli(home.path(), Closing::Clean);
        format!("{}/same", directory.parent().unwrap().file_name().unwrap().to_str().unwrap())
    };
    let older = write("/one", "older");
    let newer = write("/two", "newer");
    fs::write(
        home.path().join(&newer).join("meta.json"),
        r#"{"schemaVersion":1,"updatedAtMs":1900000000000,"cwd":"/two"}"#,
    )
    .unwrap();
    // Resumed from another directory: an empty chat that is the newest of all.
    let empty = home.path().join(bucket_of("/three")).join("same");
    fs::create_dir_all(&empty).unwrap();
    fs::write(
        empty.join("meta.json"),
        r#"{"schemaVersion":1,"updatedAtMs":1990000000000,"cwd":"/three"}"#,
    )
    .unwrap();

    let places = StorePlaces { chats: vec![home.path().to_owned()], ..StorePlaces::default() };
    let catalogue = Catalogue::open(&places, &[StoreKind::Cli]);
    let mut listed = catalogue.list().heads;
    listed.sort_by_key(|head| head.workspace.clone().unwrap().path);
    let short = |workspace: &str| format!("same@{}", &bucket_of(workspace)[..8]);
    let ids: Vec<_> = listed.iter().map(|head| head.id.clone()).collect();
    assert_eq!(ids, [short("/one"), short("/three"), "same".to_owned()]);
    let words: Vec<_> = listed
        .iter()
        .map(|head| {
            let conversation = catalogue.read(head, Extent::default()).unwrap();
            assert_eq!(conversation.head.id, head.id);
            conversation.messages.get(2).map(crate::model::Message::text)
        })
        .collect();
    assert_eq!(words, [Some("older".to_owned()), None, Some("newer".to_owned())]);
    // Without a bucket, the id means the chat that keeps the id.
    let root = cli(home.path());
    assert_eq!(
        root.read("same", Extent::default()).unwrap().head.origins[0].key.as_deref(),
        Some(newer.as_str())
    );
    assert_eq!(root.read(&older, Extent::default()).unwrap().messages[2].text(), "older");
}

#[test]
fn a_workspace_with_two_buckets_has_each_conversation_once() {
    let home = tempfile::tempdir().unwrap();
    let sha256 = home.path().join("5e".repeat(32));
    let turns = |texts: &[&str]| texts.iter().map(|text| Turn::plain(text, "ok")).collect();
    let write = |id: &str, in_md5: &[&str], in_sha256: &[&str]| {
        for (texts, is_newer) in [(in_sha256, true), (in_md5, false)] {
            if texts.is_empty() {
                continue;
            }
            let chat = Chat::new(Generation::Sep2026, id).with_turns(turns(texts));
            let directory = chat.write_cli(home.path(), Closing::Clean);
            if is_newer {
                fs::create_dir_all(&sha256).unwrap();
                fs::rename(directory, sha256.join(id)).unwrap();
            }
        }
    };
    write("only-old", &["one"], &[]);
    write("only-new", &[], &["one"]);
    write("copied", &["one"], &["one"]);
    write("continued", &["one"], &["one", "two"]);
    write("left", &["one", "two"], &["one"]);
    write("two", &["one"], &["other"]);

    let listed = heads(home.path());
    let is_in_new = |head: &Head| head.origins[0].path.as_ref().starts_with(&sha256);
    let told: Vec<_> = listed.iter().map(|head| (head.id.as_str(), is_in_new(head))).collect();
    let (two, ones): (Vec<_>, Vec<_>) = told.into_iter().partition(|(id, _)| id.starts_with("two"));
    let expected = [
        ("continued", true),
        ("copied", true),
        ("left", false),
        ("only-new", true),
        ("only-old", false),
    ];
    assert_eq!(ones, expected);
    assert_eq!(two.len(), 2, "two conversations: {two:?}");
    // The bare id means the same conversation as in the list.
    let root = cli(home.path());
    let left = root.read("left", Extent::default()).unwrap();
    assert!(left.messages.iter().any(|message| message.text() == "two"));
    assert_eq!(left.head.id, "left");
}

#[test]
fn a_directory_with_only_a_meta_file_is_an_empty_conversation() {
    let home = tempfile::tempdir().unwrap();
    let session = home.path().join("b").join("empty");
    fs::create_dir_all(&session).unwrap();
    fs::create_dir_all(home.path().join("b").join("nothing at all")).unwrap();
    fs::write(
        session.join("meta.json"),
        r#"{"schemaVersion":1,"cwd":"/w","hasConversation":false}"#,
    )
    .unwrap();
    let [head] = <[Head; 1]>::try_from(heads(home.path())).unwrap();
    assert_eq!((head.id.as_str(), head.shelf, head.n_bytes), ("empty", Shelf::Empty, None));
    let conversation = cli(home.path()).read("b/empty", Extent::default()).unwrap();
    assert_eq!(conversation.messages, []);
    let account = cli(home.path()).account();
    assert_eq!((account.n_conversations, account.n_hidden["empty"]), (0, 1));
    let families: Vec<_> =
        account.families.iter().map(|family| (family.name.as_str(), family.n_rows)).collect();
    assert_eq!(families, [("meta.json", 1), ("directories without a chat", 1)]);
}

#[test]
fn a_store_without_rows_is_empty_once_it_is_read() {
    let home = tempfile::tempdir().unwrap();
    let store =
        store_fixtures::chat::StoreWriter::create(&home.path().join("b").join("new"), "new", 1);
    store.put_meta(store_fixtures::chat::MetaForm::Hex);
    store.close(Closing::Clean);
    let mut head = heads(home.path()).remove(0);
    assert_eq!((head.shelf, head.title.as_deref()), (Shelf::Shown, None));
    cli(home.path()).complete(&mut head);
    assert_eq!((head.shelf, head.activity), (Shelf::Empty, Activity::Idle));
}

#[test]
fn an_account_counts_files_and_hidden_chats() {
    let home = tempfile::tempdir().unwrap();
    chat(Generation::Sep2026, "a").write_cli(home.path(), Closing::Clean);
    let killed = chat(Generation::Sep2026, "b").write_cli(home.path(), Closing::Killed);
    fs::write(killed.join("prompt_history.json"), "[]").unwrap();
    fs::write(killed.join("unknown.bin"), "x").unwrap();
    let mut child = chat(Generation::Jul2026, "c");
    child.subagent_of = Some(("a".to_owned(), "call".to_owned(), "t".to_owned()));
    child.write_cli(home.path(), Closing::Clean);
    let account = cli(home.path()).account();
    assert_eq!((account.n_conversations, account.n_hidden["sub-agent"]), (2, 1));
    let family = |name: &str| {
        account
            .families
            .iter()
            .find(|family| family.name == name)
            .map(|family| (family.n_rows, family.treatment))
    };
    assert_eq!(family("store.db"), Some((3, Treatment::Read)));
    assert_eq!(family("meta.json"), Some((2, Treatment::Read)));
    assert_eq!(family("prompt_history.json"), Some((1, Treatment::Counted)));
    assert_eq!(family("other files"), Some((1, Treatment::Counted)));
}

#[test]
fn discovery_finds_ignores_or_skips_places() {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join("chats")).unwrap();
    fs::write(home.path().join("file"), "").unwrap();
    let at = |name: &str| home.path().join(name);
    let places = StorePlaces {
        chats: vec![at("chats"), at("missing"), at("file")],
        acp_sessions: vec![at("chats")],
        ..StorePlaces::default()
    };
    let found: Vec<_> = discover(&places)
        .into_iter()
        .map(|found| match found {
            Discovered::Store(store) => (store.kind(), store.path().to_owned(), String::new()),
            Discovered::Skipped(place) => (place.store, place.path.as_ref().to_owned(), place.why),
        })
        .collect();
    assert_eq!(
        found,
        [
            (StoreKind::Cli, at("chats"), String::new()),
            (StoreKind::Cli, at("file"), "is not a directory".to_owned()),
            (StoreKind::Acp, at("chats"), String::new()),
        ]
    );
}

#[test]
fn an_unreadable_chat_is_reported_and_does_not_hide_others() {
    let home = tempfile::tempdir().unwrap();
    let good = chat(Generation::Sep2026, "good").write_cli(home.path(), Closing::Clean);
    let bucket = good.parent().unwrap();
    let make = |name: &str| {
        let directory = bucket.join(name);
        fs::create_dir(&directory).unwrap();
        directory
    };
    nix::unistd::mkfifo(&make("fifo").join("store.db"), Mode::S_IRWXU).unwrap();
    nix::unistd::mkfifo(&make("meta-fifo").join("meta.json"), Mode::S_IRWXU).unwrap();
    symlink(good.join("store.db"), make("link").join("store.db")).unwrap();
    fs::create_dir(make("directory").join("store.db")).unwrap();
    fs::write(make("empty").join("store.db"), "").unwrap();
    fs::write(make("garbage").join("store.db"), vec![7; 10_000]).unwrap();
    fs::write(make("meta-garbage").join("meta.json"), "{").unwrap();
    let sparse = fs::File::create(make("sparse").join("store.db")).unwrap();
    sparse.set_len(20 << 30).unwrap();
    symlink(&good, bucket.join("linked-session")).unwrap();
    symlink(bucket, home.path().join("linked-bucket")).unwrap();
    fs::write(home.path().join("a file"), "").unwrap();

    let root = cli(home.path());
    let listing = root.list();
    let mut listed: Vec<_> =
        listing.heads.iter().map(|head| (head.id.as_str(), head.activity)).collect();
    listed.sort_by_key(|(id, _)| *id);
    assert_eq!(
        listed,
        [
            ("directory", Activity::Damaged),
            ("empty", Activity::Damaged),
            ("fifo", Activity::Damaged),
            ("garbage", Activity::Damaged),
            ("good", Activity::Idle),
            ("link", Activity::Damaged),
            ("meta-fifo", Activity::Idle),
            ("meta-garbage", Activity::Idle),
            ("sparse", Activity::Damaged),
        ]
    );
    let name = bucket.file_name().unwrap().to_str().unwrap();
    for place in [
        format!("{name}/fifo/store.db"),
        format!("{name}/link/store.db"),
        format!("{name}/directory/store.db"),
        format!("{name}/empty/store.db"),
        format!("{name}/garbage/store.db"),
        format!("{name}/sparse/store.db"),
        format!("{name}/meta-fifo/meta.json"),
        format!("{name}/meta-garbage/meta.json"),
        format!("{name}/linked-session"),
        "linked-bucket".to_owned(),
    ] {
        assert!(
            listing.damage.iter().any(|damage| damage.place == place),
            "{place}: {:?}",
            listing.damage
        );
    }
    assert_eq!(listing.damage.len(), 10);
    for id in ["fifo", "link", "directory", "empty", "garbage", "sparse"] {
        assert!(root.read(&format!("{name}/{id}"), Extent::default()).is_err(), "{id}");
    }
    for key in [
        "",
        "..",
        "../x",
        "no/such",
        "a/b/c",
        "\0",
        "linked-bucket/good",
        &format!("{name}/linked-session"),
    ] {
        assert!(root.read(key, Extent::default()).is_err(), "{key:?}");
        assert_eq!(root.stamp(key), None);
    }
}

#[test]
fn only_another_process_that_writes_makes_a_chat_live() {
    let home = tempfile::tempdir().unwrap();
    let mut killed = chat(Generation::Feb2026, "killed");
    let call = Call { result: None, ..Call::shell("call_1", "sleep", "") };
    killed.pending = vec![Step::Call(call)];
    let directory = killed.write_cli(home.path(), Closing::Killed);
    let root = cli(home.path());
    let completed = || {
        let mut head = root.list().heads.remove(0);
        let listed = head.activity;
        root.complete(&mut head);
        (listed, head.activity)
    };
    // The log changed so recently that it may have a writer.
    assert_eq!(completed(), (Activity::Live, Activity::Live));
    let log = fs::File::options().write(true).open(directory.join("store.db-wal")).unwrap();
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    log.set_modified(long_ago).unwrap();
    drop(log);
    assert_eq!(completed(), (Activity::Idle, Activity::Interrupted));
    // This process does not count. Another process counts if it can write.
    let chat = root.find(&root.list().heads[0].origins[0].key.clone().unwrap()).unwrap();
    let is_live = || cli(home.path()).is_live(&chat.files);
    let _ours = fs::File::options().append(true).open(directory.join("store.db")).unwrap();
    assert!(!is_live());
    for (may_write, expected) in [(false, false), (true, true)] {
        let file = fs::File::options()
            .read(true)
            .write(may_write)
            .open(directory.join("store.db"))
            .unwrap();
        let mut other = std::process::Command::new("sleep").arg("60").stdin(file).spawn().unwrap();
        assert_eq!(is_live(), expected);
        other.kill().unwrap();
        other.wait().unwrap();
    }
    assert!(!is_live());
}

#[test]
fn the_stamp_changes_only_when_the_conversation_changes() {
    let home = tempfile::tempdir().unwrap();
    let directory = chat(Generation::Sep2026, "a").write_cli(home.path(), Closing::Clean);
    let root = cli(home.path());
    let key = root.list().heads[0].origins[0].key.clone().unwrap();
    let before = root.stamp(&key);
    assert!(before.is_some());
    assert_eq!(root.stamp(&key), before);
    let writer = open_writer(&directory.join("store.db"));
    writer.execute("INSERT INTO blobs VALUES ('x', 'y')", []).unwrap();
    assert!(root.stamp(&key) != before);
    assert_eq!(root.watched(Some(&key)), vec![directory.clone()]);
    // A new chat begins as an empty directory.
    let bucket = directory.parent().unwrap().to_owned();
    let begun = bucket.join("b");
    std::fs::create_dir(&begun).unwrap();
    assert_eq!(root.watched(None), [home.path().to_owned(), bucket, begun]);
}

#[test]
fn reading_changes_nothing() {
    let home = tempfile::tempdir().unwrap();
    let clean = chat(Generation::Sep2026, "clean").write_cli(home.path(), Closing::Clean);
    let old = chat(Generation::Feb2026, "old").write_cli(home.path(), Closing::Clean);
    let killed = chat(Generation::Sep2026, "killed").write_cli(home.path(), Closing::Killed);
    let pictures = || {
        let mut pictures = [&clean, &old, &killed].map(|directory| picture_of(directory));
        // Readers may change a log's index.
        pictures[2].remove("store.db-shm");
        pictures
    };
    let before = pictures();
    let root = cli(home.path());
    for mut head in root.list().heads {
        root.complete(&mut head);
        let key = head.origins[0].key.clone().unwrap();
        root.read(&key, Extent { last: Some(1), ..Extent::default() }).unwrap();
        root.read(&key, Extent { last: None, branches: crate::store::Branches::WithOrphans })
            .unwrap();
    }
    let matcher = crate::search::Matcher::new(
        crate::search::Pattern::Words("hello"),
        crate::search::Case::Smart,
    )
    .unwrap();
    root.search(&matcher, &|_| std::ops::ControlFlow::Continue(()));
    root.account();
    assert_eq!(pictures(), before);
}
