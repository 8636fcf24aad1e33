use proptest::prelude::*;
use sha2::{Digest, Sha256};

use super::*;

/// A `RawLine` that owns its bytes, so that tests can collect and compare lines.
#[derive(Debug, Clone, PartialEq)]
enum Kept {
    Whole(Vec<u8>),
    Unterminated(Vec<u8>),
    Oversized { head: Vec<u8>, length: u64, sha256: [u8; 32] },
}

impl From<RawLine<'_>> for Kept {
    fn from(line: RawLine<'_>) -> Self {
        match line {
            RawLine::Whole(bytes) => Self::Whole(bytes.to_vec()),
            RawLine::Unterminated(bytes) => Self::Unterminated(bytes.to_vec()),
            RawLine::Oversized { head, length, sha256 } => {
                Self::Oversized { head: head.to_vec(), length, sha256 }
            }
        }
    }
}

fn split<'a>(ceiling: usize, chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<Kept> {
    let mut splitter = LineSplitter::with_ceiling(ceiling);
    let mut lines = Vec::new();
    for chunk in chunks {
        splitter.feed(chunk, |line| lines.push(Kept::from(line)));
    }
    splitter.finish(|line| lines.push(Kept::from(line)));
    lines
}

#[test]
fn empty_lines_are_lines() {
    let lines = split(100, [b"\n\na\n".as_slice()]);
    let expected: [&[u8]; 3] = [b"", b"", b"a"];
    assert_eq!(lines, expected.map(|line| Kept::Whole(line.to_vec())));
}

#[test]
fn a_line_without_a_line_feed_is_handed_on_at_the_end_and_marked() {
    assert_eq!(
        split(100, [b"a\nb".as_slice()]),
        [Kept::Whole(b"a".to_vec()), Kept::Unterminated(b"b".to_vec())]
    );
}

#[test]
fn a_line_over_the_ceiling_keeps_its_head_length_and_hash_and_the_next_line_is_read() {
    let long = vec![b'x'; 1000];
    let mut stream = long.clone();
    stream.extend_from_slice(b"\nnext\n");
    let sha256: [u8; 32] = Sha256::digest(&long).into();
    for chunk_size in [1, 7, 100, 5000] {
        assert_eq!(
            split(100, stream.chunks(chunk_size)),
            [
                Kept::Oversized { head: vec![b'x'; 100], length: 1000, sha256 },
                Kept::Whole(b"next".to_vec())
            ],
        );
    }
}

#[test]
fn memory_stays_at_the_ceiling_for_a_line_that_never_ends_and_is_given_back_after_it() {
    let mut splitter = LineSplitter::with_ceiling(1 << 20);
    let chunk = vec![b'x'; 1 << 16];
    for _ in 0..200 {
        splitter.feed(&chunk, |_| panic!("no line has ended"));
        assert!(splitter.carry.capacity() <= 2 << 20);
    }
    splitter
        .feed(b"\n", |line| assert!(matches!(line, RawLine::Oversized { length: 13_107_200, .. })));
    assert!(splitter.carry.capacity() <= HEAD_OF_OVERSIZED);
}

proptest! {
    #[test]
    fn where_the_pipe_cuts_does_not_matter(
        stream in proptest::collection::vec(prop_oneof![3 => any::<u8>(), 1 => Just(b'\n')], 0..400),
        cuts in proptest::collection::vec(0usize..400, 0..20),
        ceiling in 1usize..60,
    ) {
        let whole = split(ceiling, [stream.as_slice()]);
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(stream.len())).collect();
        cuts.sort_unstable();
        let mut chunks = Vec::new();
        let mut start = 0;
        for cut in cuts {
            chunks.push(&stream[start..cut]);
            start = cut;
        }
        chunks.push(&stream[start..]);
        prop_assert_eq!(split(ceiling, chunks), whole);
    }

    #[test]
    fn every_line_comes_out_once_and_in_order(
        stream in proptest::collection::vec(prop_oneof![3 => any::<u8>(), 1 => Just(b'\n')], 0..400),
        ceiling in 1usize..60,
    ) {
        let mut expected: Vec<&[u8]> = stream.split(|byte| *byte == b'\n').collect();
        let unterminated = expected.pop().filter(|rest| !rest.is_empty());
        let lines = split(ceiling, stream.chunks(13));
        prop_assert_eq!(lines.len(), expected.len() + usize::from(unterminated.is_some()));
        for (line, bytes) in lines.iter().zip(expected.into_iter().chain(unterminated)) {
            match line {
                Kept::Whole(kept) | Kept::Unterminated(kept) => prop_assert_eq!(kept, bytes),
                Kept::Oversized { head, length, sha256 } => {
                    prop_assert!(bytes.len() > ceiling);
                    prop_assert_eq!(*length, bytes.len() as u64);
                    prop_assert!(bytes.starts_with(head));
                    let digest: [u8; 32] = Sha256::digest(bytes).into();
                    prop_assert_eq!(*sha256, digest);
                }
            }
        }
    }
}
