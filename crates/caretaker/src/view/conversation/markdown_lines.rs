//! Renders Markdown for a terminal: a few styles, and everything else as source.

use std::io::{self, Write};

use admission::words::safe_text::on_lines;
use anstyle::{AnsiColor, Style};

use crate::view::styled_line::{BOLD, DIM};

const CODE: Style = AnsiColor::Cyan.on_default();

/// Writes text line by line after `indent`: headings and `**strong**` words bold, code coloured, fences dim.
pub(super) fn write_markdown(out: &mut dyn Write, text: &str, indent: &str) -> io::Result<()> {
    let text = on_lines(text);
    let mut fence: Option<&str> = None;
    for line in text.trim_matches('\n').lines() {
        out.write_all(indent.as_bytes())?;
        let trimmed = line.trim_start();
        match fence {
            Some(open) if trimmed.starts_with(open) && trimmed.trim_end().len() == open.len() => {
                fence = None;
                writeln!(out, "{DIM}{line}{DIM:#}")?;
            }
            Some(_) => writeln!(out, "{CODE}{line}{CODE:#}")?,
            None if trimmed.starts_with("```") || trimmed.starts_with("~~~") => {
                let mark = &trimmed[..1];
                let length = trimmed.len() - trimmed.trim_start_matches(mark).len();
                fence = trimmed.get(..length);
                writeln!(out, "{DIM}{line}{DIM:#}")?;
            }
            None => write_line(out, line)?,
        }
    }
    Ok(())
}

fn write_line(out: &mut dyn Write, line: &str) -> io::Result<()> {
    let heading = line.trim_start_matches('#');
    let level = line.len() - heading.len();
    if (1..=6).contains(&level) && heading.starts_with(' ') {
        return writeln!(out, "{BOLD}{}{BOLD:#}", heading.trim_start());
    }
    let mut rest = line;
    while let Some((before, style, inside, after)) = next_span(rest) {
        write!(out, "{before}{style}{inside}{style:#}")?;
        rest = after;
    }
    writeln!(out, "{rest}")
}

/// The first `code` or **strong** words: the text before, their style, the words, and the text after.
fn next_span(text: &str) -> Option<(&str, Style, &str, &str)> {
    let (at, mark, style) = match (text.find('`'), text.find("**")) {
        (Some(code), Some(strong)) if strong < code => (strong, "**", BOLD),
        (None, Some(strong)) => (strong, "**", BOLD),
        (Some(code), _) => (code, "`", CODE),
        (None, None) => return None,
    };
    let inside = text.get(at + mark.len()..)?;
    let end = inside.find(mark)?;
    if end == 0 {
        return None;
    }
    Some((&text[..at], style, &inside[..end], &inside[end + mark.len()..]))
}
