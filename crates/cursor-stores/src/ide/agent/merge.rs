//! Completes the messages that the IDE shows with the messages that the model got, turn by turn.

use std::collections::HashMap;

use serde_json::Value as Json;

use super::message::{AgentMessage, call_key};
use crate::ide::agent::AgentState;
use crate::ide::conversation::bubble::Bubble;
use crate::ide::conversation::turns::opens_turn;
use crate::model::{MessageKind, Part, Role, ToolCall, ToolResult, ToolState};
use crate::store::Extent;

/// Completes bubbles from the agent's state. If there are no bubbles, uses the state alone.
pub(crate) fn merge_state(bubbles: Vec<Bubble>, state: &AgentState, extent: Extent) -> Vec<Bubble> {
    if state.messages.is_empty() {
        return bubbles;
    }
    if bubbles.is_empty() {
        return state.messages.iter().map(as_bubble).collect();
    }
    let mut shown = group_bubbles(bubbles);
    let given = group_messages(&state.messages);
    let pairs = pair(&shown, &given);
    // A turn that only the model has goes after the turn that precedes it there.
    let mut added: HashMap<usize, Vec<Bubble>> = HashMap::new();
    let mut place = 0;
    for (turn, pair) in given.iter().zip(pairs) {
        match pair {
            Some(number) => {
                enrich(&mut shown[number], turn, extent);
                place = number + 1;
            }
            // If only the last messages are read, an earlier turn's position is unknown.
            None if extent.last.is_some() => {}
            None => added
                .entry(place)
                .or_default()
                .extend(turn.messages.iter().map(|message| as_bubble(message))),
        }
    }
    let mut merged = Vec::new();
    for (number, turn) in shown.into_iter().enumerate() {
        merged.extend(added.remove(&number).unwrap_or_default());
        merged.extend(turn.bubbles);
    }
    let mut rest: Vec<(usize, Vec<Bubble>)> = added.into_iter().collect();
    rest.sort_unstable_by_key(|(place, _)| *place);
    merged.extend(rest.into_iter().flat_map(|(_, bubbles)| bubbles));
    merged
}

/// A text of this many bytes does not occur inside another by chance.
const LONG: usize = 24;

struct ShownTurn {
    prompt: String,
    bubbles: Vec<Bubble>,
    /// The plain text of each bubble.
    said: Vec<String>,
}

struct GivenTurn<'a> {
    request_id: Option<&'a str>,
    prompt: String,
    messages: Vec<&'a AgentMessage>,
}

impl ShownTurn {
    fn push(&mut self, bubble: Bubble) {
        self.insert(self.bubbles.len(), bubble);
    }

    fn insert(&mut self, place: usize, bubble: Bubble) {
        self.said.insert(place, bare(&bubble.message.text()));
        self.bubbles.insert(place, bubble);
    }

    fn place_of_text(&self, text: &str) -> Option<usize> {
        self.said.iter().position(|said| said == text || text.len() >= LONG && said.contains(text))
    }
}

fn as_bubble(message: &AgentMessage) -> Bubble {
    Bubble {
        message: message.message.clone(),
        request_id: message.request_id.clone(),
        tokens: None,
        error: None,
        mode: None,
        workspaces: Vec::new(),
        checkpoints: Vec::new(),
    }
}

fn group_bubbles(bubbles: Vec<Bubble>) -> Vec<ShownTurn> {
    let mut turns: Vec<ShownTurn> = Vec::new();
    for bubble in bubbles {
        match turns.last_mut() {
            Some(turn) if !opens_turn(&bubble.message) => turn.push(bubble),
            _ => {
                let mut turn =
                    ShownTurn { prompt: String::new(), bubbles: Vec::new(), said: Vec::new() };
                if opens_turn(&bubble.message) {
                    turn.prompt = bare(&bubble.message.text());
                }
                turn.push(bubble);
                turns.push(turn);
            }
        }
    }
    turns
}

/// Leaves out system prompts, context and summaries, because the IDE does not show them either.
fn group_messages(messages: &[AgentMessage]) -> Vec<GivenTurn<'_>> {
    let mut turns: Vec<GivenTurn<'_>> = Vec::new();
    for message in messages {
        let is_aside = message.message.role == Role::System
            || matches!(message.message.kind, MessageKind::Context | MessageKind::Summary);
        if is_aside {
            continue;
        }
        match turns.last_mut() {
            Some(turn) if !opens_turn(&message.message) => turn.messages.push(message),
            _ => turns.push(GivenTurn {
                request_id: message.request_id.as_deref(),
                prompt: if opens_turn(&message.message) {
                    bare(&message.message.text())
                } else {
                    String::new()
                },
                messages: vec![message],
            }),
        }
    }
    turns
}

/// Returns the text without white space, which differs between stores.
pub(crate) fn bare(text: &str) -> String {
    text.split_ascii_whitespace().collect()
}

