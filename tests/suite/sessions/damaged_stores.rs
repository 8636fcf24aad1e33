//! The real program reads every kind of store, damaged in every way: it ends quickly, reports the damage, and changes
//! no byte. All commands agree, and show every row that is still readable.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::{Duration, Instant, SystemTime};

use pretty_assertions::assert_eq;
use rusqlite::Connection;
use rusqlite::types::ValueRef;
use serde_json::{Value, json};
use store_fixtures::Closing;
use store_fixtures::chat::{Chat, Generation, Turn};
use store_fixtures::ide::{IdeHome, assistant_bubble, composer, header, user_bubble};
use store_fixtures::ide_old::{CHATS, COMPOSERS, PROMPTS, StateDirectory, Storage};
use store_fixtures::sdk;
use store_fixtures::transcript::{Layout, Line, TranscriptProject, prompt};

use crate::sessions::every_store::{picture, user_dir};
use crate::sessions::flipped_bits::n_rounds;
use crate::stage::{Stage, stderr};

/// Far longer than any command needs, even on a busy machine.
const SOON: Duration = Duration::from_secs(20);
const PAGE: usize = 4096;
const HEADER: &str = "its header is garbage";

/// A home with conversations in one kind of store. Every message has a unique word.
pub(crate) struct Planted {
    pub(crate) stage: Stage,
    /// The file to damage. The home has other files of the same kind.
    pub(crate) file: PathBuf,
    pub(crate) words: BTreeSet<String>,
    pub(crate) rows: Rows,
}

