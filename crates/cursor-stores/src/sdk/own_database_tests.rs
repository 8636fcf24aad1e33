//! Tests with an agent's damaged database, or a damaged index.

use std::collections::BTreeSet;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Mutex;

use pretty_assertions::assert_eq;
use store_fixtures::open_writer;
use store_fixtures::sdk::events::{checkpoint_answer, checkpoint_prompt, text, user};
use store_fixtures::sdk::{Agent, Generation, Run, chat_path};

use super::test_home::Home;
use crate::model::{Activity, Message};
use crate::search::{Case, Matcher, Pattern};
use crate::store::Extent;
use crate::test_store::cut_off_pages;

const N_RUNS: usize = 40;
const PAGE: usize = 4096;

fn word(number: usize) -> String {
    format!("kept{number}x")
}

/// An agent whose events are empty: only its own database has its prompts and answers.
fn told_by_checkpoints() -> Home {
    let agent = (0..N_RUNS).fold(Agent::new("agent-1", "/w"), |agent, number| {
        let mut run = Run::new(&format!("run-{number}"), Vec::new());
        let words = |number: usize| format!("{} {}", word(number), "pad ".repeat(300));
        run.checkpoint =
            vec![checkpoint_prompt(&words(2 * number)), checkpoint_answer(&words(2 * number + 1))];
        agent.with(run)
    });
    Home::with(Generation::September2026, &[agent])
}

/// Returns the words shown, the words found, and whether both reported damage.
fn shown_and_found(home: &Home) -> (BTreeSet<String>, BTreeSet<String>, bool) {
    let (mut shown, mut is_told) = (BTreeSet::new(), false);
    if let Ok(conversation) = home.store().read("agent-1", Extent::default()) {
        let whole = serde_json::to_string(&conversation.messages).unwrap();
        shown.extend((0..2 * N_RUNS).map(word).filter(|word| whole.contains(word)));
        is_told = conversation.head.activity == Activity::Damaged;
    }
    let found = Mutex::new(BTreeSet::new());
    let matcher = Matcher::new(Pattern::Regex(r"kept\d+x"), Case::Smart).unwrap();
    let damage = home.store().search(&matcher, &|hit| {
        assert_eq!(hit.key, "agent-1");
        found.lock().unwrap().insert(hit.snippet.found);
        ControlFlow::Continue(())
    });
    (shown, found.into_inner().unwrap(), is_told && !damage.is_empty())
}

/// The words in rows that SQLite can read one by one.
fn readable(database: &Path) -> BTreeSet<String> {
    let copy = tempfile::tempdir().unwrap();
    let path = copy.path().join("copy.db");
    fs::copy(database, &path).unwrap();
    #[expect(clippy::disallowed_methods, reason = "reads a copy, in a different way than our code")]
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.execute_batch("PRAGMA writable_schema = ON").unwrap();
    let mut words = BTreeSet::new();
    for row in 1..1_000 {
        let sql = "SELECT data FROM blobs NOT INDEXED WHERE rowid = ?1";
        let data = connection.query_row(sql, [row], |row| row.get::<_, Vec<u8>>(0));
        let data = String::from_utf8_lossy(&data.unwrap_or_default()).into_owned();
        words.extend((0..2 * N_RUNS).map(word).filter(|word| data.contains(word)));
    }
    words
}

#[test]
fn everything_readable_in_an_agents_own_database_is_shown_and_found_around_any_damaged_page() {
    let home = told_by_checkpoints();
    let chat = chat_path(&home.root, "agent-1");
    let all: BTreeSet<String> = (0..2 * N_RUNS).map(word).collect();
    assert_eq!(shown_and_found(&home), (all.clone(), all.clone(), false));
    let whole = fs::read(&chat).unwrap();
    assert!(whole.len() / PAGE > 30);
    let mut n_partly = 0;
    for page in 1..whole.len() / PAGE {
        let mut bytes = whole.clone();
        bytes[page * PAGE..(page + 1) * PAGE].fill(0xff);
        fs::write(&chat, &bytes).unwrap();
        let expected = readable(&chat);
        let (shown, found, is_told) = shown_and_found(&home);
        assert!(
            found.is_superset(&expected),
            "the search missed words when page {page} was damaged"
        );
        assert_eq!(shown, found, "page {page}");
        assert!(is_told || expected == all, "nothing reported the loss of page {page}");
        n_partly += usize::from(!expected.is_empty() && expected != all);
    }
    assert!(n_partly > 20, "{n_partly} pages have some of the words");
}

