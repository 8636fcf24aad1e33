//! Stores that are broken, hostile or in use by another process.

use std::fs;
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::ops::ControlFlow;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::stat::Mode;
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;
use store_fixtures::sdk::events::{running, text, user};
use store_fixtures::sdk::{
    Agent, Generation, Run, chat_path, many_agents, write_database, write_lines,
};
use store_fixtures::{Closing, open_writer};

use super::discover;
use super::test_home::{Home, talk};
use crate::model::{Activity, Damage, Message, Part};
use crate::search::{Case, Matcher, Pattern};
use crate::store::{Discovered, Extent, ReadConversationError};
use crate::test_store::{cut_off_pages, picture_of_tree};

/// Calls everything that a store offers. Checks that it is fast and changes nothing.
fn exercise(home: &Home) -> Vec<Damage> {
    let before = picture_of_tree(home.directory.path());
    let started = Instant::now();
    let mut damage = Vec::new();
    for found in discover(&home.places()) {
        let Discovered::Store(store) = found else { continue };
        let listing = store.list();
        damage.extend(listing.damage);
        for mut head in listing.heads {
            if let Ok(conversation) = store.read(&head.id, Extent::default()) {
                damage.extend(conversation.damage);
            }
            store.stamp(&head.id);
            store.complete(&mut head);
        }
        let matcher = Matcher::new(Pattern::Words("needle"), Case::Smart).unwrap();
        damage.extend(store.search(&matcher, &|_| ControlFlow::Continue(())));
        store.account();
    }
    assert!(started.elapsed() < Duration::from_secs(20));
    assert_eq!(picture_of_tree(home.directory.path()), before);
    damage
}

fn one_store() -> Home {
    Home::with(Generation::September2026, &[talk()])
}

#[test]
fn a_file_that_is_not_plain_is_skipped_and_reported() {
    let home = one_store();
    let index = home.root.join("index.db");
    let elsewhere = home.directory.path().join("elsewhere.db");
    fs::rename(&index, &elsewhere).unwrap();
    let kinds: [(&str, &dyn Fn()); 3] = [
        ("FIFO", &|| nix::unistd::mkfifo(&index, Mode::S_IRWXU).unwrap()),
        ("directory", &|| fs::create_dir(&index).unwrap()),
        ("symbolic link", &|| symlink(&elsewhere, &index).unwrap()),
    ];
    for (kind, make) in kinds {
        make();
        let found = discover(&home.places());
        let [Discovered::Skipped(place)] = found.as_slice() else {
            panic!("{kind} is not skipped")
        };
        assert_eq!(place.path.as_ref(), index);
        assert!(place.why.contains(kind), "{}", place.why);
        if kind == "directory" { fs::remove_dir(&index) } else { fs::remove_file(&index) }.unwrap();
    }
}

#[test]
fn a_file_that_is_not_a_database_is_reported() {
    let long = vec![b'x'; 8192];
    let contents: [(&[u8], &str); 3] =
        [(b"", "empty"), (&long, "not an SQLite database"), (b"SQLite format 3\0", "")];
    for (content, what) in contents {
        let home = one_store();
        fs::remove_dir_all(home.root.join("agents")).unwrap();
        fs::write(home.root.join("index.db"), content).unwrap();
        let store = home.store();
        let listing = store.list();
        assert_eq!((listing.heads.len(), listing.damage.len()), (0, 1), "{what}");
        assert!(listing.damage[0].what.contains(what), "{:?}", listing.damage);
        let read = store.read("agent-1", Extent::default());
        assert!(matches!(read, Err(ReadConversationError::Unreadable { .. })));
        assert_eq!(store.stamp("agent-1"), None);
        assert_eq!(store.account().damage.len(), 1);
        exercise(&home);
    }
}

#[test]
fn a_database_without_its_log_says_so() {
    let home = Home::new();
    write_database(&home.root, Generation::July2026, &[talk()], Closing::Killed);
    assert_eq!(fs::metadata(home.root.join("index.db")).unwrap().len(), 4096);
    assert_eq!(exercise(&home), []);
    fs::remove_file(home.root.join("index.db-wal")).unwrap();
    let damage = home.store().list().damage;
    assert!(damage[0].what.contains("copied without its log"), "{damage:?}");
}

#[test]
fn a_giant_sparse_file_is_refused_at_once() {
    for name in ["index.db", "agents.ndjson", "run_events.ndjson"] {
        let home = Home::new();
        if name == "run_events.ndjson" {
            write_lines(&home.root, &[talk()]);
        }
        fs::create_dir_all(&home.root).unwrap();
        let file = fs::File::create(home.root.join(name)).unwrap();
        file.set_len(20 << 30).unwrap();
        let started = Instant::now();
        let store = home.store();
        let n_lost = store.list().damage.len()
            + usize::from(store.read("agent-1", Extent::default()).is_err());
        assert!(n_lost > 0, "{name}");
        assert!(started.elapsed() < Duration::from_secs(2), "{name}");
    }
}

