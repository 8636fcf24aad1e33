//! Looking for a pattern in transcripts, without ever holding more of one than a line.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ground::with_causes;

use super::body::MAX_DAMAGED_SHOWN;
use super::files::{Layout, Project, TranscriptFile};
use super::json_line::{TranscriptLine, decode_line, has_tool_result};
use super::lines::{Line, LineReader};
use super::sidecars::{name_of, owners, search_sidecar, sidecars_of};
use super::speeches::Speeches;
use super::text_form::decode_speech;
use crate::model::Damage;
use crate::parallel;
use crate::plain_file::{self, PlainFileError};
use crate::search::{FieldMatch, Matcher, search_json, search_text};
use crate::store::Hit;

/// What a first look at a transcript tells.
enum Glance {
    MayHold,
    Nothing {
        /// The number of the first line that is not what it should be.
        broken: Option<u64>,
    },
}

/// Whether a line is worth no second look: what is cut off or overwritten is told by its ends, or is no text.
fn looks_whole(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    line.is_empty()
        || line.starts_with(b"{") && line.ends_with(b"}") && str::from_utf8(line).is_ok()
}

fn is_broken<T, E>(line: &[u8], decoded: &Result<T, E>) -> bool {
    decoded.is_err() || str::from_utf8(line).is_err()
}

/// One search through one store.
pub(super) struct Scan<'a> {
    matcher: &'a Matcher,
    found: &'a (dyn Fn(Hit) -> ControlFlow<()> + Sync),
    /// Files that are larger are not looked through.
    limit: u64,
    is_over: AtomicBool,
}

impl<'a> Scan<'a> {
    pub(super) fn new(
        matcher: &'a Matcher,
        found: &'a (dyn Fn(Hit) -> ControlFlow<()> + Sync),
        limit: u64,
    ) -> Self {
        Self { matcher, found, limit, is_over: AtomicBool::new(false) }
    }

    /// Looks through transcripts; each comes with the key of its conversation.
    pub(super) fn transcripts(&self, files: &[(TranscriptFile, String)]) -> Vec<Damage> {
        let lost = parallel::map(files, |(file, key)| {
            let broken = match self.transcript(file, key) {
                Ok(broken) => broken.map(|number| format!("line {number} is damaged")),
                Err(err) => Some(with_causes(&err)),
            };
            broken.map(|what| Damage::new(key.clone(), what))
        });
        lost.into_iter().flatten().collect()
    }

    /// Looks through what tools put out in a project.
    pub(super) fn sidecars(
        &self,
        project: &Arc<Project>,
        files: &[(TranscriptFile, String)],
    ) -> Vec<Damage> {
        let paths = sidecars_of(project);
        let searched = parallel::map(&paths, |path| {
            if self.is_over.load(Ordering::Relaxed) {
                return Ok(None);
            }
            search_sidecar(self.matcher, path, self.limit)
        });
        let mut damage = Vec::new();
        let mut hits: Vec<(String, FieldMatch)> = Vec::new();
        for (path, searched) in paths.iter().zip(searched) {
            match searched {
                Ok(found) => hits.extend(found.map(|found| (name_of(path), found))),
                Err(err) => damage.push(Damage::new(name_of(path), with_causes(&err))),
            }
        }
        if hits.is_empty() {
            return damage;
        }
        let names: HashSet<String> = hits.iter().map(|(name, _)| name.clone()).collect();
        let of_project = files.iter().filter(|(file, _)| Arc::ptr_eq(&file.project, project));
        let owners: HashMap<String, String> = owners(&names, of_project, self.limit);
        for (name, found) in hits {
            let key = owners.get(&name).cloned().unwrap_or_default();
            let flow = self.report(&key, Some(name), None, found);
            if flow.is_break() {
                break;
            }
        }
        damage
    }

    /// Returns the number of the first line that is not what it should be, if one is.
    fn transcript(&self, file: &TranscriptFile, key: &str) -> Result<Option<u64>, PlainFileError> {
        let path = &file.path;
        let failed = |source| PlainFileError::Read { path: path.clone(), source };
        match file.layout {
            Layout::Text => {
                self.speeches(self.open(path)?, key).map_err(failed)?;
                Ok(None)
            }
            Layout::Nested | Layout::Flat | Layout::Subagent { .. } => {
                match self.may_hold(self.open(path)?).map_err(failed)? {
                    Glance::MayHold => self.lines(self.open(path)?, key).map_err(failed),
                    Glance::Nothing { broken } => Ok(broken),
                }
            }
        }
    }

