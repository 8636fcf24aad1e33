//! One line of styled pieces, cut to the width of the terminal.

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};

use super::width::{Width, columns, fitted};

pub(crate) const PLAIN: Style = Style::new();
pub(crate) const DIM: Style = Style::new().dimmed();
pub(crate) const BOLD: Style = Style::new().bold();
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
pub(crate) const BAD: Style = AnsiColor::Red.on_default();
pub(crate) const ODD: Style = AnsiColor::Yellow.on_default();

/// Consecutive pieces of text, already passed through `safe_text`.
pub(crate) type Pieces<'a> = &'a [(Style, &'a str)];

/// Writes the pieces and a line feed. A `…` replaces text that does not fit.
pub(crate) fn write_line(out: &mut dyn Write, pieces: Pieces<'_>, width: Width) -> io::Result<()> {
    let mut room = width;
    for (style, text) in pieces {
        let shown = fitted(text, room);
        write!(out, "{style}{shown}{style:#}")?;
        if shown.len() < text.len() {
            break;
        }
        room = room.minus(columns(&shown));
    }
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(pieces: Pieces<'_>, width: Width) -> String {
        let mut out = Vec::new();
        write_line(&mut out, pieces, width).unwrap();
        anstream::adapter::strip_str(std::str::from_utf8(&out).unwrap()).to_string()
    }

    #[test]
    fn a_line_of_several_pieces_is_cut_only_once() {
        let pieces = [(GOOD, "✓ shell"), (PLAIN, " cargo test"), (DIM, " · 4.2 s")];
        assert_eq!(written(&pieces, Width::Unlimited), "✓ shell cargo test · 4.2 s\n");
        assert_eq!(written(&pieces, Width::Columns(26)), "✓ shell cargo test · 4.2 s\n");
        assert_eq!(written(&pieces, Width::Columns(20)), "✓ shell cargo test …\n");
        assert_eq!(written(&pieces, Width::Columns(7)), "✓ shell\n");
        assert_eq!(written(&pieces, Width::Columns(3)), "✓ …\n");
    }
}
