//! Merges heads and conversations that are in several stores. For each field, the richest store wins.

use std::collections::HashMap;

use crate::catalogue::said_already::SaidAlready;
use crate::model::{
    Activity, Conversation, Head, Message, Moment, Origin, Part, Shelf, StoreKind, TokenUsage,
};
use crate::store::Extent;

/// Adds another store's head to a head. Keeps a known field, unless the other store's value is better.
pub(crate) fn merge_heads(known: &mut Head, other: Head) {
    let is_richer = other.origins.first().map(|origin| origin.store)
        < known.origins.first().map(|origin| origin.store);
    let (mut rich, poor) = if is_richer {
        (other, std::mem::replace(known, Head::new("", known.origins[0].clone())))
    } else {
        (std::mem::replace(known, Head::new("", other.origins[0].clone())), other)
    };
    for origin in poor.origins {
        // An export names the stores that it was made from. These stores may be here too.
        if !rich.origins.contains(&origin) {
            rich.origins.push(origin);
        }
    }
    rich.title = rich.title.or(poor.title);
    rich.workspace = rich.workspace.or(poor.workspace);
    rich.created = better(rich.created, poor.created, i64::min);
    rich.updated = better(rich.updated, poor.updated, i64::max);
    rich.mode = rich.mode.or(poor.mode);
    for model in &poor.models {
        rich.add_model(model);
    }
    rich.n_messages = rich.n_messages.or(poor.n_messages);
    rich.n_bytes = match (rich.n_bytes, poor.n_bytes) {
        (Some(rich), Some(poor)) => Some(rich.saturating_add(poor)),
        (rich, poor) => rich.or(poor),
    };
    // If any store sees the conversation as live, it is live. Otherwise a copy must not hide that a store is damaged.
    rich.activity = [rich.activity, poor.activity]
        .into_iter()
        .min_by_key(|activity| match activity {
            Activity::Live => 0,
            Activity::Damaged => 1,
            Activity::Locked => 2,
            Activity::Interrupted => 3,
            Activity::NoCheckpoint | Activity::NotResumable => 4,
            Activity::Failed => 5,
            Activity::Idle => 6,
        })
        .unwrap_or(Activity::Idle);
    // A conversation that is empty in one store may have messages in another.
    if rich.shelf == Shelf::Empty && poor.shelf != Shelf::Empty {
        rich.shelf = poor.shelf;
        rich.n_messages = poor.n_messages.or(rich.n_messages.filter(|count| *count > 0));
    }
    rich.parent = rich.parent.or(poor.parent);
    for subagent in poor.subagents {
        if !rich.subagents.contains(&subagent) {
            rich.subagents.push(subagent);
        }
    }
    rich.tokens = match (rich.tokens, poor.tokens) {
        (Some(rich), Some(poor)) => Some(richer_tokens(rich, poor)),
        (rich, poor) => rich.or(poor),
    };
    if rich.pending.is_empty() {
        rich.pending = poor.pending;
    }
    for (turn, run) in poor.lineage {
        rich.lineage.entry(turn).or_insert(run);
    }
    *known = rich;
}

/// Merges two conversations. The messages come from the store with the better messages, the rest from both.
pub(crate) fn merge_conversations(
    known: Conversation,
    other: Conversation,
    extent: Extent,
) -> Conversation {
    let (mut rich, poor) =
        if richness(&known) >= richness(&other) { (known, other) } else { (other, known) };
    // The count belongs to the messages that are shown.
    let n_messages = rich.head.n_messages;
    let is_same_kind = kind(&rich.head) == kind(&poor.head);
    merge_heads(&mut rich.head, poor.head);
    rich.head.n_messages = n_messages.or(rich.head.n_messages);
    for (rich, poor) in rich.turns.iter_mut().zip(poor.turns) {
        rich.model = rich.model.take().or(poor.model);
        if rich.model_params.is_empty() {
            rich.model_params = poor.model_params;
        }
        rich.started = rich.started.or(poor.started);
        rich.ended = rich.ended.or(poor.ended);
        rich.tokens = rich.tokens.or(poor.tokens);
        if rich.error.is_none() {
            (rich.error, rich.error_code) = (poor.error, poor.error_code);
        }
    }
    lend_times(&mut rich.messages, &poor.messages);
    if !rich.damage.is_empty() && extent.last.is_none() {
        lend_messages(&mut rich, poor.messages, is_same_kind);
    }
    if rich.todos.is_empty() {
        rich.todos = poor.todos;
    }
    rich.plan = rich.plan.or(poor.plan);
    for file in poor.files {
        if !rich.files.contains(&file) {
            rich.files.push(file);
        }
    }
    for (name, count) in poor.also_kept {
        rich.also_kept.entry(name).or_insert(count);
    }
    rich.damage.extend(poor.damage);
    rich
}

