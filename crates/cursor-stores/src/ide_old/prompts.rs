//! The prompts of a workspace: `aiService.prompts`, without times, and `aiService.generations`, with times.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};

use serde_json::Value as Json;

use super::bubble::moment;
use crate::json_values::{items, text_of};
use crate::model::{Message, Part, Role};
use crate::spread_times::spread_times;

/// A prompt, a generation, or both with the same text.
#[derive(Clone, Copy)]
struct Typed<'a> {
    prompt: Option<&'a Json>,
    generation: Option<&'a Json>,
}

pub(super) fn decode_prompts(value: &Json) -> Vec<Message> {
    let mut messages: Vec<Message> = pair(value).iter().map(Typed::message).collect();
    spread_times(&mut messages, None, None);
    messages
}

pub(super) fn pieces_of_prompts(value: &Json) -> Vec<Cow<'_, Json>> {
    let piece = |typed: &Typed<'_>| {
        let both = [typed.prompt, typed.generation];
        Cow::Owned(Json::Array(both.into_iter().flatten().cloned().collect()))
    };
    pair(value).iter().map(piece).collect()
}

/// Pairs each prompt with the first free generation that has the same text. The remaining generations are inserted by
/// time.
fn pair(value: &Json) -> Vec<Typed<'_>> {
    let generations = items(&value["generations"]);
    let mut by_text: HashMap<&str, VecDeque<usize>> = HashMap::new();
    for (number, generation) in generations.iter().enumerate() {
        let text = text_of(generation, &["textDescription"]).unwrap_or_default();
        by_text.entry(text).or_default().push_back(number);
    }
    let mut is_left = vec![true; generations.len()];
    let mut paired = Vec::new();
    for prompt in items(&value["prompts"]) {
        let same = text_of(prompt, &["text"]).and_then(|text| by_text.get_mut(text));
        let number = same.and_then(VecDeque::pop_front);
        if let Some(number) = number {
            is_left[number] = false;
        }
        let generation = number.map(|number| &generations[number]);
        paired.push(Typed { prompt: Some(prompt), generation });
    }
    let mut left: Vec<Typed<'_>> = generations
        .iter()
        .zip(is_left)
        .filter(|(_, is_left)| *is_left)
        .map(|(generation, _)| Typed { prompt: None, generation: Some(generation) })
        .collect();
    left.sort_by_key(|typed| typed.at_ms().unwrap_or(i64::MAX));
    let mut left = left.into_iter().peekable();
    let mut typed = Vec::new();
    for pair in paired {
        if let Some(at_ms) = pair.at_ms() {
            let is_before = |other: &Typed<'_>| other.at_ms().is_some_and(|other| other < at_ms);
            while let Some(earlier) = left.next_if(is_before) {
                typed.push(earlier);
            }
        }
        typed.push(pair);
    }
    typed.extend(left);
    typed
}

impl Typed<'_> {
    fn at_ms(&self) -> Option<i64> {
        moment(&self.generation?["unixMs"]).map(|at| at.at_ms)
    }

    fn message(&self) -> Message {
        let text = self
            .prompt
            .and_then(|prompt| text_of(prompt, &["text"]).or(prompt.as_str()))
            .or_else(|| text_of(self.generation?, &["textDescription"]));
        let part = match (text, self.prompt.or(self.generation)) {
            (Some(text), _) => Part::text(text),
            (None, value) => Part::Unknown {
                kind: "prompt".to_owned(),
                value: value.cloned().unwrap_or_default(),
            },
        };
        let mut message = Message::new(Role::User, vec![part]);
        if let Some(generation) = self.generation {
            message.id = text_of(generation, &["generationUUID"]).map(str::to_owned);
            message.at = moment(&generation["unixMs"]);
        }
        message
    }
}

#[cfg(test)]
#[path = "prompts_tests.rs"]
mod tests;
