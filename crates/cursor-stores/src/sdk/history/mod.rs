//! Assembles a conversation: the runs in order, each from its events, its checkpoint and the transcript.

pub(crate) mod agent_blobs;
pub(crate) mod checkpoint;
mod outcome;
pub(crate) mod run_story;
mod tool_event;
pub(crate) mod transcript_exchanges;
mod unreached;

use std::cell::OnceCell;

use self::checkpoint::{Begin, Blobs, Exchange, all_exchanges, exchange_of_run};
use self::outcome::{changed_files, last_plan, last_todos};
use self::run_story::RunStory;
use self::unreached::add_unreached;
use super::records::{Agent, Run, RunError, RunStatus};
use crate::chat::BlobId;
use crate::model::{
    Activity, Conversation, Damage, Head, Message, Moment, Part, PendingCall, Role, TokenUsage,
    ToolState, Turn, TurnState,
};
use crate::sdk::records::fields::recorded;
use crate::spread_times::spread_times;
use crate::store::{Branches, Extent};

/// Reads the events of a run.
pub(crate) type ReadStory<'a, E> = dyn FnMut(&Run) -> Result<RunStory, E> + 'a;

/// Everything known about an agent except its events.
pub(crate) struct Material<'a> {
    pub(crate) agent: &'a Agent,
    /// Sorted.
    pub(crate) runs: &'a [Run],
    pub(crate) blobs: &'a dyn Blobs,
    pub(crate) transcript: &'a dyn Fn() -> Vec<Exchange>,
}

/// Assembles the conversation. If only the last messages are wanted, does not read earlier runs.
pub(crate) fn assemble<E>(
    material: &Material<'_>,
    head: Head,
    extent: Extent,
    read_story: &mut ReadStory<'_, E>,
) -> Result<Conversation, E> {
    let last = extent.last;
    let mut conversation = Conversation::new(head);
    conversation.turns = material.runs.iter().map(turn_of).collect();
    let transcript = OnceCell::new();
    let mut messages_backwards: Vec<Vec<Message>> = Vec::new();
    let mut n_messages = 0;
    for (number, run) in material.runs.iter().enumerate().rev() {
        let mut story = read_story(run)?;
        complete(material, number, &mut story, &transcript);
        let turn = &mut conversation.turns[number];
        tell_turn(turn, run, &story);
        settle_calls(&mut story.messages, turn.state);
        add_result(&mut story.messages, run);
        for message in &mut story.messages {
            message.turn = Some(number);
            if message.role == Role::Assistant {
                message.model.clone_from(&turn.model);
            }
        }
        if story.n_cut_inputs() > 0 {
            *conversation.also_kept.entry("cut tool inputs".to_owned()).or_default() +=
                story.n_cut_inputs();
        }
        conversation.damage.splice(0..0, story.damage);
        n_messages += story.messages.len();
        messages_backwards.push(story.messages);
        if last.is_some_and(|last| n_messages >= last) {
            break;
        }
    }
    conversation.messages = messages_backwards.into_iter().rev().flatten().collect();
    if material.runs.is_empty() {
        add_checkpoint(&mut conversation, material);
    }
    let is_asked_for = extent.branches == Branches::WithOrphans;
    // If the rows are lost, the first and the last checkpoint are unknown.
    let is_rowless = material.runs.is_empty() && material.agent.checkpoint.is_none();
    if is_asked_for || last.is_none() && (is_rowless || material.blobs.is_damaged()) {
        add_unreached(&mut conversation, material.blobs);
    }
    extent.cut(&mut conversation.messages);
    finish(&mut conversation, last);
    Ok(conversation)
}

fn turn_of(run: &Run) -> Turn {
    Turn {
        request_id: run.request_id.clone(),
        model: run.model.clone(),
        model_params: run.model_params.clone(),
        started: recorded(run.started.or(run.created)),
        ended: recorded(run.ended),
        state: run.status.turn_state(),
        error: run
            .error
            .as_ref()
            .map(|error| error.message.clone())
            .or_else(|| expired(run.status)),
        error_code: run.error.as_ref().and_then(|error| error.code.clone()),
        tokens: run.usage,
    }
}

fn expired(status: RunStatus) -> Option<String> {
    (status == RunStatus::Expired).then(|| "expired".to_owned())
}

