//! The little of regular expressions that the grep tool understands.
//!
//! Understood: `a|b` alternatives, `.*` between literal pieces, `^` and `$` at the ends, `\` before a character that is
//! meant literally. Everything else, brackets and single dots included, stands for itself.

/// A pattern to look for in lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LinePattern {
    alternatives: Vec<Alternative>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Alternative {
    /// In this order, with anything between them.
    pieces: Vec<String>,
    at_start: bool,
    at_end: bool,
}

impl LinePattern {
    pub(super) fn parse(pattern: &str) -> Self {
        let mut alternatives = Vec::new();
        let mut current = Alternative::default();
        let mut piece = String::new();
        let mut characters = pattern.chars().peekable();
        let mut is_first = true;
        while let Some(character) = characters.next() {
            match character {
                '^' if is_first => current.at_start = true,
                '$' if matches!(characters.peek(), None | Some('|')) => current.at_end = true,
                '.' if characters.peek() == Some(&'*') => {
                    characters.next();
                    current.pieces.push(std::mem::take(&mut piece));
                }
                '|' => {
                    current.pieces.push(std::mem::take(&mut piece));
                    alternatives.push(std::mem::take(&mut current));
                }
                '\\' => piece.extend(characters.next()),
                literal => piece.push(literal),
            }
            is_first = character == '|';
        }
        current.pieces.push(piece);
        alternatives.push(current);
        Self { alternatives }
    }

    pub(super) fn matches(&self, line: &str) -> bool {
        self.alternatives.iter().any(|alternative| alternative.matches(line))
    }
}

impl Alternative {
    fn matches(&self, line: &str) -> bool {
        let [first, middle @ .., last] = self.pieces.as_slice() else {
            let piece = self.pieces.first().map_or("", String::as_str);
            return match (self.at_start, self.at_end) {
                (true, true) => line == piece,
                (true, false) => line.starts_with(piece),
                (false, true) => line.ends_with(piece),
                (false, false) => line.contains(piece),
            };
        };
        let after_first =
            if self.at_start { line.strip_prefix(first.as_str()) } else { after(line, first) };
        let rest = middle.iter().fold(after_first, |rest, piece| after(rest?, piece));
        rest.is_some_and(|rest| {
            if self.at_end { rest.ends_with(last.as_str()) } else { rest.contains(last.as_str()) }
        })
    }
}

/// Returns what follows the first occurrence.
fn after<'a>(text: &'a str, piece: &str) -> Option<&'a str> {
    text.find(piece).map(|at| &text[at + piece.len()..])
}

#[cfg(test)]
#[path = "patterns_tests.rs"]
mod tests;
