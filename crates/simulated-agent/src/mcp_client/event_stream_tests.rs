use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;

fn messages(pieces: &[&[u8]]) -> Vec<String> {
    let mut stream = EventStream::default();
    let messages = pieces.iter().flat_map(|piece| stream.push(piece)).collect::<Vec<_>>();
    messages.into_iter().map(|message| String::from_utf8(message).unwrap()).collect()
}

#[test]
fn a_message_is_its_data_lines_and_ends_with_an_empty_line() {
    let text = "\u{feff}data: {\n: comment\nid: 7\ndata:}\n\nevent: other\ndata: no\n\n\
                event: message\r\ndata:  two\r\n\r\n\ndata\n\ndata: unfinished";
    assert_eq!(messages(&[text.as_bytes()]), ["{\n}", " two", ""]);
}

proptest! {
    #[test]
    fn how_the_bytes_arrive_does_not_matter(
        text in "(data|event|id)?:? ?[a-z\u{feff}]{0,3}(\r\n|\n|\r){0,3}((data: [a-z]{0,3}|:)(\r\n|\n|\r)){0,8}",
        cut in 0_usize..64,
    ) {
        let bytes = text.as_bytes();
        let (first, rest) = bytes.split_at(cut.min(bytes.len()));
        let singly: Vec<&[u8]> = bytes.chunks(1).collect();
        prop_assert_eq!(messages(&[first, rest]), messages(&[bytes]));
        prop_assert_eq!(messages(&singly), messages(&[bytes]));
    }

    #[test]
    fn every_sent_message_arrives(sent in proptest::collection::vec("[^\r\n]{0,12}", 0..6), end in "\r\n|\n|\r") {
        let text: String = sent.iter().map(|data| format!("data: {data}{end}{end}")).collect();
        prop_assert_eq!(messages(&[text.as_bytes()]), sent);
    }
}
