use proptest::prelude::*;

use super::*;

#[test]
fn real_host_names_are_accepted() {
    for name in [
        "api2.cursor.sh",
        "agentn.us-east.api5.cursor.sh",
        "r3---sn-4g5e6nez.example.org",
        "xn--bcher-kva.example",
        "1password.com",
        "a.b",
    ] {
        assert_eq!(HostName::read(name.as_bytes()).unwrap().as_str(), name);
    }
}

#[test]
fn an_invalid_name_is_refused_with_the_reason() {
    let long_label = format!("{}.example", "a".repeat(64));
    let long_name = format!("{}example", "abcdefg.".repeat(40));
    let cases: &[(&[u8], HostNameError)] = &[
        (b"", HostNameError::Empty),
        (b"attacker.test\0.cursor.sh", HostNameError::Byte(0)),
        (b"api2.cursor.sh\r\nX: y", HostNameError::Byte(b'\r')),
        (b"api2.cursor.sh\n", HostNameError::Byte(b'\n')),
        (b"api2\x01.cursor.sh", HostNameError::Byte(1)),
        (b"api2.cursor.sh\x7f", HostNameError::Byte(0x7f)),
        (b"api2.cursor.sh.", HostNameError::TrailingDot),
        (b".cursor.sh", HostNameError::EmptyLabel),
        (b"api2..cursor.sh", HostNameError::EmptyLabel),
        (b"API2.cursor.sh", HostNameError::UpperCase),
        (b"user@api2.cursor.sh", HostNameError::Byte(b'@')),
        (b"api2.cursor.sh%00", HostNameError::Byte(b'%')),
        (b"api2.cursor.sh#evil.test", HostNameError::Byte(b'#')),
        (b"api2.cursor.sh/", HostNameError::Byte(b'/')),
        (b"api2.cursor.sh\\", HostNameError::Byte(b'\\')),
        (b"api2 .cursor.sh", HostNameError::Byte(b' ')),
        (b"my_host.cursor.sh", HostNameError::Byte(b'_')),
        ("bücher.example".as_bytes(), HostNameError::NotAscii),
        ("аpi2.cursor.sh".as_bytes(), HostNameError::NotAscii),
        (b"127.0.0.1", HostNameError::Address),
        (b"2130706433", HostNameError::Address),
        (b"0x7f.1", HostNameError::Address),
        (b"0x7f000001", HostNameError::Address),
        (b"0177.0.0.01", HostNameError::Address),
        (b"127.1", HostNameError::Address),
        (b"169.254.169.254", HostNameError::Address),
        (b"api2.cursor.sh.1", HostNameError::Address),
        (b"::1", HostNameError::Address),
        (b"[::1]", HostNameError::Address),
        (b"localhost", HostNameError::OneLabel),
        (b"-a.example", HostNameError::Dash),
        (b"a-.example", HostNameError::Dash),
        (long_label.as_bytes(), HostNameError::LongLabel),
        (long_name.as_bytes(), HostNameError::TooLong),
    ];
    for (bytes, expected) in cases {
        let shown = String::from_utf8_lossy(bytes);
        assert_eq!(HostName::read(bytes), Err(*expected), "{shown}");
    }
}

#[test]
fn below_means_strictly_below() {
    let name = |text: &str| text.parse::<HostName>().unwrap();
    let parent = name("cursor.sh");
    assert!(name("api2.cursor.sh").is_below(&parent));
    assert!(name("a.b.cursor.sh").is_below(&parent));
    assert!(!parent.is_below(&parent));
    assert!(!name("evilcursor.sh").is_below(&parent));
    assert!(!name("cursor.sh.evil.test").is_below(&parent));
}

proptest! {
    #[test]
    fn an_accepted_name_is_written_back_byte_for_byte(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(name) = HostName::read(&bytes) {
            prop_assert_eq!(name.as_str().as_bytes(), bytes.as_slice());
            prop_assert!(bytes.iter().all(|byte| is_plain(*byte)));
            prop_assert!(name.as_str().parse::<std::net::IpAddr>().is_err());
        }
    }

    #[test]
    fn every_plain_name_is_accepted(labels in proptest::collection::vec("[a-z][a-z0-9]{0,20}", 2..6)) {
        let text = labels.join(".");
        prop_assert!(HostName::read(text.as_bytes()).is_ok());
    }

    #[test]
    fn no_ip_address_is_accepted_as_a_name(address in any::<std::net::Ipv4Addr>()) {
        let number = u32::from(address);
        for text in [address.to_string(), number.to_string(), format!("{number:#x}"), format!("{number:#010x}")] {
            prop_assert!(HostName::read(text.as_bytes()).is_err(), "{}", text);
        }
    }
}
