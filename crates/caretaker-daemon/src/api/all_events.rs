//! `/v1/events`: the events of all runs as they happen. Each run's events come in order, but the runs may interleave in
//! any way.
//!
//! The `id` of an event is the client's position in every run, so that it can continue from any event, even with
//! another daemon.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use ground::now_ms;
use public_events::{EventWriter, PublicEvent};
use run_journal::{JournalEntry, JournalReader, Position, Progress, RunDirectory, RunOverview};
use run_protocol::RunId;
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::cursor::{Cursor, KEPT_MS, Place};
use super::request::{Query, blocking};
use super::run_events::{
    Counted, LAST_EVENT_ID, PIECE, event_stream, is_the_end, last_event_id, refuse_unwritten,
};
use super::{ApiError, ErrorCode};
use crate::daemon::Daemon;
use crate::run_watch::Following;
use crate::run_watch::subscriber::Interest;

/// Where to begin.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct From {
    /// The last `id` that the client has, for clients that cannot send `Last-Event-ID`.
    since: Option<String>,
    /// `run`: omit the agents' own lines.
    #[param(pattern = "^run$")]
    only: Option<String>,
}

/// An event and its run. [`push_frame`] writes it.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only for the OpenAPI document: an event is written piece by piece")]
struct EventOfRun {
    /// The run.
    run: RunId,
    /// The event.
    event: PublicEvent,
}

/// Follow the events of all runs
#[utoipa::path(
    get, path = "/v1/events", operation_id = "follow_all_runs", tag = "events",
    params(From, ("Last-Event-ID" = Option<String>, Header, description = LAST_EVENT_ID)),
    responses(
        (
            status = OK,
            description = "An endless stream of server-sent events. `id` is the client's position in every run. Each `data` has this form.",
            body = EventOfRun, content_type = "text/event-stream",
        ),
    ),
)]
pub(crate) async fn events(
    State(daemon): State<Arc<Daemon>>,
    Query(from): Query<From>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let with_agents = match from.only.as_deref() {
        None => true,
        Some("run") => false,
        Some(other) => {
            return Err(ApiError::bad_request(format!(
                "`only` must be `run` or left out, not `{other}`"
            )));
        }
    };
    let following = daemon.watch.follow(Interest::All);
    let since = last_event_id(&headers)?.or(from.since);
    let cursor = match since.as_deref() {
        None => start_now(&daemon),
        Some(text) => {
            let cursor = Cursor::decode(text)
                .ok_or_else(|| ApiError::new(ErrorCode::NoSuchEvent, "no event has this id"))?;
            let daemon = Arc::clone(&daemon);
            blocking(move || go_on(&daemon, cursor)).await??
        }
    };
    let dirty = cursor.places.keys().copied().collect();
    let events = AllEvents {
        form: EventWriter::default(),
        _counted: Counted::new(&daemon),
        daemon,
        following,
        cursor,
        dirty,
        reading: None,
        with_agents,
    };
    Ok(event_stream(stream::unfold(events, |mut events| async move {
        let frames = events.next().await;
        Some((frames, events))
    })))
}

/// The position of a client that wants only new events.
fn start_now(daemon: &Daemon) -> Cursor {
    let mut places = BTreeMap::new();
    for (run, _) in daemon.watch.runs() {
        let last = daemon
            .directory(run)
            .and_then(|directory| RunOverview::read(&directory).ok())
            .and_then(|overview| overview.last_event);
        places.insert(run, last.map_or(Place::Start, Place::After));
    }
    Cursor { at_ms: now_ms(), places }
}

/// Adds the runs that are newer than the cursor. Refuses a cursor that is ahead of the journals: its client would wait for
/// events that never come, or miss some.
fn go_on(daemon: &Daemon, mut cursor: Cursor) -> Result<Cursor, ApiError> {
    if cursor.at_ms > now_ms().saturating_add(KEPT_MS) {
        return Err(ApiError::new(
            ErrorCode::NoSuchEvent,
            "this event is in the future, according to this machine's clock",
        )
        .hint("leave the id out to follow new events only"));
    }
    for (run, place) in &cursor.places {
        let (Place::After(number), Some(directory)) = (place, daemon.directory(*run)) else {
            continue;
        };
        let overview = RunOverview::read(&directory).map_err(|error| ApiError::internal(&error))?;
        refuse_unwritten(overview.last_event, *number)?;
    }
    let known_before = cursor.at_ms.saturating_sub(KEPT_MS);
    let entries = std::fs::read_dir(daemon.state().runs()).into_iter().flatten().flatten();
    for entry in entries {
        let Some(run) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        if cursor.places.contains_key(&run) {
            continue;
        }
        let Some(directory) = daemon.directory(run) else { continue };
        if written_ms(&directory).is_some_and(|written| written >= known_before) {
            cursor.places.insert(run, Place::Start);
        }
    }
    Ok(cursor)
}