/// Finds the visible turn for each of the model's turns: by request, by prompt, and finally by order between two
/// certain pairs.
fn pair(shown: &[ShownTurn], given: &[GivenTurn<'_>]) -> Vec<Option<usize>> {
    let mut by_request: HashMap<&str, usize> = HashMap::new();
    for (number, turn) in shown.iter().enumerate() {
        for id in turn.bubbles.iter().filter_map(|bubble| bubble.request_id.as_deref()) {
            by_request.entry(id).or_insert(number);
        }
    }
    let mut pairs: Vec<Option<usize>> = given
        .iter()
        .map(|turn| turn.request_id.and_then(|id| by_request.get(id).copied()))
        .collect();
    // Each visible turn belongs to one request, but a request that was continued has several turns.
    let mut is_taken = vec![false; shown.len()];
    for number in pairs.iter().flatten() {
        is_taken[*number] = true;
    }
    for place in 0..given.len() {
        if pairs[place].is_some() {
            continue;
        }
        let (from, to) = bounds(&pairs, place, shown.len());
        let same = (from..to)
            .find(|number| !is_taken[*number] && shown[*number].prompt == given[place].prompt);
        if let Some(number) = same {
            pairs[place] = Some(number);
            is_taken[number] = true;
        }
    }
    for place in 0..given.len() {
        if pairs[place].is_some() {
            continue;
        }
        let (from, to) = bounds(&pairs, place, shown.len());
        if let Some(number) = (from..to).find(|number| !is_taken[*number]) {
            pairs[place] = Some(number);
            is_taken[number] = true;
        }
    }
    pairs
}

/// Returns the range of visible turns between the neighbours that already have a partner.
fn bounds(pairs: &[Option<usize>], place: usize, n_shown: usize) -> (usize, usize) {
    let from = pairs[..place].iter().rev().flatten().next().map_or(0, |number| number + 1);
    let to = pairs[place + 1..].iter().flatten().next().copied().unwrap_or(n_shown);
    (from, to.max(from))
}

fn enrich(shown: &mut ShownTurn, given: &GivenTurn<'_>, extent: Extent) {
    let said: String = shown.said.concat();
    let thought: String = shown
        .bubbles
        .iter()
        .flat_map(|bubble| &bubble.message.parts)
        .filter_map(reasoning)
        .collect();
    // The position for the next missing piece: after the last visible one.
    let mut place = 1.min(shown.bubbles.len());
    for message in &given.messages {
        if opens_turn(&message.message) {
            fill_prompt(shown, message, extent);
            continue;
        }
        let mut missing = Vec::new();
        for part in &message.message.parts {
            let found = match part {
                Part::Text { text } => {
                    let text = bare(text);
                    let found = shown.place_of_text(&text);
                    // One of the model's texts may be split across several bubbles.
                    let is_shown = found.is_some() || text.len() >= LONG && said.contains(&text);
                    is_shown.then(|| found.unwrap_or(place - 1))
                }
                Part::Reasoning { text, .. } => {
                    let text = bare(text);
                    thought.contains(&text).then_some(place - 1)
                }
                Part::ToolCall(call) => fill_call(&mut shown.bubbles, call),
                Part::ToolResult { call_id: Some(id), result, .. } => {
                    fill_result(&mut shown.bubbles, id, result)
                }
                _ => None,
            };
            match found {
                Some(found) => {
                    // Missing pieces that come before it are inserted before it, and move it back.
                    let n_inserted = usize::from(!missing.is_empty());
                    let after = insert(shown, message, &mut missing, found.max(place));
                    place = if found >= place { found + n_inserted + 1 } else { after };
                }
                None => missing.push(part.clone()),
            }
        }
        place = insert(shown, message, &mut missing, place);
    }
}

/// Inserts the missing pieces of a message. Returns the position after them.
fn insert(
    shown: &mut ShownTurn,
    message: &AgentMessage,
    missing: &mut Vec<Part>,
    place: usize,
) -> usize {
    if missing.is_empty() {
        return place;
    }
    let at = place.min(shown.bubbles.len());
    let mut bubble = as_bubble(message);
    bubble.message.parts = std::mem::take(missing);
    // A message may be split around visible pieces. Only one part can keep the id.
    if shown.bubbles.iter().any(|known| known.message.id == bubble.message.id) {
        bubble.message.id = None;
    }
    shown.insert(at, bubble);
    at + 1
}

fn reasoning(part: &Part) -> Option<String> {
    match part {
        Part::Reasoning { text, .. } => Some(bare(text)),
        _ => None,
    }
}

/// Fills in a prompt whose text or bubble the IDE did not keep.
fn fill_prompt(shown: &mut ShownTurn, prompt: &AgentMessage, extent: Extent) {
    match shown.bubbles.first_mut().filter(|bubble| opens_turn(&bubble.message)) {
        Some(bubble) if bubble.message.text().trim().is_empty() => {
            let parts = prompt.message.parts.iter();
            let said = parts.filter(|part| matches!(part, Part::Text { .. })).cloned();
            bubble.message.parts.splice(0..0, said);
        }
        Some(_) => {}
        // If only the last messages are read, the turn may begin before them.
        None if extent.last.is_some() => {}
        None => shown.insert(0, as_bubble(prompt)),
    }
}

fn find_call<'b>(bubbles: &'b mut [Bubble], id: &str) -> Option<(usize, &'b mut ToolCall)> {
    bubbles.iter_mut().enumerate().find_map(|(place, bubble)| {
        bubble.message.parts.iter_mut().find_map(|part| match part {
            Part::ToolCall(call) if call.id.as_deref().map(call_key) == Some(call_key(id)) => {
                Some((place, call))
            }
            _ => None,
        })
    })
}

