//! The width of a line, and text that fits into it.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::surroundings::Audience;

/// The width of one line of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Width {
    /// For a file or a pipe: lines are never cut.
    Unlimited,
    Columns(usize),
}

impl Width {
    /// The width of stdout's terminal; no limit without a terminal.
    pub(crate) fn of_stdout() -> Self {
        match (Audience::of_stdout(), terminal_size::terminal_size()) {
            (Audience::Person, Some((terminal_size::Width(columns), _))) if columns > 0 => {
                Self::Columns(columns.into())
            }
            _ => Self::Unlimited,
        }
    }

    /// The width that remains after some columns.
    pub(crate) fn minus(self, columns: usize) -> Self {
        match self {
            Self::Unlimited => Self::Unlimited,
            Self::Columns(width) => Self::Columns(width.saturating_sub(columns)),
        }
    }

    pub(crate) fn at_least(self, columns: usize) -> Self {
        match self {
            Self::Unlimited => Self::Unlimited,
            Self::Columns(width) => Self::Columns(width.max(columns)),
        }
    }
}

/// The number of columns that `text` takes up on a terminal.
pub(crate) fn columns(text: &str) -> usize {
    text.width()
}

/// The text, or its beginning and a `…` if it does not fit.
pub(crate) fn fitted(text: &str, width: Width) -> String {
    let Width::Columns(width) = width else { return text.to_owned() };
    if columns(text) <= width {
        return text.to_owned();
    }
    let mut room = width.saturating_sub(1);
    let mut fitted = String::new();
    for character in text.chars() {
        let needed = character.width().unwrap_or(0);
        if needed > room {
            break;
        }
        room -= needed;
        fitted.push(character);
    }
    // A character may widen the one before it: `*` with an emoji selector takes two columns.
    while columns(&fitted) + 1 > width && fitted.pop().is_some() {}
    if width > 0 {
        fitted.push('…');
    }
    fitted
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn text_is_cut_at_the_width_of_the_line() {
        for (text, width, expected) in [
            ("plain", 5, "plain"),
            ("plain", 4, "pla…"),
            ("plain", 1, "…"),
            ("plain", 0, ""),
            ("日本語", 6, "日本語"),
            ("日本語", 5, "日本…"),
            ("日本語", 4, "日…"),
            ("*\u{fe0f}®¡", 2, "*…"),
        ] {
            assert_eq!(fitted(text, Width::Columns(width)), expected, "{text} in {width}");
        }
        assert_eq!(fitted("plain", Width::Unlimited), "plain");
    }

    proptest! {
        #[test]
        fn nothing_is_ever_wider_than_its_room(text in "\\PC{0,40}", width in 0usize..30) {
            prop_assert!(columns(&fitted(&text, Width::Columns(width))) <= width);
        }
    }
}
