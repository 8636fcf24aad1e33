//! `caretaker sessions tail`: prints the end of a conversation, and follows it.

mod all;

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::PathBuf;

use admission::command_error::CommandError;
use admission::words::safe_text::on_one_line;
use cursor_stores::model::{Head, Message, Role, StoreKind};
use cursor_stores::{Catalogue, Extent, is_same_conversation};
use run_protocol::ExitCode;
use serde::Serialize;

use crate::command_helper::CommandHelper;
use crate::commands::sessions::selection::{Filter, Where, find_filtered};
use crate::commands::sessions::show::read;
use crate::conversations::directory_watch::DirectoryWatch;
use crate::conversations::session_news::SessionNews;
use crate::data_out::Data;
use crate::view::conversation::{Folding, MessageView};
use crate::view::styled_line::BOLD;
use all::follow_all;

/// How many messages to read again at each change. No writer adds more in one burst.
const WINDOW: usize = 200;

/// Print the last messages of a conversation; with `-f`, follow it.
///
/// The writer may be an IDE, an agent in another terminal, or an SDK. A new message appears as soon as its writer
/// commits it.
///
/// SESSION is a session's id, a unique prefix of it, or `-` for the session that changed last.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  caretaker sessions tail - -f
  caretaker sessions tail --all -f --json | jq -r 'select(.message.role == \"user\") | .message.parts[].text'")]
pub(crate) struct Args {
    /// The conversation.
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    session: Option<String>,
    /// Follow all conversations on this machine; needs `-f`.
    #[arg(long, requires = "follow")]
    all: bool,
    /// Print new messages, until interrupted.
    #[arg(long, short)]
    follow: bool,
    /// Begin with the last N messages.
    #[arg(long, short = 'n', value_name = "N", default_value_t = 10)]
    last: usize,
    #[command(flatten)]
    pub(super) place: Where,
    #[command(flatten)]
    pub(super) filter: Filter,
    /// Show all outputs, thoughts and context.
    #[arg(long)]
    full: bool,
    /// Print one JSON object per message; if a message grows, one with only the new part.
    #[arg(long)]
    json: bool,
}

/// A conversation that is followed.
pub(super) struct Followed {
    pub(super) head: Head,
    /// One per origin, from the last read.
    stamps: Vec<Option<u64>>,
    news: SessionNews,
    /// True if it existed before and its messages have not been read.
    is_old: bool,
}

#[derive(Serialize)]
struct JsonNews<'a> {
    v: u32,
    session: &'a str,
    message: &'a Message,
}

pub(crate) fn run(helper: &CommandHelper, args: &Args) -> Result<ExitCode, CommandError> {
    let host = &helper.host;
    let mut catalogue = args.place.open(host)?;
    let mut printer = Printer::new(args);
    // First the watch, then the read, so that no change in between is missed.
    let mut watch = if args.follow { Some(DirectoryWatch::new()?) } else { None };
    match &args.session {
        Some(session) => {
            let head = find_filtered(host, &catalogue, &args.filter, session)?;
            if let Some(watch) = &mut watch {
                watch.cover(&directories(&catalogue, &head));
            }
            let mut followed = Followed::unread(head);
            let mut messages = followed.skip(&catalogue)?;
            let first = messages.len().saturating_sub(args.last);
            printer.print(&followed.head, &messages.split_off(first))?;
            while let Some(watch) = &mut watch {
                let is_change = watch.wait()?.is_some();
                let is_moved = is_moved(&followed.head);
                if is_moved {
                    catalogue = args.place.open(host)?;
                    followed.find_again(&catalogue);
                }
                if is_change || is_moved {
                    // Sub-agents may have created directories.
                    watch.cover(&directories(&catalogue, &followed.head));
                    if stamps(&catalogue, &followed.head) != followed.stamps {
                        followed.print_news(&catalogue, &mut printer)?;
                    }
                }
            }
        }
        None => {
            if let Some(watch) = watch {
                follow_all(host, args, catalogue, watch, &mut printer)?;
            }
        }
    }
    Ok(ExitCode::Success)
}

impl Followed {
    /// A conversation that existed before `tail` started.
    pub(super) fn unread(head: Head) -> Self {
        Self { head, stamps: Vec::new(), news: SessionNews::default(), is_old: true }
    }

    /// A conversation that began after `tail` started.
    pub(super) fn begun(head: Head) -> Self {
        Self { is_old: false, ..Self::unread(head) }
    }

    /// Finds its stores again. The SDK renames a store's directory if an older version created it.
    fn find_again(&mut self, catalogue: &Catalogue) {
        let kinds: BTreeSet<StoreKind> =
            self.head.origins.iter().map(|origin| origin.store).collect();
        let heads = catalogue.list_in(|store| kinds.contains(&store.kind())).heads;
        if let Some(head) = heads.into_iter().find(|head| is_same_conversation(head, &self.head)) {
            self.head = head;
        }
    }

    /// Marks all current messages as known.
    pub(super) fn skip(&mut self, catalogue: &Catalogue) -> Result<Vec<Message>, CommandError> {
        let messages = self.read(catalogue)?;
        self.news.skip(&messages);
        self.is_old = false;
        Ok(messages)
    }

    fn read(&mut self, catalogue: &Catalogue) -> Result<Vec<Message>, CommandError> {
        // Take the stamp first, so that a change during the read causes another read.
        self.stamps = stamps(catalogue, &self.head);
        let extent = Extent { last: Some(WINDOW), ..Extent::default() };
        Ok(read(catalogue, &self.head, extent)?.messages)
    }

    /// Prints the news. For a conversation that existed before and was not read, that is the current turn.
    pub(super) fn print_news(
        &mut self,
        catalogue: &Catalogue,
        printer: &mut Printer,
    ) -> Result<(), CommandError> {
        // A store may be unreadable during a write; another change will follow.
        let Ok(messages) = self.read(catalogue) else { return Ok(()) };
        let mut news = self.news.tell(&messages);
        if std::mem::take(&mut self.is_old) {
            let turn = news.iter().rposition(|message| message.role == Role::User).unwrap_or(0);
            news.drain(..turn);
        }
        printer.print(&self.head, &news)
    }
}

/// True if one of its stores has moved.
fn is_moved(head: &Head) -> bool {
    head.origins.iter().any(|origin| origin.path.0.symlink_metadata().is_err())
}

fn stamps(catalogue: &Catalogue, head: &Head) -> Vec<Option<u64>> {
    head.origins.iter().map(|origin| catalogue.store_of(origin)?.stamp(origin.key(head))).collect()
}

pub(super) fn directories(catalogue: &Catalogue, head: &Head) -> BTreeSet<PathBuf> {
    head.origins
        .iter()
        .filter_map(|origin| Some(catalogue.store_of(origin)?.watched(Some(origin.key(head)))))
        .flatten()
        .collect()
}

/// Prints messages as they arrive.
pub(super) struct Printer {
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
                    let id = on_one_line(&head.id);
                    let title = on_one_line(head.title.as_deref().unwrap_or("(no title)"));
                    writeln!(out, "\n{BOLD}{id}  {title}{BOLD:#}")?;
                    self.last = Some(head.id.clone());
                    view.interrupt();
                }
                messages.iter().try_for_each(|message| view.print(&mut out, message))?;
                out.flush()
            }
        }
    }
}
