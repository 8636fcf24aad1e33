//! Checks that a prompt is UTF-8 text, not blank and not too long. Works piece by piece, so that a long prompt need not
//! fit in memory.

/// The longest prompt in bytes, on the command line and in the API. No model reads that much.
pub const LONGEST_PROMPT: u64 = 64 << 20;

/// Why some bytes are not a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PromptProblem {
    #[error("the prompt is longer than {} MiB", LONGEST_PROMPT >> 20)]
    TooLong,
    #[error("the prompt is empty")]
    Empty,
    #[error("the prompt has a NUL character, at byte {at}")]
    /// No program can get such text as an argument.
    Nul { at: u64 },
    #[error("the prompt is not UTF-8, from byte {at}")]
    NotUtf8 { at: u64 },
}

/// Checks a prompt that arrives in pieces.
#[derive(Debug, Default)]
pub struct PromptCheck {
    /// The length of the pieces so far.
    length: u64,
    /// The first bytes of a character that continues in the next piece.
    begun: Vec<u8>,
    has_text: bool,
}

impl PromptCheck {
    /// Checks a whole prompt.
    pub fn whole(prompt: &[u8]) -> Result<(), PromptProblem> {
        let mut check = Self::default();
        check.piece(prompt)?;
        check.finish()
    }

    /// Checks the next piece. After an error, the prompt must not be used.
    pub fn piece(&mut self, piece: &[u8]) -> Result<(), PromptProblem> {
        let begins_at = self.length;
        self.length = self.length.saturating_add(piece.len() as u64);
        if self.length > LONGEST_PROMPT {
            return Err(PromptProblem::TooLong);
        }
        if let Some(at) = piece.iter().position(|byte| *byte == 0) {
            return Err(PromptProblem::Nul { at: begins_at + at as u64 });
        }
        self.has_text |= !piece.trim_ascii().is_empty();
        let mut rest = piece;
        // A character has at most four bytes, so this ends soon.
        while let (false, Some((next, behind))) = (self.begun.is_empty(), rest.split_first()) {
            self.begun.push(*next);
            rest = behind;
            let at = begins_at + (piece.len() - rest.len()) as u64 - self.begun.len() as u64;
            match std::str::from_utf8(&self.begun) {
                Ok(_) => self.begun.clear(),
                Err(error) if error.error_len().is_some() => {
                    return Err(PromptProblem::NotUtf8 { at });
                }
                Err(_) => {}
            }
        }
        if let Err(error) = std::str::from_utf8(rest) {
            let (valid, begun) = rest.split_at(error.valid_up_to());
            if error.error_len().is_some() {
                let before = (piece.len() - rest.len() + valid.len()) as u64;
                return Err(PromptProblem::NotUtf8 { at: begins_at + before });
            }
            self.begun = begun.to_vec();
        }
        Ok(())
    }

    /// Checks that the pieces together are a prompt.
    pub fn finish(self) -> Result<(), PromptProblem> {
        if !self.begun.is_empty() {
            let at = self.length - self.begun.len() as u64;
            return Err(PromptProblem::NotUtf8 { at });
        }
        if self.has_text { Ok(()) } else { Err(PromptProblem::Empty) }
    }
}

#[cfg(test)]
#[path = "prompt_tests.rs"]
mod tests;
