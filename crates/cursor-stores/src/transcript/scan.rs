//! Searches transcripts, one line in memory at a time.

use std::collections::{HashMap, HashSet};
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use ground::with_causes;

use super::body::MAX_DAMAGED_SHOWN;
use super::files::{Layout, Project, TranscriptFile};
use super::json_line::{TranscriptLine, decode_line, has_tool_result};
use super::sidecars::{name_of, owners, search_sidecar, sidecars_of};
use super::speeches::Speeches;
use super::text_form::decode_speech;
use crate::lines::{Line, LineReader};
use crate::model::Damage;
use crate::parallel;
use crate::plain_file::{self, PlainFileError};
use crate::search::{FieldMatch, Search, search_json, search_text};

/// The result of a first pass over a transcript.
enum Glance {
    MayHold,
    Nothing {
        /// The number of the first damaged line.
        broken: Option<u64>,
    },
}

/// True if a line needs no second check: a line that is cut off or overwritten has the wrong ends, or is not text.
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
    pub(super) search: Search<'a>,
    /// Larger files are not searched.
    pub(super) limit: u64,
}

impl Scan<'_> {
    /// Searches transcripts, each with the key of its conversation.
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

    /// Searches the long tool outputs of a project.
    pub(super) fn sidecars(
        &self,
        project: &Arc<Project>,
        files: &[(TranscriptFile, String)],
    ) -> Vec<Damage> {
        let paths = sidecars_of(project);
        let searched = parallel::map(&paths, |path| {
            if self.search.is_over() {
                return Ok(None);
            }
            search_sidecar(self.search.matcher, path, self.limit)
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
            if self.search.report(&key, Some(name), None, found).is_break() {
                break;
            }
        }
        damage
    }

    /// Returns the number of the first damaged line.
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
        Ok(plain_file::open_at_most(path, self.limit)?.take(self.limit))
    }

    /// Finds out whether any line matches, without decoding lines that cannot match.
    fn may_hold(&self, file: impl Read) -> io::Result<Glance> {
        let mut lines = LineReader::new(file);
        let mut broken = None;
        while let Some(line) = lines.next()? {
            if self.search.is_over() {
                break;
            }
            let Line::Whole { bytes, .. } = line else { continue };
            if search_json(self.search.matcher, bytes).is_some() {
                return Ok(Glance::MayHold);
            }
            if broken.is_none() && !looks_whole(bytes) && is_broken(bytes, &decode_line(bytes)) {
                broken = Some(lines.number);
            }
        }
        Ok(Glance::Nothing { broken })
    }

    /// Reports all matching lines. Also decodes the others, to count messages.
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
            // The rest of a damaged line becomes a message, unless its writer may still complete it.
            let is_damaged = decoded.is_err() && is_terminated && n_damaged < MAX_DAMAGED_SHOWN;
            n_damaged += usize::from(is_damaged);
            let is_message = is_damaged || matches!(decoded, Ok(TranscriptLine::Message(_)));
            if matches!(&decoded, Ok(TranscriptLine::Message(message)) if has_tool_result(message))
            {
                // A reader moves results to their calls, which may leave this message empty.
                n_messages = None;
            }
            if let Some(found) = search_json(self.search.matcher, bytes) {
                let position = n_messages.filter(|_| is_message);
                if self.search.report(key, None, position, found).is_break() {
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
            if self.search.is_over() {
                break;
            }
            if self.search.matcher.may_match_bytes(speech.body.as_bytes())
                && let Some(found) = search_text(self.search.matcher, "text", &speech.body)
                && self.search.report(key, None, Some(n_messages), found).is_break()
            {
                break;
            }
            n_messages += usize::from(decode_speech(speech.speaker, &speech.body).is_some());
        }
        Ok(())
    }
}
