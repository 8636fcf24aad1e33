use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;

fn list(entries: &[&str]) -> AllowList {
    entries.iter().map(|entry| entry.parse::<AllowedHost>().unwrap()).collect()
}

fn name(text: &str) -> HostName {
    text.parse().unwrap()
}

#[test]
fn an_exact_name_allows_itself_at_the_https_port_alone() {
    let list = list(&["api.example.org"]);
    assert_eq!(list.decide(&name("api.example.org"), 443), Listed::Yes);
    assert_eq!(list.decide(&name("api.example.org"), 22), Listed::AtOtherPorts);
    for other in ["example.org", "a.api.example.org", "evilapi.example.org", "api.example.org.test"]
    {
        assert_eq!(list.decide(&name(other), 443), Listed::No, "{other}");
    }
}

#[test]
fn a_star_allows_subdomains_and_not_the_name_itself() {
    let list = list(&["*.cursor.sh"]);
    assert_eq!(list.decide(&name("api2.cursor.sh"), 443), Listed::Yes);
    assert_eq!(list.decide(&name("a.b.cursor.sh"), 443), Listed::Yes);
    assert_eq!(list.decide(&name("cursor.sh"), 443), Listed::No);
    assert_eq!(list.decide(&name("evilcursor.sh"), 443), Listed::No);
}

#[test]
fn an_entry_allows_only_its_own_port_or_443_if_it_names_none() {
    let list = list(&["git.example.org:22", "git.example.org", "only.example.org:8443"]);
    assert_eq!(list.decide(&name("git.example.org"), 22), Listed::Yes);
    assert_eq!(list.decide(&name("git.example.org"), 443), Listed::Yes);
    assert_eq!(list.decide(&name("only.example.org"), 443), Listed::AtOtherPorts);
    assert!(list.knows(&name("only.example.org")));
    assert!(!list.knows(&name("other.example.org")));
}

#[test]
fn an_empty_list_allows_nothing() {
    assert_eq!(AllowList::default().decide(&name("api2.cursor.sh"), 443), Listed::No);
}

#[test]
fn an_invalid_entry_is_refused_with_the_reason() {
    let cases = [
        ("https://api.example.org/v1", "write only the host: `api.example.org`"),
        ("*", "the network mode `host`"),
        ("api.*.org", "only be the first label"),
        ("*api.example.org", "only be the first label"),
        ("*.*.example.org", "only be the first label"),
        ("api.example.org:0", "a port from 1 to 65535"),
        ("api.example.org:65536", "a port from 1 to 65535"),
        ("api.example.org:+443", "a port from 1 to 65535"),
        ("api.example.org:0443", "a port from 1 to 65535"),
        ("api.example.org:", "a port from 1 to 65535"),
        ("10.0.0.1", "it is an address, not a name"),
        ("::1", "it is an address, not a name"),
        ("[::1]:443", "it is an address, not a name"),
        ("bücher.example", "begins with `xn--`"),
        ("*.com", "it has no dot"),
        ("localhost", "it has no dot"),
        ("API.example.org", "upper-case"),
        ("api.example.org.", "ends in a dot"),
        ("a b.example", "a byte that is not allowed in a name"),
        ("", "it is empty"),
    ];
    for (text, expected) in cases {
        let error = text.parse::<AllowedHost>().unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn an_entry_is_written_as_it_was_read() {
    for text in ["api.example.org", "*.example.org", "git.example.org:22", "*.example.org:8443"] {
        assert_eq!(text.parse::<AllowedHost>().unwrap().to_string(), text);
    }
    assert_eq!("a.example.org:443".parse::<AllowedHost>().unwrap().to_string(), "a.example.org");
}

proptest! {
    #[test]
    fn no_text_makes_it_panic_and_an_entry_survives_printing_and_parsing(text in "\\PC{0,40}") {
        if let Ok(entry) = text.parse::<AllowedHost>() {
            prop_assert_eq!(entry.to_string().parse::<AllowedHost>().unwrap(), entry);
        }
    }

    #[test]
    fn a_name_is_a_subdomain_only_if_the_suffix_starts_at_a_dot(prefix in "[a-z0-9.-]{1,20}") {
        let list = list(&["*.cursor.sh"]);
        let text = format!("{prefix}cursor.sh");
        if let Ok(name) = text.parse::<HostName>() {
            let expected = if prefix.ends_with('.') { Listed::Yes } else { Listed::No };
            prop_assert_eq!(list.decide(&name, 443), expected);
        }
    }
}

#[test]
fn an_entry_covers_what_is_within_it_and_nothing_else() {
    let covers = |one: &str, other: &str| {
        let one: AllowedHost = one.parse().unwrap();
        one.covers(&other.parse().unwrap())
    };
    for (one, other) in [
        ("a.example", "a.example"),
        ("*.example.org", "a.example.org"),
        ("*.example.org", "*.example.org"),
        ("*.example.org", "*.b.example.org"),
        ("a.example:8443", "a.example:8443"),
    ] {
        assert!(covers(one, other), "{one} {other}");
    }
    for (one, other) in [
        ("a.example", "b.example"),
        ("a.example", "a.example:8443"),
        ("a.example.org", "*.example.org"),
        ("*.b.example.org", "*.example.org"),
        ("*.example.org", "example.org"),
        ("*.example.org", "*.badexample.org"),
    ] {
        assert!(!covers(one, other), "{one} {other}");
    }
}