#[test]
fn an_unknown_conversation_is_missing() {
    let home = one_store();
    let read = home.store().read("agent-9", Extent::default());
    assert!(
        matches!(read, Err(ReadConversationError::Missing(path)) if path == home.root.join("index.db"))
    );
}

#[test]
fn broken_events_cost_only_themselves() {
    let home = one_store();
    let writer = open_writer(&home.root.join("index.db"));
    writer
        .execute_batch(
            "UPDATE run_events SET payload_json = '{\"type\"' WHERE run_id = 'run-1' AND seq = 6;
             UPDATE run_events SET payload_json = NULL, payload_ref = 's3://x' WHERE run_id = 'run-1' AND seq = 3;
             UPDATE run_events SET payload_json = x'ff00' WHERE run_id = 'run-1' AND seq = 1;",
        )
        .unwrap();
    writer.close().unwrap();
    let conversation = home.read("agent-1");
    let expected = [
        Damage::new("event 1 of run-1", "it is not JSON"),
        Damage::new("event 3 of run-1", "its content is kept elsewhere, as `s3://x`"),
        Damage::new("event 6 of run-1", "it is not JSON"),
    ];
    assert_eq!(conversation.damage, expected);
    assert_eq!(conversation.head.activity, Activity::Damaged);
    let is_left = |message: &&Message| matches!(&message.parts[..], [Part::Unknown { .. }]);
    let n_left = conversation.messages.iter().filter(is_left).count();
    assert_eq!(
        (conversation.messages.len() - n_left, n_left),
        (7, 2),
        "including the rest of the damaged ones"
    );
}

#[test]
fn a_prompt_that_is_lost_with_its_checkpoint_is_reported() {
    let home = one_store();
    let chat = chat_path(&home.root, "agent-1");
    fs::write(&chat, "no database").unwrap();
    let conversation = home.read("agent-1");
    let places: Vec<&str> =
        conversation.damage.iter().map(|damage| damage.place.as_str()).collect();
    assert_eq!(places, ["run run-2", "store.db"]);
    assert_eq!(conversation.messages.len(), 5);
    fs::remove_file(&chat).unwrap();
    nix::unistd::mkfifo(&chat, Mode::S_IRWXU).unwrap();
    assert_eq!(home.read("agent-1").messages.len(), 5);
}

#[test]
fn agents_and_runs_that_lost_each_other_are_shown() {
    let home = one_store();
    let writer = open_writer(&home.root.join("index.db"));
    writer.execute_batch("PRAGMA foreign_keys = OFF; DELETE FROM agents;").unwrap();
    writer.close().unwrap();
    let heads = home.store().list().heads;
    assert_eq!(heads.iter().map(|head| head.id.as_str()).collect::<Vec<_>>(), ["agent-1"]);
    assert_eq!(home.read("agent-1").messages.len(), 6);
}

#[test]
fn views_and_virtual_tables_are_not_read() {
    let home = Home::new();
    let path = home.root.join("index.db");
    let writer = open_writer(&path);
    writer
        .execute_batch(
            "CREATE VIEW agents AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
               SELECT 'a' || i AS agent_id, 'IDLE' AS status FROM n;
             CREATE TABLE runs (run_id TEXT, agent_id TEXT, result TEXT GENERATED ALWAYS AS (hex(zeroblob(40000000))));
             INSERT INTO runs VALUES ('r', 'a');",
        )
        .unwrap();
    writer.close().unwrap();
    let store = home.store();
    assert_eq!(store.list().heads.len(), 1);
    assert_eq!(store.read("a", Extent::default()).unwrap().messages.len(), 0);
    exercise(&home);
}

/// One run with many events, which fill a few dozen pages.
fn long_run() -> Home {
    let events = (0..300).map(|number| {
        let words = format!("ev{number} {}", "pad ".repeat(100));
        running(&format!("call-{number}"), "shell", json!({"command": words}))
    });
    let run = Run::new("run-1", events.collect());
    Home::with(Generation::July2026, &[Agent::new("agent-1", "/w").with(run)])
}

/// Returns how many of the commands of [`long_run`] are shown, and how many are found.
fn n_commands(home: &Home) -> (usize, usize) {
    let n_shown = home.store().read("agent-1", Extent::default()).map_or(0, |conversation| {
        conversation.messages.iter().flat_map(crate::model::Message::tool_calls).count()
    });
    let found = std::sync::Mutex::new(std::collections::HashSet::new());
    let matcher = Matcher::new(Pattern::Regex(r"ev\d+ "), Case::Smart).unwrap();
    home.store().search(&matcher, &|hit| {
        found.lock().unwrap().insert(hit.snippet.found);
        ControlFlow::Continue(())
    });
    (n_shown, found.into_inner().unwrap().len())
}

