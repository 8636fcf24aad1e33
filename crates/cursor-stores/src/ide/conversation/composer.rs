//! The fields of a `composerData` that contain messages or put them in order. Both the search and the reader use these
//! functions, so they agree.

use std::collections::{HashMap, HashSet};

use serde_json::Value as Json;

use crate::ide::lenient::{is_blank, items, text, text_of, unpack};

/// The list that puts the messages in order.
pub(crate) fn headers(composer: &Json) -> &[Json] {
    items(&composer["fullConversationHeadersOnly"])
}

/// The ids of the messages, in order.
pub(crate) fn header_ids(composer: &Json) -> impl Iterator<Item = &str> {
    headers(composer).iter().filter_map(|header| text(&header["bubbleId"]))
}

pub(crate) fn id_of(bubble: &Json) -> Option<&str> {
    text_of(bubble, &["bubbleId", "id"])
}

/// True if the composer contains its agent's state, which may add messages between those of the headers.
pub(crate) fn has_state(composer: &Json) -> bool {
    text(&composer["conversationState"]).is_some_and(|state| state.len() > 1)
}

/// Returns the bubbles that older builds kept in the composer itself, in `conversation`, `conversationMap` and `tabs`,
/// in order, each once.
pub(crate) fn inline_bubbles(composer: &Json) -> Vec<&Json> {
    let mut seen: HashSet<&str> = HashSet::new();
    let conversation = items(&composer["conversation"]).iter();
    let maps =
        [&composer["conversationMap"], &composer["tabs"]].into_iter().flat_map(bubbles_of_map);
    conversation
        .chain(maps)
        .filter(|bubble| bubble.is_object())
        .filter(|bubble| id_of(bubble).is_none_or(|id| seen.insert(id)))
        .collect()
}

/// Removes everything that [`inline_bubbles`] reads, and leaves the composer's own fields.
pub(crate) fn remove_inline_bubbles(composer: &mut Json) {
    let Json::Object(fields) = composer else { return };
    fields.remove("conversation");
    for name in ["conversationMap", "tabs"] {
        if fields.get(name).is_some_and(|map| bubbles_of_map(map).next().is_some()) {
            fields.remove(name);
        }
    }
}

/// Returns the bubbles in a map or an array of conversations, or in a map of bubbles by id.
pub(crate) fn bubbles_of_map(map: &Json) -> impl Iterator<Item = &Json> {
    let values: Vec<&Json> = match map {
        Json::Object(fields) => fields.values().collect(),
        Json::Array(values) => values.iter().collect(),
        _ => Vec::new(),
    };
    values.into_iter().flat_map(|value| match value.get("bubbles") {
        Some(bubbles) => items(bubbles),
        None if value.get("bubbleId").is_some() => std::slice::from_ref(value),
        None => &[],
    })
}

/// Tool calls that are not in their bubbles: `capabilities[type=15].data.bubbleDataMap`, by bubble.
pub(crate) fn capability_tools(composer: &Json) -> HashMap<String, Json> {
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

/// Adds the fields that only the other object has. A field that is already there stays, unless it is blank.
pub(crate) fn fill_in(known: &mut Json, other: &Json) {
    let (Json::Object(known), Json::Object(other)) = (known, other) else { return };
    for (name, value) in other {
        match known.get_mut(name) {
            Some(known) if !is_blank(known) => {}
            Some(known) => *known = value.clone(),
            None => drop(known.insert(name.clone(), value.clone())),
        }
    }
}
