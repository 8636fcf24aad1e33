//! Measures from its bytes how deeply JSON is nested, before a decoder recurses into it.

use std::io::{self, Read};

/// The depth of a store's value, plus the few levels that a conversation adds.
pub(super) const MAX_NESTING: usize = 256;

/// The position in a JSON text.
#[derive(Debug, Default)]
struct Nesting {
    depth: usize,
    is_in_string: bool,
    is_escaped: bool,
}

impl Nesting {
    fn step(&mut self, byte: u8) {
        if self.is_in_string {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = true,
                b'"' => self.is_in_string = false,
                _ => {}
            }
        } else {
            match byte {
                b'"' => self.is_in_string = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
    }
}

/// True if these bytes are nested deeper than anything that we write.
pub(super) fn is_too_deep(json: &[u8]) -> bool {
    let mut nesting = Nesting::default();
    json.iter().any(|byte| {
        nesting.step(*byte);
        nesting.depth > MAX_NESTING
    })
}

/// A reader that fails if the JSON is nested too deeply.
pub(super) struct Guarded<R> {
    input: R,
    nesting: Nesting,
}

impl<R> Guarded<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input, nesting: Nesting::default() }
    }
}

impl<R: Read> Read for Guarded<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let n_read = self.input.read(into)?;
        for byte in into.iter().take(n_read) {
            self.nesting.step(*byte);
            if self.nesting.depth > MAX_NESTING {
                let what = format!("values are nested more than {MAX_NESTING} levels deep");
                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
            }
        }
        Ok(n_read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_brackets_outside_of_strings_count() {
        let deep = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n)).into_bytes();
        assert!(!is_too_deep(&deep(MAX_NESTING)));
        assert!(is_too_deep(&deep(MAX_NESTING + 1)));
        let in_string = serde_json::to_vec(&format!("\"\\{}", "[".repeat(1000))).unwrap();
        assert!(!is_too_deep(&in_string));
        assert!(
            Guarded::new(deep(MAX_NESTING + 1).as_slice()).read_to_end(&mut Vec::new()).is_err()
        );
    }
}
