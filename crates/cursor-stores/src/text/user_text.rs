//! Separates the user's words from the context that Cursor puts around them.

use std::borrow::Cow;
use std::collections::HashSet;

/// The parts of a message with the role `user`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct UserText<'a> {
    /// The user's words, without the tags around them. `None` if the message is only context.
    pub query: Option<Cow<'a, str>>,
    /// The context that Cursor added: tag and body. Text without a tag has the tag `""`.
    pub context: Vec<(&'a str, &'a str)>,
    /// The body of `<timestamp>`, written for humans.
    pub timestamp: Option<&'a str>,
}

/// Tags that are always Cursor's. If there is a `<user_query>`, every tag outside it is Cursor's, too.
const CONTEXT_TAGS: [&str; 16] = [
    "additional_data",
    "attached_files",
    "cursor_commands",
    "external_links",
    "git_status",
    "linter_errors",
    "manually_attached_skills",
    "open_and_recently_viewed_files",
    "project_layout",
    "rules",
    "system-reminder",
    "system_notification",
    "system_reminder",
    "task_notification",
    "timestamp",
    "user_info",
];
/// Every release brings new tags; tags with these endings have always been Cursor's.
const CONTEXT_ENDINGS: [&str; 9] = [
    "_context",
    "_files",
    "_information",
    "_instructions",
    "_notification",
    "_reminder",
    "_rules",
    "_skills",
    "_transcripts",
];

const QUERY_OPENS: &str = "<user_query>";
const QUERY_CLOSES: &str = "</user_query>";

/// Splits a message into its parts. Drops only the tags.
pub(crate) fn split_user_text(text: &str) -> UserText<'_> {
    let mut found = UserText::default();
    match query_start(text) {
        Some(_) => split_around_queries(text, &mut found),
        None => split_without_query(text, &mut found),
    }
    found
}

/// An opening tag counts only at the beginning of a line or after another tag, because users quote it too.
fn query_start(text: &str) -> Option<usize> {
    text.match_indices(QUERY_OPENS).map(|(at, _)| at).find(|at| {
        let before = text[..*at].trim_end_matches([' ', '\t']);
        before.is_empty() || before.ends_with(['\n', '>'])
    })
}

fn split_around_queries<'a>(text: &'a str, found: &mut UserText<'a>) {
    let mut queries: Vec<&'a str> = Vec::new();
    let mut rest = text;
    while let Some(start) = query_start(rest) {
        found.add_context(&rest[..start], Tags::All);
        let inside = &rest[start + QUERY_OPENS.len()..];
        let end = query_start(inside).unwrap_or(inside.len());
        // The last closing tag is the real one; the user may have written others.
        let (query, after) =
            inside[..end].rsplit_once(QUERY_CLOSES).unwrap_or((&inside[..end], ""));
        queries.push(without_line_breaks_around(query));
        found.add_context(after, Tags::All);
        rest = &inside[end..];
    }
    found.query = match queries.as_slice() {
        [query] => Some(Cow::Borrowed(query)),
        queries => Some(Cow::Owned(queries.join("\n\n"))),
    };
}

fn split_without_query<'a>(text: &'a str, found: &mut UserText<'a>) {
    let words = found.add_context(text, Tags::Known);
    let is_all_words = found.context.is_empty() && found.timestamp.is_none();
    found.query = match words.as_slice() {
        _ if is_all_words => Some(Cow::Borrowed(text)),
        [] => None,
        [words] => Some(Cow::Borrowed(words)),
        words => Some(Cow::Owned(words.join("\n\n"))),
    };
}

fn without_line_breaks_around(query: &str) -> &str {
    let query = query.strip_prefix('\n').unwrap_or(query);
    query.strip_suffix('\n').unwrap_or(query)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Tags {
    /// Everything is context, tagged or not.
    All,
    /// Only text in a known tag is context. The rest is returned.
    Known,
}

impl<'a> UserText<'a> {
    /// Adds the tagged pieces of a text as context. Returns the other pieces, unless they are context too.
    fn add_context(&mut self, text: &'a str, tags: Tags) -> Vec<&'a str> {
        let mut words = Vec::new();
        let mut search = TagSearch { rest: text, unclosed: HashSet::new() };
        let mut plain_start = text;
        loop {
            let block = search.next_block(tags);
            let plain_length = block.as_ref().map_or(plain_start.len(), |block| {
                plain_start.len() - block.after.len() - block.n_bytes
            });
            let plain = plain_start[..plain_length].trim();
            match tags {
                _ if plain.is_empty() => {}
                Tags::All => self.context.push(("", plain)),
                Tags::Known => words.push(plain),
            }
            let Some(block) = block else { return words };
            if block.tag == "timestamp" && self.timestamp.is_none() {
                self.timestamp = Some(block.body.trim());
            } else {
                self.context.push((block.tag, block.body));
            }
            plain_start = block.after;
        }
    }
}

struct Block<'a> {
    tag: &'a str,
    body: &'a str,
    /// The text after its closing tag.
    after: &'a str,
    /// From its opening to its closing tag.
    n_bytes: usize,
}

struct TagSearch<'a> {
    rest: &'a str,
    /// Tags that have no closing tag in the rest of the text. Without this set, a text full of opening tags would take
    /// quadratic time.
    unclosed: HashSet<&'a str>,
}

/// A text with more unclosed tags is XML or an attack.
const MAX_UNCLOSED: usize = 200;
/// No real opening tag is longer.
const MAX_OPENING: usize = 300;

impl<'a> TagSearch<'a> {
    fn next_block(&mut self, tags: Tags) -> Option<Block<'a>> {
        while self.unclosed.len() <= MAX_UNCLOSED {
            let start = memchr::memchr(b'<', self.rest.as_bytes())?;
            let from_tag = &self.rest[start..];
            self.rest = &from_tag[1..];
            let Some((tag, opening)) = opening_tag(from_tag) else { continue };
            if self.unclosed.contains(tag) || tags == Tags::Known && !is_context_tag(tag) {
                continue;
            }
            let inside = &from_tag[opening..];
            let closing = format!("</{tag}>");
            let Some(end) = memchr::memmem::find(inside.as_bytes(), closing.as_bytes()) else {
                self.unclosed.insert(tag);
                continue;
            };
            let after = &inside[end + closing.len()..];
            self.rest = after;
            let n_bytes = opening + end + closing.len();
            return Some(Block { tag, body: &inside[..end], after, n_bytes });
        }
        None
    }
}

/// Returns the name of the tag at the beginning of `text`, and the length of the whole opening tag.
fn opening_tag(text: &str) -> Option<(&str, usize)> {
    let name = text.get(1..)?;
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let length = name.find(|c| !is_part(c)).unwrap_or(name.len());
    let tag = &name[..length];
    if !tag.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return None;
    }
    let rest = &name.as_bytes()[length..];
    let end = memchr::memchr(b'>', &rest[..rest.len().min(MAX_OPENING)])?;
    let is_plain = end == 0 || rest[0] == b' ' && rest[end - 1] != b'/';
    is_plain.then_some((tag, 1 + length + end + 1))
}

fn is_context_tag(tag: &str) -> bool {
    CONTEXT_TAGS.contains(&tag) || CONTEXT_ENDINGS.iter().any(|ending| tag.ends_with(ending))
}

#[cfg(test)]
#[path = "user_text_tests.rs"]
mod tests;
