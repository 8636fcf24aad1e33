use proptest::prelude::*;

use super::*;

fn check_if(address: &str, is_tunnelled: bool) -> Result<(), ForbiddenAddress> {
    let own = ["198.51.100.7", "2a00::7", "198.18.0.1", "100.64.0.2"];
    check_address(address.parse().unwrap(), &own.map(|own| own.parse().unwrap()), |_| is_tunnelled)
}

fn check(address: &str) -> Result<(), ForbiddenAddress> {
    check_if(address, false)
}

fn check_without_tunnel(address: IpAddr) -> Result<(), ForbiddenAddress> {
    check_address(address, &[], |_| false)
}

#[test]
fn the_world_outside_may_be_dialled() {
    for address in [
        "1.1.1.1",
        "93.184.215.14",
        "203.0.113.10",
        "172.15.255.255",
        "172.32.0.1",
        "100.63.255.255",
        "100.128.0.1",
        "192.0.1.1",
        "223.255.255.255",
        "2606:4700::1111",
        "2a00::8",
        "64:ff9b::101:101",
    ] {
        assert_eq!(check(address), Ok(()), "{address}");
    }
}

#[test]
fn local_and_reserved_addresses_may_not_be_dialled() {
    let cases = [
        ("127.0.0.1", ForbiddenAddress::Loopback),
        ("127.255.255.254", ForbiddenAddress::Loopback),
        ("::1", ForbiddenAddress::Loopback),
        ("198.51.100.7", ForbiddenAddress::Own),
        ("2a00::7", ForbiddenAddress::Own),
        ("10.1.2.3", ForbiddenAddress::Private),
        ("172.16.0.1", ForbiddenAddress::Private),
        ("172.31.255.255", ForbiddenAddress::Private),
        ("192.168.1.1", ForbiddenAddress::Private),
        ("fd00:ec2::254", ForbiddenAddress::Private),
        ("fc00::1", ForbiddenAddress::Private),
        ("fec0::1", ForbiddenAddress::Private),
        ("169.254.169.254", ForbiddenAddress::LinkLocal),
        ("fe80::1", ForbiddenAddress::LinkLocal),
        ("100.64.0.1", ForbiddenAddress::SharedSpace),
        ("100.100.100.200", ForbiddenAddress::SharedSpace),
        ("168.63.129.16", ForbiddenAddress::CloudService),
        ("224.0.0.1", ForbiddenAddress::Multicast),
        ("ff02::1", ForbiddenAddress::Multicast),
        ("0.0.0.0", ForbiddenAddress::Reserved),
        ("0.1.2.3", ForbiddenAddress::Reserved),
        ("192.0.0.192", ForbiddenAddress::Reserved),
        ("198.18.0.9", ForbiddenAddress::Benchmark),
        ("198.19.255.255", ForbiddenAddress::Benchmark),
        ("255.255.255.255", ForbiddenAddress::Reserved),
        ("4000::1", ForbiddenAddress::Reserved),
        ("64:ff9b:1::a01:203", ForbiddenAddress::Reserved),
        ("::", ForbiddenAddress::Disguised),
        ("::ffff:127.0.0.1", ForbiddenAddress::Disguised),
        ("::ffff:1.1.1.1", ForbiddenAddress::Disguised),
        ("::ffff:0:10.0.0.1", ForbiddenAddress::Disguised),
        ("::10.0.0.1", ForbiddenAddress::Disguised),
        ("64:ff9b::a9fe:a9fe", ForbiddenAddress::Disguised),
        ("64:ff9b::c633:6407", ForbiddenAddress::Disguised),
        ("2002:7f00:1::", ForbiddenAddress::Disguised),
        ("2001:0:4136:e378::", ForbiddenAddress::Disguised),
    ];
    for (address, expected) in cases {
        assert_eq!(check(address), Err(expected), "{address}");
    }
}

#[test]
fn a_tunnel_opens_the_two_ranges_that_tunnels_use_and_nothing_else() {
    for address in ["198.18.0.9", "198.19.255.255", "100.64.0.1", "100.127.255.255"] {
        assert!(check(address).is_err(), "{address}");
        assert_eq!(check_if(address, true), Ok(()), "{address}");
    }
    for (address, expected) in [
        ("198.18.0.1", ForbiddenAddress::Own),
        ("100.64.0.2", ForbiddenAddress::Own),
        ("10.1.2.3", ForbiddenAddress::Private),
        ("192.168.1.1", ForbiddenAddress::Private),
        ("127.0.0.1", ForbiddenAddress::Loopback),
        ("169.254.169.254", ForbiddenAddress::LinkLocal),
        ("192.0.0.192", ForbiddenAddress::Reserved),
        ("::ffff:198.18.0.9", ForbiddenAddress::Disguised),
        ("64:ff9b::c612:9", ForbiddenAddress::Disguised),
        ("fd00::1", ForbiddenAddress::Private),
    ] {
        assert_eq!(check_if(address, true), Err(expected), "{address}");
    }
}

proptest! {
    #[test]
    fn no_ipv4_address_that_std_considers_local_is_dialled(address in any::<Ipv4Addr>()) {
        let is_near = address.is_loopback() || address.is_private() || address.is_link_local()
            || address.is_multicast() || address.is_broadcast() || address.is_unspecified();
        if is_near {
            prop_assert!(check_without_tunnel(address.into()).is_err());
        }
        // A forbidden address stays forbidden inside another address.
        let mapped = IpAddr::from(address.to_ipv6_mapped());
        prop_assert!(check_without_tunnel(mapped).is_err());
        let [a, b, c, d] = address.octets();
        let low = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        let gateway = Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, low.0, low.1);
        prop_assert_eq!(
            check_without_tunnel(gateway.into()).is_ok(),
            check_without_tunnel(address.into()).is_ok()
        );
    }

    #[test]
    fn a_tunnel_opens_no_address_outside_its_two_ranges(address in any::<Ipv4Addr>()) {
        let is_of_tunnels = matches!(address.octets(), [198, 18..=19, ..] | [100, 64..=127, ..]);
        let opened = check_without_tunnel(address.into()).is_err()
            && check_address(address.into(), &[], |_| true).is_ok();
        prop_assert_eq!(opened, is_of_tunnels);
    }

    #[test]
    fn only_global_and_nat64_addresses_of_ipv6_are_dialled(address in any::<Ipv6Addr>()) {
        if check_without_tunnel(address.into()).is_ok() {
            let first = address.segments()[0];
            prop_assert!((0x2000..=0x3fff).contains(&first) || first == 0x64);
        }
    }
}
