//! Reads git's configuration exactly as git does, and refuses any text that it cannot read that way.
//!
//! The planner has a reader of its own, which skips invalid text. This one decides about text that an agent may have
//! written, so it must never see settings that differ from those that git sees.

/// One setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Setting {
    /// `section.key` or `section.name.key`. Section and key are in lower case.
    pub(super) name: Vec<u8>,
    /// `None` for a key without `=`.
    pub(super) value: Option<Vec<u8>>,
}

/// The text is not a configuration, or different versions of git read it differently.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} is not plain git configuration")]
pub(super) struct Unreadable {
    line: usize,
}

pub(super) fn settings(text: &[u8]) -> Result<Vec<Setting>, Unreadable> {
    let mut reader = Reader { rest: text, line: 1, has_ended: false };
    reader.settings().ok_or(Unreadable { line: reader.line })
}

struct Reader<'a> {
    rest: &'a [u8],
    line: usize,
    has_ended: bool,
}

impl Reader<'_> {
    /// Returns the next byte. The end of the text counts as the end of a line.
    fn next(&mut self) -> u8 {
        let (byte, rest) = match self.rest {
            [b'\r', b'\n', rest @ ..] => (b'\n', rest),
            [byte, rest @ ..] => (*byte, rest),
            [] => {
                self.has_ended = true;
                return b'\n';
            }
        };
        self.rest = rest;
        self.line += usize::from(byte == b'\n');
        byte
    }

    fn settings(&mut self) -> Option<Vec<Setting>> {
        let (mut settings, mut section, mut is_comment) = (Vec::new(), Vec::new(), false);
        loop {
            match self.next() {
                // Git itself cannot show text with a NUL byte.
                0 => return None,
                b'\n' if self.has_ended => return Some(settings),
                b'\n' => is_comment = false,
                _ if is_comment => {}
                byte if is_space(byte) => {}
                b'#' | b';' => is_comment = true,
                b'[' => section = self.section()?,
                byte if byte.is_ascii_alphabetic() && !section.is_empty() => {
                    settings.push(self.setting(&section, byte)?);
                }
                _ => return None,
            }
        }
    }

    /// Reads `section]`, `section.name]` or `section "name"]`.
    fn section(&mut self) -> Option<Vec<u8>> {
        let mut section = Vec::new();
        loop {
            match self.next() {
                b']' | b' ' | b'\t' | b'\r' if section.is_empty() => return None,
                b']' => return Some(section),
                b'\n' => return None,
                byte if is_space(byte) => break,
                byte if is_key(byte) || byte == b'.' => section.push(byte.to_ascii_lowercase()),
                _ => return None,
            }
        }
        let opening = loop {
            match self.next() {
                b'\n' => return None,
                byte if is_space(byte) => {}
                byte => break byte,
            }
        };
        if opening != b'"' {
            return None;
        }
        section.push(b'.');
        loop {
            match self.next() {
                0 | b'\n' => return None,
                b'"' => break,
                b'\\' => match self.next() {
                    0 | b'\n' => return None,
                    byte => section.push(byte),
                },
                byte => section.push(byte),
            }
        }
        (self.next() == b']').then_some(section)
    }

    fn setting(&mut self, section: &[u8], first: u8) -> Option<Setting> {
        let mut name = section.to_vec();
        name.extend([b'.', first.to_ascii_lowercase()]);
        let mut byte = self.next();
        while is_key(byte) {
            name.push(byte.to_ascii_lowercase());
            byte = self.next();
        }
        while matches!(byte, b' ' | b'\t') {
            byte = self.next();
        }
        let value = match byte {
            b'\n' => None,
            b'=' => Some(self.value()?),
            _ => return None,
        };
        Some(Setting { name, value })
    }

    fn value(&mut self) -> Option<Vec<u8>> {
        let (mut value, mut is_quoted, mut is_comment) = (Vec::new(), false, false);
        // White space at the end does not count.
        let mut n_meant = 0;
        loop {
            let byte = self.next();
            match byte {
                0 => return None,
                b'\n' if is_quoted => return None,
                b'\n' => {
                    value.truncate(n_meant);
                    return Some(value);
                }
                _ if is_comment => continue,
                _ if is_space(byte) && !is_quoted => {
                    if !value.is_empty() {
                        value.push(byte);
                    }
                    continue;
                }
                b'#' | b';' if !is_quoted => {
                    is_comment = true;
                    continue;
                }
                _ => {}
            }
            // Older versions of git turn a tab between words into a space.
            if value[n_meant..].iter().any(|space| *space != b' ') {
                return None;
            }
            match byte {
                b'"' => is_quoted = !is_quoted,
                b'\\' => match self.next() {
                    b'\n' => {}
                    b't' => value.push(b'\t'),
                    b'b' => value.push(8),
                    b'n' => value.push(b'\n'),
                    byte @ (b'\\' | b'"') => value.push(byte),
                    _ => return None,
                },
                byte => value.push(byte),
            }
            n_meant = value.len();
        }
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

fn is_key(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}
