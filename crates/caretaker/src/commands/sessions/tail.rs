//! `caretaker sessions tail`: what is said now, by whoever writes it.

use std::collections::{BTreeSet, HashMap};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use cursor_stores::model::{Head, Message, Role};
use cursor_stores::{Catalogue, Extent};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use run_protocol::ExitCode;
use serde::Serialize;

use super::selection::{Where, changed_ms, find};
use super::show::read;
use crate::command_error::CommandError;
use crate::data_out::Data;
use crate::host::Host;
use crate::session_news::SessionNews;
use crate::talk::note;
use crate::view::conversation::{Folding, MessageView};
use crate::view::safe_text::on_one_line;
use crate::view::styled_line::BOLD;

/// A writer commits in bursts; what comes within this time is read at once.
const BURST: Duration = Duration::from_millis(100);
/// What is read again at each change. Nobody writes more messages in one burst.
const WINDOW: usize = 200;
/// With `--all`, conversations that are likely to go on: what they hold now is known from the start.
const LIKELY: usize = 50;

/// Follow a conversation that somebody else is writing: an IDE, an agent in another terminal, an SDK.
///
/// Prints the last messages, and with `-f` every new one as its writer commits it. SESSION is an id, a beginning of one
/// that is unique, or `-` for the one that changed last.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  caretaker sessions tail - -f
  caretaker sessions tail --all -f --json | jq -r 'select(.message.role == \"user\") | .message.parts[].text'")]
pub(crate) struct Args {
    /// The conversation.
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    session: Option<String>,
    /// All conversations of this machine; needs `-f`.
    #[arg(long, requires = "follow")]
    all: bool,
    /// Go on as it grows, until interrupted.
    #[arg(long, short)]
    follow: bool,
    /// How many messages to begin with.
    #[arg(long, short = 'n', value_name = "N", default_value_t = 10)]
    last: usize,
    #[command(flatten)]
    place: Where,
    /// Show outputs, thoughts and context whole.
    #[arg(long)]
    full: bool,
    /// Print one JSON object for each message, or for the part of it that is new.
    #[arg(long)]
    json: bool,
}

/// A conversation that is followed.
struct Followed {
    head: Head,
    /// By origin; of the conversation as it was last read.
    stamps: Vec<Option<u64>>,
    news: SessionNews,
}

#[derive(Serialize)]
struct JsonNews<'a> {
    v: u32,
    session: &'a str,
    message: &'a Message,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, CommandError> {
    let host = Host::of_process()?;
    let catalogue = args.place.open(&host)?;
    let mut printer = Printer::new(args);
    // Watching begins before reading, so that nothing falls between the two.
    let mut watch = if args.follow { Some(Watch::new()?) } else { None };
    match &args.session {
        Some(session) => {
            let head = find(&catalogue, session)?;
            if let Some(watch) = &mut watch {
                watch.cover(&directories(&catalogue, &head));
            }
            let mut followed = Followed::unread(&catalogue, head);
            let mut messages = followed.read(&catalogue)?;
            followed.news.skip(&messages);
            let first = messages.len().saturating_sub(args.last);
            printer.print(&followed.head, &messages.split_off(first))?;
            while let Some(watch) = &watch {
                watch.wait()?;
                followed.print_news(&catalogue, &mut printer)?;
            }
        }
        None => {
            if let Some(watch) = watch {
                follow_all(&host, args, catalogue, watch, &mut printer)?;
            }
        }
    }
    Ok(ExitCode::Success)
}

/// Follows whatever changes. Of an old conversation that goes on, the turn that is under way is shown.
fn follow_all(
    host: &Host,
    args: &Args,
    mut catalogue: Catalogue,
    mut watch: Watch,
    printer: &mut Printer,
) -> Result<(), CommandError> {
    let mut heads = catalogue.list().heads;
    heads.sort_by_key(|head| std::cmp::Reverse(changed_ms(head)));
    watch.cover(&all_directories(&catalogue, &heads));
    let mut followed: HashMap<String, Followed> = HashMap::new();
    for (number, head) in heads.into_iter().enumerate() {
        let mut known = Followed::unread(&catalogue, head);
        if number < LIKELY
            && let Ok(messages) = known.read(&catalogue)
        {
            known.news.skip(&messages);
        }
        followed.insert(known.head.id.clone(), known);
    }
    note(&format!("following {} conversations", followed.len()));
    loop {
        watch.wait()?;
        // A store may have come into being; those that are known are only looked at.
        catalogue = args.place.open(host)?;
        let heads = catalogue.list().heads;
        watch.cover(&all_directories(&catalogue, &heads));
        for head in heads {
            let is_new = !followed.contains_key(&head.id);
            let id = head.id.clone();
            let known = followed.entry(id).or_insert_with(|| Followed::begun(head.clone()));
            known.head = head;
            if is_new || known.has_changed(&catalogue) {
                known.print_news(&catalogue, printer)?;
            }
        }
    }
}

impl Followed {
    fn unread(catalogue: &Catalogue, head: Head) -> Self {
        let stamps = stamps(catalogue, &head);
        Self { head, stamps, news: SessionNews::default() }
    }

    /// One of which nothing was there before.
    fn begun(head: Head) -> Self {
        Self { head, stamps: Vec::new(), news: SessionNews::default() }
    }

