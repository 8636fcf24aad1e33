//! Reads a request's whole body, within a time limit and within the memory that all bodies share.

use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::response::Response;
use futures_util::StreamExt;
use tokio::sync::Semaphore;

use super::{ApiError, ErrorCode};

/// Nearly every prompt fits. A client sends a longer prompt as the whole body.
const LARGEST_BODY: usize = 4 << 20;
/// The memory that all bodies share.
const ALL_BODIES: usize = 4 * LARGEST_BODY;
/// How long a client may take to send a body, and how long it waits for memory. Clients are local, so this is plenty.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// Memory is counted in pieces of this size, because a semaphore's permits are counted in 32 bits.
const PIECE: usize = 1024;

/// The memory for bodies.
#[derive(Debug)]
pub(crate) struct BodyRoom(Semaphore);

impl Default for BodyRoom {
    fn default() -> Self {
        Self(Semaphore::new(ALL_BODIES / PIECE))
    }
}

/// Reads the body and calls `answer` with it. The body keeps its share of memory until the answer is ready.
pub(super) async fn with_whole_body<F: Future<Output = Response>>(
    room: &BodyRoom,
    request: Request,
    answer: impl FnOnce(Request) -> F,
) -> Result<Response, ApiError> {
    let (head, body) = request.into_parts();
    if body.is_end_stream() {
        return Ok(answer(Request::from_parts(head, body)).await);
    }
    let size = body.size_hint();
    let announced = usize::try_from(size.lower()).unwrap_or(usize::MAX);
    if announced > LARGEST_BODY {
        return Err(too_large());
    }
    // A body without a declared length may have any size.
    let needed = if size.exact().is_some() { announced } else { LARGEST_BODY };
    let needed = u32::try_from(needed.div_ceil(PIECE)).unwrap_or(u32::MAX);
    let place = tokio::time::timeout(PATIENCE, room.0.acquire_many(needed)).await;
    let place = place.map_err(|_| no_room())?.map_err(|error| ApiError::internal(&error))?;
    let body = tokio::time::timeout(PATIENCE, read_whole(body))
        .await
        .map_err(|_| too_slow(PATIENCE))??;
    let response = answer(Request::from_parts(head, Body::from(body))).await;
    drop(place);
    Ok(response)
}

async fn read_whole(body: Body) -> Result<Bytes, ApiError> {
    let mut pieces = body.into_data_stream();
    let mut whole = Vec::new();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|error| unreadable(&error))?;
        if whole.len() + piece.len() > LARGEST_BODY {
            return Err(too_large());
        }
        whole.extend_from_slice(&piece);
    }
    Ok(whole.into())
}

fn too_large() -> ApiError {
    let what = format!("the request body is larger than {} MiB", LARGEST_BODY >> 20);
    ApiError::new(ErrorCode::BodyTooLarge, what)
        .hint("send a long prompt as the whole body: POST /v1/runs?run={…}, see /v1/openapi.json")
}

pub(super) fn unreadable(error: &dyn std::error::Error) -> ApiError {
    ApiError::bad_request(format!("the request body could not be read: {error}"))
}

pub(super) fn no_room() -> ApiError {
    ApiError::new(ErrorCode::Busy, "the daemon is busy with other large requests")
        .hint("try again in a moment")
}

pub(super) fn too_slow(patience: Duration) -> ApiError {
    let what = format!("the request body did not arrive within {} s", patience.as_secs());
    ApiError::new(ErrorCode::BodyTooSlow, what)
}
