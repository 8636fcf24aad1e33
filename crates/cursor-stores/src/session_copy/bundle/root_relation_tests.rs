use pretty_assertions::assert_eq;

use super::*;
use crate::chat::resume::ancestry::tests::state;

fn progress(prompt: &[u8], archives: &[u8], archived: &[u8]) -> Progress {
    Progress { ancestry: state(prompt, archives, archived), ..Progress::default() }
}

#[test]
fn messages_are_added_and_compactions_archive_them() {
    use RootRelation::*;
    let plain = |prompt: &[u8]| progress(prompt, &[], &[]);
    for (first, second, expected) in [
        (plain(&[1, 2]), plain(&[1, 2, 3]), Extends),
        (plain(&[1, 2, 3]), plain(&[1, 2]), IsExtended),
        (plain(&[1, 2, 3]), plain(&[1, 2, 4]), Diverged),
        (plain(&[1, 2]), plain(&[1, 2]), Same),
        (plain(&[1, 2, 3, 4]), progress(&[1, 9], &[7], &[2, 3, 4]), Extends),
        (plain(&[1, 2, 3, 4]), progress(&[1, 9], &[7], &[2, 3]), Diverged),
        (progress(&[1, 9], &[7], &[2, 3, 4]), plain(&[1, 2, 3, 4]), IsExtended),
        (progress(&[1, 9], &[7], &[2]), progress(&[1, 8, 3], &[6], &[2]), Diverged),
        (progress(&[1, 9], &[7], &[2]), progress(&[1, 9, 3], &[7], &[2]), Extends),
    ] {
        assert_eq!(RootRelation::of(&first, &second), expected, "{first:?} {second:?}");
    }
}

#[test]
fn a_checkpoint_with_a_pending_message_extends_one_without() {
    let without = progress(&[1, 2], &[], &[]);
    let with = Progress { n_pending_bytes: 2, ..without.clone() };
    assert_eq!(RootRelation::of(&without, &with), RootRelation::Extends);
    assert_eq!(RootRelation::of(&with, &without), RootRelation::IsExtended);
}
