//! Tests with stores that Cursor's own SDK wrote through its public API, if there are any: `CARETAKER_SDK_STORES` names
//! the folder that `tests/sdk/make-stores.mjs` filled.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Mutex;

use pretty_assertions::assert_eq;
use serde_json::{Map, Value as Json, json};

use crate::model::{Conversation, Message, Part, StoreKind};
use crate::search::{Case, Matcher, Pattern};
use crate::store::Extent;
use crate::test_store::picture_of_tree;
use crate::{Catalogue, StorePlaces};

/// Every directory that the script filled, with the script's description of the content.
#[expect(clippy::disallowed_methods, reason = "a variable may name the directory of the stores")]
fn written() -> Vec<(PathBuf, Vec<Json>)> {
    let Some(folder) = std::env::var_os("CARETAKER_SDK_STORES") else {
        println!("CARETAKER_SDK_STORES is not set: not tested against stores from the real SDK");
        return Vec::new();
    };
    let directories = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    directories
        .map(|directory| {
            let expected = std::fs::read(directory.join("expected.json")).unwrap();
            (directory, serde_json::from_slice(&expected).unwrap())
        })
        .collect()
}

fn open(directory: &std::path::Path) -> Catalogue {
    let places = StorePlaces {
        projects: vec![directory.join("home/.cursor/projects")],
        sdk_stores: vec![directory.join("lines")],
        ..StorePlaces::default()
    };
    Catalogue::open(&places, &[StoreKind::Sdk])
}

/// A conversation, as the script describes it.
fn told(conversation: &Conversation) -> Json {
    let head = &conversation.head;
    let turns = conversation.turns.iter().map(|turn| {
        assert!(turn.started.is_some() && (turn.ended.is_some() || turn.state == crate::model::TurnState::Running));
        assert_eq!(turn.model_params.get("reasoning").map(String::as_str), Some("high"));
        without_nulls(json!({"state": turn.state, "error": turn.error, "model": turn.model, "tokens": turn.tokens}))
    });
    without_nulls(json!({
        "id": head.id,
        "title": head.title,
        "workspace": head.workspace.as_ref().map(|workspace| &workspace.path),
        "activity": head.activity,
        "shelf": head.shelf,
        "turns": turns.collect::<Vec<_>>(),
        "messages": conversation.messages.iter().map(told_message).collect::<Vec<_>>(),
    }))
}

fn told_message(message: &Message) -> Json {
    assert!(message.at.is_some() && message.turn.is_some());
    let parts = message.parts.iter().map(|part| match part {
        Part::Text { text } => json!({"text": text}),
        Part::Reasoning { text, duration_ms, .. } => json!({"reasoning": text, "ms": duration_ms}),
        Part::ToolCall(call) => {
            let result = call.result.as_ref();
            without_nulls(json!({
                "tool": call.tool,
                "input": call.input,
                "state": call.state,
                "output": result.map(|result| &result.output),
                "error": result.and_then(|result| result.error.as_ref()),
            }))
        }
        other => panic!("unexpected {other:?}"),
    });
    json!({"role": message.role, "parts": parts.collect::<Vec<_>>()})
}

fn without_nulls(value: Json) -> Json {
    let Json::Object(fields) = value else { return value };
    fields.into_iter().filter(|(_, value)| !value.is_null()).collect::<Map<_, _>>().into()
}

#[test]
fn stores_of_the_real_sdk_are_read_completely() {
    for (directory, expected) in written() {
        let before = picture_of_tree(&directory);
        let catalogue = open(&directory);
        let listing = catalogue.list();
        assert_eq!(listing.damage, []);
        assert_eq!(listing.heads.len(), expected.len(), "{}", directory.display());
        for mut expected in expected {
            let store = expected.as_object_mut().unwrap().remove("store").unwrap();
            let id = expected["id"].as_str().unwrap();
            let head = listing.heads.iter().find(|head| head.id == id).unwrap();
            let store = directory.join(store.as_str().unwrap());
            assert!(head.origins[0].path.as_ref().starts_with(store));
            assert_eq!(json!(head.activity), expected["activity"]);
            let conversation = catalogue.read(head, Extent::default()).unwrap();
            assert_eq!(conversation.damage, []);
            assert_eq!(told(&conversation), expected, "{}", directory.display());
        }
        assert_eq!(picture_of_tree(&directory), before);
    }
}

#[test]
fn every_word_that_the_real_sdk_wrote_is_found() {
    for (directory, expected) in written() {
        let catalogue = open(&directory);
        // Some words are in two pieces in the store, some only in checkpoints, columns or metadata.
        let words = [
            "think.",
            "first.",
            "\"ls -l\"",
            "a.txt",
            "\"no such file\"",
            "gpt-5.5",
            "make-stores",
            "antwort",
            "system prompt",
            "fertig ✓",
        ];
        for word in words {
            let matcher = Matcher::new(Pattern::Words(word), Case::Smart).unwrap();
            let keys = Mutex::new(std::collections::BTreeSet::new());
            let damage = catalogue.search(&matcher, &|found| {
                keys.lock().unwrap().insert(found.hit.key);
                ControlFlow::Continue(())
            });
            assert_eq!(damage, []);
            assert_eq!(keys.into_inner().unwrap().len(), expected.len(), "{word}");
        }
    }
}
