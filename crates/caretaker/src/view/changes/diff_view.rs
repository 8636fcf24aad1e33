//! Prints a patch with colours, and without control characters.

use std::io::{self, Write};

use admission::words::safe_text::{on_lines, on_one_line};
use admission::words::units::counted;
use anstyle::{AnsiColor, Style};

use crate::view::styled_line::{BAD, BOLD, GOOD, PLAIN};

const HUNK: Style = AnsiColor::Cyan.on_default();

pub(crate) fn print_patch(out: &mut dyn Write, patch: &[u8]) -> io::Result<()> {
    // Inside a hunk, a line that looks like a header is content.
    let mut left = (0, 0);
    for line in patch.split_inclusive(|byte| *byte == b'\n') {
        let text = String::from_utf8_lossy(line);
        let text = text.strip_suffix('\n').unwrap_or(&text);
        let style = match text.as_bytes().first() {
            Some(b'+') if left.1 > 0 => {
                left.1 -= 1;
                GOOD
            }
            Some(b'-') if left.0 > 0 => {
                left.0 -= 1;
                BAD
            }
            Some(b' ') if left.0 > 0 && left.1 > 0 => {
                left = (left.0 - 1, left.1 - 1);
                PLAIN
            }
            Some(b'@') => {
                left = hunk_lengths(text).unwrap_or_default();
                HUNK
            }
            Some(b'\\') => PLAIN,
            _ => BOLD,
        };
        writeln!(out, "{style}{}{style:#}", on_lines(text))?;
    }
    Ok(())
}

/// Prints hunks without file headers, each line after `margin`, and counts the omitted lines.
pub(crate) fn print_hunks(
    out: &mut dyn Write,
    hunks: &str,
    margin: &str,
    most_lines: usize,
) -> io::Result<()> {
    let n_lines = hunks.lines().count();
    for line in hunks.lines().take(most_lines) {
        let style = match line.as_bytes().first() {
            Some(b'+') => GOOD,
            Some(b'-') => BAD,
            Some(b'@') => HUNK,
            _ => PLAIN,
        };
        writeln!(out, "{margin}{style}{}{style:#}", on_one_line(line))?;
    }
    if n_lines > most_lines {
        let n_more = (n_lines - most_lines) as u64;
        writeln!(out, "{margin}… {}", counted(n_more, "more line", "more lines"))?;
    }
    Ok(())
}

pub(crate) fn print_plain(out: &mut dyn Write, text: &[u8]) -> io::Result<()> {
    write!(out, "{}", on_lines(&String::from_utf8_lossy(text)))
}

/// `@@ -1,3 +1,4 @@`: the number of lines on each side.
fn hunk_lengths(header: &str) -> Option<(u64, u64)> {
    let mut words = header.split(' ').skip(1);
    let length = |word: &str| match word.split_once(',') {
        Some((_, length)) => length.parse().ok(),
        None => Some(1),
    };
    Some((length(words.next()?)?, length(words.next()?)?))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn hunks_follow_the_margin_and_omitted_lines_are_counted() {
        let mut out = Vec::new();
        print_hunks(&mut out, "@@ -1,1 +1,2 @@\n-a\n+\x1b[2Jb\n+c\n", "  ", 3).unwrap();
        let shown = String::from_utf8(out).unwrap();
        assert!(shown.contains(&format!("  {GOOD}+␛[2Jb{GOOD:#}\n")), "{shown:?}");
        let plain = anstream::adapter::strip_str(&shown).to_string();
        assert_eq!(plain, "  @@ -1,1 +1,2 @@\n  -a\n  +␛[2Jb\n  … 1 more line\n");
    }

    #[test]
    fn a_patch_is_coloured_by_line_and_cannot_control_the_terminal() {
        let patch = b"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@ f\n a\n--- old\n+\x1b[2J\xff\n\\ No newline\n";
        let mut out = Vec::new();
        print_patch(&mut out, patch).unwrap();
        let shown = String::from_utf8(out).unwrap();
        let good = format!("{GOOD}+␛[2J\u{fffd}{GOOD:#}\n");
        assert!(shown.contains(&good), "{shown:?}");
        assert!(shown.contains(&format!("{BAD}--- old{BAD:#}\n")), "{shown:?}");
        assert!(shown.contains(&format!("{BOLD}--- a/x{BOLD:#}\n")), "{shown:?}");
        let plain = anstream::adapter::strip_str(&shown).to_string();
        assert_eq!(plain.lines().count(), 8);
    }
}
