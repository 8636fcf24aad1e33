//! `caretaker sessions bundle` and `import`: copy a session to another machine.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use admission::command_error::CommandError;
use admission::host::Host;
use admission::inheritance::earlier_run::{self, Earlier};
use admission::words::talk::{note, say};
use admission::words::units::{bytes, counted};
use cursor_stores::model::StoreKind;
use cursor_stores::session_copy::{
    BundleOrigin, BundleReader, Bundled, CopyError, CopyTally, ImportError, Imported, LeftOutTally,
    MachinePaths, NamingTally, ReadBundleError, import, write_bundle,
};
use ground::now_ms;
use run_protocol::ExitCode;
use serde::Serialize;
use tempfile::NamedTempFile;
use uuid::Uuid;

use super::chat_place::{
    ChatPlace, known_workspace, others_with_id, physical_workspace, place_in, take_lease,
};
use super::fork::exit_code;
use super::selection::{Where, find};
use crate::command_helper::CommandHelper;
use crate::data_out::{print_json, print_text};

/// Write a session into one file, for another machine.
///
/// The file contains every blob that the conversation refers to, with its hash, but not the store's key. Paths that the
/// session keeps outside its messages become relative to the workspace. Paths outside the workspace, and remembered
/// files that name your home directory or the workspace, are left out. The messages stay verbatim, with paths,
/// commands, their outputs and file contents. Only you can read the file; think before you share it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  caretaker sessions bundle 5f1c3a52 -o talk.session
  scp talk.session other:; ssh other 'cd project && caretaker sessions import ~/talk.session'")]
pub(crate) struct BundleArgs {
    /// The session.
    session: String,
    #[command(flatten)]
    place: Where,
    /// The file to write.
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// Replace an existing file.
    #[arg(long)]
    force: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Import a session from a bundle made on this or another machine.
///
/// Checks the whole file first. If the session exists here, the bundle adds what is missing. A session that has
/// diverged is never overwritten.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  caretaker sessions import talk.session
  caretaker sessions import talk.session --workspace ~/project
  caretaker sessions import talk.session --as-new     # beside the existing session")]
pub(crate) struct ImportArgs {
    /// The file.
    file: PathBuf,
    /// The session's workspace on this machine. [default: the current directory]
    #[arg(long, short = 'C', value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// Give the session a new id.
    #[arg(long)]
    as_new: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct BundleReport<'a> {
    v: u32,
    session: &'a str,
    file: &'a Path,
    root: &'a str,
    /// The number of messages and of other blobs that name the home directory or the workspace.
    naming_paths: NamingTally,
    left_out: LeftOutTally,
    #[serde(flatten)]
    tally: CopyTally,
}

#[derive(Serialize)]
struct ImportReport<'a> {
    v: u32,
    session: &'a str,
    /// `placed`, `extended` or `nothing_new`.
    outcome: &'static str,
    directory: &'a Path,
    workspace: &'a str,
    root: String,
    n_added_blobs: u64,
    n_added_bytes: u64,
    n_paths_left_out: u64,
}

pub(crate) fn run_bundle(
    helper: &CommandHelper,
    args: &BundleArgs,
) -> Result<ExitCode, CommandError> {
    let host = &helper.host;
    let catalogue = args.place.open(host)?;
    let head = find(&catalogue, &args.session)?;
    let place = ChatPlace::to_copy(&head)?;
    let file = output_file(host, args)?;
    if place.id.parse::<Uuid>().is_err() {
        let what = format!("{} is not a UUID, so another machine would not find it", place.id);
        return Err(CommandError::new(ExitCode::NotResumable, what));
    }
    let origin = BundleOrigin {
        program: format!("caretaker {}", env!("CARGO_PKG_VERSION")),
        store: place.kind.as_str().to_owned(),
        bundled_at_ms: i64::try_from(now_ms()).unwrap_or(i64::MAX),
    };
    let workspace = known_workspace(&catalogue, &head);
    let home = host.environment.home.as_path();
    let real_home = std::fs::canonicalize(home).ok();
    let homes: Vec<&str> =
        [Some(home), real_home.as_deref()].into_iter().flatten().filter_map(Path::to_str).collect();
    let paths = MachinePaths::new(workspace.as_deref().and_then(Path::to_str), &homes);
    let unwritten = |error: CopyError| {
        CommandError::new(exit_code(&error), format!("cannot bundle {}", place.id)).because(error)
    };
    let directory = file.parent().unwrap_or(Path::new("/"));
    // Only the owner can read the file, from the first byte on.
    let begin = || NamedTempFile::new_in(directory).map(BufWriter::new);
    let (out, bundled) =
        write_bundle(&place.database(), &place.id, &origin, &paths, begin).map_err(unwritten)?;
    keep(out, &file, args.force).map_err(|error| unwritten(error.into()))?;
    if args.json {
        print_json(&BundleReport {
            v: 1,
            session: &place.id,
            file: &file,
            root: &bundled.header.root,
            naming_paths: bundled.naming,
            left_out: bundled.left_out,
            tally: bundled.tally,
        })?;
    }
    tell(&bundled, &file);
    Ok(ExitCode::Success)
}

