//! `/v1/runs/{run}/events`: one run's events as they happen, from any position.
//!
//! Each client reads the journal from its own position, one piece at a time, and only after it has received the
//! previous piece. So a slow client costs one piece of memory and delays no other client.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use public_events::{EventWriter, PublicEvent};
use run_journal::{
    EventNumber, JournalEntry, JournalReader, Position, Progress, RunDirectory, RunOverview,
    RunState,
};
use run_protocol::{RunEvent, RunId};
use serde::Deserialize;
use utoipa::IntoParams;

use super::request::{InPath, OfRun, Query, find_run};
use super::{ApiError, ErrorCode};
use crate::counters::Counters;
use crate::daemon::Daemon;
use crate::run_watch::Following;
use crate::run_watch::subscriber::Interest;

/// How much of a journal to send at once.
pub(super) const PIECE: usize = 16 * 1024;

/// The description of the header.
pub(super) const LAST_EVENT_ID: &str =
    "The `id` of the last event that the client has. An `id` that does not exist yet is refused.";

/// Where to begin.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct From {
    /// The number of the last event that the client has, for clients that cannot send `Last-Event-ID`.
    since: Option<String>,
    /// Begin this many events before the end.
    tail: Option<u64>,
}

/// Follow the events of a run
#[utoipa::path(
    get, path = "/v1/runs/{run}/events", operation_id = "follow_run", tag = "events",
    params(OfRun, From, ("Last-Event-ID" = Option<String>, Header, description = LAST_EVENT_ID)),
    responses(
        (
            status = OK,
            description = "Server-sent events, up to the end of the run. `id` is the event's number. Each `data` has this form.",
            body = PublicEvent, content_type = "text/event-stream",
        ),
        (status = NO_CONTENT, description = "The run has ended and the client has all events"),
        (status = NOT_FOUND),
    ),
)]
pub(crate) async fn events(
    State(daemon): State<Arc<Daemon>>,
    InPath(OfRun { run }): InPath<OfRun>,
    Query(from): Query<From>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let run = find_run(&daemon, &run).await?;
    let position = position(&from, last_event_id(&headers)?.as_deref())?;
    if let Position::After(number) = position {
        let overview = RunOverview::read(&run).map_err(|error| ApiError::internal(&error))?;
        refuse_unwritten(overview.last_event, number)?;
        // Tell a client that reconnects after the end to stop.
        if matches!(overview.state, RunState::Ended { .. }) && overview.last_event == Some(number) {
            return Ok(StatusCode::NO_CONTENT.into_response());
        }
    }
    let mut events = RunEvents::open(&daemon, &run, position)?;
    let first = if events.is_over() { events.next().await } else { Some(Bytes::new()) };
    match first {
        None => Ok(StatusCode::NO_CONTENT.into_response()),
        Some(first) => Ok(event_stream(stream::unfold(
            (events, Some(first)),
            |(mut events, first)| async move {
                let bytes = match first {
                    Some(first) if !first.is_empty() => first,
                    _ => events.next().await?,
                };
                Some((bytes, (events, None)))
            },
        ))),
    }
}

/// Refuses an event that does not exist yet: the client would wait for events that never come, or miss some.
pub(super) fn refuse_unwritten(
    last: Option<EventNumber>,
    number: EventNumber,
) -> Result<(), ApiError> {
    if last.is_some_and(|last| number <= last) {
        return Ok(());
    }
    let (has, hint) = match last {
        Some(last) => (format!("its last event is {last}"), format!("continue after {last}")),
        None => (
            "it has no event".to_owned(),
            "leave the number out to start at the beginning".to_owned(),
        ),
    };
    Err(ApiError::new(ErrorCode::NoSuchEvent, format!("the run has no event {number}: {has}"))
        .hint(hint))
}

/// The header that a browser sends when it reconnects.
pub(super) fn last_event_id(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    let Some(value) = headers.get("last-event-id") else { return Ok(None) };
    let text = value.to_str().map_err(|_| ApiError::bad_request("Last-Event-ID is not text"))?;
    Ok(Some(text.to_owned()).filter(|text| !text.is_empty()))
}

