//! Makes untrusted text safe inside a Markdown document: it stays Markdown, but has no HTML, no pictures that a viewer
//! would fetch, only links to web pages and mail addresses, and cannot affect the text around it.

use admission::words::safe_text::{on_lines, on_one_line};
use pulldown_cmark::{CodeBlockKind, Event, LinkType, Options, Parser, Tag};

use super::html_text::is_allowed_link;

/// A change may alter the meaning of the text after it, so the search repeats. Real texts need one or two passes.
const MOST_LOOKS: usize = 10;
/// Our own headings are above this level, so that untrusted text cannot imitate one.
const HIGHEST_HEADING: usize = 4;
/// A stand-in for the text that follows.
const WHAT_FOLLOWS: &str = "\n\n## x\n";

pub(super) fn options() -> Options {
    Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS
}

/// Returns Markdown that looks the same but is safe to show. If that fails, returns the source as a code block.
pub(super) fn harmless(text: &str) -> String {
    let original = on_lines(text.trim_end());
    let mut text = original.clone().into_owned();
    for _ in 0..MOST_LOOKS {
        let look = Look::at(&text);
        if !look.changes.is_empty() {
            text = changed(&text, look.changes);
            continue;
        }
        match look.end {
            End::Closed => return text,
            End::InFence(fence) => {
                text.push('\n');
                text.push_str(&fence);
            }
            End::Open => break,
        }
    }
    fenced("", &original)
}

/// A code block that nothing in the text can close.
pub(super) fn fenced(language: &str, text: &str) -> String {
    let text = on_lines(text);
    let fence = "`".repeat(longest_run(&text).max(2) + 1);
    let language: String = language
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '#' | '_' | '.'))
        .take(30)
        .collect();
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    format!("{fence}{language}\n{text}{end}{fence}")
}

/// A quotation of harmless Markdown.
pub(super) fn quoted(text: &str) -> String {
    let lines = text.trim_end().lines();
    lines.map(|line| format!("> {line}").trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

/// Inline code.
pub(super) fn code(text: &str) -> String {
    let text = on_one_line(text);
    let ticks = "`".repeat(longest_run(&text) + 1);
    // A backtick at an edge would join the delimiter. Viewers remove one space on each side.
    let needs_room = text.starts_with(['`', ' ']) || text.ends_with(['`', ' ']) || text.is_empty();
    let room = if needs_room { " " } else { "" };
    format!("{ticks}{room}{text}{room}{ticks}")
}

/// Plain text without Markdown. Not safe at the beginning of a line.
pub(super) fn plain(text: &str) -> String {
    let text = on_one_line(text);
    let mut plain = String::with_capacity(text.len() + 8);
    let mut before = ' ';
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let is_active = match character {
            '\\' | '`' | '*' | '[' | ']' | '<' | '~' | '&' | '#' | '$' | '|' => true,
            // Inside a word, an underscore is an ordinary character.
            '_' => {
                let is_after = characters.peek().is_some_and(|next| next.is_alphanumeric());
                !(before.is_alphanumeric() && is_after)
            }
            _ => false,
        };
        if is_active {
            plain.push('\\');
        }
        plain.push(character);
        before = character;
    }
    plain
}

fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

/// A replacement for `n_bytes` bytes.
struct Change {
    at: usize,
    n_bytes: usize,
    put: String,
}

fn changed(text: &str, mut changes: Vec<Change>) -> String {
    changes.sort_by_key(|change| change.at);
    changes.dedup_by_key(|change| change.at);
    let mut result = String::with_capacity(text.len() + changes.len() * 4);
    let mut done = 0;
    for Change { at, n_bytes, put } in changes {
        result.push_str(text.get(done..at).unwrap_or_default());
        result.push_str(&put);
        done = at + n_bytes;
    }
    result.push_str(text.get(done..).unwrap_or_default());
    result
}

/// The facts that matter here about how a viewer reads a text.
struct Look {
    changes: Vec<Change>,
    end: End,
}

/// The state at the end of a text.
enum End {
    Closed,
    /// Inside a code block, which this line would close.
    InFence(String),
    /// Inside an element that would swallow the text that follows.
    Open,
}

impl Look {
    fn at(text: &str) -> Self {
        let whole = format!("{text}{WHAT_FOLLOWS}");
        let follows_at = text.len() + 2;
        let mut changes = Vec::new();
        let mut end = End::Open;
        let mut last_fence = None;
        let mut depth = 0usize;
        let parser = Parser::new_ext(&whole, options());
        for (_, definition) in parser.reference_definitions().iter() {
            changes.push(escape_at(definition.span.start));
        }
        for (event, range) in parser.into_offset_iter() {
            match &event {
                Event::Html(_) | Event::InlineHtml(_) => {
                    let inside = whole.get(range.clone()).unwrap_or_default();
                    changes.extend(
                        inside.match_indices('<').map(|(at, _)| entity_at(range.start + at)),
                    );
                }
                Event::Start(Tag::Image { .. }) => changes.push(escape_at(range.start)),
                Event::Start(Tag::Link { link_type, dest_url, .. })
                    if *link_type != LinkType::Email && !is_allowed_link(dest_url) =>
                {
                    changes.push(match link_type {
                        LinkType::Autolink => entity_at(range.start),
                        _ => escape_at(range.start),
                    });
                }
                Event::Start(Tag::Heading { .. }) if range.start == follows_at && depth == 0 => {
                    end = End::Closed;
                }
                Event::Start(Tag::Heading { level, .. }) if (*level as usize) < HIGHEST_HEADING => {
                    changes.push(lower_heading(&whole, range.clone(), *level as usize));
                }
                Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(_))) => {
                    last_fence = Some(range.start);
                }
                _ => {}
            }
            match event {
                Event::Start(_) => depth += 1,
                Event::End(_) => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        if let (End::Open, Some(at)) = (&end, last_fence) {
            let after = whole.get(at..).unwrap_or_default();
            let tick = if after.starts_with('~') { '~' } else { '`' };
            end = End::InFence(after.chars().take_while(|c| *c == tick).collect());
        }
        changes.retain(|change| change.at < text.len());
        Self { changes, end }
    }
}

fn escape_at(at: usize) -> Change {
    Change { at, n_bytes: 0, put: "\\".to_owned() }
}

/// Replaces a `<`.
fn entity_at(at: usize) -> Change {
    Change { at, n_bytes: 1, put: "&lt;".to_owned() }
}

fn lower_heading(text: &str, range: std::ops::Range<usize>, level: usize) -> Change {
    let heading = text.get(range.clone()).unwrap_or_default();
    if heading.starts_with('#') {
        let n_more = (level + HIGHEST_HEADING - 1).min(6) - level;
        return Change { at: range.start, n_bytes: 0, put: "#".repeat(n_more) };
    }
    // An underlined heading cannot be lowered: make the line text.
    let above = heading.trim_end().trim_end_matches(['=', '-']);
    escape_at(range.start + above.len())
}

#[cfg(test)]
#[path = "harmless_markdown_tests.rs"]
mod tests;
