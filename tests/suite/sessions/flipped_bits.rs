//! The real program reads every kind of database with bits flipped at random. It finds, shows and exports every row
//! whose own bits did not change, even if everything around the row is broken.

use std::collections::BTreeSet;
use std::fs;
use std::ops::Range;

use memchr::memmem;
use rusqlite::Connection;
use rusqlite::types::ValueRef;
use store_fixtures::Closing;

use crate::sessions::damaged_stores::{Planted, Rows, Told, chats, ide, ide_old, sdk_store};
use crate::sessions::every_store::picture;

const PAGE: usize = 4096;
/// A value's number and key come before it, and a time after it. A change there changes the row.
const BEFORE: usize = 128;
const BEHIND: usize = 64;

/// A row: its words and the byte ranges in the file.
struct Row {
    words: BTreeSet<String>,
    places: Vec<Range<usize>>,
}

/// Returns the rows with words in the intact file.
fn rows(planted: &Planted, whole: &[u8]) -> Vec<Row> {
    let (Rows::Table(table) | Rows::Keys(table, _)) = planted.rows else { return Vec::new() };
    let connection = Connection::open(&planted.file).unwrap();
    let mut statement = connection.prepare(&format!("SELECT * FROM {table}")).unwrap();
    let n_columns = statement.column_count();
    let mut found = statement.query([]).unwrap();
    let mut rows = Vec::new();
    while let Some(row) = found.next().unwrap() {
        let values = (0..n_columns).map(|place| match row.get_ref(place).unwrap() {
            ValueRef::Text(value) | ValueRef::Blob(value) => value.to_vec(),
            _ => Vec::new(),
        });
        let value = values.max_by_key(Vec::len).unwrap();
        let has = |word: &&String| memmem::find(&value, word.as_bytes()).is_some();
        let words: BTreeSet<String> = planted.words.iter().filter(has).cloned().collect();
        if !words.is_empty() {
            rows.push(Row { words, places: places(whole, &value) });
        }
    }
    rows
}

/// Returns the byte ranges of a value: one piece, or several if its end is on other pages.
fn places(whole: &[u8], value: &[u8]) -> Vec<Range<usize>> {
    let mut places = Vec::new();
    if let Some(at) = memmem::find(whole, value) {
        places.push(at - BEFORE..at + value.len() + BEHIND);
        return places;
    }
    let at = memmem::find(whole, &value[..64]).unwrap();
    let is_same = |(one, other): &(&u8, &u8)| one == other;
    // A page number may happen to look like the next piece.
    let n_here = whole[at..].iter().zip(value).take_while(is_same).count();
    let n_here = (n_here - 4..=n_here)
        .find(|n_here| {
            let rest = &value[*n_here..];
            let piece = &rest[..rest.len().min(PAGE - 4)];
            whole.chunks(PAGE).any(|page| page[4..].starts_with(piece))
        })
        .unwrap();
    places.push(at - BEFORE..at + n_here + 4);
    for piece in value[n_here..].chunks(PAGE - 4) {
        let page = whole.chunks(PAGE).position(|page| page[4..].starts_with(piece)).unwrap();
        places.push(page * PAGE..page * PAGE + 4 + piece.len());
    }
    places
}

/// Random-looking numbers, the same every time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % end
    }
}

/// The number of rounds. `FLIP_ROUNDS` changes it.
pub(crate) fn n_rounds() -> u64 {
    std::env::var("FLIP_ROUNDS").map_or(1, |rounds| rounds.parse().unwrap())
}

fn untouched_rows_survive(planted: &Planted) {
    let whole = fs::read(&planted.file).unwrap();
    let rows = rows(planted, &whole);
    let in_file: BTreeSet<&String> = rows.iter().flat_map(|row| &row.words).collect();
    let elsewhere: BTreeSet<String> =
        planted.words.iter().filter(|word| !in_file.contains(word)).cloned().collect();
    assert!(!elsewhere.is_empty() || in_file.len() == planted.words.len());
    let mut failures = Vec::new();
    let (mut n_expected, mut n_lost_words) = (0, 0);
    for round in 0..n_rounds() {
        for n_flips in [8, 16, 32, 64, 128, 256] {
            let mut dice = Dice(round << 32 | n_flips);
            let mut bytes = whole.clone();
            let mut flipped = Vec::new();
            for _ in 0..n_flips {
                let place = dice.below(bytes.len());
                bytes[place] ^= 1 << dice.below(8);
                flipped.push(place);
            }
            fs::write(&planted.file, &bytes).unwrap();
            let is_whole = |row: &&Row| {
                !row.places.iter().any(|place| flipped.iter().any(|flip| place.contains(flip)))
            };
            let mut expected = elsewhere.clone();
            expected.extend(rows.iter().filter(is_whole).flat_map(|row| row.words.clone()));
            let before = picture(&planted.stage.home());
            let name = format!("round {round}, {n_flips} bits");
            let told = Told::by(planted, &name, &expected);
            assert!(picture(&planted.stage.home()) == before, "{name}: reading changed something");
            for (what, told) in
                [("found", &told.found), ("shown", &told.shown), ("exported", &told.exported)]
            {
                let lost: Vec<&String> = expected.difference(told).collect();
                if !lost.is_empty() {
                    n_lost_words += lost.len();
                    failures
                        .push(format!("{name}: not {what}, of {} words: {lost:?}", expected.len()));
                }
            }
            n_expected += expected.len() - elsewhere.len();
        }
    }
    fs::write(&planted.file, &whole).unwrap();
    assert!(n_expected > 0, "every row was hit every time");
    assert!(
        failures.is_empty(),
        "{n_lost_words} words lost; search, show and export should each give {n_expected}:\n{}",
        failures.join("\n")
    );
}

#[test]
fn every_intact_row_of_a_chat_survives_flipped_bits() {
    untouched_rows_survive(&chats(|chat, root| chat.write_cli(root, Closing::Clean), "chats"));
}

#[test]
fn every_intact_row_of_an_ide_database_survives_flipped_bits() {
    untouched_rows_survive(&ide());
}

#[test]
fn every_intact_row_of_an_old_workspace_survives_flipped_bits() {
    untouched_rows_survive(&ide_old());
}

#[test]
fn every_intact_row_of_the_sdks_index_survives_flipped_bits() {
    untouched_rows_survive(&sdk_store(true));
}

#[test]
fn every_intact_row_of_an_sdk_agents_database_survives_flipped_bits() {
    untouched_rows_survive(&sdk_store(false));
}
