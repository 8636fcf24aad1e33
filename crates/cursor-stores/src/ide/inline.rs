//! Bubbles that stand in a `composerData` itself, as older builds kept them.

use std::collections::HashMap;

use serde_json::Value as Json;

use super::lenient::{items, text, unpack};

/// The bubbles of `conversation`, `conversationMap` and `tabs`, in their order, each once.
pub(super) fn inline_bubbles(composer: &Json) -> Vec<Json> {
    let mut bubbles: Vec<Json> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    let conversation = items(&composer["conversation"]).iter();
    let maps =
        [&composer["conversationMap"], &composer["tabs"]].into_iter().flat_map(bubbles_of_map);
    for bubble in conversation.chain(maps).filter(|bubble| bubble.is_object()) {
        match text(&bubble["bubbleId"]).or_else(|| text(&bubble["id"])) {
            Some(id) if places.contains_key(id) => {}
            Some(id) => {
                places.insert(id.to_owned(), bubbles.len());
                bubbles.push(bubble.clone());
            }
            None => bubbles.push(bubble.clone()),
        }
    }
    bubbles
}

/// The bubbles of a map or an array of conversations, or of a map of bubbles by their ids.
pub(super) fn bubbles_of_map(map: &Json) -> impl Iterator<Item = &Json> {
    let values: Vec<&Json> = match map {
        Json::Object(fields) => fields.values().collect(),
        Json::Array(values) => values.iter().collect(),
        _ => Vec::new(),
    };
    values.into_iter().flat_map(|value| match value.get("bubbles") {
        Some(bubbles) => items(bubbles).iter().collect::<Vec<_>>(),
        None if value.get("bubbleId").is_some() => vec![value],
        None => Vec::new(),
    })
}

/// What tools did, where it is not in the bubbles: `capabilities[type=15].data.bubbleDataMap`, by bubble.
pub(super) fn capability_tools(composer: &Json) -> HashMap<String, Json> {
    let mut tools = HashMap::new();
    for capability in items(&composer["capabilities"]) {
        if capability["type"].as_i64() != Some(15) {
            continue;
        }
        if let Json::Object(map) = unpack(&unpack(&capability["data"])["bubbleDataMap"]).as_ref() {
            tools.extend(
                map.iter().map(|(bubble, data)| (bubble.clone(), unpack(data).into_owned())),
            );
        }
    }
    tools
}

/// Adds to one object what only another has. What is there stays, unless it says nothing.
pub(super) fn fill_in(known: &mut Json, other: &Json) {
    let (Json::Object(known), Json::Object(other)) = (known, other) else { return };
    for (name, value) in other {
        match known.get_mut(name) {
            Some(known) if !super::lenient::is_blank(known) => {}
            Some(known) => *known = value.clone(),
            None => drop(known.insert(name.clone(), value.clone())),
        }
    }
}
