//! `caretaker sessions export`: writes conversations to files.

use std::io::Write;
use std::path::{Path, PathBuf};

use admission::command_error::{CommandError, OrFail};
use admission::host::Host;
use admission::words::talk::{note, say};
use admission::words::units::{counted, grouped};
use cursor_stores::model::{Conversation, Head};
use cursor_stores::{Branches, Catalogue, Extent, ReadConversationError, parallel};
use run_protocol::ExitCode;

use super::selection::{Selection, find};
use super::unread::name_failures;
use crate::command_helper::CommandHelper;
use crate::data_out::Data;
use crate::export::file_name::file_name;
use crate::export::output_file::{Existing, WriteFileError, write_whole};
use crate::export::{self, Format};
use crate::running::cancellation::Cancellation;
use crate::running::progress::Progress;

/// Export conversations: Markdown or HTML to read, JSON to keep and to read back with `--from`.
///
/// Name one conversation, or select many as with `sessions ls`; `--all` exports everything. With many, each becomes a
/// file in the `-o` directory, named after its id. A file appears only when it is complete.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  caretaker sessions export - > last.md
  caretaker sessions export 6f1d9c3e -o talk.html
  caretaker sessions export -C . --since 7d --format html -o talks/
  caretaker sessions export --all --format json -o backup/
  caretaker sessions ls --from backup/
  caretaker sessions export --all --format jsonl -o - | gzip > all.jsonl.gz")]
pub(crate) struct Args {
    /// The conversation: its id, a unique prefix of it, or `-` for the one that changed last.
    session: Option<String>,
    #[command(flatten)]
    selection: Selection,
    /// The format. [default: from the file's name, otherwise md]
    #[arg(long, short)]
    format: Option<Format>,
    /// The output: a file, a directory for many, or `-` for stdout. [default for one: stdout]
    #[arg(long, short, value_name = "FILE|DIR|-")]
    output: Option<PathBuf>,
    /// Replace existing files.
    #[arg(long)]
    force: bool,
    /// Add messages that were edited away or regenerated, at the end, with a mark.
    #[arg(long)]
    orphans: bool,
}

pub(crate) fn run(helper: &CommandHelper, args: &Args) -> Result<ExitCode, CommandError> {
    let host = &helper.host;
    let export = Export::of(args, host);
    match (&args.session, args.selection.is_given()) {
        (Some(_), true) => {
            Err(usage("cannot combine an id with a selection").hint("leave one of them out"))
        }
        (None, false) => Err(usage("no conversations selected")
            .hint("name one, or select many: `caretaker sessions export --all -o DIR`")),
        (Some(session), false) => {
            let catalogue = args.selection.place.open(host)?;
            export.one(&catalogue, &find(&catalogue, session)?)
        }
        (None, true) => {
            let target = export.target_for_many()?;
            let catalogue = args.selection.place.open(host)?;
            let heads = args.selection.select(host, &catalogue);
            match target {
                Target::Stdout => export.many_to_stdout(&catalogue, &heads),
                Target::Path(directory) => export.many(&catalogue, &heads, &directory),
            }
        }
    }
}

/// How and where to export each conversation.
struct Export {
    format: Format,
    extent: Extent,
    existing: Existing,
    target: Target,
}

#[derive(Clone)]
enum Target {
    Stdout,
    Path(PathBuf),
}

