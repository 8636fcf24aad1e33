//! What the model was given in a turn, found by the request alone: for conversations without a checkpoint.

use std::collections::HashSet;
use std::ops::ControlFlow;

use super::agent_message::{AgentMessage, join_results, read_agent_message};
use super::agent_state::blob_content;
use super::bubble::Bubble;
use super::database::{MAX_VALUE_BYTES, Table, Value, Vscdb, read_row};
use super::keys;
use super::pool::Pool;
use super::turns::opens_turn;
use crate::model::{Part, Role};
use crate::parallel;
use crate::read_only_database::ReadDatabaseError;

/// How many rows after a prompt are looked at for the rest of its turn.
const MAX_ROWS: i64 = 2_000;

/// Finds the messages of the turns that have no answer among the bubbles. Looks through all blobs, so only if there
/// are such turns.
pub(super) fn find_by_request(pool: &Pool, bubbles: &[Bubble]) -> Vec<AgentMessage> {
    let wanted = unanswered_requests(bubbles);
    if wanted.is_empty() {
        return Vec::new();
    }
    let finders: Vec<memchr::memmem::Finder<'_>> =
        wanted.iter().map(memchr::memmem::Finder::new).collect();
    let prompts = parallel::map(&keys::slices(keys::BLOB, 2), |slice| {
        let mut prompts: Vec<(i64, AgentMessage)> = Vec::new();
        // What cannot be read cannot answer either.
        let _damage = pool.visit(Table::DiskKv, slice, &mut |row| {
            let Value::Bytes(value) = row.value else { return ControlFlow::Continue(()) };
            let bytes = &*blob_content(value);
            if finders.iter().any(|finder| finder.find(bytes).is_some())
                && let Some(message) =
                    row.key.strip_prefix(keys::BLOB).and_then(|id| read_agent_message(id, bytes))
                && message.request_id.as_ref().is_some_and(|id| wanted.contains(id))
            {
                prompts.push((row.rowid, message));
            }
            ControlFlow::Continue(())
        });
        prompts
    });
    let mut prompts: Vec<(i64, AgentMessage)> = prompts.into_iter().flatten().collect();
    prompts.sort_unstable_by_key(|(rowid, _)| *rowid);
    // The same prompt is written anew when it changes; the newest has the whole turn after it.
    let mut newest: Vec<(i64, AgentMessage)> = Vec::new();
    for (rowid, prompt) in prompts {
        newest.retain(|(_, known)| known.request_id != prompt.request_id);
        newest.push((rowid, prompt));
    }
    let mut messages = Vec::new();
    for (rowid, prompt) in newest {
        messages.push(prompt);
        messages.extend(pool.with(|database| rest_of_turn(database, rowid)).unwrap_or_default());
    }
    join_results(&mut messages);
    messages
}

/// The requests of turns in which nothing was answered.
fn unanswered_requests(bubbles: &[Bubble]) -> HashSet<String> {
    let mut requests = HashSet::new();
    let mut turn: Option<(Option<&String>, bool)> = None;
    let mut close = |turn: Option<(Option<&String>, bool)>| {
        if let Some((Some(request), false)) = turn {
            requests.insert(request.clone());
        }
    };
    for bubble in bubbles {
        if opens_turn(&bubble.message) {
            close(turn.take());
            turn = Some((None, false));
        }
        let (request, is_answered) = turn.get_or_insert((None, false));
        *request = request.or(bubble.request_id.as_ref());
        *is_answered |=
            bubble.message.role == Role::Assistant && bubble.message.parts.iter().any(is_answer);
    }
    close(turn);
    requests
}

fn is_answer(part: &Part) -> bool {
    match part {
        Part::Text { text } => !text.trim().is_empty(),
        Part::ToolCall(call) => call.result.is_some(),
        _ => false,
    }
}

/// The messages that were written after a prompt, up to the next one.
fn rest_of_turn(database: &Vscdb, prompt: i64) -> Result<Vec<AgentMessage>, ReadDatabaseError> {
    // The columns of a row, but with nothing of rows that are no blobs.
    let sql = format!(
        "SELECT rowid, blob, octet_length(value), CASE WHEN blob IS NOT NULL AND octet_length(value) <= {MAX_VALUE_BYTES} \
         THEN value END FROM (SELECT rowid, CASE WHEN key >= ?2 AND key < ?3 THEN key END AS blob, value \
         FROM cursorDiskKV WHERE rowid > ?1 ORDER BY rowid LIMIT {MAX_ROWS})"
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
                    Some(message) if matches!(message.message.role, Role::User | Role::System) => {
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