/// Adds what only the events know about a turn.
fn tell_turn(turn: &mut Turn, run: &Run, story: &RunStory) {
    turn.request_id = turn.request_id.take().or_else(|| story.request_id.clone());
    turn.model = turn.model.take().or_else(|| story.model.clone());
    turn.tokens = turn.tokens.or(story.usage);
    if !run.status.is_over()
        && let Some(outcome) = story.outcome
    {
        turn.state = outcome.turn_state();
        turn.ended = turn.ended.or(recorded(run.updated));
    }
    if turn.state != TurnState::Finished
        && turn.error_code.is_none()
        && let Some(RunError { code, message }) = &story.error
    {
        // The row has a code. The events have a message.
        let of_row = turn.error.take().filter(|error| error != message);
        turn.error_code = code.clone().or(of_row);
        turn.error = Some(message.clone());
    }
}

/// Adds prompts, answers and results that the events lack.
fn complete(
    material: &Material<'_>,
    number: usize,
    story: &mut RunStory,
    transcript: &OnceCell<Vec<Exchange>>,
) {
    let is_prompt = |message: &Message| message.role == Role::User && message.kind.is_said();
    let has_prompt = story.messages.iter().any(is_prompt);
    let has_answer = story.has_answer();
    if has_prompt && has_answer && !story.has_incomplete_calls() {
        return;
    }
    let run = &material.runs[number];
    let (mut exchange, lost) = match own_exchange(material, number) {
        Ok(exchange) => (exchange, None),
        Err(root) => {
            material.blobs.miss(root);
            (Exchange::default(), Some(root))
        }
    };
    story.complete_calls(&exchange.calls());
    let lacks_prompt = !has_prompt && exchange.prompts.is_empty();
    let lacks_answer = !has_answer && exchange.answers.is_empty();
    // The last prompt may belong to an earlier run.
    let is_guess = !has_prompt && begin_of(material, number) == Begin::LastPrompt;
    if (lacks_prompt || lacks_answer || is_guess)
        && let Some(told) = transcript_exchange(material, number, transcript)
    {
        if lacks_prompt || is_guess && !told.prompts.is_empty() {
            exchange.prompts = told.prompts;
        }
        if lacks_answer {
            exchange.answers = told.answers;
        }
    }
    if let Some(root) = lost.filter(|_| !has_prompt && exchange.prompts.is_empty()) {
        let what = format!("its prompt is only in the checkpoint {root}, which cannot be read");
        story.damage.push(Damage::new(format!("run {}", run.id), what));
    }
    if !has_prompt {
        let at = recorded(run.created.or(run.started));
        let prompts = exchange.prompts.into_iter().map(|prompt| Message { at, ..prompt });
        story.messages.splice(0..0, prompts);
    }
    if !has_answer {
        let mut answers = exchange.answers;
        spread_times(&mut answers, run.started.or(run.created), run.ended.or(run.updated));
        story.messages.append(&mut answers);
    }
}

/// Returns the messages that the run's own checkpoint adds to the previous one, or the checkpoint's id if it cannot be
/// read. A run without its own checkpoint has the one that it started with.
fn own_exchange(material: &Material<'_>, number: usize) -> Result<Exchange, BlobId> {
    let run = &material.runs[number];
    let start = start_of(material, number);
    let is_last = number + 1 == material.runs.len();
    // The SDK may have been killed after it wrote the agent's row and before it wrote the run's row.
    let of_agent = material.agent.checkpoint.filter(|_| is_last);
    let ends = [of_agent, run.checkpoint].into_iter().flatten();
    let Some(end) = ends.into_iter().find(|end| Some(*end) != start) else {
        return Ok(Exchange::default());
    };
    exchange_of_run(material.blobs, begin_of(material, number), end).ok_or(end)
}

/// Returns the checkpoint that a run started with, if known.
fn start_of(material: &Material<'_>, number: usize) -> Option<BlobId> {
    let before = number.checked_sub(1).and_then(|before| material.runs[before].checkpoint);
    material.runs[number].start_checkpoint.or(before)
}

fn begin_of(material: &Material<'_>, number: usize) -> Begin {
    match (number, start_of(material, number)) {
        (_, Some(start)) => Begin::After(start),
        (0, None) => Begin::Conversation,
        (_, None) => Begin::LastPrompt,
    }
}

/// The transcript has no ids. It is used only if it has as many prompts as there are runs. The last prompt may not be
/// written yet.
fn transcript_exchange(
    material: &Material<'_>,
    number: usize,
    transcript: &OnceCell<Vec<Exchange>>,
) -> Option<Exchange> {
    let exchanges = transcript.get_or_init(|| (material.transcript)());
    let n_runs = material.runs.len();
    let is_unwritten = material.runs.last().is_some_and(|run| !run.status.is_over());
    let fits = exchanges.len() == n_runs || is_unwritten && exchanges.len() + 1 == n_runs;
    exchanges.get(number).filter(|_| fits).cloned()
}