/// How to read the file row by row without our own code.
#[derive(Clone, Copy)]
pub(crate) enum Rows {
    Table(&'static str),
    /// Only rows whose key has this prefix. Other rows are not ours to read, and may be secret.
    Keys(&'static str, &'static [&'static str]),
    Lines,
}

/// Makes unique words, each in a text of about a quarter of a page.
#[derive(Default)]
struct Words {
    made: BTreeSet<String>,
}

impl Words {
    fn next(&mut self) -> String {
        let word = format!("planted{:04}x", self.made.len());
        self.made.insert(word.clone());
        format!("{word} {}", "and so on ".repeat(90))
    }
}

pub(crate) fn chats(write: impl Fn(&Chat, &Path) -> PathBuf, directory: &str) -> Planted {
    let stage = Stage::new();
    let root = stage.home().join(".cursor").join(directory);
    let mut words = Words::default();
    let files: Vec<PathBuf> = (0..3)
        .map(|number| {
            let id = format!("dada{number}ada-0000-4000-8000-000000000001");
            let turns = (0..12).map(|_| Turn::plain(&words.next(), &words.next())).collect();
            let chat = Chat::new(Generation::Sep2026, &id).with_turns(turns);
            write(&chat, &root).join("store.db")
        })
        .collect();
    let file = files[1].clone();
    Planted { stage, file, words: words.made, rows: Rows::Table("blobs") }
}

pub(crate) fn ide() -> Planted {
    let stage = Stage::new();
    let home = IdeHome::new(&user_dir(&stage));
    let mut words = Words::default();
    for number in 0..6 {
        let bubbles: Vec<Value> = (0..12)
            .map(|place| {
                let id = format!("bubble-{number}-{place}");
                let said = if place % 2 == 0 { user_bubble } else { assistant_bubble };
                said(&id, &words.next())
            })
            .collect();
        let headers: Vec<Value> = bubbles.iter().map(header).collect();
        let id = format!("dada{number}ada-0000-4000-8000-000000000002");
        home.put_conversation(&composer(&id, 16, &headers), &bubbles);
    }
    let file = home.path();
    home.close(Closing::Clean);
    let rows = Rows::Keys("cursorDiskKV", &["bubbleId:", "composerData:"]);
    Planted { stage, file, words: words.made, rows }
}

pub(crate) fn ide_old() -> Planted {
    let stage = Stage::new();
    let mut words = Words::default();
    let files: Vec<PathBuf> = (0..3)
        .map(|number| {
            let workspace =
                StateDirectory::workspace(&user_dir(&stage), &format!("dada{number}").repeat(5));
            workspace.folder("file:///srv/app");
            let bubbles: Vec<Value> = (0..6)
                .map(|place| json!({"type": "user", "id": format!("b{place}"), "text": words.next()}))
                .collect();
            let conversation: Vec<Value> = (0..6)
                .map(|place| json!({"bubbleId": format!("c{place}"), "type": 1, "text": words.next()}))
                .collect();
            let prompts: Vec<Value> =
                (0..6).map(|_| json!({"text": words.next(), "commandType": 1})).collect();
            let rows = [
                (CHATS, json!({"tabs": [{"tabId": format!("tab-{number}"), "bubbles": bubbles}]})),
                (
                    COMPOSERS,
                    json!({"allComposers": [{"composerId": format!("composer-{number}"),
                        "createdAt": 1_700_000_000_000_i64, "conversation": conversation}]}),
                ),
                (PROMPTS, json!(prompts)),
            ];
            workspace.rows(&rows, Storage::Blob, Closing::Clean);
            workspace.database()
        })
        .collect();
    let file = files[1].clone();
    let rows = Rows::Keys("ItemTable", &[CHATS, COMPOSERS, PROMPTS]);
    Planted { stage, file, words: words.made, rows }
}

/// Plants words only in the events, or only in the agents' own databases.
pub(crate) fn sdk_store(are_in_events: bool) -> Planted {
    let stage = Stage::new();
    let store = sdk::state_root(&stage.home().join(".cursor/projects"), "/srv/app");
    let mut words = Words::default();
    let agents: Vec<sdk::Agent> = (0..3)
        .map(|number| {
            let id = format!("agent-dada{number}ada-0000-4000-8000-000000000003");
            (0..10).fold(sdk::Agent::new(&id, "/srv/app"), |agent, turn| {
                let (prompt, answer) = (words.next(), words.next());
                let mut run = sdk::Run::new(&format!("run-{number}-{turn}"), Vec::new());
                if are_in_events {
                    let said = [sdk::events::user(&prompt), sdk::events::text(&answer)];
                    run.events = said.into_iter().map(sdk::Event::message).collect();
                } else {
                    run.checkpoint = vec![
                        sdk::events::checkpoint_prompt(&prompt),
                        sdk::events::checkpoint_answer(&answer),
                    ];
                }
                agent.with(run)
            })
        })
        .collect();
    sdk::write_database(&store, sdk::Generation::September2026, &agents, Closing::Clean);
    let (file, rows) = if are_in_events {
        (store.join("index.db"), Rows::Table("run_events"))
    } else {
        (sdk::chat_path(&store, &agents[1].id), Rows::Table("blobs"))
    };
    Planted { stage, file, words: words.made, rows }
}

fn transcript() -> Planted {
    let stage = Stage::new();
    let project = TranscriptProject::new(&stage.home().join(".cursor/projects"), "srv-app");
    let mut words = Words::default();
    let files: Vec<PathBuf> = (0..3)
        .map(|number| {
            let lines: Vec<Line> = (0..12)
                .flat_map(|_| {
                    let prompt = prompt("Tuesday, Jul 21, 2026, 3:04 PM (UTC+2)", words.next());
                    [prompt, Line::AssistantString(words.next())]
                })
                .collect();
            let id = format!("dada{number}ada-0000-4000-8000-000000000004");
            project.transcript(Layout::Nested, &id, &lines)
        })
        .collect();
    let file = files[1].clone();
    Planted { stage, file, words: words.made, rows: Rows::Lines }
}

/// A kind of damage, and the bytes of the damaged file.
struct Damaged {
    name: String,
    bytes: Vec<u8>,
    /// True if a reader can tell that something is missing. False if only values changed.
    is_plain: bool,
}

fn damaged(whole: &[u8]) -> Vec<Damaged> {
    let plain = |name: String, bytes: Vec<u8>| Damaged { name, bytes, is_plain: true };
    let n_pages = whole.len() / PAGE;
    let mut all = vec![
        // Do not cut at the end of a transcript's line, because such a cut leaves no trace.
        plain("cut in half".to_owned(), whole[..whole.len() / 2 + 7].to_vec()),
        plain("cut in half, at a page".to_owned(), whole[..n_pages / 2 * PAGE].to_vec()),
    ];
    for part in 1..6 {
        let page = n_pages * part / 6;
        let mut bytes = whole.to_vec();
        bytes[page * PAGE..(page + 1) * PAGE].fill(0xff);
        all.push(plain(format!("page {page} of {n_pages} is bad"), bytes));
    }
    let mut header = whole.to_vec();
    header[..PAGE].iter_mut().zip(b"garbage ".iter().cycle()).for_each(|(byte, new)| *byte = *new);
    all.push(plain(HEADER.to_owned(), header));
    // The seed is fixed, so that the test damages the same bytes every time.
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    for round in 0..6 * n_rounds() {
        let mut bytes = whole.to_vec();
        for _ in 0..8_usize << (round % 6) {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            // Skip the database header, because damage to it is a separate kind.
            let place = 100 + usize::try_from(state >> 33).unwrap() % (bytes.len() - 100);
            bytes[place] ^= 1 << (state >> 29 & 7);
        }
        all.push(Damaged {
            name: format!("{} bits are flipped {round}", 8 << (round % 6)),
            bytes,
            is_plain: false,
        });
    }
    all
}

/// Returns the words in all rows that can be read one by one.
fn readable(planted: &Planted, n_rows: i64) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut look = |text: &[u8]| {
        let text = String::from_utf8_lossy(text);
        let mut rest = text.as_ref();
        while let Some(at) = rest.find("planted") {
            let word: String = rest[at..].chars().take("planted0000x".len()).collect();
            found.extend(planted.words.get(&word).cloned());
            rest = &rest[at + "planted".len()..];
        }
    };
    let (table, keys) = match planted.rows {
        Rows::Table(table) => (table, None),
        Rows::Keys(table, keys) => (table, Some(keys)),
        Rows::Lines => {
            let file = fs::read(&planted.file).unwrap();
            let is_whole = |line: &&[u8]| serde_json::from_slice::<Value>(line).is_ok();
            file.split(|byte| *byte == b'\n').filter(is_whole).for_each(look);
            return found;
        }
    };
    let directory = tempfile::tempdir().unwrap();
    let copy = directory.path().join("copy.db");
    fs::copy(&planted.file, &copy).unwrap();
    let connection = Connection::open(&copy).unwrap();
    connection.execute_batch("PRAGMA writable_schema = ON").ok();
    for row in 1..=n_rows {
        let sql = format!("SELECT * FROM {table} NOT INDEXED WHERE rowid = {row}");
        let Ok(mut statement) = connection.prepare(&sql) else { break };
        let n_columns = statement.column_count();
        let Ok(mut rows) = statement.query([]) else { continue };
        let Ok(Some(row)) = rows.next() else { continue };
        let text = |place: usize| match row.get_ref(place) {
            Ok(ValueRef::Text(text) | ValueRef::Blob(text)) => text.to_vec(),
            _ => Vec::new(),
        };
        let is_ours =
            keys.is_none_or(|keys| keys.iter().any(|key| text(0).starts_with(key.as_bytes())));
        if is_ours {
            (0..n_columns).for_each(|place| look(&text(place)));
        }
    }
    found
}

fn n_rows(planted: &Planted) -> i64 {
    let (Rows::Table(table) | Rows::Keys(table, _)) = planted.rows else { return 0 };
    let connection = Connection::open(&planted.file).unwrap();
    connection.query_row(&format!("SELECT max(rowid) FROM {table}"), [], |row| row.get(0)).unwrap()
}

/// The output of all commands.
pub(crate) struct Told {
    pub(crate) found: BTreeSet<String>,
    pub(crate) n_sessions: usize,
    pub(crate) shown: BTreeSet<String>,
    pub(crate) exported: BTreeSet<String>,
    /// The commands that reported missing data.
    pub(crate) warned: Vec<&'static str>,
}

impl Told {
    pub(crate) fn by(planted: &Planted, damage: &str, expected: &BTreeSet<String>) -> Self {
        let stage = &planted.stage;
        let run = |args: &[&str]| -> Output {
            let started = Instant::now();
            let output = stage.output(args);
            assert!(started.elapsed() < SOON, "{damage}: {args:?} took {:?}", started.elapsed());
            let code = output.status.code();
            assert!(
                matches!(code, Some(0..=5)),
                "{damage}: {args:?}: {code:?} {}",
                stderr(&output)
            );
            assert!(!stderr(&output).contains("panicked"), "{damage}: {}", stderr(&output));
            output
        };
        let words_in = |text: &[u8]| -> BTreeSet<String> {
            let text = String::from_utf8_lossy(text);
            planted.words.iter().filter(|word| text.contains(*word)).cloned().collect()
        };
        let mut warned = Vec::new();

        let listed = run(&["sessions", "ls", "--all", "--json"]);
        let listing: Value = serde_json::from_slice(&listed.stdout).unwrap();
        let sessions = listing["sessions"].as_array().unwrap();
        let is_marked = sessions.iter().any(|session| session["activity"] == "damaged");
        if is_marked || !listed.stderr.is_empty() {
            warned.push("ls");
        }

        let mut shown = BTreeSet::new();
        let mut is_warned = false;
        for session in sessions {
            let id = session["id"].as_str().unwrap();
            let output = run(&["sessions", "show", id, "--orphans", "--full"]);
            is_warned |= !output.status.success() || stderr(&output).contains("could not be read");
            let in_words = words_in(&output.stdout);
            let output = run(&["sessions", "show", id, "--orphans", "--json"]);
            let in_json = words_in(&output.stdout);
            assert_eq!(in_words, in_json, "{damage}: {id} is shown differently");
            let told: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
            is_warned |= told["damage"].as_array().is_some_and(|damage| !damage.is_empty());
            shown.extend(in_json);
        }
        if is_warned {
            warned.push("show");
        }

        let searched = run(&["sessions", "search", "--json", "--regex", r"planted\d{4}x"]);
        let mut found = BTreeSet::new();
        for line in searched.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let hit: Value = serde_json::from_slice(line).unwrap();
            found.extend(planted.words.get(hit["snippet"]["found"].as_str().unwrap()).cloned());
        }
        if !searched.stderr.is_empty() {
            warned.push("search");
        }
        // For a message with many words, `search` reports one hit.
        let others: Vec<&String> =
            expected.union(&shown).filter(|word| !found.contains(*word)).collect();
        let others: Vec<String> = others
            .into_iter()
            .filter(|word| run(&["sessions", "search", "--json", "--regex", word]).status.success())
            .cloned()
            .collect();
        found.extend(others);

        let out = stage.root().join("out");
        let out_name = out.to_str().unwrap();
        let output =
            run(&["sessions", "export", "--all", "--orphans", "--format", "json", "-o", out_name]);
        let mut exported = BTreeSet::new();
        let mut is_warned = stderr(&output).lines().count() > 1;
        for entry in fs::read_dir(&out).unwrap() {
            let text = fs::read(entry.unwrap().path()).unwrap();
            exported.extend(words_in(&text));
            is_warned |= String::from_utf8_lossy(&text).contains("\"damage\"");
        }
        fs::remove_dir_all(&out).unwrap();
        if is_warned {
            warned.push("export");
        }
        Self { found, n_sessions: sessions.len(), shown, exported, warned }
    }
}

/// Tests all kinds of damage.
fn survives_everything(planted: &Planted) {
    let told = Told::by(planted, "whole", &planted.words);
    let n_sessions = told.n_sessions;
    assert_eq!(told.found, planted.words, "whole");
    assert_eq!(told.shown, planted.words, "whole");
    assert_eq!(told.exported, planted.words, "whole");
    assert_eq!(told.warned, [""; 0], "whole");
    let n_rows = n_rows(planted);
    let whole = fs::read(&planted.file).unwrap();
    let elsewhere: BTreeSet<String> =
        planted.words.difference(&readable(planted, n_rows)).cloned().collect();
    let mut n_partly = 0;
    let mut failures = Vec::new();
    for Damaged { name, bytes, is_plain } in damaged(&whole) {
        fs::write(&planted.file, &bytes).unwrap();
        // No process uses the store.
        let long_ago = SystemTime::now() - Duration::from_secs(3600);
        File::options().append(true).open(&planted.file).unwrap().set_modified(long_ago).unwrap();
        let left = readable(planted, n_rows);
        let mut expected: BTreeSet<String> = left.union(&elsewhere).cloned().collect();
        if name == HEADER && !matches!(planted.rows, Rows::Lines) {
            // SQLite cannot read this file, but the file has no rows.
            expected.clone_from(&planted.words);
        }
        let before = picture(&planted.stage.home());
        let mut told = Told::by(planted, &name, &expected);
        if told.n_sessions < n_sessions
            && told.warned.contains(&"ls")
            && !told.warned.contains(&"show")
        {
            // Nothing is left to show.
            told.warned.insert(1, "show");
        }
        assert!(picture(&planted.stage.home()) == before, "{name}: reading changed something");
        let lacking = |what: &str, told: &BTreeSet<String>| {
            let lost: Vec<&String> = expected.difference(told).collect();
            (!lost.is_empty()).then(|| format!("{name}: {what} lacks {lost:?}"))
        };
        if is_plain {
            failures.extend(lacking("search", &told.found));
            failures.extend(lacking("show", &told.shown));
        }
        let n_known = expected.intersection(&told.found).count();
        if n_known < expected.len() {
            let lost: Vec<&String> = expected.difference(&told.found).collect();
            failures.push(format!("{name}: not found, of {} words: {lost:?}", expected.len()));
        }
        // If a bit flips in a field's name, `search` still finds the text, but `show` does not recognise a message.
        let is_too_much = |shown: &BTreeSet<String>| {
            if is_plain { *shown != told.found } else { !shown.is_subset(&told.found) }
        };
        if is_too_much(&told.shown) || told.exported != told.shown {
            failures.push(format!(
                "{name}: found {:?}, shown {:?}, exported {:?}",
                told.found, told.shown, told.exported
            ));
        }
        if is_plain
            && told.found != planted.words
            && told.warned != ["ls", "show", "search", "export"]
        {
            failures.push(format!("{name}: only {:?} report the damage", told.warned));
        }
        n_partly += usize::from(!left.is_empty() && expected != planted.words);
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    // A chat stores most of its messages twice.
    assert!(n_partly > 1, "only {n_partly} kinds of damage left some words readable");
}

#[test]
fn all_commands_show_what_is_left_of_a_chat() {
    survives_everything(&chats(|chat, root| chat.write_cli(root, Closing::Clean), "chats"));
}

#[test]
fn all_commands_show_what_is_left_of_an_acp_session() {
    survives_everything(&chats(|chat, root| chat.write_acp(root, Closing::Clean), "acp-sessions"));
}

#[test]
fn all_commands_show_what_is_left_of_an_ide_database() {
    survives_everything(&ide());
}

#[test]
fn all_commands_show_what_is_left_of_an_old_workspaces_database() {
    survives_everything(&ide_old());
}

#[test]
fn all_commands_show_what_is_left_of_the_sdks_index() {
    survives_everything(&sdk_store(true));
}

#[test]
fn all_commands_show_what_is_left_of_an_sdk_agents_database() {
    survives_everything(&sdk_store(false));
}

#[test]
fn all_commands_show_what_is_left_of_a_transcript() {
    survives_everything(&transcript());
}