#[test]
fn a_flipped_bit_in_a_tables_schema_row_hides_nothing() {
    let home = told_by_checkpoints();
    let chat = chat_path(&home.root, "agent-1");
    let all: BTreeSet<String> = (0..2 * N_RUNS).map(word).collect();
    let whole = fs::read(&chat).unwrap();
    // The type, the name and the table name are adjacent.
    for described in ["tablemetameta", "tableblobsblobs"] {
        let at = memchr::memmem::find(&whole, described.as_bytes()).unwrap();
        for place in 0..described.len() {
            let mut bytes = whole.clone();
            // This bit distinguishes uppercase from lowercase letters.
            bytes[at + place] ^= 1 << 5;
            fs::write(&chat, &bytes).unwrap();
            let (shown, found, _) = shown_and_found(&home);
            assert_eq!((&shown, &found), (&all, &all), "byte {place} of {described}");
        }
    }
}

#[test]
fn half_of_an_agents_own_database_is_shown_and_found() {
    let home = told_by_checkpoints();
    let chat = chat_path(&home.root, "agent-1");
    cut_off_pages(&chat, fs::metadata(&chat).unwrap().len() / PAGE as u64 / 2);
    let (shown, found, is_told) = shown_and_found(&home);
    assert!(found.len() > N_RUNS / 2, "{} of {}", found.len(), 2 * N_RUNS);
    assert_eq!(shown, found);
    assert!(is_told);
}

#[test]
fn agents_are_read_from_their_own_databases_when_the_index_is_lost() {
    let home = told_by_checkpoints();
    let all: BTreeSet<String> = (0..2 * N_RUNS).map(word).collect();
    fs::write(home.root.join("index.db"), vec![b'x'; 9000]).unwrap();
    let listing = home.store().list();
    assert_eq!(listing.heads.len(), 1);
    let head = &listing.heads[0];
    assert_eq!((head.id.as_str(), head.activity), ("agent-1", Activity::Damaged));
    assert!(listing.damage[0].what.contains("not an SQLite database"), "{:?}", listing.damage);
    assert_eq!(shown_and_found(&home), (all.clone(), all, true));
    // No other agent is mistaken for it.
    assert!(home.store().read("agent-2", Extent::default()).is_err());
}

#[test]
fn events_of_a_run_whose_row_is_lost_are_shown_where_they_belong() {
    let runs = |agent: &str| {
        [0, 1].into_iter().fold(Agent::new(agent, "/w"), |made, number| {
            let messages = vec![user(&format!("prompt of {agent}")), text("answer")];
            made.with(Run::new(&format!("run-{agent}-{number}"), messages))
        })
    };
    let home = Home::with(Generation::July2026, &[runs("agent-1"), runs("agent-2")]);
    let index = home.root.join("index.db");
    let writer = open_writer(&index);
    let root: u32 = writer
        .query_row("SELECT rootpage FROM sqlite_schema WHERE name = 'runs'", [], |row| row.get(0))
        .unwrap();
    writer.close().unwrap();
    let mut bytes = fs::read(&index).unwrap();
    bytes[(root as usize - 1) * PAGE..root as usize * PAGE].fill(0xff);
    fs::write(&index, bytes).unwrap();
    for agent in ["agent-1", "agent-2"] {
        let conversation = home.read(agent);
        let prompts: Vec<String> = conversation.messages.iter().map(Message::text).collect();
        let prompt = format!("prompt of {agent}");
        assert_eq!(prompts, [&prompt, "answer", &prompt, "answer"]);
        assert_eq!(conversation.head.activity, Activity::Damaged);
        let keys = Mutex::new(Vec::new());
        let pattern = format!("\"{prompt}\"");
        let matcher = Matcher::new(Pattern::Words(&pattern), Case::Smart).unwrap();
        home.store().search(&matcher, &|hit| {
            keys.lock().unwrap().push(hit.key);
            ControlFlow::Continue(())
        });
        assert_eq!(keys.into_inner().unwrap(), [agent, agent]);
    }
}
