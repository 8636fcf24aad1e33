//! Which bytes are a prompt: text with something in it, of bounded length. Checked piece by piece, so that nobody has to
//! hold a long one in memory.

/// The longest prompt in bytes, on the command line and in the API. No model reads as much.
pub const LONGEST_PROMPT: u64 = 64 << 20;

/// Says why some bytes are no prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PromptProblem {
    #[error("the prompt is longer than {} MiB", LONGEST_PROMPT >> 20)]
    /// It has more than [`LONGEST_PROMPT`] bytes.
    TooLong,
    #[error("the prompt is empty")]
    /// There is nothing in it but white space.
    Empty,
    #[error("the prompt has a NUL character, at byte {at}")]
    /// No program takes such a text as an argument.
    Nul {
        /// How many bytes stand before it.
        at: u64,
    },
    #[error("the prompt is not UTF-8, from byte {at}")]
    /// It is no text.
    NotUtf8 {
        /// How many bytes of text stand before it.
        at: u64,
    },
}

/// Checks a prompt whose pieces come one after the other.
#[derive(Debug, Default)]
pub struct PromptCheck {
    /// The length of the pieces so far.
    length: u64,
    /// The beginning of a character whose rest is in the next piece.
    begun: Vec<u8>,
    has_text: bool,
}

impl PromptCheck {
    /// Checks a prompt that is there as a whole.
    pub fn whole(prompt: &[u8]) -> Result<(), PromptProblem> {
        let mut check = Self::default();
        check.piece(prompt)?;
        check.finish()
    }

    /// Checks the next piece. Nothing of the prompt may be used after a problem.
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

    /// Says whether the pieces together are a prompt.
    pub fn finish(self) -> Result<(), PromptProblem> {
        if !self.begun.is_empty() {
            let at = self.length - self.begun.len() as u64;
            return Err(PromptProblem::NotUtf8 { at });
        }
        if self.has_text { Ok(()) } else { Err(PromptProblem::Empty) }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_text_with_something_in_it_is_a_prompt() {
        for (prompt, problem) in [
            (&b""[..], PromptProblem::Empty),
            (b" \n\t", PromptProblem::Empty),
            (b"a\0b", PromptProblem::Nul { at: 1 }),
            (b"caf\xe9", PromptProblem::NotUtf8 { at: 3 }),
            (b"caf\xe9s", PromptProblem::NotUtf8 { at: 3 }),
        ] {
            assert_eq!(PromptCheck::whole(prompt), Err(problem), "{prompt:?}");
        }
        assert_eq!(PromptCheck::whole("größer\n".as_bytes()), Ok(()));
    }

    #[test]
    fn the_longest_prompt_is_one_and_a_byte_more_is_too_long() {
        let mut check = PromptCheck::default();
        let mebibyte = vec![b'x'; 1 << 20];
        for _ in 0..LONGEST_PROMPT >> 20 {
            check.piece(&mebibyte).unwrap();
        }
        assert_eq!(check.piece(b"x"), Err(PromptProblem::TooLong));
    }

    /// As pieces of a prompt may be: text, and now and then bytes that are none.
    fn prompts() -> impl Strategy<Value = Vec<u8>> {
        let text = "[a\u{e4}\u{20ac}\u{1f600} \n]{0,8}".prop_map(String::into_bytes);
        let bytes = prop_oneof![8 => text, 1 => vec(any::<u8>(), 0..3)];
        vec(bytes, 0..6).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn however_a_prompt_is_cut_the_verdict_is_the_same(
            prompt in prompts(),
            cuts in vec(0_usize..6, 0..40),
        ) {
            let mut check = PromptCheck::default();
            let mut rest = prompt.as_slice();
            let mut in_pieces = Ok(());
            for cut in cuts {
                let (piece, behind) = rest.split_at(cut.min(rest.len()));
                rest = behind;
                in_pieces = in_pieces.and_then(|()| check.piece(piece));
            }
            let in_pieces = in_pieces.and_then(|()| check.piece(rest)).and_then(|()| check.finish());
            // A whole prompt is looked through for one fault and then for the other, so it may name the later one.
            prop_assert_eq!(in_pieces.is_ok(), PromptCheck::whole(&prompt).is_ok());
            let is_prompt = std::str::from_utf8(&prompt)
                .is_ok_and(|text| !text.contains('\0') && !text.bytes().all(|byte| byte.is_ascii_whitespace()));
            prop_assert_eq!(in_pieces.is_ok(), is_prompt);
        }
    }
}
