//! Creates a run's directory, completely or not at all.
//!
//! ```text
//!   runs/.creating/<id>/   spec.json  prompt  run.lock  events.jsonl   written here
//!   runs/<id>/                                                         then renamed
//! ```

use std::fs::{self, DirBuilder, File};
use std::io::{self, BufRead, BufReader, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use ground::plain_file;
use ground::{make_private_dir, now_ms};
use nix::unistd::geteuid;
use run_protocol::{BytesPath, JOURNAL_VERSION, JournalHeader, RunEvent, RunId, RunSpec};

use crate::journal::line_encoding;
use crate::runs::boot::boot_id;
use crate::{EventNumber, KernelLock, Redaction, StateRoot};

/// If an incomplete directory is this old, the process that made it died.
const ABANDONED_AFTER_MS: u64 = 60 * 60 * 1000;
/// A shim that starts on a full disk must be able to write its note into the lock.
const NOTE_ROOM: usize = 512;
/// Enough of a prompt to tell runs apart in a list.
const PROMPT_START_CHARACTERS: usize = 200;

/// Why a run's directory was not created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateRunError {
    #[error("there is no space left for the run at `{path}`")]
    DiskFull { path: PathBuf, source: io::Error },
    #[error("the run {0} already exists")]
    Exists(RunId),
    #[error("the state directory `{path}` belongs to another user, or every user can write to it")]
    NotOurs { path: PathBuf },
    #[error("run {0}, which must succeed first, is gone")]
    FollowsNone(RunId),
    #[error("its worktree `{path}` is gone")]
    NoWorktree { path: PathBuf },
    #[error("the run could not be written to `{path}`")]
    Write { path: PathBuf, source: io::Error },
}

/// A prompt in memory, or in a file that is read from its beginning.
#[derive(Debug, Clone, Copy)]
pub enum Prompt<'a> {
    Text(&'a [u8]),
    File(&'a File),
}

impl<'a> From<&'a [u8]> for Prompt<'a> {
    fn from(text: &'a [u8]) -> Self {
        Self::Text(text)
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Prompt<'a> {
    fn from(text: &'a [u8; N]) -> Self {
        Self::Text(text)
    }
}

impl Prompt<'_> {
    fn length(self) -> io::Result<u64> {
        match self {
            Self::Text(text) => Ok(text.len() as u64),
            Self::File(file) => Ok(file.metadata()?.len()),
        }
    }

    fn copy_to(self, mut to: File) -> io::Result<()> {
        match self {
            Self::Text(text) => to.write_all(text),
            Self::File(mut file) => {
                file.rewind()?;
                io::copy(&mut file, &mut to).map(drop)
            }
        }
    }

    fn start(self) -> io::Result<String> {
        match self {
            Self::Text(text) => start_of(text),
            Self::File(mut file) => {
                file.rewind()?;
                start_of(BufReader::new(file))
            }
        }
    }
}

/// The directory next to the runs. Caretaker fills new run directories there, and moves withdrawn runs there before it
/// removes them.
const WORKSHOP: &str = ".creating";

pub(crate) fn create(
    state: &StateRoot,
    spec: &RunSpec,
    prompt: Prompt<'_>,
) -> Result<PathBuf, CreateRunError> {
    let destination = state.run_dir(&spec.run);
    let workshop = state.runs().join(WORKSHOP);
    make_private_dir(&workshop).map_err(|source| failed(&workshop, source))?;
    for directory in [state.path(), &state.runs()] {
        check_ours(directory)?;
    }
    if fs::symlink_metadata(&destination).is_ok() {
        return Err(CreateRunError::Exists(spec.run));
    }
    remove_abandoned(&workshop);

    let draft = workshop.join(spec.run.to_string());
    let made = fill(&draft, spec, prompt)
        .map_err(|source| failed(&destination, source))
        .and_then(|()| publish(state, spec, &draft, &destination));
    if made.is_err() {
        fs::remove_dir_all(&draft).ok();
    }
    made.map(|()| destination)
}

/// Moves the run to its final place, unless another process removed something that the run needs. From here on, `gc`
/// sees the run.
fn publish(
    state: &StateRoot,
    spec: &RunSpec,
    draft: &Path,
    destination: &Path,
) -> Result<(), CreateRunError> {
    let lock = state.removal_lock();
    let _removal = KernelLock::share_waiting(&lock).map_err(|source| failed(&lock, source))?;
    // `after` needs no check: a run that is gone has ended.
    let wanted = spec.queue.iter().flat_map(|terms| &terms.after_ok);
    if let Some(gone) = wanted.into_iter().find(|run| !state.run_dir(run).is_dir()) {
        return Err(CreateRunError::FollowsNone(*gone));
    }
    if spec.worktree.is_some() && !Path::new(&spec.workspace).is_dir() {
        return Err(CreateRunError::NoWorktree { path: PathBuf::from(&spec.workspace) });
    }
    fs::rename(draft, destination).map_err(|source| match source.kind() {
        io::ErrorKind::DirectoryNotEmpty => CreateRunError::Exists(spec.run),
        _ => failed(destination, source),
    })
}