/// The path of the bundle, if a file can be created there.
fn output_file(host: &Host, args: &BundleArgs) -> Result<PathBuf, CommandError> {
    if args.output == Path::new("-") {
        let what = "cannot write a bundle to stdout";
        return Err(CommandError::new(ExitCode::Usage, what).hint("name a file with -o FILE"));
    }
    let file = host.environment.absolute(&args.output);
    if file.is_dir() {
        let what = format!("`{}` is a directory", file.display());
        return Err(CommandError::new(ExitCode::Usage, what).hint("name a file in it"));
    }
    if !args.force && file.symlink_metadata().is_ok() {
        let what = format!("`{}` already exists", file.display());
        return Err(CommandError::new(ExitCode::Conflict, what).hint("replace it with --force"));
    }
    if !file.parent().is_some_and(Path::is_dir) {
        let what = format!("the parent directory of `{}` does not exist", file.display());
        return Err(CommandError::new(ExitCode::NotFound, what).hint("create it first"));
    }
    Ok(file)
}

fn keep(out: BufWriter<NamedTempFile>, file: &Path, replaces: bool) -> io::Result<()> {
    let mut temporary = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    temporary.flush()?;
    temporary.as_file().sync_all()?;
    let kept = if replaces { temporary.persist(file) } else { temporary.persist_noclobber(file) };
    kept.map(drop).map_err(|error| error.error)
}

fn tell(bundled: &Bundled, file: &Path) {
    say(&format!(
        "{}, {}, in {}",
        counted(bundled.tally.n_blobs, "blob", "blobs"),
        bytes(bundled.tally.n_bytes),
        admission::words::safe_text::on_one_line(&file.display().to_string()),
    ));
    if bundled.tally.n_damaged > 0 {
        note(&format!(
            "left out {} of the history that cannot be read or checked; the prompt is complete",
            counted(bundled.tally.n_damaged, "blob", "blobs")
        ));
    }
    let LeftOutTally { n_paths, n_contents } = bundled.left_out;
    let left_out = [
        (n_paths, "path outside the workspace", "paths outside the workspace"),
        (n_contents, "piece that names one of your paths", "pieces that name one of your paths"),
    ];
    let left_out: Vec<String> = left_out
        .into_iter()
        .filter(|(n, ..)| *n > 0)
        .map(|(n, one, many)| counted(n, one, many))
        .collect();
    if !left_out.is_empty() {
        note(&format!("left out, outside the messages: {}", left_out.join(", ")));
    }
    let NamingTally { n_messages, n_unknown } = bundled.naming;
    let named = match n_messages {
        0 => String::new(),
        n => format!(
            "; {} your home directory or the workspace",
            counted(n, "piece names", "pieces name")
        ),
    };
    note(&format!(
        "the bundle has the messages verbatim, with paths, commands and file contents{named}"
    ));
    if n_unknown > 0 {
        note(&format!(
            "{} your home directory or the workspace in fields that this version does not know",
            counted(n_unknown, "blob names", "blobs name")
        ));
    }
}