    fn has_changed(&self, catalogue: &Catalogue) -> bool {
        stamps(catalogue, &self.head) != self.stamps
    }

    fn read(&mut self, catalogue: &Catalogue) -> Result<Vec<Message>, CommandError> {
        // The stamp first: what is written while we read makes us read again.
        self.stamps = stamps(catalogue, &self.head);
        let extent = Extent { last: Some(WINDOW), ..Extent::default() };
        Ok(read(catalogue, &self.head, extent)?.messages)
    }

    fn print_news(
        &mut self,
        catalogue: &Catalogue,
        printer: &mut Printer,
    ) -> Result<(), CommandError> {
        if !self.has_changed(catalogue) {
            return Ok(());
        }
        let is_first = self.news.is_empty() && !self.stamps.is_empty();
        // A store that is being written may be unreadable for a moment; its next change comes.
        let Ok(messages) = self.read(catalogue) else { return Ok(()) };
        let mut news = self.news.tell(&messages);
        if is_first {
            let turn = news.iter().rposition(|message| message.role == Role::User).unwrap_or(0);
            news.drain(..turn);
        }
        printer.print(&self.head, &news)
    }
}

fn stamps(catalogue: &Catalogue, head: &Head) -> Vec<Option<u64>> {
    head.origins.iter().map(|origin| catalogue.store_of(origin)?.stamp(origin.key(head))).collect()
}

fn directories(catalogue: &Catalogue, head: &Head) -> BTreeSet<PathBuf> {
    head.origins
        .iter()
        .filter_map(|origin| Some(catalogue.store_of(origin)?.watched(Some(origin.key(head)))))
        .flatten()
        .collect()
}

fn all_directories(catalogue: &Catalogue, heads: &[Head]) -> BTreeSet<PathBuf> {
    let mut all: BTreeSet<PathBuf> =
        catalogue.stores().flat_map(|store| store.watched(None)).collect();
    // The kernel allows some thousand watches; the conversations that go on are among the latest.
    for head in heads.iter().take(LIKELY * 4) {
        all.extend(directories(catalogue, head));
    }
    all
}

/// Wakes when something changes in directories.
struct Watch {
    watcher: RecommendedWatcher,
    covered: BTreeSet<PathBuf>,
    changes: Receiver<()>,
}

impl Watch {
    fn new() -> Result<Self, CommandError> {
        let (changed, changes) = mpsc::sync_channel(1);
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // Our own reading must not wake us.
            let is_change = event.is_ok_and(|event| !matches!(event.kind, EventKind::Access(_)));
            if is_change {
                // One that is not taken yet says it all.
                changed.try_send(()).ok();
            }
        })
        .map_err(|error| {
            CommandError::new(ExitCode::Failed, "changes cannot be watched for")
                .because(error)
                .hint(
                    "the system limits how many watchers there are: fs.inotify.max_user_instances",
                )
        })?;
        Ok(Self { watcher, covered: BTreeSet::new(), changes })
    }

    /// Adds directories. One that cannot be watched is passed over: it may be gone by now.
    fn cover(&mut self, directories: &BTreeSet<PathBuf>) {
        for directory in directories {
            if !self.covered.contains(directory)
                && self.watcher.watch(directory, RecursiveMode::NonRecursive).is_ok()
            {
                self.covered.insert(directory.clone());
            }
        }
    }

    /// Waits for a change, and then for the rest of its burst.
    fn wait(&self) -> Result<(), CommandError> {
        let gone =
            |_| CommandError::new(ExitCode::Failed, "changes cannot be watched for any more");
        self.changes.recv().map_err(gone)?;
        std::thread::sleep(BURST);
        self.changes.try_recv().ok();
        Ok(())
    }
}

/// Prints messages as they come.
struct Printer {
    form: Form,
    is_many: bool,
    last: Option<String>,
}

enum Form {
    Json(Data),
    Words(MessageView),
}

impl Printer {
    fn new(args: &Args) -> Self {
        let folding = if args.full { Folding::Open } else { Folding::Folded };
        let form = if args.json {
            Form::Json(Data::of_stdout())
        } else {
            Form::Words(MessageView::new(folding))
        };
        Self { form, is_many: args.all, last: None }
    }

    fn print(&mut self, head: &Head, messages: &[Message]) -> Result<(), CommandError> {
        if messages.is_empty() {
            return Ok(());
        }
        self.write(head, messages).map_err(CommandError::writing)
    }

    fn write(&mut self, head: &Head, messages: &[Message]) -> io::Result<()> {
        match &mut self.form {
            Form::Json(out) => {
                for message in messages {
                    out.json(&JsonNews { v: 1, session: &head.id, message })?;
                }
                out.flush()
            }
            Form::Words(view) => {
                let mut out = anstream::stdout().lock();
                if self.is_many && self.last.as_ref() != Some(&head.id) {
                    let title = head.title.as_deref().unwrap_or("(no title)");
                    writeln!(out, "\n{BOLD}{}  {}{BOLD:#}", head.id, on_one_line(title))?;
                    self.last = Some(head.id.clone());
                    view.interrupt();
                }
                messages.iter().try_for_each(|message| view.print(&mut out, message))?;
                out.flush()
            }
        }
    }
}
