//! Checks the address of an allowed host: it must be on the public internet, not on this machine or a local network.
//!
//! The owner of a name chooses its address, and that owner may be hostile. So the shim checks every address before it
//! dials. It refuses this machine, its local networks and a cloud's own services.
//!
//! Two ranges depend on the machine. A TUN proxy answers every name from `198.18.0.0/15`, and some VPNs from
//! `100.64.0.0/10`. They are allowed only if the machine reaches the address through a tunnel.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Why the shim does not dial an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ForbiddenAddress {
    #[error("it is this machine itself")]
    Loopback,
    #[error("it is an address of this machine")]
    Own,
    #[error("it is in a private network")]
    Private,
    #[error("it is a link-local address, where clouds have their metadata service")]
    LinkLocal,
    #[error(
        "it is in a provider's own network and not behind a tunnel; see `tun` in the profile's [network]"
    )]
    SharedSpace,
    #[error("it is a cloud's own service")]
    CloudService,
    #[error("it is a multicast address")]
    Multicast,
    #[error(
        "it is reserved for network tests and not behind a tunnel; see `tun` in the profile's [network]"
    )]
    Benchmark,
    #[error("it is reserved and belongs to no host")]
    Reserved,
    #[error("it contains another address")]
    Disguised,
}

/// Checks an address that a name resolved to. `own` has the addresses of this machine's interfaces. `is_tunnelled` says
/// whether the machine reaches an address through a tunnel. It is asked only about the ranges that tunnels use.
pub fn check_address(
    address: IpAddr,
    own: &[IpAddr],
    is_tunnelled: impl Fn(Ipv4Addr) -> bool,
) -> Result<(), ForbiddenAddress> {
    match address {
        IpAddr::V4(address) => match check_v4(address) {
            Err(ForbiddenAddress::SharedSpace | ForbiddenAddress::Benchmark)
                if is_tunnelled(address) => {}
            checked => checked?,
        },
        IpAddr::V6(address) => check_v6(address, own)?,
    }
    if own.contains(&address) { Err(ForbiddenAddress::Own) } else { Ok(()) }
}

/// Azure's machine agent. Its address looks public.
const AZURE_WIRE_SERVER: Ipv4Addr = Ipv4Addr::new(168, 63, 129, 16);

fn check_v4(address: Ipv4Addr) -> Result<(), ForbiddenAddress> {
    let found = match address.octets() {
        [127, ..] => ForbiddenAddress::Loopback,
        [10, ..] | [192, 168, ..] | [172, 16..=31, ..] => ForbiddenAddress::Private,
        [169, 254, ..] => ForbiddenAddress::LinkLocal,
        [100, 64..=127, ..] => ForbiddenAddress::SharedSpace,
        [198, 18..=19, ..] => ForbiddenAddress::Benchmark,
        // Addresses for protocols and a retired transition scheme, not for hosts.
        [0, ..] | [192, 0, 0, _] | [192, 88, 99, _] | [240..=255, ..] => ForbiddenAddress::Reserved,
        [224..=239, ..] => ForbiddenAddress::Multicast,
        _ if address == AZURE_WIRE_SERVER => ForbiddenAddress::CloudService,
        _ => return Ok(()),
    };
    Err(found)
}

fn check_v6(address: Ipv6Addr, own: &[IpAddr]) -> Result<(), ForbiddenAddress> {
    let found = match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 1] => ForbiddenAddress::Loopback,
        // `::`, and the three ways to write an IPv4 address as IPv6. Kernels still connect to the IPv4 address for one
        // of them.
        [0, 0, 0, 0, ..] => ForbiddenAddress::Disguised,
        // NAT64, which networks without IPv4 need. Check the IPv4 address in it.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            let [a, b] = high.to_be_bytes();
            let [c, d] = low.to_be_bytes();
            return check_address(Ipv4Addr::new(a, b, c, d).into(), own, |_| false)
                .map_err(|_| ForbiddenAddress::Disguised);
        }
        [0xfc00..=0xfdff, ..] | [0xfec0..=0xfeff, ..] => ForbiddenAddress::Private,
        [0xfe80..=0xfebf, ..] => ForbiddenAddress::LinkLocal,
        [0xff00..=0xffff, ..] => ForbiddenAddress::Multicast,
        // 6to4 and Teredo addresses contain an IPv4 address.
        [0x2002, ..] | [0x2001, 0, ..] => ForbiddenAddress::Disguised,
        // Only this eighth of the address space is for hosts.
        [0x2000..=0x3fff, ..] => return Ok(()),
        _ => ForbiddenAddress::Reserved,
    };
    Err(found)
}

#[cfg(test)]
#[path = "address_guard_tests.rs"]
mod tests;