/// Completes a visible call, and returns its position.
fn fill_call(bubbles: &mut [Bubble], given: &ToolCall) -> Option<usize> {
    let (place, call) = find_call(bubbles, given.id.as_deref()?)?;
    if call.name.is_empty() {
        call.name.clone_from(&given.name);
        call.tool.clone_from(&given.tool);
    }
    if call.input == Json::Null {
        call.input.clone_from(&given.input);
    }
    if let Some(result) = &given.result {
        fill(call, result);
    }
    Some(place)
}

fn fill_result(bubbles: &mut [Bubble], id: &str, result: &ToolResult) -> Option<usize> {
    let (place, call) = find_call(bubbles, id)?;
    fill(call, result);
    Some(place)
}

fn fill(call: &mut ToolCall, result: &ToolResult) {
    match &mut call.result {
        None => call.result = Some(result.clone()),
        Some(known) if known.output.is_null() => known.output.clone_from(&result.output),
        Some(_) => {}
    }
    if call.state == ToolState::Unknown {
        call.state = if result.error.is_some() { ToolState::Failed } else { ToolState::Succeeded };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::ide::agent::message::read_agent_message;
    use crate::ide::conversation::bubble::read_bubble;

    /// A text, and who has it.
    #[derive(Debug, Clone, Copy)]
    struct Piece {
        is_shown: bool,
        is_given: bool,
        is_long: bool,
    }

    fn piece() -> impl Strategy<Value = Piece> {
        (0..3_u8, any::<bool>()).prop_map(|(who, is_long)| Piece {
            is_shown: who != 0,
            is_given: who != 1,
            is_long,
        })
    }

    fn words(turn: usize, piece: usize, is_long: bool) -> String {
        let more = if is_long { " and there is a good deal more to say about it" } else { "" };
        format!("t{turn} p{piece}{more}")
    }

    proptest! {
        #[test]
        fn everything_appears_once_and_in_order(
            turns in prop::collection::vec((any::<bool>(), prop::collection::vec(piece(), 0..6)), 1..5)
        ) {
            let (mut bubbles, mut messages, mut expected) = (Vec::new(), Vec::new(), Vec::new());
            for (number, (has_request, pieces)) in turns.iter().enumerate() {
                let prompt = format!("prompt {number}");
                let request = format!("r{number}");
                let mut user = json!({"type": 1, "text": prompt, "bubbleId": prompt});
                if *has_request {
                    user["requestId"] = json!(request);
                }
                bubbles.push(read_bubble(&user, &Json::Null));
                let given = json!({"role": "user", "content": prompt, "providerOptions": {"cursor": {"requestId": request}}});
                messages.extend(read_agent_message(&prompt, given.to_string().as_bytes()));
                expected.push(prompt);
                for (place, piece) in pieces.iter().enumerate() {
                    let said = words(number, place, piece.is_long);
                    if piece.is_shown {
                        bubbles.push(read_bubble(&json!({"type": 2, "text": said, "bubbleId": said}), &Json::Null));
                    }
                    if piece.is_given {
                        let given = json!({"role": "assistant", "content": said}).to_string();
                        messages.extend(read_agent_message(&said, given.as_bytes()));
                    }
                    expected.push(said);
                }
            }
            let state = AgentState { messages, ..AgentState::default() };
            let merged = merge_state(bubbles, &state, Extent::default());
            let mut said: Vec<String> = merged.iter().map(|bubble| bubble.message.text()).collect();
            // Between two texts that both sides have, the merge puts the texts of one side before those of the other.
            // That may change their order, so compare them sorted.
            let only_one = turns.iter().all(|(_, pieces)| pieces.iter().all(|piece| piece.is_given));
            if !only_one {
                said.sort_unstable();
                expected.sort_unstable();
            }
            prop_assert_eq!(said, expected);
        }
    }
}