/// Why a conversation was not exported.
#[derive(Debug, thiserror::Error)]
enum ExportError {
    #[error("cannot read it")]
    Read(#[from] ReadConversationError),
    #[error(transparent)]
    File(#[from] WriteFileError),
    #[error("cancelled")]
    Cancelled,
}

impl Export {
    fn of(args: &Args, host: &Host) -> Self {
        let target = match &args.output {
            None => Target::Stdout,
            Some(path) if path.as_os_str() == "-" => Target::Stdout,
            Some(path) => Target::Path(host.environment.absolute(path)),
        };
        let named = match &target {
            Target::Path(path) => path.extension().and_then(|extension| extension.to_str()),
            Target::Stdout => None,
        };
        let format = args.format.or_else(|| named.and_then(Format::of_extension));
        let branches = if args.orphans { Branches::WithOrphans } else { Branches::Current };
        Self {
            format: format.unwrap_or(Format::Markdown),
            extent: Extent { last: None, branches },
            existing: if args.force { Existing::Replace } else { Existing::Keep },
            target,
        }
    }

    /// Many conversations need a directory, except as JSON lines on stdout.
    fn target_for_many(&self) -> Result<Target, CommandError> {
        match &self.target {
            Target::Stdout if self.format == Format::Jsonl => Ok(Target::Stdout),
            Target::Stdout => Err(usage("cannot write many conversations into one document")
                .hint("name a directory with `-o DIR`, or write lines: `--format jsonl -o -`")),
            Target::Path(path) if path.exists() && !path.is_dir() => {
                Err(usage(format!("`{}` is not a directory", path.display()))
                    .hint("name a directory: each conversation becomes a file in it"))
            }
            Target::Path(path) => Ok(Target::Path(path.clone())),
        }
    }

    fn read(&self, catalogue: &Catalogue, head: &Head) -> Result<Conversation, ExportError> {
        Ok(catalogue.read(head, self.extent)?)
    }

    fn one(&self, catalogue: &Catalogue, head: &Head) -> Result<ExitCode, CommandError> {
        let failed = |error: ExportError| {
            let what = format!("cannot export conversation {}", head.id);
            match error {
                ExportError::File(error) => error.into_command_error(what),
                error => CommandError::new(ExitCode::Failed, what).because(error),
            }
        };
        let path = match &self.target {
            Target::Stdout => {
                let conversation = self.read(catalogue, head).map_err(failed)?;
                print(conversation, self.format)?;
                return Ok(ExitCode::Success);
            }
            Target::Path(path) if is_meant_as_directory(path) => {
                path.join(file_name(&head.id, self.format))
            }
            Target::Path(path) => path.clone(),
        };
        let cancellation = Cancellation::on_signals()?;
        match self.to_file(catalogue, head, &path, &cancellation) {
            Err(ExportError::Cancelled) => Ok(ExitCode::Cancelled),
            outcome => outcome.map(|()| ExitCode::Success).map_err(failed),
        }
    }

    fn to_file(
        &self,
        catalogue: &Catalogue,
        head: &Head,
        path: &Path,
        cancellation: &Cancellation,
    ) -> Result<(), ExportError> {
        if cancellation.is_asked_for() {
            return Err(ExportError::Cancelled);
        }
        // Check before reading the conversation.
        if self.existing == Existing::Keep && path.symlink_metadata().is_ok() {
            return Err(WriteFileError::Exists.into());
        }
        let conversation = self.read(catalogue, head)?;
        let written = write_whole(path, self.existing, |out| {
            export::write(conversation, self.format, &mut cancellation.stopping(out))
        });
        match written {
            Err(WriteFileError::Write(_)) if cancellation.is_asked_for() => {
                Err(ExportError::Cancelled)
            }
            written => Ok(written?),
        }
    }

    fn many(
        &self,
        catalogue: &Catalogue,
        heads: &[Head],
        directory: &Path,
    ) -> Result<ExitCode, CommandError> {
        std::fs::create_dir_all(directory)
            .or_fail(|| format!("cannot create the directory `{}`", directory.display()))?;
        let cancellation = Cancellation::on_signals()?;
        let progress = Progress::of(heads.len(), "exporting");
        let outcomes = parallel::map(heads, |head| {
            let path = directory.join(file_name(&head.id, self.format));
            let outcome = self.to_file(catalogue, head, &path, &cancellation);
            progress.step();
            outcome
        });
        drop(progress);
        let n_written = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        say(&format!(
            "{} exported to {}",
            counted(n_written as u64, "conversation", "conversations"),
            admission::words::safe_text::on_one_line(&directory.display().to_string())
        ));
        if cancellation.is_asked_for() {
            note(&format!("cancelled: {} not exported", grouped((heads.len() - n_written) as u64)));
            return Ok(ExitCode::Cancelled);
        }
        let failures =
            heads.iter().zip(outcomes).filter_map(|(head, outcome)| Some((head, outcome.err()?)));
        Ok(report(failures.collect()))
    }

    fn many_to_stdout(
        &self,
        catalogue: &Catalogue,
        heads: &[Head],
    ) -> Result<ExitCode, CommandError> {
        let mut failures = Vec::new();
        for head in heads {
            match self.read(catalogue, head) {
                Ok(conversation) => print(conversation, self.format)?,
                Err(error) => failures.push((head, error)),
            }
        }
        Ok(report(failures))
    }
}

fn usage(what: impl Into<String>) -> CommandError {
    CommandError::new(ExitCode::Usage, what)
}

fn is_meant_as_directory(path: &Path) -> bool {
    path.is_dir() || path.as_os_str().as_encoded_bytes().ends_with(b"/")
}

fn print(conversation: Conversation, format: Format) -> Result<(), CommandError> {
    let mut out = Data::of_stdout();
    match format {
        Format::Json | Format::Jsonl => {
            out.json_lines(|out: &mut dyn Write| export::write(conversation, format, out))
        }
        // These formats are safe for a terminal.
        Format::Markdown | Format::Html => export::write(conversation, format, &mut out),
    }
    .and_then(|()| out.flush())
    .map_err(CommandError::writing)
}

/// Reports the conversations that were not exported. Only counts existing files, because they are not errors.
fn report(failures: Vec<(&Head, ExportError)>) -> ExitCode {
    let is_there = |error: &ExportError| matches!(error, ExportError::File(WriteFileError::Exists));
    let (kept, failed): (Vec<_>, Vec<_>) =
        failures.into_iter().partition(|(_, error)| is_there(error));
    if !kept.is_empty() {
        let files = counted(kept.len() as u64, "file already exists", "files already exist");
        note(&format!("{files}; replace with `--force`"));
    }
    let n_failed = name_failures(failed, "was not exported");
    if kept.is_empty() && n_failed == 0 { ExitCode::Success } else { ExitCode::Failed }
}