    fn open(&self, path: &Path) -> Result<impl Read + use<>, PlainFileError> {
        let file: File = plain_file::open(path)?;
        let n_bytes = file
            .metadata()
            .map_err(|source| PlainFileError::Read { path: path.to_owned(), source });
        if n_bytes?.len() > self.limit {
            let path: PathBuf = path.to_owned();
            return Err(PlainFileError::TooLarge { path, limit: self.limit });
        }
        Ok(file.take(self.limit))
    }

    /// Tells, without decoding a line that cannot match, whether any line does.
    fn may_hold(&self, file: impl Read) -> io::Result<Glance> {
        let mut lines = LineReader::new(file);
        let mut broken = None;
        while let Some(line) = lines.next()? {
            if self.is_over.load(Ordering::Relaxed) {
                break;
            }
            let Line::Whole { bytes, .. } = line else { continue };
            if search_json(self.matcher, bytes).is_some() {
                return Ok(Glance::MayHold);
            }
            if broken.is_none() && !looks_whole(bytes) && is_broken(bytes, &decode_line(bytes)) {
                broken = Some(lines.number);
            }
        }
        Ok(Glance::Nothing { broken })
    }

    /// Reports all lines that match. Decodes the others too: only that tells which message a line is.
    fn lines(&self, file: impl Read, key: &str) -> io::Result<Option<u64>> {
        let mut lines = LineReader::new(file);
        let mut n_messages = Some(0);
        let mut n_damaged = 0;
        let mut broken = None;
        while let Some(line) = lines.next()? {
            let Line::Whole { bytes, is_terminated } = line else { continue };
            if bytes.trim_ascii().is_empty() {
                continue;
            }
            let decoded = decode_line(bytes);
            // What is left of a line is shown as a message, unless its end may still come.
            let is_damaged = decoded.is_err() && is_terminated && n_damaged < MAX_DAMAGED_SHOWN;
            n_damaged += usize::from(is_damaged);
            let is_message = is_damaged || matches!(decoded, Ok(TranscriptLine::Message(_)));
            if matches!(&decoded, Ok(TranscriptLine::Message(message)) if has_tool_result(message))
            {
                // Reading gives results to their calls, and may leave nothing of this message.
                n_messages = None;
            }
            if let Some(found) = search_json(self.matcher, bytes) {
                let position = n_messages.filter(|_| is_message);
                if self.report(key, None, position, found).is_break() {
                    break;
                }
            }
            n_messages = n_messages.map(|n_messages| n_messages + usize::from(is_message));
            if is_broken(bytes, &decoded) {
                broken.get_or_insert(lines.number);
            }
        }
        Ok(broken)
    }

    fn speeches(&self, file: impl Read, key: &str) -> io::Result<()> {
        let mut speeches = Speeches::new(LineReader::new(file));
        let mut n_messages = 0;
        while let Some(speech) = speeches.next()? {
            if self.is_over.load(Ordering::Relaxed) {
                break;
            }
            if self.matcher.may_match_bytes(speech.body.as_bytes())
                && let Some(found) = search_text(self.matcher, "text", &speech.body)
                && self.report(key, None, Some(n_messages), found).is_break()
            {
                break;
            }
            n_messages += usize::from(decode_speech(speech.speaker, &speech.body).is_some());
        }
        Ok(())
    }

    fn report(
        &self,
        key: &str,
        message_id: Option<String>,
        position: Option<usize>,
        found: FieldMatch,
    ) -> ControlFlow<()> {
        if self.is_over.load(Ordering::Relaxed) {
            return ControlFlow::Break(());
        }
        let FieldMatch { field, snippet } = found;
        let flow = (self.found)(Hit { key: key.to_owned(), message_id, position, field, snippet });
        if flow.is_break() {
            self.is_over.store(true, Ordering::Relaxed);
        }
        flow
    }
}
