//! `caretaker sessions search`: searches all conversations.

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use admission::command_error::CommandError;
use admission::sessions::changed_ms;
use admission::words::safe_text::on_one_line;
use admission::words::talk::note;
use admission::words::units;
use cursor_stores::Hit;
use cursor_stores::model::{Head, StoreKind};
use cursor_stores::search::{Case, Matcher, Pattern, Snippet};
use ground::now_ms;
use run_protocol::ExitCode;
use serde::Serialize;

use super::finding::{FoundHit, Hits, MOST_HITS, Search};
use super::ls::workspace;
use super::selection::Selection;
use crate::command_helper::CommandHelper;
use crate::data_out::Data;
use crate::view::styled_line::{BOLD, DIM, GOOD, PLAIN, write_line};
use crate::view::width::Width;

/// Search all conversations: messages, thoughts, tool calls and their results.
///
/// All words of PATTERN must occur in one message; a phrase in double quotes counts as one word. Case matters only if
/// PATTERN has a capital letter. It works without an index.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  caretaker sessions search flaky test
  caretaker sessions search '\"connection refused\"' --since 2w
  caretaker sessions search --regex 'TODO\\(\\w+\\)' -C . --json")]
pub(crate) struct Args {
    /// The words to look for.
    #[arg(required = true, value_name = "PATTERN")]
    pattern: Vec<String>,
    #[command(flatten)]
    pub(super) selection: Selection,
    /// PATTERN is a regular expression.
    #[arg(long, short = 'e')]
    regex: bool,
    /// Ignore case.
    #[arg(long, short, conflicts_with = "case_sensitive")]
    ignore_case: bool,
    /// Match case.
    #[arg(long, short = 's')]
    case_sensitive: bool,
    /// Show at most N matches per conversation; 0 shows all.
    #[arg(long, value_name = "N", default_value_t = 3)]
    per_session: usize,
    /// Show at most N conversations; 0 shows all.
    #[arg(long, short = 'n', value_name = "N", default_value_t = 20)]
    limit: usize,
    /// Create an index, so that the next search is fast. From then on, all searches use it and keep it up to date, unless
    /// you give `--no-index`. You can delete it at any time.
    #[arg(long, conflicts_with = "no_index")]
    pub(super) index: bool,
    /// Search the stores directly, without the index.
    #[arg(long)]
    pub(super) no_index: bool,
    /// Print all matches, one JSON object per line.
    #[arg(long)]
    json: bool,
}

/// The matches in one conversation.
struct Found {
    /// `None` if the text does not belong to a known conversation.
    head: Option<Head>,
    hits: Vec<(StoreKind, Hit)>,
}

#[derive(Serialize)]
struct JsonHit<'a> {
    v: u32,
    session: Option<&'a str>,
    title: Option<&'a str>,
    store: StoreKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    position: Option<usize>,
    field: &'a str,
    snippet: &'a Snippet,
}

pub(crate) fn run(helper: &CommandHelper, args: &Args) -> Result<ExitCode, CommandError> {
    let matcher = matcher(args)?;
    let host = &helper.host;
    let catalogue = args.selection.place.open(host)?;
    let search = Search { args, host, catalogue: &catalogue, matcher: &matcher };
    let Hits { hits, is_cut } = search.hits()?;
    let found = by_conversation(hits);
    let n_hits: usize = found.iter().map(|found| found.hits.len()).sum();
    if args.json { print_json(&found) } else { print(args, &found, Width::of_stdout()) }
        .map_err(CommandError::writing)?;
    if is_cut {
        note(&format!("stopped after {} matches", units::grouped(MOST_HITS as u64)));
    }
    if n_hits == 0 && !args.json {
        note("no matches");
    }
    Ok(if n_hits == 0 { ExitCode::Failed } else { ExitCode::Success })
}

fn matcher(args: &Args) -> Result<Matcher, CommandError> {
    let pattern = args.pattern.join(" ");
    let case = match (args.ignore_case, args.case_sensitive) {
        (true, _) => Case::Ignored,
        (_, true) => Case::Matters,
        _ => Case::Smart,
    };
    let pattern = if args.regex { Pattern::Regex(&pattern) } else { Pattern::Words(&pattern) };
    Matcher::new(pattern, case).map_err(|error| {
        CommandError::new(ExitCode::Usage, "invalid pattern").because(error).hint(if args.regex {
            "leave out --regex to search for plain words"
        } else {
            "write words, or a phrase in double quotes"
        })
    })
}

/// Groups the matches by conversation, most recently changed first. A match counts once, even if several stores have
/// the message.
fn by_conversation(hits: Vec<FoundHit>) -> Vec<Found> {
    let mut found: HashMap<Option<String>, Vec<FoundHit>> = HashMap::new();
    for hit in hits {
        let id = hit.head.as_ref().map(|head| head.id.clone());
        found.entry(id).or_default().push(hit);
    }
    let mut found: Vec<Found> = found.into_values().map(once_each).collect();
    found.sort_by_key(|found| std::cmp::Reverse(found.head.as_ref().and_then(changed_ms)));
    found
}

