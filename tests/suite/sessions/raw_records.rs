//! `sessions show --raw` prints everything that the stores hold for a conversation, but no keys.

use std::collections::{BTreeMap, BTreeSet};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use store_fixtures::Closing;
use store_fixtures::chat::{Chat, Generation, Turn};
use store_fixtures::ide::{IdeHome, assistant_bubble, composer, header, user_bubble};

use crate::sessions::every_store::{plant_everywhere, user_dir};
use crate::stage::Stage;

fn raw(stage: &Stage, args: &[&str]) -> Vec<Value> {
    let output = stage.output(&[&["sessions", "show", "--raw"], args].concat());
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn names(records: &[Value]) -> Vec<&str> {
    records.iter().map(|record| record["record"].as_str().unwrap()).collect()
}

/// Returns all bytes of a record in any encoding.
fn content(record: &Value) -> String {
    match record["base64"].as_str() {
        Some(text) => String::from_utf8_lossy(&decoded(text)).into_owned(),
        None => record.to_string(),
    }
}

/// Decodes by hand, so that the test does not use the reader's own decoder.
fn decoded(base64: &str) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut bytes = Vec::new();
    let (mut bits, mut n_bits) = (0_u32, 0);
    for digit in base64.bytes().filter(|byte| *byte != b'=') {
        let value = DIGITS.iter().position(|known| *known == digit).unwrap();
        bits = bits << 6 | u32::try_from(value).unwrap();
        n_bits += 6;
        if n_bits >= 8 {
            n_bits -= 8;
            bytes.push(u8::try_from(bits >> n_bits & 0xff).unwrap());
        }
    }
    bytes
}

#[test]
fn every_word_of_every_store_is_in_the_records_of_a_conversation() {
    let stage = Stage::new();
    let words = plant_everywhere(&stage);
    let listed = stage.output(&["sessions", "ls", "--all", "-q"]);
    let ids = String::from_utf8(listed.stdout).unwrap();
    let mut all = String::new();
    let mut stores = BTreeSet::new();
    for id in ids.lines() {
        for record in raw(&stage, &[id, "--orphans"]) {
            assert_eq!((&record["v"], record["session"].is_string()), (&json!(1), true));
            stores.insert(record["store"].as_str().unwrap().to_owned());
            all += &content(&record).to_lowercase();
        }
    }
    assert_eq!(
        stores.into_iter().collect::<Vec<_>>(),
        ["acp", "cli", "ide", "ide-old", "sdk", "transcript"]
    );
    let is_missing = |(word, field): &&(String, String)| {
        let is_unowned = ["without an owner", "hexadecimal", "planRegistry", "workspace head"]
            .iter()
            .chain(&["composer.composerHeaders"])
            .any(|mark| field.contains(mark));
        // Some words are escaped or split into two records on purpose.
        let is_hidden = field.contains("escape") || field.contains("in two pieces");
        !all.contains(word.as_str()) && !is_unowned && !is_hidden
    };
    let missing: Vec<&(String, String)> = words.iter().filter(is_missing).collect();
    assert_eq!(missing, Vec::<&(String, String)>::new());
}

#[test]
fn a_chat_is_shown_as_its_blobs_in_order_and_without_its_key() {
    let stage = Stage::new();
    let chat = Chat::new(Generation::Jul2026, "a1a1a1a1-0000-4000-8000-000000000001")
        .with_turns(vec![Turn::plain("first", "second")]);
    chat.write_cli(&stage.home().join(".cursor/chats"), Closing::Clean);
    let records = raw(&stage, &["a1a1a1a1"]);
    assert_eq!(names(&records)[..2], ["meta.json", "meta/0"]);
    assert_eq!(records[1]["json"]["blobEncryptionKey"], "present");
    let root = records[1]["json"]["latestRootBlobId"].as_str().unwrap();
    assert_eq!(records[2]["record"], format!("blobs/{root}"));
    let fields: BTreeMap<&str, &Value> = records[2..]
        .iter()
        .filter_map(|record| Some((record["field"].as_str()?, record)))
        .collect();
    let message = fields["root_prompt_messages_json[1]"];
    assert!(message["json"]["role"].is_string(), "{message}");
    assert!(fields.contains_key("turns[0]"), "{:?}", fields.keys());
    // Earlier roots appear only on request.
    let all = raw(&stage, &["a1a1a1a1", "--orphans"]);
    assert!(all.len() > records.len());
    let unique: BTreeSet<&str> = names(&all).into_iter().collect();
    assert_eq!(unique.len(), all.len(), "each once");
}

#[test]
fn an_ide_conversation_is_shown_as_its_rows() {
    let stage = Stage::new();
    let id = "a1a1a1a1-0000-4000-8000-000000000002";
    let home = IdeHome::new(&user_dir(&stage));
    let bubbles = [user_bubble("b0", "hello"), assistant_bubble("b1", "there")];
    let headers: Vec<Value> = bubbles.iter().map(header).collect();
    home.put_conversation(&composer(id, 16, &headers), &bubbles);
    home.put_bubble(id, &assistant_bubble("edited-away", "x"));
    home.put_tombstone(&format!("checkpointId:{id}:c"));
    home.close(Closing::Clean);
    let records = raw(&stage, &[id]);
    let row = |key: &str| format!("cursorDiskKV/{key}");
    let expected = [
        row(&format!("composerData:{id}")),
        row(&format!("bubbleId:{id}:b0")),
        row(&format!("bubbleId:{id}:b1")),
        row(&format!("checkpointId:{id}:c")),
    ];
    assert_eq!(names(&records), expected);
    assert_eq!(records[1]["json"]["text"], "hello");
    assert_eq!(records[3]["deleted"], true);
    let all = raw(&stage, &[id, "--orphans"]);
    assert!(names(&all).contains(&row(&format!("bubbleId:{id}:edited-away")).as_str()));
}
