//! A prompt that is the whole body of a request: `POST /v1/runs?run={…}`. The daemon writes it to disk as it arrives
//! and never holds all of it in memory, so it may be as long as a prompt on the command line.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::Method;
use futures_util::StreamExt;
use run_protocol::{LONGEST_PROMPT, PromptCheck, PromptProblem};
use tokio::sync::Semaphore;

use super::body::{PATIENCE, no_room, too_slow, unreadable};
use super::request::blocking;
use super::{ApiError, ErrorCode};

/// How many prompts may arrive at the same time.
const MOST_AT_ONCE: usize = 4;
/// How long a client may take to send the whole prompt. No pause may be longer than [`PATIENCE`].
const WHOLE_PATIENCE: Duration = Duration::from_secs(120);
/// How much to collect before a write.
const BATCH: usize = 256 * 1024;

/// Limits the number of such bodies.
#[derive(Debug)]
pub(crate) struct PromptRoom(Semaphore);

impl Default for PromptRoom {
    fn default() -> Self {
        Self(Semaphore::new(MOST_AT_ONCE))
    }
}

/// True if a request's body is a prompt and everything else is in its query.
pub(super) fn is_prompt(request: &Request) -> bool {
    let query = request.uri().query().unwrap_or_default();
    request.method() == Method::POST
        && request.uri().path() == "/v1/runs"
        && query.split('&').any(|pair| pair.starts_with("run="))
}

/// Writes the prompt to an unnamed file, so that nothing remains if the daemon dies.
pub(super) async fn take_in(
    room: &PromptRoom,
    directory: &Path,
    body: Body,
) -> Result<File, ApiError> {
    if body.size_hint().lower() > LONGEST_PROMPT {
        return Err(refused(PromptProblem::TooLong));
    }
    let place = tokio::time::timeout(PATIENCE, room.0.acquire()).await;
    let _place = place.map_err(|_| no_room())?.map_err(|error| ApiError::internal(&error))?;
    let directory = directory.to_owned();
    let file = blocking(move || tempfile::tempfile_in(directory)).await?.map_err(not_kept)?;
    let taken = tokio::time::timeout(WHOLE_PATIENCE, write_down(body, file)).await;
    taken.map_err(|_| too_slow(WHOLE_PATIENCE))?
}

async fn write_down(body: Body, mut file: File) -> Result<File, ApiError> {
    let mut check = PromptCheck::default();
    let mut pieces = body.into_data_stream();
    let mut batch: Vec<Bytes> = Vec::new();
    let mut n_gathered = 0;
    loop {
        let piece = tokio::time::timeout(PATIENCE, pieces.next()).await;
        let piece = piece.map_err(|_| too_slow(PATIENCE))?;
        let piece = piece.transpose().map_err(|error| unreadable(&error))?;
        let is_last = piece.is_none();
        if let Some(piece) = piece {
            check.piece(&piece).map_err(refused)?;
            n_gathered += piece.len();
            batch.push(piece);
        }
        if is_last || n_gathered >= BATCH {
            let batch = std::mem::take(&mut batch);
            n_gathered = 0;
            file = blocking(move || append(file, &batch)).await?.map_err(not_kept)?;
        }
        if is_last {
            check.finish().map_err(refused)?;
            return Ok(file);
        }
    }
}

fn append(mut file: File, batch: &[Bytes]) -> io::Result<File> {
    batch.iter().try_for_each(|piece| file.write_all(piece))?;
    Ok(file)
}

fn refused(problem: PromptProblem) -> ApiError {
    let error = problem.to_string();
    match problem {
        PromptProblem::TooLong => ApiError::new(ErrorCode::PromptTooLong, error)
            .hint("write the text to a file in the workspace, and name the file in the prompt"),
        _ => ApiError::bad_request(error),
    }
}

fn not_kept(error: io::Error) -> ApiError {
    let what = format!("the prompt could not be written to disk: {error}");
    ApiError::new(ErrorCode::NotWritten, what)
}