fn order(found: &FoundHit) -> impl Ord + '_ {
    let FoundHit { store, path, hit, .. } = found;
    (*store, path, &hit.key, hit.position, &hit.message_id, &hit.field)
}

/// The matches in one conversation, without duplicates, those from the richest store first.
fn once_each(mut hits: Vec<FoundHit>) -> Found {
    let head = hits.iter_mut().find_map(|hit| hit.head.take()).map(Arc::unwrap_or_clone);
    hits.sort_by(|one, other| order(one).cmp(&order(other)));
    // For each text around a match, the store, path and key of its first occurrence.
    let mut first_in: HashMap<String, (StoreKind, Arc<Path>, String)> = HashMap::new();
    let mut in_messages: HashSet<(String, String)> = HashSet::new();
    hits.retain(|FoundHit { store, path, hit, .. }| {
        let words = hit.snippet.surroundings();
        let (first_store, first_path, first_key) = first_in
            .entry(words.clone())
            .or_insert_with(|| (*store, path.clone(), hit.key.clone()));
        let is_told_by_another =
            (*first_store, &*first_path, first_key.as_str()) != (*store, path, hit.key.as_str());
        // Some builds keep a message in two places in one store.
        let is_same_message =
            hit.message_id.clone().is_some_and(|id| !in_messages.insert((id, words)));
        !is_told_by_another && !is_same_message
    });
    Found { head, hits: hits.into_iter().map(|found| (found.store, found.hit)).collect() }
}

fn print_json(found: &[Found]) -> io::Result<()> {
    let mut out = Data::of_stdout();
    for Found { head, hits } in found {
        for (store, hit) in hits {
            out.json(&JsonHit {
                v: 1,
                session: head.as_ref().map(|head| head.id.as_str()),
                title: head.as_ref().and_then(|head| head.title.as_deref()),
                store: *store,
                message_id: hit.message_id.as_deref(),
                position: hit.position,
                field: &hit.field,
                snippet: &hit.snippet,
            })?;
        }
    }
    out.flush()
}

fn print(args: &Args, found: &[Found], width: Width) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    let unlimited = |limit: usize| if limit == 0 { usize::MAX } else { limit };
    for Found { head, hits } in found.iter().take(unlimited(args.limit)) {
        print_head(&mut out, head.as_ref(), width)?;
        for (store, hit) in hits.iter().take(unlimited(args.per_session)) {
            print_hit(&mut out, *store, hit, width)?;
        }
        let n_more = hits.len().saturating_sub(unlimited(args.per_session));
        if n_more > 0 {
            let text = format!("    and {} more", units::grouped(n_more as u64));
            write_line(&mut out, &[(DIM, &text)], width)?;
        }
    }
    let n_more = found.len().saturating_sub(unlimited(args.limit));
    if n_more > 0 {
        let text = units::counted(n_more as u64, "more conversation", "more conversations");
        writeln!(out, "{DIM}{text}: `--limit 0` shows all{DIM:#}")?;
    }
    out.flush()
}

fn print_head(out: &mut dyn Write, head: Option<&Head>, width: Width) -> io::Result<()> {
    let Some(head) = head else {
        return write_line(out, &[(BOLD, "(in no known conversation)")], width);
    };
    let title = on_one_line(head.title.as_deref().unwrap_or("(no title)"));
    let age = changed_ms(head).map_or_else(String::new, |at| {
        let ago = now_ms().saturating_sub(u64::try_from(at).unwrap_or(0));
        format!("  {} ago", units::age(ago))
    });
    let about =
        head.workspace.as_ref().map_or_else(String::new, |about| format!("  {}", workspace(about)));
    let about = on_one_line(&about);
    let id = format!("{}  ", on_one_line(&head.id));
    write_line(out, &[(DIM, &id), (BOLD, &title), (DIM, &about), (DIM, &age)], width)
}

fn print_hit(out: &mut dyn Write, store: StoreKind, hit: &Hit, width: Width) -> io::Result<()> {
    let position = hit.position.map_or_else(String::new, |position| format!("#{} ", position + 1));
    let place = format!("    {store} {position}{}: ", on_one_line(&hit.field));
    let Snippet { before, found, after } = &hit.snippet;
    // The match must be visible, so cut the text before it first.
    let room = 30;
    let skipped = before.char_indices().rev().nth(room).map_or(0, |(at, _)| at);
    let before = flat(before.get(skipped..).unwrap_or_default());
    let (found, after) = (flat(found), flat(after));
    write_line(out, &[(DIM, &place), (PLAIN, &before), (GOOD, &found), (PLAIN, &after)], width)
}

/// One line, with spaces in place of line ends.
fn flat(text: &str) -> String {
    on_one_line(&text.replace(['\n', '\r', '\t'], " ")).into_owned()
}
