//! The same conversation, found in several stores: field by field, the richest wins.

use crate::model::{Activity, Conversation, Head, Message, Moment, Part, Shelf, TokenUsage};

/// Adds what another store says to a head. What is known already stays, unless the other knows it better.
pub(crate) fn merge_heads(known: &mut Head, other: Head) {
    let is_richer = other.origins.first().map(|origin| origin.store)
        < known.origins.first().map(|origin| origin.store);
    let (mut rich, poor) = if is_richer {
        (other, std::mem::replace(known, Head::new("", known.origins[0].clone())))
    } else {
        (std::mem::replace(known, Head::new("", other.origins[0].clone())), other)
    };
    for origin in poor.origins {
        // An export names the stores it was made of, which may be here too.
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
    // Whoever sees it live is right; damage must not hide behind a copy.
    rich.activity = [rich.activity, poor.activity]
        .into_iter()
        .min_by_key(|activity| match activity {
            Activity::Live => 0,
            Activity::Damaged => 1,
            Activity::Locked => 2,
            Activity::Interrupted => 3,
            Activity::Failed => 4,
            Activity::Idle => 5,
        })
        .unwrap_or(Activity::Idle);
    // What is empty in one store may have been said in another.
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
    *known = rich;
}

/// Joins what two stores say. The one with more in its messages gives them; the rest is taken from both.
pub(crate) fn merge_conversations(known: Conversation, other: Conversation) -> Conversation {
    let (mut rich, poor) =
        if richness(&known) >= richness(&other) { (known, other) } else { (other, known) };
    merge_heads(&mut rich.head, poor.head);
    for (rich, poor) in rich.turns.iter_mut().zip(poor.turns) {
        rich.model = rich.model.take().or(poor.model);
        if rich.model_params.is_empty() {
            rich.model_params = poor.model_params;
        }
        rich.started = rich.started.or(poor.started);
        rich.ended = rich.ended.or(poor.ended);
        rich.tokens = rich.tokens.or(poor.tokens);
        rich.error = rich.error.take().or(poor.error);
    }
    lend_times(&mut rich.messages, &poor.messages);
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

/// Messages of the same prompt have the same text in all stores, so a time that only one store recorded is lent to the
/// others by it.
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

/// What makes one store's messages worth more than another's: first results of tools, then everything else.
fn richness(conversation: &Conversation) -> (usize, usize, usize) {
    let parts = || conversation.messages.iter().flat_map(|message| &message.parts);
    let n_results = parts()
        .filter(|part| matches!(part, Part::ToolCall(call) if call.result.is_some()))
        .count();
    let n_thoughts = parts().filter(|part| matches!(part, Part::Reasoning { .. })).count();
    (n_results, n_thoughts, conversation.messages.len())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::model::{Origin, StoreKind};

    fn head(store: StoreKind, shelf: Shelf, n_messages: Option<u64>) -> Head {
        let origin = Origin { store, path: std::path::PathBuf::from("/x").into(), key: None };
        Head { shelf, n_messages, ..Head::new("id", origin) }
    }

    #[test]
    fn what_another_store_has_messages_of_is_not_empty() {
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
}