fn failed(path: &Path, source: io::Error) -> CreateRunError {
    let path = path.to_owned();
    if plain_file::is_out_of_space(&source) {
        CreateRunError::DiskFull { path, source }
    } else {
        CreateRunError::Write { path, source }
    }
}

/// The state directory may be a link to another disk, but its target must belong to the user.
fn check_ours(path: &Path) -> Result<(), CreateRunError> {
    let metadata = fs::metadata(path).map_err(|source| failed(path, source))?;
    let writable_by_all = metadata.mode() & 0o002 != 0;
    if metadata.is_dir() && metadata.uid() == geteuid().as_raw() && !writable_by_all {
        Ok(())
    } else {
        Err(CreateRunError::NotOurs { path: path.to_owned() })
    }
}

fn fill(draft: &Path, spec: &RunSpec, prompt: Prompt<'_>) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(draft)?;
    let write =
        |name: &str, content: &[u8]| plain_file::create_new(&draft.join(name))?.write_all(content);
    write("spec.json", &serde_json::to_vec_pretty(spec)?)?;
    prompt.copy_to(plain_file::create_new(&draft.join("prompt"))?)?;
    write("run.lock", &[b' '; NOTE_ROOM])?;
    write("events.jsonl", &first_lines(spec, prompt.length()?, prompt.start()?))
}

fn first_lines(spec: &RunSpec, prompt_length: u64, prompt_start: String) -> Vec<u8> {
    let header = JournalHeader {
        journal: JOURNAL_VERSION,
        run: spec.run,
        epoch: EventNumber::FIRST_EPOCH,
        at: spec.created_ms,
        boot: boot_id(),
    };
    let created = RunEvent::Created {
        session: spec.session.to_string(),
        workspace: BytesPath::from(&spec.workspace),
        profile: spec.profile.clone(),
        agent: spec.agent.program.clone(),
        agent_version: spec.agent.version.clone(),
        model: spec.model.clone(),
        name: spec.name.clone(),
        prompt_length,
        prompt_start,
    };
    let widened =
        (!spec.widened.is_empty()).then(|| RunEvent::Widened { bounds: spec.widened.clone() });
    // This must be the last line: a run whose journal ends with `queued` is waiting.
    let queued = spec.queue.as_ref().map(|terms| RunEvent::Queued { priority: terms.priority });
    let mut lines = Vec::new();
    line_encoding::push_header(&mut lines, &header);
    for (seq, event) in (1..).zip([Some(created), widened, queued].into_iter().flatten()) {
        let number = EventNumber { epoch: EventNumber::FIRST_EPOCH, seq };
        line_encoding::push_event(
            &mut lines,
            number,
            spec.created_ms,
            &event,
            Redaction::Untouched,
        );
    }
    lines
}

/// The first line that is not blank, shortened.
fn start_of(mut prompt: impl BufRead) -> io::Result<String> {
    loop {
        let piece = prompt.fill_buf()?;
        let blank = piece.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        let is_over = piece.is_empty() || blank < piece.len();
        prompt.consume(blank);
        if is_over {
            break;
        }
    }
    // A character has at most four bytes.
    let mut start = Vec::new();
    prompt.take(PROMPT_START_CHARACTERS as u64 * 4).read_to_end(&mut start)?;
    let text = String::from_utf8_lossy(&start);
    let line = text.lines().next().unwrap_or_default();
    Ok(line.trim_end().chars().take(PROMPT_START_CHARACTERS).collect())
}

/// Removes a run that never began. Other processes see the whole run or nothing.
pub(crate) fn withdraw(path: &Path) {
    let aside = match (path.parent(), path.file_name()) {
        (Some(runs), Some(name)) => runs.join(WORKSHOP).join(name),
        _ => path.to_owned(),
    };
    let going = if fs::rename(path, &aside).is_ok() { &aside } else { path };
    // Best effort: the next run that is created removes the rest.
    fs::remove_dir_all(going).ok();
}

/// Best effort: leftovers do no harm.
fn remove_abandoned(workshop: &Path) {
    let Ok(entries) = fs::read_dir(workshop) else { return };
    for entry in entries.flatten() {
        let run = entry.file_name().to_str().and_then(|name| name.parse::<RunId>().ok());
        if run.is_some_and(|run| run.created_ms().saturating_add(ABANDONED_AFTER_MS) < now_ms()) {
            fs::remove_dir_all(entry.path()).ok();
        }
    }
}