/// Sets the state of unfinished calls according to how the turn ended.
fn settle_calls(messages: &mut [Message], state: TurnState) {
    let settled = match state {
        TurnState::Running => return,
        TurnState::Cancelled => ToolState::Cancelled,
        TurnState::Finished | TurnState::Failed | TurnState::Unknown => ToolState::Unknown,
    };
    for part in messages.iter_mut().flat_map(|message| &mut message.parts) {
        if let Part::ToolCall(call) = part
            && call.state == ToolState::Pending
        {
            call.state = settled;
        }
    }
}

/// Adds a run's result, which is its final text, unless a message already has it.
fn add_result(messages: &mut Vec<Message>, run: &Run) {
    let Some(result) = &run.result else { return };
    let is_text = |part: &Part| matches!(part, Part::Text { .. });
    let mut texts = messages
        .iter()
        .filter(|message| message.role == Role::Assistant)
        .flat_map(|message| &message.parts)
        .filter_map(|part| match part {
            Part::Text { text } => Some(text),
            _ => None,
        });
    if texts.any(|text| text.trim().contains(result.trim())) {
        return;
    }
    let last = messages.last_mut().filter(|message| message.role == Role::Assistant);
    match last.and_then(|message| message.parts.last_mut()) {
        // The stream was cut off, but the result is complete.
        Some(Part::Text { text }) if result.starts_with(text.as_str()) => text.clone_from(result),
        Some(part) if is_text(part) => {
            let result = Part::Attachment {
                kind: "result".to_owned(),
                name: None,
                text: Some(result.clone()),
            };
            messages.extend([Message {
                at: recorded(run.ended),
                ..Message::new(Role::Assistant, vec![result])
            }]);
        }
        _ => messages.push(Message {
            at: recorded(run.ended),
            ..Message::new(Role::Assistant, vec![Part::text(result)])
        }),
    }
}

/// Reads the last checkpoint of an agent that has no runs.
fn add_checkpoint(conversation: &mut Conversation, material: &Material<'_>) {
    let Some(root) = material.agent.checkpoint else { return };
    let Some(exchanges) = all_exchanges(material.blobs, root) else {
        material.blobs.miss(root);
        conversation.damage.push(Damage::new(format!("checkpoint {root}"), "it cannot be read"));
        return;
    };
    for exchange in exchanges {
        let turn = conversation.turns.len();
        conversation.turns.push(Turn::default());
        let messages = exchange.prompts.into_iter().chain(exchange.answers);
        conversation
            .messages
            .extend(messages.map(|message| Message { turn: Some(turn), ..message }));
    }
    let (from, to) = (conversation.head.created, conversation.head.updated);
    let at_ms = |moment: Option<Moment>| moment.map(|moment| moment.at_ms);
    spread_times(&mut conversation.messages, at_ms(from), at_ms(to));
}

/// Fills in the facts that only the whole conversation shows.
fn finish(conversation: &mut Conversation, last: Option<usize>) {
    let messages = &conversation.messages;
    let head = &mut conversation.head;
    head.tokens =
        conversation.turns.iter().fold(None, |known, turn| TokenUsage::sum(known, turn.tokens));
    for turn in &conversation.turns {
        head.add_model(turn.model.as_deref().unwrap_or_default());
    }
    if last.is_none() {
        let n_said = messages.iter().filter(|message| message.kind.is_said()).count();
        head.n_messages = Some(n_said as u64);
    }
    let heard = messages.iter().filter_map(|message| message.at).max_by_key(|at| at.at_ms);
    if let (Some(heard), Some(updated)) = (heard, &mut head.updated)
        && heard.confidence == updated.confidence
    {
        updated.at_ms = updated.at_ms.max(heard.at_ms);
    }
    let calls = || messages.iter().flat_map(Message::tool_calls);
    head.pending =
        calls().filter(|call| call.state == ToolState::Pending).map(PendingCall::from).collect();
    for subagent in calls().filter_map(|call| call.subagent.as_ref()) {
        if !head.subagents.contains(subagent) {
            head.subagents.push(subagent.clone());
        }
    }
    if conversation.turns.last().is_some_and(|turn| turn.state == TurnState::Failed) {
        head.activity = Activity::Failed;
    }
    conversation.todos = last_todos(messages);
    conversation.plan = last_plan(messages);
    conversation.files = changed_files(messages);
}