#[test]
fn a_truncated_database_is_read_as_far_as_possible_and_reported() {
    let home = long_run();
    assert_eq!(n_commands(&home), (300, 300));
    cut_off_pages(&home.root.join("index.db"), 2);
    let listing = home.store().list();
    assert_eq!(listing.heads.len(), 1);
    assert_eq!(listing.heads[0].activity, Activity::Damaged);
    assert!(listing.damage[0].what.contains("salvaged"), "{:?}", listing.damage);
    let (n_shown, n_found) = n_commands(&home);
    assert!(n_shown > 280 && n_found > 280, "{n_shown} shown and {n_found} found of 300");
    exercise(&home);
}

#[test]
fn events_are_shown_and_found_around_any_damaged_page() {
    let home = long_run();
    let index = home.root.join("index.db");
    // Each of the other tables has only one page.
    let writer = open_writer(&index);
    let others: Vec<u32> = writer
        .prepare("SELECT rootpage FROM sqlite_schema WHERE tbl_name <> 'run_events'")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    writer.close().unwrap();
    let whole = fs::read(&index).unwrap();
    let is_of_events = |page: usize| {
        page > 0
            && !others.iter().any(|root| *root as usize == page + 1)
            && matches!(whole[page * 4096], 0x0a | 0x0d | 0x02)
    };
    let pages: Vec<usize> = (0..whole.len() / 4096).filter(|page| is_of_events(*page)).collect();
    assert!(pages.len() > 20);
    for page in pages {
        let mut bytes = whole.clone();
        bytes[page * 4096..(page + 1) * 4096].fill(0xff);
        fs::write(&index, &bytes).unwrap();
        // A page has up to eight of these events.
        let (n_shown, n_found) = n_commands(&home);
        assert!(n_found >= 290, "page {page}: {n_found} found of 300");
        assert!(n_shown >= 290, "page {page}: {n_shown} shown of 300");
    }
}

#[test]
fn rows_beside_a_damaged_page_are_read() {
    let agents: Vec<Agent> = many_agents(20, 3, 3000).collect();
    let home = Home::with(Generation::July2026, &agents);
    let index = home.root.join("index.db");
    let n_pages = fs::metadata(&index).unwrap().len() / 4096;
    // The middle page holds events.
    let mut file = fs::OpenOptions::new().write(true).open(&index).unwrap();
    file.seek(SeekFrom::Start(n_pages / 2 * 4096)).unwrap();
    file.write_all(&[0xff; 4096]).unwrap();
    drop(file);
    let store = home.store();
    let heads = store.list().heads;
    assert_eq!(heads.len(), 20);
    let conversations: Vec<_> =
        heads.iter().map(|head| store.read(&head.id, Extent::default()).unwrap()).collect();
    let n_damaged =
        conversations.iter().filter(|conversation| !conversation.damage.is_empty()).count();
    assert!((1..=4).contains(&n_damaged), "{n_damaged} are damaged");
    for conversation in conversations {
        let is_named =
            conversation.damage.iter().all(|damage| damage.place.starts_with("run_events"));
        assert!(is_named, "{:?}", conversation.damage);
        assert!(!conversation.messages.is_empty());
    }
    assert!(!exercise(&home).is_empty());
}

#[test]
fn a_store_that_is_locked_exclusively_is_reported_in_time() {
    let home = one_store();
    let writer = open_writer(&home.root.join("index.db"));
    writer
        .execute_batch(
            "PRAGMA journal_mode = DELETE; BEGIN EXCLUSIVE; UPDATE agents SET name = 'x'",
        )
        .unwrap();
    let started = Instant::now();
    let listing = home.store().list();
    assert!(started.elapsed() < Duration::from_secs(8));
    assert_eq!((listing.heads.len(), listing.damage.len()), (0, 1));
    assert!(listing.damage[0].what.contains("locked"), "{:?}", listing.damage);
}

