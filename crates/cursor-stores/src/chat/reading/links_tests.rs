use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::{BlobId, links};

#[test]
fn links_are_found_between_anything() {
    let (one, two) = (BlobId::of(b"1"), BlobId::of(b"2"));
    let bytes = [
        b"\xff\x0a".as_slice(),
        b"\x0a\x20",
        one.as_bytes(),
        b"junk",
        b"\x12\x20",
        two.as_bytes(),
        b"\x0a\x20short",
    ]
    .concat();
    assert_eq!(links(&bytes).collect::<Vec<_>>(), [one, two]);
}

proptest! {
    #[test]
    fn no_bytes_make_it_fail(bytes: Vec<u8>) {
        links(&bytes).count();
    }
}
