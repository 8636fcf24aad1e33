use pretty_assertions::assert_eq;

use super::*;

fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
    texts.iter().map(|text| SocketAddr::new(text.parse().unwrap(), 443)).collect()
}

#[test]
fn if_a_name_has_several_addresses_only_public_ones_are_dialled() {
    let found = addresses(&["127.0.0.1", "203.0.113.10", "10.0.0.1", "2606:4700::1"]);
    let expected = addresses(&["203.0.113.10", "2606:4700::1"]);
    assert_eq!(checked(found, &[], |_| false), Ok(expected));
}

#[test]
fn a_name_that_leads_to_us_or_our_neighbours_is_refused_with_the_reason() {
    let refused = checked(addresses(&["169.254.169.254"]), &[], |_| true).unwrap_err();
    assert_eq!(refused.reason, NetRefusal::ForbiddenAddress);
    assert!(
        refused
            .detail
            .unwrap()
            .starts_with("it resolves to 169.254.169.254: it is a link-local address")
    );
    let own: IpAddr = "203.0.113.10".parse().unwrap();
    let refused = checked(addresses(&["203.0.113.10"]), &[own], |_| true).unwrap_err();
    assert_eq!(refused.reason, NetRefusal::ForbiddenAddress);
}

#[test]
fn a_name_that_leads_nowhere_is_not_resolved() {
    assert_eq!(checked(Vec::new(), &[], |_| true).unwrap_err().reason, NetRefusal::Unresolved);
}

#[test]
fn this_machine_knows_its_own_addresses() {
    let own = own_addresses().unwrap();
    assert!(own.contains(&"127.0.0.1".parse().unwrap()), "{own:?}");
}
