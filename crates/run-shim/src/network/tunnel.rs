//! Finds out whether this machine reaches an address through a tunnel: a TUN proxy, or a VPN.
//!
//! It asks the kernel, over netlink, for the route to the address and for the interface of that route. The kernel answers
//! for this process's own network, as it will route the connection.

use std::io;
use std::net::Ipv4Addr;

use nix::libc::{
    AF_INET, ARPHRD_NONE, NLM_F_REQUEST, RTA_DST, RTA_OIF, RTM_GETLINK, RTM_GETROUTE, RTM_NEWLINK,
    RTM_NEWROUTE,
};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with,
};

/// The lengths of the kernel's headers `nlmsghdr`, `rtmsg` and `ifinfomsg`, and of an attribute's header.
const HEADER: usize = 16;
const ROUTE: usize = 12;
const LINK: usize = 16;
const ATTRIBUTE: usize = 4;
/// The attribute of an interface that describes its kind, and the kind in it.
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;
/// The two highest bits of an attribute's number are flags.
const NUMBER: u16 = 0x3fff;
/// The kinds of interface that lead into a tunnel.
const TUNNELS: [&[u8]; 2] = [b"tun", b"wireguard"];

/// Returns whether the machine's route to an address goes through a tunnel. Without an answer from the kernel: no.
pub(super) fn leads_through_tunnel(address: Ipv4Addr) -> bool {
    interface_to(address).and_then(is_tunnel).unwrap_or(false)
}

/// The number of the interface in the route to an address.
fn interface_to(address: Ipv4Addr) -> Option<[u8; 4]> {
    let mut question = [0; ROUTE + ATTRIBUTE + 4];
    question[0] = u8::try_from(AF_INET).ok()?;
    question[1] = 32;
    question[ROUTE..][..2].copy_from_slice(&8u16.to_ne_bytes());
    question[ROUTE + 2..][..2].copy_from_slice(&RTA_DST.to_ne_bytes());
    question[ROUTE + ATTRIBUTE..].copy_from_slice(&address.octets());
    let route = ask(RTM_GETROUTE, &question, RTM_NEWROUTE).ok()?;
    attribute(route.get(ROUTE..)?, RTA_OIF)?.try_into().ok()
}

fn is_tunnel(interface: [u8; 4]) -> Option<bool> {
    let mut question = [0; LINK];
    question[4..8].copy_from_slice(&interface);
    let link = ask(RTM_GETLINK, &question, RTM_NEWLINK).ok()?;
    // A TAP interface has the kind `tun` too, but carries Ethernet, usually to a virtual machine.
    let carries_ip = link.get(2..4)? == ARPHRD_NONE.to_ne_bytes();
    let kind = attribute(attribute(link.get(LINK..)?, IFLA_LINKINFO)?, IFLA_INFO_KIND)?;
    Some(carries_ip && TUNNELS.contains(&kind.strip_suffix(b"\0").unwrap_or(kind)))
}

/// Asks the kernel one question, and returns its answer without the header.
fn ask(kind: u16, question: &[u8], expected: u16) -> io::Result<Vec<u8>> {
    let length = u32::try_from(HEADER + question.len()).map_err(io::Error::other)?;
    let flags = u16::try_from(NLM_F_REQUEST).map_err(io::Error::other)?;
    let mut message = Vec::with_capacity(HEADER + question.len());
    message.extend(length.to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    // A sequence number, and the port of the kernel.
    message.extend([0; 8]);
    message.extend(question);
    // Without a protocol, a netlink socket is for routes.
    let (family, raw) = (AddressFamily::NETLINK, SocketType::RAW);
    let socket = socket_with(family, raw, SocketFlags::CLOEXEC, None)?;
    send(&socket, &message, SendFlags::empty())?;
    // The kernel answers while it takes the question, so this never waits.
    let mut answer = vec![0; 32 * 1024];
    let (length, _) = recv(&socket, &mut answer[..], RecvFlags::DONTWAIT)?;
    answer.truncate(length);
    match answer.get(4..6) {
        Some(kind) if kind == expected.to_ne_bytes() => Ok(answer.split_off(HEADER)),
        _ => Err(io::ErrorKind::NotFound.into()),
    }
}

/// Returns the value of the attribute with this number.
fn attribute(mut bytes: &[u8], number: u16) -> Option<&[u8]> {
    loop {
        let (head, _) = bytes.split_at_checked(ATTRIBUTE)?;
        let length = usize::from(u16::from_ne_bytes([head[0], head[1]]));
        let value = bytes.get(ATTRIBUTE..length)?;
        if u16::from_ne_bytes([head[2], head[3]]) & NUMBER == number {
            return Some(value);
        }
        // Attributes begin at multiples of four.
        bytes = bytes.get(length.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_route_to_the_machine_itself_leads_through_its_loopback_which_is_no_tunnel() {
        let interface = interface_to(Ipv4Addr::LOCALHOST).unwrap();
        assert_eq!(interface, nix::net::if_::if_nametoindex("lo").unwrap().to_ne_bytes());
        assert!(!leads_through_tunnel(Ipv4Addr::LOCALHOST));
    }

    #[test]
    fn an_attribute_is_found_behind_others_and_a_broken_one_is_not() {
        let one = [6, 0, 1, 0, b'a', b'b', 0, 0];
        let two = [5, 0, 2, 0x80, b'c', 0, 0, 0];
        let bytes = [one, two].concat();
        assert_eq!(attribute(&bytes, 1), Some(&b"ab"[..]));
        assert_eq!(attribute(&bytes, 2), Some(&b"c"[..]));
        assert_eq!(attribute(&bytes, 3), None);
        assert_eq!(attribute(&[3, 0, 1, 0], 1), None);
        assert_eq!(attribute(&[0, 0, 1, 0], 2), None);
        assert_eq!(attribute(&[255, 0, 1, 0], 1), None);
    }

    proptest! {
        #[test]
        fn no_answer_makes_the_search_fail_or_hang(bytes in any::<Vec<u8>>(), number in any::<u16>()) {
            attribute(&bytes, number);
        }
    }
}