fn richer_tokens(rich: TokenUsage, poor: TokenUsage) -> TokenUsage {
    TokenUsage {
        input: rich.input.or(poor.input),
        output: rich.output.or(poor.output),
        cache_read: rich.cache_read.or(poor.cache_read),
        cache_write: rich.cache_write.or(poor.cache_write),
        reasoning: rich.reasoning.or(poor.reasoning),
        context_used: rich.context_used.or(poor.context_used),
        context_limit: rich.context_limit.or(poor.context_limit),
    }
}

fn better(one: Option<Moment>, other: Option<Moment>, tie: fn(i64, i64) -> i64) -> Option<Moment> {
    match (one, other) {
        (Some(one), Some(other)) if one.confidence == other.confidence => {
            Some(Moment { at_ms: tie(one.at_ms, other.at_ms), ..one })
        }
        (Some(one), Some(other)) => {
            Some(if one.confidence < other.confidence { one } else { other })
        }
        (one, other) => one.or(other),
    }
}

/// Copies times between messages with the same text: one store may have recorded a time that the other lacks.
fn lend_times(messages: &mut [Message], others: &[Message]) {
    let mut rest = others;
    for message in messages.iter_mut() {
        let text = message.text();
        if text.is_empty() {
            continue;
        }
        let same = |other: &Message| other.role == message.role && other.text() == text;
        let Some(place) = rest.iter().position(same) else { continue };
        if let Some(at) = rest[place].at
            && message.at.is_none_or(|known| at.confidence < known.confidence)
        {
            message.at = Some(at);
        }
        rest = &rest[place + 1..];
    }
}

fn kind(head: &Head) -> Option<StoreKind> {
    head.origins.first().map(|origin| origin.store)
}

/// Adds the messages that only the other store still has, each after the message that precedes it in both. Stores of
/// the same kind use the same ids. Otherwise the text identifies a message.
fn lend_messages(conversation: &mut Conversation, others: Vec<Message>, is_same_kind: bool) {
    let mut said = SaidAlready::by(&conversation.messages);
    let mut places: HashMap<(bool, String), Vec<usize>> = HashMap::new();
    for (place, message) in conversation.messages.iter().enumerate() {
        for name in names_of(message, is_same_kind) {
            places.entry(name).or_default().push(place);
        }
    }
    let mut after = 0;
    let mut lent: Vec<(usize, Message)> = Vec::new();
    for other in others {
        let names = names_of(&other, is_same_kind);
        let next =
            |name: &(bool, String)| places.get(name)?.iter().copied().find(|place| *place >= after);
        let same = names.iter().filter_map(next).min();
        let is_known = names.iter().any(|name| places.contains_key(name));
        if let Some(same) = same {
            after = same + 1;
        } else if !names.is_empty() && !is_known && !said.has(&other) {
            said.add(&other);
            lent.push((after, other));
        }
    }
    let n_counted = lent.iter().filter(|(_, message)| message.is_counted()).count() as u64;
    conversation.head.n_messages = conversation.head.n_messages.map(|n| n + n_counted);
    let mut lent = lent.into_iter().peekable();
    let mut joined = Vec::with_capacity(conversation.messages.len() + lent.len());
    let mut turn = None;
    for (place, message) in std::mem::take(&mut conversation.messages).into_iter().enumerate() {
        while let Some((_, other)) = lent.next_if(|(after, _)| *after <= place) {
            joined.push(Message { turn, ..other });
        }
        turn = message.turn;
        joined.push(message);
    }
    joined.extend(lent.map(|(_, other)| Message { turn, ..other }));
    conversation.messages = joined;
}

/// The names that identify a message in another store: its id, if the other store uses the same ids, and its text.
fn names_of(message: &Message, has_same_ids: bool) -> Vec<(bool, String)> {
    let id = message.id.clone().filter(|_| has_same_ids).map(|id| (true, id));
    let letters: String = message.text().chars().filter(|c| c.is_alphanumeric()).collect();
    let text = Some(letters).filter(|text| !text.is_empty()).map(|text| (false, text));
    id.into_iter().chain(text).collect()
}