fn written_ms(directory: &RunDirectory) -> Option<u64> {
    let modified = std::fs::symlink_metadata(directory.journal_path()).ok()?.modified().ok()?;
    u64::try_from(modified.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()
}

struct AllEvents {
    daemon: Arc<Daemon>,
    following: Following,
    cursor: Cursor,
    /// Runs that may have new events.
    dirty: BTreeSet<RunId>,
    /// The run that is being read, its reader, and whether it had already ended.
    reading: Option<(RunId, JournalReader, bool)>,
    form: EventWriter,
    with_agents: bool,
    _counted: Counted,
}

impl AllEvents {
    /// Waits for the next events of any run.
    async fn next(&mut self) -> Bytes {
        loop {
            self.dirty.append(&mut self.following.subscriber().take());
            if self.reading.is_none() {
                match self.dirty.pop_first() {
                    Some(run) => self.reading = self.open(run),
                    None => {
                        self.dirty = self.following.subscriber().next().await;
                        continue;
                    }
                }
            }
            let frames = self.read();
            if !frames.is_empty() {
                return frames.into();
            }
        }
    }

    fn open(&mut self, run: RunId) -> Option<(RunId, JournalReader, bool)> {
        let position = match self.cursor.places.get(&run) {
            Some(Place::Done) => return None,
            Some(Place::After(number)) => Position::After(*number),
            Some(Place::Start) | None => Position::Start,
        };
        let is_final = self.following.is_over(run);
        let Some(directory) = self.daemon.directory(run) else {
            self.cursor.places.remove(&run);
            return None;
        };
        let reader = JournalReader::open(&directory, position).ok()?.in_pieces_of(PIECE);
        self.cursor.places.entry(run).or_insert(Place::Start);
        Some((run, reader, is_final))
    }

    fn read(&mut self) -> Vec<u8> {
        let mut frames = Vec::new();
        let Some((run, mut reader, is_final)) = self.reading.take() else { return frames };
        self.forget_old();
        let Self { cursor, form, with_agents, .. } = self;
        let mut has_ended = false;
        let mut on_entry = |entry: JournalEntry<'_>| {
            let Some(number) = entry.number() else { return };
            has_ended |= is_the_end(&entry);
            let place = if has_ended { Place::Done } else { Place::After(number) };
            cursor.places.insert(run, place);
            if *with_agents || !matches!(entry, JournalEntry::Agent { .. }) {
                push_frame(&mut frames, form, cursor, run, &entry);
            }
        };
        match reader.next_batch(&mut on_entry) {
            Ok(_) if has_ended => {}
            Ok(Progress::Advanced) => self.reading = Some((run, reader, is_final)),
            // The writer is gone, so the journal is complete.
            Ok(Progress::AtEnd) if is_final => drop(self.cursor.places.insert(run, Place::Done)),
            Ok(Progress::AtEnd) => {}
            Err(error) => tracing::warn!(%error, %run, "cannot read a journal"),
        }
        frames
    }

    /// Keeps the cursor short.
    fn forget_old(&mut self) {
        let now = now_ms();
        if now < self.cursor.at_ms + 1_000 {
            return;
        }
        self.cursor.at_ms = now;
        let daemon = &self.daemon;
        self.cursor.places.retain(|run, place| {
            *place != Place::Done
                || daemon
                    .directory(*run)
                    .and_then(|directory| written_ms(&directory))
                    .is_some_and(|written| written >= now.saturating_sub(KEPT_MS))
        });
    }
}

/// Appends one event: the client's position in all runs, the run, and the event's public form.
fn push_frame(
    frames: &mut Vec<u8>,
    form: &mut EventWriter,
    cursor: &Cursor,
    run: RunId,
    entry: &JournalEntry<'_>,
) {
    let start = frames.len();
    frames.extend_from_slice(format!("id: {}\n", cursor.encode()).as_bytes());
    frames.extend_from_slice(format!("data: {{\"run\":\"{run}\",\"event\":").as_bytes());
    let before = frames.len();
    if form.write(frames, entry).is_err() || frames.len() == before {
        frames.truncate(start);
        return;
    }
    if frames.last() == Some(&b'\n') {
        frames.pop();
    }
    frames.extend_from_slice(b"}\n\n");
}
