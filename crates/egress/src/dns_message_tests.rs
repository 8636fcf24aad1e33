use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;

fn query(labels: &[&[u8]], kind: u16) -> Vec<u8> {
    let mut message = vec![0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in labels {
        message.push(u8::try_from(label.len()).unwrap());
        message.extend_from_slice(label);
    }
    message.push(0);
    message.extend_from_slice(&kind.to_be_bytes());
    message.extend_from_slice(&CLASS_IN.to_be_bytes());
    message
}

#[test]
fn a_known_name_leads_to_us() {
    let message = query(&[b"api2", b"cursor", b"sh"], 1);
    let read = DnsQuery::read(&message).unwrap();
    assert_eq!(read.name.as_ref().unwrap().as_str(), "api2.cursor.sh");
    let answer = read.answer(DnsReply::Known);
    assert_eq!(answer[..4], [0xab, 0xcd, 0x81, 0x80]);
    assert_eq!(answer[4..12], [0, 1, 0, 1, 0, 0, 0, 0]);
    assert_eq!(answer[12..message.len()], message[12..]);
    let expected = [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 1];
    assert_eq!(answer[message.len()..], expected);
}

#[test]
fn other_queries_for_a_known_name_get_an_empty_answer() {
    for kind in [28, 65, 16, 255] {
        let message = query(&[b"api2", b"cursor", b"sh"], kind);
        let answer = DnsQuery::read(&message).unwrap().answer(DnsReply::Known);
        assert_eq!(answer[2..8], [0x81, 0x80, 0, 1, 0, 0]);
        assert_eq!(answer.len(), message.len());
    }
}

#[test]
fn an_unknown_name_does_not_exist() {
    let message = query(&[b"secret", b"evil", b"test"], 1);
    let answer = DnsQuery::read(&message).unwrap().answer(DnsReply::Unknown);
    assert_eq!(answer[2..8], [0x81, 0x83, 0, 1, 0, 0]);
    assert_eq!(answer.len(), message.len());
}

#[test]
fn options_after_the_question_are_ignored() {
    let mut message = query(&[b"api2", b"cursor", b"sh"], 1);
    message[11] = 1;
    message.extend_from_slice(&[0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0]);
    let read = DnsQuery::read(&message).unwrap();
    assert_eq!(read.answer(DnsReply::Known)[10..12], [0, 0]);
}

#[test]
fn smuggled_names_are_refused() {
    let cases: [&[&[u8]]; 8] = [
        &[b"evil.test\0", b"cursor", b"sh"],
        &[b"api2.cursor", b"sh"],
        &[b"API2", b"cursor", b"sh"],
        &[b"api2\n", b"cursor", b"sh"],
        &[b"127", b"0", b"0", b"1"],
        &[b"user@api2", b"cursor", b"sh"],
        &["bücher".as_bytes(), b"example"],
        &[],
    ];
    for labels in cases {
        let read = DnsQuery::read(&query(labels, 1)).unwrap();
        assert!(read.name.is_err(), "{labels:?}");
    }
}

#[test]
fn a_message_that_is_not_exactly_one_question_gets_no_answer() {
    let good = query(&[b"api2", b"cursor", b"sh"], 1);
    let changed = |at: usize, value: u8| {
        let mut message = good.clone();
        message[at] = value;
        message
    };
    let pointer = [&good[..12], &[0xc0, 12, 0, 1, 0, 1]].concat();
    let long = query(&[b"abcdefghij".as_slice(); 30], 1);
    let cases = [
        ("an answer", changed(2, 0x81)),
        ("another operation", changed(2, 0x29)),
        ("a cut message", changed(2, 0x03)),
        ("no question", changed(5, 0)),
        ("two questions", changed(5, 2)),
        ("with an answer", changed(7, 1)),
        ("another class", changed(good.len() - 1, 3)),
        ("a pointer", pointer),
        ("a name that is too long", long),
        ("empty", Vec::new()),
        ("cut", good[..good.len() - 1].to_vec()),
    ];
    for (what, message) in cases {
        assert_eq!(DnsQuery::read(&message), None, "{what}");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        if let Some(query) = DnsQuery::read(&bytes) {
            query.answer(DnsReply::Known);
        }
    }

    #[test]
    fn an_answer_is_never_read_as_a_question(labels in proptest::collection::vec("[a-z]{1,20}", 1..5)) {
        let labels: Vec<&[u8]> = labels.iter().map(String::as_bytes).collect();
        let query = DnsQuery::read(&query(&labels, 1)).unwrap();
        prop_assert_eq!(DnsQuery::read(&query.answer(DnsReply::Known)), None);
        prop_assert_eq!(DnsQuery::read(&query.answer(DnsReply::Unknown)), None);
    }
}
