use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;

fn complete(host: &str, port: u16, length: usize) -> Result<HeadState, ConnectError> {
    let target = ConnectTarget { host: host.parse().unwrap(), port };
    Ok(HeadState::Complete { target, length })
}

#[test]
fn requests_from_curl_and_requests_with_no_or_odd_headers_are_read() {
    let heads = [
        "CONNECT api2.cursor.sh:443 HTTP/1.1\r\nHost: api2.cursor.sh:443\r\nUser-Agent: curl/7.88.1\r\nProxy-Connection: Keep-Alive\r\n\r\n",
        "CONNECT api2.cursor.sh:443 HTTP/1.0\r\n\r\n",
        "CONNECT api2.cursor.sh:443 HTTP/1.1\r\nHost:\r\nX-Odd: \tü\r\n\r\n",
    ];
    for head in heads {
        assert_eq!(read_head(head.as_bytes()), complete("api2.cursor.sh", 443, head.len()));
        let mut followed = head.as_bytes().to_vec();
        followed.extend_from_slice(b"\x16\x03\x01\r\n\r\n");
        assert_eq!(read_head(&followed), complete("api2.cursor.sh", 443, head.len()));
        for length in 0..head.len() {
            assert_eq!(read_head(&head.as_bytes()[..length]), Ok(HeadState::Incomplete));
        }
    }
}

#[test]
fn other_methods_are_refused_and_the_error_names_the_host_if_it_can() {
    let of = |head: &str| read_head(format!("{head}\r\n\r\n").as_bytes());
    let method = |method: &str, host: Option<&str>| {
        let (method, host) = (method.to_owned(), host.map(|host| host.parse().unwrap()));
        Err(ConnectError::Method { method, host })
    };
    assert_eq!(of("GET http://api2.cursor.sh/x HTTP/1.1"), method("GET", Some("api2.cursor.sh")));
    assert_eq!(of("GET http://169.254.169.254/latest HTTP/1.1"), method("GET", None));
    assert_eq!(of("POST / HTTP/1.1"), method("POST", None));
    assert_eq!(of("connect api2.cursor.sh:443 HTTP/1.1"), method("connect", None));
}

#[test]
fn malformed_requests_are_refused() {
    let cases: [&[u8]; 13] = [
        b"CONNECT api2.cursor.sh:443\r\n\r\n",
        b"CONNECT  api2.cursor.sh:443 HTTP/1.1\r\n\r\n",
        b"CONNECT api2.cursor.sh:443 HTTP/2\r\n\r\n",
        b"CONNECT api2.cursor.sh:443 HTTP/1.1 x\r\n\r\n",
        b"CONNECT\tapi2.cursor.sh:443 HTTP/1.1\r\n\r\n",
        b"CONNECT api2.cursor.sh:443 HTTP/1.1\nHost: x\r\n\r\n",
        b"CONNECT api2.cursor.sh:443 HTTP/1.1\r\nHost x\r\n\r\n",
        b"CONNECT api2.cursor.sh:443 HTTP/1.1\r\n folded: x\r\n\r\n",
        b"CONNECT api2.cursor.sh:443 HTTP/1.1\r\nHost: a\0b\r\n\r\n",
        b"CONNECT api2.cursor.sh:443 HTTP/1.1\r\nHost: a\rb\r\n\r\n",
        b"CONNECT api2.cursor.sh:443 HTTP/1.1\r\n: x\r\n\r\n",
        b"\r\n\r\n",
        b"\x16\x03\x01\r\n\r\n",
    ];
    for head in cases {
        let shown = String::from_utf8_lossy(head);
        assert_eq!(read_head(head), Err(ConnectError::Malformed), "{shown}");
    }
}

#[test]
fn smuggled_names_and_odd_ports_are_refused() {
    let refused = |authority: &[u8]| {
        read_head(&[b"CONNECT ", authority, b" HTTP/1.1\r\n\r\n"].concat()).unwrap_err()
    };
    let names: [&[u8]; 14] = [
        b"evil.test\0.cursor.sh:443",
        b"api2.cursor.sh\x01:443",
        b"api2.cursor.sh.:443",
        b"API2.cursor.sh:443",
        b"user@api2.cursor.sh:443",
        b"api2.cursor.sh%00:443",
        b"api2.cursor.sh#x:443",
        b"127.0.0.1:443",
        b"2130706433:443",
        b"0x7f.1:443",
        b"[::1]:443",
        b"::1:443",
        "bücher.example:443".as_bytes(),
        b":443",
    ];
    for authority in names {
        let refused = refused(authority);
        assert!(matches!(refused, ConnectError::Name { .. }), "{refused:?}");
    }
    for port in ["", "0", "65536", "+443", "0443", "443x", "99999999999999999999"] {
        let refused = refused(format!("api2.cursor.sh:{port}").as_bytes());
        assert!(matches!(refused, ConnectError::Port { .. }), "{refused:?}");
    }
    assert!(matches!(refused(b"api2.cursor.sh"), ConnectError::Port { .. }));
}

#[test]
fn an_endless_head_is_refused_at_the_limit() {
    let mut head = b"CONNECT api2.cursor.sh:443 HTTP/1.1\r\nX: ".to_vec();
    head.resize(LONGEST_HEAD - 1, b'x');
    assert_eq!(read_head(&head), Ok(HeadState::Incomplete));
    head.push(b'x');
    assert_eq!(read_head(&head), Err(ConnectError::TooLong));
    head.extend_from_slice(b"\r\n\r\n");
    assert_eq!(read_head(&head), Err(ConnectError::TooLong));
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        read_head(&bytes).ok();
        read_head(&[bytes.as_slice(), b"\r\n\r\n"].concat()).ok();
    }

    #[test]
    fn every_complete_target_is_a_name_and_a_port(authority in "[ -~]{1,40}") {
        let head = format!("CONNECT {authority} HTTP/1.1\r\n\r\n");
        if let Ok(HeadState::Complete { target, .. }) = read_head(head.as_bytes()) {
            prop_assert_eq!(format!("{}:{}", target.host, target.port), authority);
        }
    }
}
