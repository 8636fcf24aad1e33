use pretty_assertions::assert_eq;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

#[test]
fn a_prompt_must_be_utf8_without_nul_and_not_blank() {
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
fn a_prompt_of_the_greatest_length_is_accepted_and_one_byte_more_is_refused() {
    let mut check = PromptCheck::default();
    let mebibyte = vec![b'x'; 1 << 20];
    for _ in 0..LONGEST_PROMPT >> 20 {
        check.piece(&mebibyte).unwrap();
    }
    assert_eq!(check.piece(b"x"), Err(PromptProblem::TooLong));
}

/// Text, and now and then bytes that are not UTF-8.
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
        // `whole` checks for one problem and then for the other, so it may report the later one.
        prop_assert_eq!(in_pieces.is_ok(), PromptCheck::whole(&prompt).is_ok());
        let is_prompt = std::str::from_utf8(&prompt)
            .is_ok_and(|text| !text.contains('\0') && !text.bytes().all(|byte| byte.is_ascii_whitespace()));
        prop_assert_eq!(in_pieces.is_ok(), is_prompt);
    }
}