#[test]
fn torn_lines_cost_only_themselves() {
    let home = Home::new();
    let mut other = talk();
    other.id = "agent-other".to_owned();
    other.runs.iter_mut().for_each(|run| run.id = format!("other-{}", run.id));
    write_lines(&home.root, &[talk(), other]);
    let events = home.root.join("run_events.ndjson");
    let whole = fs::read_to_string(&events).unwrap();
    let torn: Vec<String> = whole
        .lines()
        .map(|line| {
            if line.contains("\"other-run-2\"") {
                line[..line.len() / 2].to_owned()
            } else {
                line.to_owned()
            }
        })
        .collect();
    fs::write(&events, torn.join("\n")).unwrap();
    let store = home.store();
    assert_eq!(store.list().heads.len(), 2);
    assert_eq!(home.read("agent-1").damage, []);
    let other = home.read("agent-other");
    assert_eq!(other.damage.len(), 3);
    assert_eq!(
        other.damage[0],
        Damage::new("run_events.ndjson line 34", "it is not a JSON object")
    );
    assert_eq!(other.messages.len(), 5);
    for name in ["runs.ndjson", "checkpoints.ndjson"] {
        fs::remove_file(home.root.join(name)).unwrap();
        nix::unistd::mkfifo(&home.root.join(name), Mode::S_IRWXU).unwrap();
    }
    exercise(&home);
}

const HELD_DATABASE: &str = "CARETAKER_TEST_HELD_DATABASE";

/// Not a test, but the other process for the next test: a process cannot lock against itself.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "distinguishes a test's other process from the test itself"
)]
fn holds_a_database_open_until_its_input_ends() {
    let Some(path) = std::env::var_os(HELD_DATABASE) else { return };
    let writer = open_writer(Path::new(&path));
    let n_agents: i64 =
        writer.query_row("SELECT count(*) FROM agents", [], |row| row.get(0)).unwrap();
    println!("\nopen with {n_agents}");
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

fn write_in_another_process(database: &Path) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "--nocapture",
            concat!(module_path!(), "::holds_a_database_open_until_its_input_ends")
                .trim_start_matches("cursor_stores::"),
        ])
        .env(HELD_DATABASE, database)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        // No reader looks beyond this point.
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let is_open = lines.map(Result::unwrap).any(|line| line.starts_with("open with"));
    assert!(is_open);
    child
}

#[test]
fn a_run_is_live_while_a_process_can_end_it() {
    let run = Run::new("run-1", vec![user("Go."), text("Going")]).ended("RUNNING");
    let mut agent = Agent::new("agent-1", "/w").with(run);
    agent.status = "RUNNING".to_owned();
    let home = Home::new();
    write_database(&home.root, Generation::July2026, &[agent.clone()], Closing::Killed);
    let activity = || home.store().list().heads[0].activity;
    assert_eq!(activity(), Activity::Interrupted);
    let mut child = write_in_another_process(&home.root.join("index.db"));
    assert_eq!(activity(), Activity::Live);
    drop(child.stdin.take());
    child.wait().unwrap();
    assert_eq!(activity(), Activity::Interrupted);

    // The SDK does not keep NDJSON files open, so only a recent change shows that they are in use.
    let lines = Home::new();
    write_lines(&lines.root, &[agent]);
    assert_eq!(lines.store().list().heads[0].activity, Activity::Live);
    for name in super::records::line_files::ALL {
        let file = fs::File::options().append(true).open(lines.root.join(name)).unwrap();
        file.set_modified(std::time::SystemTime::now() - Duration::from_secs(3600)).unwrap();
    }
    assert_eq!(lines.store().list().heads[0].activity, Activity::Interrupted);
}

#[test]
fn reading_does_not_disturb_a_live_writer() {
    let home = one_store();
    let writer = open_writer(&home.root.join("index.db"));
    let payload = json!({"type": "sdk_message", "message": text("More.")}).to_string();
    let sql = "INSERT INTO run_events (run_id, seq, offset, event_type, payload_json, created_at) VALUES ('run-2', ?1, ?1, 'x', ?2, 'y')";
    for seq in 50..60 {
        writer.execute(sql, (seq, &payload)).unwrap();
        assert_eq!(exercise(&home), []);
    }
    assert!(home.read("agent-1").messages.last().unwrap().text().ends_with(&"More.".repeat(10)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn reading_changed_bytes_never_panics_and_changes_nothing_on_disk(
        places in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40),
        cut in prop::option::of(any::<prop::sample::Index>()),
        is_lines: bool,
    ) {
        let home = Home::new();
        if is_lines {
            write_lines(&home.root, &[talk()]);
        } else {
            write_database(&home.root, Generation::September2026, &[talk()], Closing::Clean);
        }
        let mut files: Vec<_> = fs::read_dir(&home.root).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file()).collect();
        files.extend(Some(chat_path(&home.root, "agent-1")).filter(|path| path.exists()));
        for file in files {
            let mut bytes = fs::read(&file).unwrap();
            for (place, byte) in &places {
                let place = place.index(bytes.len());
                bytes[place] = *byte;
            }
            if let Some(cut) = cut {
                bytes.truncate(cut.index(bytes.len()));
            }
            fs::write(&file, bytes).unwrap();
        }
        exercise(&home);
    }
}
