//! A conversation in several stores is listed once, its count matches what `show` prints, and each hit is reported
//! once.

use std::collections::BTreeSet;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use store_fixtures::Closing;
use store_fixtures::chat::{Call, Chat, Generation, Step, Turn};
use store_fixtures::ide::{IdeHome, assistant_bubble, composer, header, user_bubble};
use store_fixtures::transcript::{Block, Layout, Line, TranscriptProject, prompt};

use crate::sessions::every_store::{plant_everywhere, user_dir};
use crate::stage::{Stage, json_lines};

const CHAT: &str = "0e0e0e0e-0000-4000-8000-000000000001";
const COMPOSER: &str = "0e0e0e0e-0000-4000-8000-000000000002";
const AT: &str = "Tuesday, Jul 21, 2026, 3:04 PM (UTC+2)";

/// Makes a chat and an IDE conversation, each with its transcript.
fn told_twice() -> Stage {
    let stage = Stage::new();
    let cursor = stage.home().join(".cursor");
    let steps = vec![
        Step::Text("I look at wordanswer first.".to_owned()),
        Step::Call(Call::shell("call-1", "ls wordcommand", "wordoutput")),
        Step::Text("There is wordlast.".to_owned()),
    ];
    let mut turns = vec![Turn::Agent { prompt: "Where is wordprompt, please?".to_owned(), steps }];
    turns.extend((0..3).map(|_| Turn::plain("Go on with wordagain.", "Yes.")));
    Chat::new(Generation::Sep2026, CHAT)
        .with_turns(turns)
        .write_cli(&cursor.join("chats"), Closing::Clean);
    let text = |text: &str| Block::Text(text.to_owned());
    let mut lines = vec![
        prompt(AT, "Where is wordprompt, please?"),
        Line::Assistant(vec![
            text("I look at wordanswer first."),
            Block::ToolUse {
                name: "Shell".to_owned(),
                input: json!({"command": "ls wordcommand"}),
            },
        ]),
        Line::Assistant(vec![text("There is wordlast.")]),
    ];
    for _ in 0..3 {
        lines.push(prompt(AT, "Go on with wordagain."));
        lines.push(Line::Assistant(vec![text("Yes.")]));
    }
    let project = TranscriptProject::new(&cursor.join("projects"), "srv-app");
    project.transcript(Layout::Nested, CHAT, &lines);

    let home = IdeHome::new(&user_dir(&stage));
    let bubbles = [
        user_bubble("b0", "And where is wordbubble?"),
        assistant_bubble("b1", "Here is wordreply."),
    ];
    let headers: Vec<Value> = bubbles.iter().map(header).collect();
    home.put_conversation(&composer(COMPOSER, 16, &headers), &bubbles);
    home.close(Closing::Clean);
    let lines = [
        prompt(AT, "And where is wordbubble?"),
        Line::Assistant(vec![text("Here is wordreply.")]),
        // The IDE was closed before it wrote this into its database.
        prompt(AT, "Is wordonly there?"),
    ];
    project.transcript(Layout::Nested, COMPOSER, &lines);
    stage
}

fn finds(stage: &Stage, word: &str, flags: &[&str]) -> Vec<Value> {
    let output = stage.output(&[&["sessions", "search", word, "--json"], flags].concat());
    json_lines(&output)
}

#[test]
fn a_message_in_several_stores_is_found_once() {
    let stage = told_twice();
    let once = [
        ("wordprompt", "cli"),
        ("wordanswer", "cli"),
        ("wordcommand", "cli"),
        ("wordoutput", "cli"),
        ("wordlast", "cli"),
        ("wordbubble", "ide"),
        ("wordreply", "ide"),
        ("wordonly", "transcript"),
    ];
    for flags in [&[][..], &["--index"]] {
        for (word, store) in once {
            let found = finds(&stage, word, flags);
            let stores: Vec<&str> =
                found.iter().map(|hit| hit["store"].as_str().unwrap()).collect();
            assert_eq!(stores, [store], "{word} {flags:?}: {found:#?}");
        }
        // Three equal messages are three hits, at three places.
        let again = finds(&stage, "wordagain", flags);
        let places: BTreeSet<u64> =
            again.iter().map(|hit| hit["position"].as_u64().unwrap()).collect();
        assert_eq!((again.len(), places.len()), (3, 3), "{again:#?}");
    }
    // If the user asks for one store, that store answers.
    assert_eq!(finds(&stage, "wordprompt", &["--store", "transcript"]).len(), 1);
}

/// Returns, for each conversation, the number of messages that the list reports and the number that `show` prints.
fn counts(stage: &Stage) -> Vec<(String, Option<u64>, bool, u64)> {
    let listing = stage.json(&["sessions", "ls", "--all", "--json"]);
    let sessions = listing["sessions"].as_array().unwrap();
    let shown = |id: &str| stage.json(&["sessions", "show", id, "--json"]);
    sessions
        .iter()
        .map(|session| {
            let id = session["id"].as_str().unwrap();
            let told = session["n_messages"].as_u64();
            let is_estimate = session["is_count_estimated"] == true;
            let shown = shown(id);
            let n_shown = shown["head"]["n_messages"].as_u64().unwrap();
            (id.to_owned(), told, is_estimate, n_shown)
        })
        .collect()
}

#[test]
fn a_list_counts_the_messages_that_show_prints_or_says_that_it_guesses() {
    let stage = Stage::new();
    plant_everywhere(&stage);
    let counts_of_all = counts(&stage);
    assert!(counts_of_all.len() > 10);
    for (id, told, is_estimate, n_shown) in counts_of_all {
        assert!(is_estimate || told.is_none() || told == Some(n_shown), "{id}: {told:?} {n_shown}");
    }
    let stage = told_twice();
    let counts = counts(&stage);
    assert_eq!(counts.len(), 2);
    for (id, told, is_estimate, n_shown) in counts {
        // A chat has everything that its transcript has. For the IDE this is not certain.
        assert_eq!(is_estimate, id == COMPOSER);
        assert!(is_estimate || told == Some(n_shown), "{id}: {told:?} {n_shown}");
    }
    let table = stage.output(&["sessions", "ls"]);
    let table = String::from_utf8(table.stdout).unwrap();
    assert_eq!(table.matches(" ~").count(), 1, "{table}");
    // The count of a single store is exact.
    let alone = stage.json(&["sessions", "ls", "--store", "ide", "--json"]);
    assert_eq!(alone["sessions"][0]["is_count_estimated"], Value::Null);
}