fn position(from: &From, last: Option<&str>) -> Result<Position, ApiError> {
    let since = last.or(from.since.as_deref());
    match (since, from.tail) {
        (Some(since), _) => since
            .parse::<EventNumber>()
            .map(Position::After)
            .map_err(|error| ApiError::bad_request(error.to_string())),
        (None, Some(n_events)) => Ok(Position::Tail(n_events)),
        (None, None) => Ok(Position::Start),
    }
}

pub(super) fn event_stream(
    frames: impl futures_util::Stream<Item = Bytes> + Send + 'static,
) -> Response {
    use futures_util::StreamExt;
    let body = Body::from_stream(frames.map(Ok::<Bytes, Infallible>));
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CONNECTION, "close")];
    (headers, body).into_response()
}

/// Counts a client while it is connected.
pub(super) struct Counted(Arc<Daemon>);

impl Counted {
    pub(super) fn new(daemon: &Arc<Daemon>) -> Self {
        daemon.counters.event_streams.one();
        Self(Arc::clone(daemon))
    }

    fn counters(&self) -> &Counters {
        &self.0.counters
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.counters().event_streams.one_less();
    }
}

/// One client's position in one journal.
struct RunEvents {
    run: RunId,
    following: Following,
    reader: JournalReader,
    form: EventWriter,
    has_ended: bool,
    _counted: Counted,
}

impl RunEvents {
    fn open(
        daemon: &Arc<Daemon>,
        directory: &RunDirectory,
        position: Position,
    ) -> Result<Self, ApiError> {
        let run = directory.run_id();
        // First the watch, then the file, so that no write in between is missed.
        let following = daemon.watch.follow(Interest::One(run));
        let reader = JournalReader::open(directory, position)
            .map_err(|error| ApiError::internal(&error))?
            .in_pieces_of(PIECE);
        Ok(Self {
            run,
            following,
            reader,
            form: EventWriter::default(),
            has_ended: false,
            _counted: Counted::new(daemon),
        })
    }

    fn is_over(&self) -> bool {
        self.following.is_over(self.run)
    }

    /// Waits for the next events; `None` after the last event.
    async fn next(&mut self) -> Option<Bytes> {
        let mut frames = Vec::new();
        while !self.has_ended {
            // Check before the read: if the writer is already gone, this read reaches the end of the journal.
            let is_final = self.is_over();
            self.following.subscriber().take();
            let Self { reader, form, has_ended, .. } = self;
            let mut on_entry = |entry: JournalEntry<'_>| {
                *has_ended |= is_the_end(&entry);
                push_frame(&mut frames, form, &entry);
            };
            let progress = match reader.next_batch(&mut on_entry) {
                Ok(progress) => progress,
                Err(error) => {
                    tracing::warn!(%error, run = %self.run, "cannot read a journal");
                    return None;
                }
            };
            if !frames.is_empty() {
                return Some(frames.into());
            }
            match progress {
                Progress::Advanced => {}
                Progress::AtEnd if is_final => return None,
                Progress::AtEnd => drop(self.following.subscriber().next().await),
            }
        }
        None
    }
}

pub(super) fn is_the_end(entry: &JournalEntry<'_>) -> bool {
    matches!(entry, JournalEntry::Run { event: RunEvent::Ended { .. }, .. })
}

/// Appends one event: its number and its public form.
fn push_frame(frames: &mut Vec<u8>, form: &mut EventWriter, entry: &JournalEntry<'_>) {
    let start = frames.len();
    if let Some(number) = entry.number() {
        frames.extend_from_slice(format!("id: {number}\n").as_bytes());
    }
    frames.extend_from_slice(b"data: ");
    let before = frames.len();
    let written = form.write(frames, entry);
    if written.is_err() || frames.len() == before {
        frames.truncate(start);
        return;
    }
    // The public form ends with a line feed; an empty line ends the frame.
    frames.push(b'\n');
}
