use proptest::prelude::*;

use super::*;

pub(crate) fn state(prompt: &[u8], archives: &[u8], archived: &[u8]) -> Ancestry {
    let ids = |bytes: &[u8]| bytes.iter().map(|byte| BlobId::of(&[*byte])).collect();
    Ancestry { prompt: ids(prompt), archives: ids(archives), archived: ids(archived) }
}

#[test]
fn a_summary_continues_a_conversation_only_if_no_message_is_lost() {
    let before = state(&[1, 2, 3], &[], &[]);
    assert!(state(&[3, 9], &[7], &[1, 2]).extends(&before));
    assert!(!state(&[3, 9], &[7], &[1]).extends(&before));
    assert!(!state(&[3, 9], &[], &[]).extends(&before));
    let archived = state(&[3, 9], &[7], &[1, 2]);
    assert!(
        !state(&[9, 3], &[7], &[1, 2]).extends(&archived),
        "a different order is a different conversation"
    );
    assert!(state(&[8], &[7, 6], &[1, 2, 3, 9]).extends(&archived));
}

proptest! {
    #[test]
    fn adding_messages_continues_a_conversation_and_losing_them_does_not(
        prompt in prop::collection::vec(any::<u8>(), 1..20),
        more in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        let before = state(&prompt, &[], &[]);
        prop_assert!(state(&[prompt.clone(), more].concat(), &[], &[]).extends(&before));
        prop_assert!(!state(&prompt[..prompt.len() - 1], &[], &[]).extends(&before));
    }
}