/// True if the first store has everything that the others have: Cursor makes transcripts from chats.
pub(crate) fn is_whole_in_first(head: &Head) -> bool {
    let is_chat = |origin: &Origin| matches!(origin.store, StoreKind::Cli | StoreKind::Acp);
    let mut origins = head.origins.iter();
    origins.next().is_some_and(is_chat)
        && origins.all(|origin| origin.store == StoreKind::Transcript)
        && head.n_messages.is_some_and(|n_messages| n_messages > 0)
        && head.activity != Activity::Damaged
}

/// Ranks a store's messages: originals before messages derived from the other store, then by tool results, then by
/// everything else.
fn richness(conversation: &Conversation) -> (bool, usize, usize, usize) {
    let is_original = is_whole_in_first(&conversation.head) && conversation.damage.is_empty();
    let parts = || conversation.messages.iter().flat_map(|message| &message.parts);
    let n_results = parts()
        .filter(|part| matches!(part, Part::ToolCall(call) if call.result.is_some()))
        .count();
    let n_thoughts = parts().filter(|part| matches!(part, Part::Reasoning { .. })).count();
    (is_original, n_results, n_thoughts, conversation.messages.len())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::model::{Damage, Role};

    fn head(store: StoreKind, shelf: Shelf, n_messages: Option<u64>) -> Head {
        let origin = Origin { store, path: std::path::PathBuf::from("/x").into(), key: None };
        Head { shelf, n_messages, ..Head::new("id", origin) }
    }

    #[test]
    fn a_conversation_with_messages_in_another_store_is_not_empty() {
        let empty = head(StoreKind::Cli, Shelf::Empty, Some(0));
        let said = head(StoreKind::Transcript, Shelf::Shown, Some(2));
        for (one, other) in [(empty.clone(), said.clone()), (said, empty.clone())] {
            let mut merged = one;
            merge_heads(&mut merged, other);
            assert_eq!((merged.shelf, merged.n_messages), (Shelf::Shown, Some(2)));
            assert_eq!(merged.origins[0].store, StoreKind::Cli);
        }
        let mut merged = empty.clone();
        merge_heads(&mut merged, head(StoreKind::Transcript, Shelf::Empty, None));
        assert_eq!((merged.shelf, merged.n_messages), (Shelf::Empty, Some(0)));
    }

    fn told(store: StoreKind, texts: &[&str]) -> Conversation {
        let mut told = Conversation::new(head(store, Shelf::Shown, Some(texts.len() as u64)));
        let message = |text: &&str| Message::new(Role::User, vec![Part::text(*text)]);
        told.messages = texts.iter().map(message).collect();
        told
    }

    fn texts(conversation: &Conversation) -> Vec<String> {
        conversation.messages.iter().map(Message::text).collect()
    }

    #[test]
    fn another_store_fills_in_the_messages_that_a_damaged_store_lost() {
        let mut store = told(StoreKind::Cli, &["one", "three", "five", "six"]);
        store.messages[0].parts.push(Part::reasoning("hm"));
        let transcript =
            told(StoreKind::Transcript, &["zero", "one", "two", "three", "four", "six"]);
        let merged = |store: &Conversation, extent| {
            merge_conversations(store.clone(), transcript.clone(), extent)
        };
        let whole = Extent::default();
        assert_eq!(texts(&merged(&store, whole)), ["one", "three", "five", "six"]);
        store.damage.push(Damage::new("a blob", "it is lost"));
        let shown = merged(&store, whole);
        assert_eq!(texts(&shown), ["zero", "one", "two", "three", "four", "five", "six"]);
        assert_eq!(shown.head.n_messages, Some(7));
        let last = Extent { last: Some(4), ..whole };
        assert_eq!(merged(&store, last).messages.len(), 4);
    }

    #[test]
    fn the_count_is_the_number_of_shown_messages() {
        let mut transcript = told(StoreKind::Transcript, &["one", "two"]);
        transcript.messages[1].parts.push(Part::reasoning("hm"));
        // An IDE may keep less than its transcript. A transcript is made from its chat.
        for (store, n_shown) in [(StoreKind::Ide, 2), (StoreKind::Cli, 1)] {
            let store = told(store, &["one"]);
            for (known, other) in [(&store, &transcript), (&transcript, &store)] {
                let merged = merge_conversations(known.clone(), other.clone(), Extent::default());
                assert_eq!(merged.messages.len(), n_shown);
                assert_eq!(merged.head.n_messages, Some(n_shown as u64));
            }
        }
    }
}
