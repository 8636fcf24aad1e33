//! What the model was given in a turn, found by the request alone: for conversations without a checkpoint.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::agent_merge::bare;
use super::agent_message::{AgentMessage, call_key, join_results, read_agent_message};
use super::agent_state::blob_content;
use super::bubble::Bubble;
use super::database::{MAX_VALUE_BYTES, Table, Value, Vscdb, read_row};
use super::keys;
use super::pool::Pool;
use super::turns::opens_turn;
use crate::model::{Part, Role, ToolCall};
use crate::parallel;
use crate::read_only_database::ReadDatabaseError;

/// How many rows after a prompt are looked at for the rest of its turn.
const MAX_ROWS: i64 = 2_000;

/// While somebody writes, what was found out so lately is as good as new.
const LATELY: Duration = Duration::from_secs(10);

/// Where the prompts of requests are among the blobs. Found out once for all conversations, and again when the database
/// has changed: nothing but a look at every blob tells.
#[derive(Debug, Default)]
pub(super) struct PromptRows {
    known: Mutex<Option<KnownRows>>,
}

#[derive(Debug)]
struct KnownRows {
    /// Of the database when they were found, where that can be told.
    state: Option<u64>,
    found_at: Instant,
    rows: Arc<RowsByRequest>,
}

/// The row of the newest prompt of each request.
type RowsByRequest = HashMap<String, i64>;

impl PromptRows {
    /// `state` tells apart states of the database, where that is possible.
    fn of(&self, pool: &Pool, state: Option<u64>) -> Arc<RowsByRequest> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
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
        // What cannot be read cannot answer either.
        let _damage = pool.visit(Table::DiskKv, slice, &mut |row| {
            let Value::Bytes(value) = row.value else { return ControlFlow::Continue(()) };
            let bytes = &*blob_content(value);
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
    // The same prompt is written anew when it changes; the newest has the whole turn after it.
    for (request, row) in found.into_iter().flatten() {
        let newest = rows.entry(request).or_insert(row);
        *newest = row.max(*newest);
    }
    rows
}

/// Finds what the model was given in the turns that name their request. Where a turn has an answer among the bubbles, what
/// is found must have some of it too: nothing else tells the rows of one conversation from those of another that was
/// written at the same time.
pub(super) fn find_by_request(
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
        // A prompt that was written anew meanwhile is elsewhere.
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

    /// Whether the model said something that is shown here, or made a call that is.
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

/// A prompt, and the messages that were written after it, up to the next one.
fn messages_of_turn(database: &Vscdb, prompt: i64) -> Result<Vec<AgentMessage>, ReadDatabaseError> {
    // The columns of a row, but with nothing of rows that are no blobs.
    let sql = format!(
        "SELECT rowid, blob, octet_length(value), CASE WHEN blob IS NOT NULL AND octet_length(value) <= {MAX_VALUE_BYTES} \
         THEN value END FROM (SELECT rowid, CASE WHEN key >= ?2 AND key < ?3 THEN key END AS blob, value \
         FROM cursorDiskKV WHERE rowid >= ?1 ORDER BY rowid LIMIT {MAX_ROWS})"
    );
    let range = keys::beginning_with(keys::BLOB);
    database.database.read(|connection| {
        let mut messages = Vec::new();
        let mut statement = connection.prepare_cached(&sql)?;
        let mut rows = statement.query((prompt, &range.start, &range.end))?;
        while let Some(row) = rows.next()? {
            let flow = read_row(row, &mut |row| {
                let Value::Bytes(bytes) = row.value else { return ControlFlow::Continue(()) };
                let id = row.key.strip_prefix(keys::BLOB).unwrap_or_default();
                match read_agent_message(id, &blob_content(bytes)) {
                    Some(message)
                        if row.rowid > prompt
                            && matches!(message.message.role, Role::User | Role::System) =>
                    {
                        ControlFlow::Break(())
                    }
                    Some(message) => {
                        messages.push(message);
                        ControlFlow::Continue(())
                    }
                    None => ControlFlow::Continue(()),
                }
            })?;
            if flow.is_break() {
                break;
            }
        }
        Ok(messages)
    })
}
