use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;

fn vector(width: usize, content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(content.len()).unwrap().to_be_bytes();
    [&length[4 - width..], content].concat()
}

fn extension(kind: u16, content: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes(), vector(2, content).as_slice()].concat()
}

fn names(names: &[&[u8]]) -> Vec<u8> {
    let list: Vec<u8> = names.iter().flat_map(|name| [vec![0], vector(2, name)].concat()).collect();
    extension(0, &vector(2, &list))
}

/// A handshake message with these extensions, and an example of every field before them.
fn hello(extensions: &[u8]) -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend_from_slice(&[7; 32]);
    body.extend(vector(1, &[1; 32]));
    body.extend(vector(2, &[0x13, 0x01, 0x13, 0x02]));
    body.extend(vector(1, &[0]));
    body.extend(vector(2, extensions));
    [vec![1], vector(3, &body)].concat()
}

/// The message in records of at most `size` bytes.
fn records(message: &[u8], size: usize) -> Vec<u8> {
    let record = |part: &[u8]| [vec![22, 3, 1], vector(2, part)].concat();
    message.chunks(size).flat_map(record).collect()
}

/// A client's message with other extensions around the server name.
fn usual(name: &[u8]) -> Vec<u8> {
    let alpn = extension(16, b"\0\x0c\x02h2\x08http/1.1");
    [extension(0x0a0a, b""), alpn, names(&[name]), extension(43, b"\x02\x03\x04")].concat()
}

fn asks(name: &str) -> Result<ClientHello, HelloError> {
    Ok(ClientHello::Asks(name.parse().unwrap()))
}

#[test]
fn the_name_is_read_from_one_record_or_many() {
    let message = hello(&usual(b"api2.cursor.sh"));
    for size in [1, 2, 3, 5, 17, 100, 16_000] {
        assert_eq!(server_name(&records(&message, size)), asks("api2.cursor.sh"), "{size}");
    }
}

#[test]
fn the_server_name_is_known_once_the_hello_is_complete_and_not_before() {
    let whole = records(&hello(&usual(b"api2.cursor.sh")), 50);
    for length in 0..whole.len() {
        match server_name(&whole[..length]) {
            Ok(ClientHello::Incomplete { at_least }) => {
                assert!(at_least > length && at_least <= whole.len(), "{length}: {at_least}");
            }
            other => panic!("{length}: {other:?}"),
        }
    }
    let mut more = whole;
    more.extend_from_slice(b"anything");
    assert_eq!(server_name(&more), asks("api2.cursor.sh"));
}

#[test]
fn a_client_that_names_nobody_or_several_is_refused() {
    let of = |extensions: &[u8]| server_name(&records(&hello(extensions), 16_000));
    assert_eq!(of(&extension(43, b"\x02\x03\x04")), Err(HelloError::NoServerName));
    assert_eq!(of(&names(&[])), Err(HelloError::Malformed));
    assert_eq!(of(&names(&[b"api2.cursor.sh", b"evil.test"])), Err(HelloError::Malformed));
    let twice = [names(&[b"api2.cursor.sh"]), names(&[b"evil.test"])].concat();
    assert_eq!(of(&twice), Err(HelloError::Malformed));
    let mut without = hello(b"");
    without.truncate(without.len() - 2);
    without[3] -= 2;
    assert_eq!(server_name(&records(&without, 16_000)), Err(HelloError::NoServerName));
}

#[test]
fn smuggled_names_are_refused() {
    let cases: [&[u8]; 9] = [
        b"evil.test\0.cursor.sh",
        b"api2.cursor.sh.",
        b"API2.cursor.sh",
        b"api2.cursor.sh\n",
        b"127.0.0.1",
        b"2130706433",
        b"user@api2.cursor.sh",
        "bücher.example".as_bytes(),
        b"",
    ];
    for name in cases {
        let refused = server_name(&records(&hello(&names(&[name])), 16_000));
        assert!(matches!(refused, Err(HelloError::Name { .. })), "{name:?}: {refused:?}");
    }
}

#[test]
fn other_protocols_and_endless_messages_are_refused_at_once() {
    for bytes in
        [b"GET / HTTP/1.1\r\n".as_slice(), b"SSH-2.0-x\r\n", b"\x16\x02\x00\x00\x01\x00", b"\x80"]
    {
        assert_eq!(server_name(bytes), Err(HelloError::NotTls), "{bytes:?}");
    }
    assert_eq!(server_name(b"\x16\x03\x01\x00\x00"), Err(HelloError::Malformed));
    assert_eq!(server_name(b"\x16\x03\x01\x40\x01"), Err(HelloError::TooLong));
    assert_eq!(server_name(b"\x16\x03\x01\x00\x04\x01\x00\xff\xff"), Err(HelloError::TooLong));
    assert_eq!(server_name(b"\x16\x03\x01\x00\x04\x02\x00\x00\x01"), Err(HelloError::Malformed));
    // A very long run of one-byte records.
    let dripping = records(&[vec![1, 0, 0x3f, 0xff], vec![0; 16_000]].concat(), 1);
    let longest = dripping.len().min(LONGEST_HELLO + 100);
    assert_eq!(server_name(&dripping[..longest]), Err(HelloError::TooLong));
}

#[test]
fn the_alert_is_one_fatal_record() {
    assert_eq!(access_denied_alert(), [21, 3, 3, 0, 2, 2, 49]);
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        server_name(&bytes).ok();
        server_name(&records(&bytes, 100)).ok();
    }

    #[test]
    fn no_extensions_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        server_name(&records(&hello(&bytes), 64)).ok();
    }

    #[test]
    fn a_message_with_one_changed_byte_never_asks_for_more_bytes_than_allowed(
        at in 0usize..200, value in any::<u8>()
    ) {
        let mut bytes = records(&hello(&usual(b"api2.cursor.sh")), 64);
        let at = at % bytes.len();
        bytes[at] = value;
        if let Ok(ClientHello::Incomplete { at_least }) = server_name(&bytes) {
            prop_assert!(at_least > bytes.len() && at_least <= LONGEST_HELLO);
        }
    }
}