pub(crate) fn run_import(
    helper: &CommandHelper,
    args: &ImportArgs,
) -> Result<ExitCode, CommandError> {
    let host = &helper.host;
    let named = args.workspace.as_deref().unwrap_or(Path::new("."));
    let workspace = physical_workspace(host, named)?;
    let file = host.environment.absolute(&args.file);
    let unimported = |error: ImportError| {
        let (code, hint) = match &error {
            ImportError::Diverged { .. } => {
                (ExitCode::Conflict, Some("import it alongside the existing session with --as-new"))
            }
            ImportError::InUse | ImportError::ChangedMeanwhile => (ExitCode::Conflict, None),
            ImportError::NotWhole(_) => (ExitCode::NotResumable, None),
            ImportError::Incomparable(_) => {
                (ExitCode::Conflict, Some("check it: caretaker sessions verify"))
            }
            ImportError::Bundle(ReadBundleError::NotABundle | ReadBundleError::File(_)) => {
                (ExitCode::Failed, Some("name a file written by `caretaker sessions bundle`"))
            }
            ImportError::Bundle(ReadBundleError::TooNew { .. }) => {
                (ExitCode::Failed, Some("import it with a newer caretaker"))
            }
            ImportError::Bundle(_) => {
                (ExitCode::Failed, Some("copy the file again from the other machine"))
            }
            _ => (ExitCode::Failed, None),
        };
        let what = format!("cannot import `{}`", file.display());
        CommandError::new(code, what).because(error).hint_if_any(hint)
    };
    let real = std::fs::canonicalize(&file).map_err(|error| {
        let what = format!("cannot read `{}`", file.display());
        CommandError::new(ExitCode::NotFound, what)
            .because(error)
            .hint("name a file written by `caretaker sessions bundle`")
    })?;
    let mut bundle = BundleReader::open(&real).map_err(|error| unimported(error.into()))?;
    let told: Uuid = bundle.header().session.parse().unwrap_or_default();
    let session = if args.as_new { Uuid::new_v4() } else { told };
    let target = place_in(host, &workspace, session)?;
    // An unknown session cannot be in use, and `import` never replaces a session that appears in the meantime.
    let is_known = target.directory().exists() || host.state.session_dir(&session).exists();
    let _lease = if is_known { Some(take_lease(host, session)?) } else { None };
    let catalogue = Where::default().open(host)?;
    if let Some(other) = others_with_id(&catalogue, &target.id, &target.directory()).first() {
        let what = format!("session {session} already exists in another workspace");
        return Err(CommandError::new(ExitCode::Conflict, what)
            .because(format!("it is in `{}`", other.directory.display()))
            .hint(
                "name its workspace with --workspace DIR, or import a second copy with --as-new",
            ));
    }
    let imported = import(&mut bundle, &target).map_err(unimported)?;
    if let Some(place) = ChatPlace::of_directory(StoreKind::Cli, &target.directory()) {
        // The record may describe an older store.
        place.renew_record(host);
    }
    let (outcome, directory, root, n_added_blobs, n_added_bytes, n_paths_left_out) = match &imported
    {
        Imported::Placed { directory, root, n_blobs, n_bytes, n_paths_left_out } => {
            ("placed", directory, root, *n_blobs, *n_bytes, *n_paths_left_out)
        }
        Imported::Extended { directory, root, n_added_blobs, n_added_bytes, n_paths_left_out } => {
            ("extended", directory, root, *n_added_blobs, *n_added_bytes, *n_paths_left_out)
        }
        Imported::NothingNew { directory, root } => ("nothing_new", directory, root, 0, 0, 0),
    };
    if args.json {
        print_json(&ImportReport {
            v: 1,
            session: &target.id,
            outcome,
            directory,
            workspace: &target.workspace,
            root: root.to_string(),
            n_added_blobs,
            n_added_bytes,
            n_paths_left_out,
        })?;
    } else {
        print_text(&format!("{}\n", target.id))?;
    }
    let added = format!("{}, {}", counted(n_added_blobs, "blob", "blobs"), bytes(n_added_bytes));
    say(&match &imported {
        Imported::Placed { .. } => format!("imported {added}"),
        Imported::Extended { .. } => format!("added {added} to the existing session"),
        Imported::NothingNew { .. } => "already up to date".to_owned(),
    });
    if !matches!(imported, Imported::NothingNew { .. }) {
        say(&format!("continue it with: caretaker resume {} 'PROMPT'", target.id));
    }
    if let Earlier::None = earlier_run::of_session(&host.state, session)? {
        note(
            "the session starts with the default sandbox and limits: a bundle does not include those of earlier runs",
        );
    }
    if n_paths_left_out > 0 {
        note(&format!(
            "left out {} out of the workspace; bundles made by Caretaker have none",
            counted(n_paths_left_out, "path that leads", "paths that lead")
        ));
    }
    Ok(ExitCode::Success)
}
