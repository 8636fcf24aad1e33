//! A search finds a word in any field, and its owner.

use std::ops::ControlFlow;
use std::sync::Mutex;

use pretty_assertions::assert_eq;
use serde_json::{Value as Json, json};
use store_fixtures::ide::{assistant_bubble, composer, header, user_bubble};

use super::{ID, Stage, open, with};
use crate::search::{Case, Matcher, Pattern};
use crate::store::{ConversationStore, Hit};

fn find(store: &dyn ConversationStore, words: &str) -> Vec<Hit> {
    let hits = Mutex::new(Vec::new());
    let matcher = Matcher::new(Pattern::Words(words), Case::Smart).unwrap();
    let damage = store.search(&matcher, &|hit| {
        hits.lock().unwrap().push(hit);
        ControlFlow::Continue(())
    });
    assert_eq!(damage, []);
    hits.into_inner().unwrap()
}

#[test]
fn a_word_in_every_field_is_found_once_and_belongs_to_its_conversation() {
    let directory = tempfile::tempdir().unwrap();
    let planted = store_fixtures::ide::plant(directory.path(), "quux");
    let store = open(directory.path()).unwrap();
    assert!(planted.len() > 40);
    for plant in planted {
        let keys: Vec<String> = find(&*store, &plant.word).into_iter().map(|hit| hit.key).collect();
        assert_eq!(keys, std::slice::from_ref(&plant.key), "{plant:?}");
    }
    for secret in ["5ec2e75ec2e7", "5ec2e7-token"] {
        assert_eq!(find(&*store, secret), [], "{secret}");
    }
}

#[test]
fn a_match_says_where_it_is() {
    let stage = Stage::new();
    let escaped = format!(r#"{{"bubbleId":"b2","type":2,"text":"{}"}}"#, r"caf\u00e9");
    let bubbles = [
        user_bubble("b0", "one needle"),
        with(assistant_bubble("b1", ""), json!({"thinking": {"text": "the needle again"}})),
    ];
    let mut headers: Vec<Json> = bubbles.iter().map(header).collect();
    headers.push(json!({"bubbleId": "b2", "type": 2}));
    stage.home.put_conversation(&composer(ID, 10, &headers), &bubbles);
    stage.home.put_bytes(&format!("bubbleId:{ID}:b2"), escaped.as_bytes());
    let home = stage.close();
    let mut hits = find(&*home.store, "needle");
    hits.sort_by_key(|hit| (hit.position, hit.field.clone()));
    let found: Vec<(Option<usize>, Option<&str>, &str)> = hits
        .iter()
        .map(|hit| (hit.position, hit.message_id.as_deref(), hit.field.as_str()))
        .collect();
    assert_eq!(found, [(Some(0), Some("b0"), "text"), (Some(1), Some("b1"), "thinking.text")]);
    assert_eq!(hits[1].snippet.after, " again");
    assert_eq!(find(&*home.store, "café")[0].position, Some(2));
}

#[test]
fn a_search_ends_when_the_caller_wants_no_more() {
    let stage = Stage::new();
    for number in 0..200 {
        stage.say(&format!("c{number}"), &[user_bubble("b0", "needle")]);
    }
    let home = stage.close();
    let n_hits = Mutex::new(0);
    let matcher = Matcher::new(Pattern::Words("needle"), Case::Smart).unwrap();
    home.store.search(&matcher, &|_| {
        *n_hits.lock().unwrap() += 1;
        ControlFlow::Break(())
    });
    let n_hits = n_hits.into_inner().unwrap();
    assert!((1..=crate::parallel::n_cores()).contains(&n_hits), "{n_hits}");
}
