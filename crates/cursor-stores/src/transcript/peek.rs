//! Reads a transcript's first prompt and last line for a list, no matter how long the rest is.

use std::path::Path;
use std::time::{Duration, SystemTime};

use super::files::Layout;
use super::json_line::{TranscriptLine, decode_line};
use super::speeches::Speeches;
use super::text_form::decode_speech;
use crate::lines::{LineReader, read_range};
use crate::model::{Activity, Message, MessageKind, Moment, Part, Role, TurnState};
use crate::plain_file::{self, PlainFileError};
use crate::text::title::title_of;

/// Most prompts begin within the first size. The last is the most that a list of thousands can afford.
const FIRST_BYTES: [u64; 2] = [8 * 1024, 64 * 1024];
const LAST_BYTES: u64 = 4 * 1024;
/// A writer is silent while a tool runs. After this time the activity is unknown.
const LIVE_FOR: Duration = Duration::from_secs(60);

/// The facts from both ends of a transcript.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Peek {
    pub(super) n_bytes: u64,
    pub(super) title: Option<String>,
    pub(super) created: Moment,
    pub(super) updated: Moment,
    pub(super) activity: Activity,
}

/// Reads both ends of a file.
pub(super) fn peek(path: &Path, layout: &Layout) -> Result<Peek, PlainFileError> {
    let failed = |source| PlainFileError::Read { path: path.to_owned(), source };
    let mut file = plain_file::open(path)?;
    let metadata = file.metadata().map_err(failed)?;
    let n_bytes = metadata.len();
    let modified = metadata.modified().map_err(failed)?;
    let mut opening = Opening::default();
    for limit in FIRST_BYTES {
        let first = read_range(&mut file, 0, limit).map_err(failed)?;
        let is_cut = n_bytes > first.len() as u64;
        opening = match layout {
            Layout::Text => first_of_text(&first),
            Layout::Nested | Layout::Subagent { .. } | Layout::Flat => {
                first_of_lines(&first, is_cut)
            }
        };
        if opening.is_known() || !is_cut {
            break;
        }
    }
    let last = read_range(&mut file, n_bytes.saturating_sub(LAST_BYTES), LAST_BYTES);
    let last = last.map_err(failed)?;
    // A copy is created after its last modification.
    let born = metadata.created().map_or(modified, |born| born.min(modified));
    let is_recent = SystemTime::now().duration_since(modified).map_or(true, |age| age < LIVE_FOR);
    let activity = match ending(&last, n_bytes, layout) {
        Ending::Over(activity) => activity,
        _ if is_recent && n_bytes > 0 => Activity::Live,
        Ending::Unfinished => Activity::Interrupted,
        Ending::Untold => Activity::Idle,
    };
    Ok(Peek {
        n_bytes,
        title: opening.title,
        created: opening.at.unwrap_or(Moment::of_file_time(born)),
        updated: Moment::of_file_time(modified),
        activity,
    })
}

#[derive(Debug, Default, PartialEq)]
struct Opening {
    title: Option<String>,
    at: Option<Moment>,
}

impl Opening {
    fn is_known(&self) -> bool {
        self.title.is_some() && self.at.is_some()
    }

    /// Takes the facts from a message. Returns true when there is nothing more to learn.
    fn take(&mut self, message: &Message) -> bool {
        self.at = self.at.or(message.at);
        if message.role == Role::User && message.kind == MessageKind::Said && self.title.is_none() {
            self.title = title_of(&message.text());
        }
        self.title.is_some()
    }
}

fn first_of_lines(bytes: &[u8], is_cut: bool) -> Opening {
    let mut opening = Opening::default();
    let mut rest = bytes;
    while !rest.is_empty() {
        let end = memchr::memchr(b'\n', rest);
        let (line, after) = rest.split_at(end.unwrap_or(rest.len()));
        match decode_line(line) {
            Ok(TranscriptLine::Message(message)) if opening.take(&message) => break,
            Err(_) if is_cut && end.is_none() => {
                let query = query_of_cut_line(line);
                opening.title = query.as_deref().and_then(title_of);
            }
            Ok(_) | Err(_) => {}
        }
        rest = after.get(1..).unwrap_or_default();
    }
    opening
}

/// Returns the prompt in a line of which only the beginning was read.
fn query_of_cut_line(line: &[u8]) -> Option<String> {
    let tag = b"<user_query>";
    let start = memchr::memmem::find(line, tag)?;
    let begun = &line[start..];
    let end = memchr::memmem::find(begun, b"</user_query>").unwrap_or(begun.len());
    // The cut may have split an escape or a character. The longest has twelve bytes.
    (0..=12.min(end)).find_map(|n_dropped| {
        let escaped = begun.get(tag.len()..end - n_dropped)?;
        let quoted = [b"\"".as_slice(), escaped, b"\""].concat();
        serde_json::from_slice::<String>(&quoted).ok()
    })
}

fn first_of_text(bytes: &[u8]) -> Opening {
    let mut opening = Opening::default();
    let mut speeches = Speeches::new(LineReader::new(bytes));
    while let Ok(Some(speech)) = speeches.next() {
        let message = decode_speech(speech.speaker, &speech.body);
        if message.is_some_and(|message| opening.take(&message)) {
            break;
        }
    }
    opening
}

/// The activity, judging by the last line.
#[derive(Debug, PartialEq)]
enum Ending {
    Over(Activity),
    /// A prompt without an answer, a call without a result, or an incomplete line.
    Unfinished,
    /// Older builds do not mark the end of a turn.
    Untold,
}

fn ending(last: &[u8], n_bytes: u64, layout: &Layout) -> Ending {
    if *layout == Layout::Text {
        return Ending::Untold;
    }
    let is_terminated = last.ends_with(b"\n");
    let trimmed = last.trim_ascii_end();
    let start = memchr::memrchr(b'\n', trimmed).map(|at| at + 1);
    if start.is_none() && n_bytes > last.len() as u64 {
        // The line is longer than the part that was read, so it does not mark the end of a turn.
        return Ending::Untold;
    }
    match decode_line(&trimmed[start.unwrap_or(0)..]) {
        Ok(TranscriptLine::TurnEnded { state, .. }) => Ending::Over(match state {
            TurnState::Failed => Activity::Failed,
            TurnState::Cancelled => Activity::Interrupted,
            TurnState::Finished | TurnState::Running | TurnState::Unknown => Activity::Idle,
        }),
        Ok(TranscriptLine::Message(message)) => match (message.role, message.parts.last()) {
            (_, Some(Part::Error { .. })) => Ending::Over(Activity::Failed),
            (Role::User, _) | (Role::Assistant, Some(Part::ToolCall(_))) => Ending::Unfinished,
            _ => Ending::Untold,
        },
        Err(_) if is_terminated || trimmed.is_empty() => Ending::Untold,
        Err(_) => Ending::Unfinished,
    }
}
