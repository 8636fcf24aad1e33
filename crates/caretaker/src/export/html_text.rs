//! Untrusted text as HTML: renders Markdown, and escapes everything else.

use std::borrow::Cow;
use std::fmt::Write;

use admission::words::safe_text::{on_lines, on_one_line};
use pulldown_cmark::{Alignment, CodeBlockKind, CowStr, Event, HeadingLevel, Parser, Tag};

use super::harmless_markdown::options;

/// Browsers fail on deeper trees.
const DEEPEST: usize = 60;

/// The meaning of a line end within a paragraph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineEnds {
    /// A space, as in Markdown.
    Flow,
    /// A line end: users lay out their prompts as they want to see them.
    Stay,
}

/// Allows links to web pages and mail addresses. Other schemes can do more than show a page.
pub(super) fn is_allowed_link(url: &str) -> bool {
    ["https://", "http://", "mailto:"].iter().any(|scheme| {
        url.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    })
}

/// Text for the inside of an element, or of an attribute in double quotes.
pub(super) fn escaped(text: &str) -> String {
    escape(&on_lines(text)).into_owned()
}

/// Like [`escaped`], but on one line, with visible line ends.
pub(super) fn escaped_line(text: &str) -> String {
    escape(&on_one_line(text)).into_owned()
}

fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains(['<', '>', '&', '"', '\'']) {
        return text.into();
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match character {
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe.into()
}

/// Renders Markdown.
pub(super) fn rendered(text: &str, line_ends: LineEnds) -> String {
    let text = on_lines(text);
    let mut page = Renderer {
        out: String::with_capacity(text.len() * 5 / 4),
        open: Vec::new(),
        line_ends,
        columns: Vec::new(),
        column: 0,
        cell: "td",
    };
    for event in Parser::new_ext(&text, options()) {
        page.event(event);
    }
    page.out
}

struct Renderer {
    out: String,
    /// The end tags of the open elements.
    open: Vec<Cow<'static, str>>,
    line_ends: LineEnds,
    /// The columns of the current table.
    columns: Vec<Alignment>,
    /// The next column.
    column: usize,
    cell: &'static str,
}

impl Renderer {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(_) => self.end(),
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => self.text(&text),
            Event::Code(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                self.out.push_str("<code>");
                self.text(&text);
                self.out.push_str("</code>");
            }
            Event::FootnoteReference(name) => self.text(&format!("[^{name}]")),
            Event::SoftBreak if self.line_ends == LineEnds::Flow => self.out.push('\n'),
            Event::SoftBreak | Event::HardBreak => self.out.push_str("<br>\n"),
            Event::Rule => self.out.push_str("<hr>\n"),
            Event::TaskListMarker(is_done) => {
                self.out.push_str(if is_done { "☑ " } else { "☐ " })
            }
        }
    }

    fn text(&mut self, text: &str) {
        self.out.push_str(&escape(text));
    }

    fn start(&mut self, tag: Tag<'_>) {
        if self.open.len() >= DEEPEST {
            self.open.push(Cow::Borrowed(""));
            return;
        }
        let (begin, end): (Cow<'static, str>, Cow<'static, str>) = match tag {
            Tag::Paragraph => ("<p>".into(), "</p>\n".into()),
            Tag::Heading { level, .. } => heading(level),
            Tag::BlockQuote(_) => ("<blockquote>\n".into(), "</blockquote>\n".into()),
            Tag::CodeBlock(kind) => (code_block(&kind).into(), "</code></pre>\n".into()),
            Tag::HtmlBlock => ("<pre class=\"markup\">".into(), "</pre>\n".into()),
            Tag::List(None) => ("<ul>\n".into(), "</ul>\n".into()),
            Tag::List(Some(1)) => ("<ol>\n".into(), "</ol>\n".into()),
            Tag::List(Some(first)) => {
                (format!("<ol start=\"{first}\">\n").into(), "</ol>\n".into())
            }
            Tag::Item => ("<li>".into(), "</li>\n".into()),
            Tag::Table(columns) => {
                self.columns = columns;
                ("<div class=\"table\"><table>\n".into(), "</tbody></table></div>\n".into())
            }
            Tag::TableHead => {
                (self.column, self.cell) = (0, "th");
                ("<thead><tr>".into(), "</tr></thead>\n<tbody>\n".into())
            }
            Tag::TableRow => {
                (self.column, self.cell) = (0, "td");
                ("<tr>".into(), "</tr>\n".into())
            }
            Tag::TableCell => self.table_cell(),
            Tag::Emphasis => ("<em>".into(), "</em>".into()),
            Tag::Strong => ("<strong>".into(), "</strong>".into()),
            Tag::Strikethrough => ("<del>".into(), "</del>".into()),
            Tag::Link { dest_url, .. } if is_allowed_link(&dest_url) => link(&dest_url),
            Tag::Link { dest_url, .. } => ("<span>".into(), aside(&dest_url).into()),
            Tag::Image { dest_url, .. } => {
                ("<span class=\"picture\">Picture: ".into(), aside(&dest_url).into())
            }
            // Only for extensions that are turned off.
            _ => ("<div>".into(), "</div>\n".into()),
        };
        self.out.push_str(&begin);
        self.open.push(end);
    }

    fn table_cell(&mut self) -> (Cow<'static, str>, Cow<'static, str>) {
        let cell = self.cell;
        // Use a class: the page's policy forbids inline styles.
        let class = match self.columns.get(self.column) {
            Some(Alignment::Right) => " class=\"right\"",
            Some(Alignment::Center) => " class=\"center\"",
            _ => "",
        };
        self.column += 1;
        (format!("<{cell}{class}>").into(), format!("</{cell}>").into())
    }

    fn end(&mut self) {
        if let Some(end) = self.open.pop() {
            self.out.push_str(&end);
        }
    }
}

/// Levels below the page's own headings.
fn heading(level: HeadingLevel) -> (Cow<'static, str>, Cow<'static, str>) {
    match level {
        HeadingLevel::H1 => ("<h3>".into(), "</h3>\n".into()),
        HeadingLevel::H2 => ("<h4>".into(), "</h4>\n".into()),
        HeadingLevel::H3 => ("<h5>".into(), "</h5>\n".into()),
        _ => ("<h6>".into(), "</h6>\n".into()),
    }
}

fn code_block(kind: &CodeBlockKind<'_>) -> String {
    let language = match kind {
        CodeBlockKind::Fenced(info) => info.split_whitespace().next().unwrap_or_default(),
        CodeBlockKind::Indented => "",
    };
    labelled_code(language)
}

/// The beginning of a code block, with its label above.
pub(super) fn labelled_code(label: &str) -> String {
    let mut begin = "<pre>".to_owned();
    if !label.is_empty() {
        write!(begin, "<span class=\"label\">{}</span>", escaped_line(label)).ok();
    }
    begin.push_str("<code>");
    begin
}

fn link(url: &CowStr<'_>) -> (Cow<'static, str>, Cow<'static, str>) {
    let begin = format!("<a href=\"{}\" rel=\"noopener noreferrer\">", escape(url));
    (begin.into(), "</a>".into())
}

/// Shows the target of a forbidden link as text.
fn aside(url: &str) -> String {
    if url.is_empty() {
        "</span>".to_owned()
    } else {
        format!(" <code>{}</code></span>", escape(url))
    }
}

#[cfg(test)]
#[path = "html_text_tests.rs"]
mod tests;
