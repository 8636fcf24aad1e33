//! Finds what the model got in a turn by the request id alone, for conversations without a checkpoint.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::merge::bare;
use super::message::{AgentMessage, call_key, join_results, read_agent_message};
use crate::database::ReadDatabaseError;
use crate::ide::agent::blob_content;
use crate::ide::conversation::bubble::Bubble;
use crate::ide::conversation::turns::opens_turn;
use crate::ide::database::keys;
use crate::ide::database::pool::Pool;
use crate::ide::database::{Table, Value, Vscdb};
use crate::model::{Part, Role, ToolCall};
use crate::parallel::{self, lock};

/// How many rows after a prompt may belong to its turn.
pub(crate) const MAX_ROWS: u32 = 2_000;

/// While another process writes, results this recent are good enough.
const LATELY: Duration = Duration::from_secs(10);

/// The rows of prompts, by request. Finding them means reading every blob, so all conversations share the result until
/// the database changes.
#[derive(Debug, Default)]
pub(crate) struct PromptRows {
    known: Mutex<Option<KnownRows>>,
}

#[derive(Debug)]
struct KnownRows {
    /// Identifies the state of the database, if possible.
    state: Option<u64>,
    found_at: Instant,
    rows: Arc<RowsByRequest>,
}

/// The row of the newest prompt of each request.
pub(crate) type RowsByRequest = HashMap<String, i64>;

impl PromptRows {
    /// `state` identifies the state of the database, if possible.
    pub(crate) fn of(&self, pool: &Pool, state: Option<u64>) -> Arc<RowsByRequest> {
        let mut known = lock(&self.known);
        if let Some(known) = known.as_ref()
            && (known.found_at.elapsed() < LATELY || state.is_some() && known.state == state)
        {
            return Arc::clone(&known.rows);
        }
        let found_at = Instant::now();
        let rows = Arc::new(find_prompts(pool));
        *known = Some(KnownRows { state, found_at, rows: Arc::clone(&rows) });
        rows
    }
}

fn find_prompts(pool: &Pool) -> RowsByRequest {
    let finder = memchr::memmem::Finder::new("requestId");
    let found = parallel::map(&keys::slices(keys::BLOB, 2), |slice| {
        let mut prompts: Vec<(String, i64)> = Vec::new();
        // Leaves out unreadable rows.
        let _damage = pool.visit(Table::DiskKv, slice, &mut |row| {
            let Value::Bytes(value) = row.value else { return ControlFlow::Continue(()) };
            let bytes = &*blob_content(&value);
            if finder.find(bytes).is_some()
                && let Some(message) = read_agent_message("", bytes)
                && let Some(request) = message.request_id
            {
                prompts.push((request, row.rowid));
            }
            ControlFlow::Continue(())
        });
        prompts
    });
    let mut rows = RowsByRequest::new();
    // Cursor writes a prompt again when it changes. The whole turn follows the newest row.
    for (request, row) in found.into_iter().flatten() {
        let newest = rows.entry(request).or_insert(row);
        *newest = row.max(*newest);
    }
    rows
}

/// Finds the messages that the model got in the turns that name their request. If a turn shows an answer, the messages
/// must contain a text or a tool call from that answer. Nothing else distinguishes the rows of two conversations that
/// Cursor wrote at the same time.
pub(crate) fn find_by_request(
    pool: &Pool,
    prompts: &PromptRows,
    state: Option<u64>,
    bubbles: &[Bubble],
) -> Vec<AgentMessage> {
    let turns = turns_with_request(bubbles);
    if turns.is_empty() {
        return Vec::new();
    }
    let rows = prompts.of(pool, state);
    let mut messages = Vec::new();
    for turn in turns {
        let Some(row) = rows.get(turn.request) else { continue };
        let mut given = pool.with(|database| messages_of_turn(database, *row)).unwrap_or_default();
        // Cursor may have rewritten the prompt in the meantime, in another row.
        let prompt = given.first().and_then(|prompt| prompt.request_id.as_deref());
        if prompt != Some(turn.request) {
            continue;
        }
        join_results(&mut given);
        if !turn.is_answered() || turn.shares_with(&given) {
            messages.extend(given);
        }
    }
    messages
}

/// A turn as the IDE shows it.
struct ShownTurn<'a> {
    request: &'a str,
    answers: Vec<&'a Part>,
}

impl ShownTurn<'_> {
    fn is_answered(&self) -> bool {
        self.answers.iter().any(|part| is_answer(part))
    }

    /// True if the messages share a text or a tool call with this turn.
    fn shares_with(&self, given: &[AgentMessage]) -> bool {
        let given = given.iter().filter(|message| message.message.role == Role::Assistant);
        given.flat_map(|message| &message.message.parts).any(|given| {
            self.answers.iter().any(|shown| match (shown, given) {
                (Part::Text { text: shown }, Part::Text { text: given }) => {
                    let (shown, given) = (bare(shown), bare(given));
                    !shown.is_empty() && !given.is_empty() && shown == given
                }
                (Part::ToolCall(shown), Part::ToolCall(given)) => {
                    let key = |call: &ToolCall| call.id.as_deref().map(call_key).map(str::to_owned);
                    key(shown).is_some() && key(shown) == key(given)
                }
                _ => false,
            })
        })
    }
}

fn turns_with_request(bubbles: &[Bubble]) -> Vec<ShownTurn<'_>> {
    let mut turns: Vec<(Option<&str>, Vec<&Part>)> = Vec::new();
    for bubble in bubbles {
        if turns.is_empty() || opens_turn(&bubble.message) {
            turns.push((None, Vec::new()));
        }
        let Some((request, answers)) = turns.last_mut() else { continue };
        *request = request.or(bubble.request_id.as_deref());
        if bubble.message.role == Role::Assistant {
            answers.extend(&bubble.message.parts);
        }
    }
    let named = turns.into_iter();
    named.filter_map(|(request, answers)| Some(ShownTurn { request: request?, answers })).collect()
}

fn is_answer(part: &Part) -> bool {
    match part {
        Part::Text { text } => !text.trim().is_empty(),
        Part::ToolCall(call) => call.result.is_some(),
        _ => false,
    }
}

/// A prompt, and the messages after it, up to the next prompt.
fn messages_of_turn(database: &Vscdb, prompt: i64) -> Result<Vec<AgentMessage>, ReadDatabaseError> {
    let mut messages = Vec::new();
    database.visit_blobs(prompt, MAX_ROWS, &mut |row| {
        let Value::Bytes(bytes) = row.value else { return ControlFlow::Continue(()) };
        let id = row.key.strip_prefix(keys::BLOB).unwrap_or_default();
        if let Some(message) = read_agent_message(id, &blob_content(&bytes)) {
            let opens_next = matches!(message.message.role, Role::User | Role::System);
            if row.rowid > prompt && opens_next {
                return ControlFlow::Break(());
            }
            messages.push(message);
        }
        ControlFlow::Continue(())
    })?;
    Ok(messages)
}
