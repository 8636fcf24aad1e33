//! Words for a run's attempts to use the network.

use admission::words::safe_text::on_one_line;
use admission::words::units;
use egress::{AllowedHost, HTTPS_PORT};
use run_protocol::{NetRefusal, NetVia};

/// The host, with its port unless that is 443: `packages.example.org`, `git.example.org:22`.
pub(crate) fn place(host: Option<&str>, port: Option<u16>) -> String {
    let host = host.map_or("(no host)".to_owned(), |host| on_one_line(host).into_owned());
    match port {
        Some(HTTPS_PORT) | None => host,
        Some(port) => format!("{host}:{port}"),
    }
}

/// The reason, as it follows "refused:".
pub(crate) fn refusal(reason: NetRefusal, detail: Option<&str>) -> String {
    let words = match reason {
        NetRefusal::NotListed => "not on the allow-list",
        NetRefusal::RegistryNotListed => "one of your registries, not on the allow-list",
        NetRefusal::PortNotListed => "the allow-list has this host, but not this port",
        NetRefusal::BadName => "not a valid host name",
        NetRefusal::NoName => "the connection names no host",
        NetRefusal::BadRequest => "wrong protocol",
        NetRefusal::PlainHttp => "plain HTTP is not allowed, only CONNECT",
        NetRefusal::ForbiddenAddress => "the address is private or reserved",
        NetRefusal::Unresolved => "the name cannot be resolved",
        NetRefusal::Unreachable => "the host does not answer",
        NetRefusal::TooManyConnections => "too many connections at once",
        NetRefusal::TooMuchData => "the run has used up its traffic limit",
        NetRefusal::TooSlow => "the first message took too long",
    };
    match detail {
        Some(detail) => format!("{words} ({})", on_one_line(detail)),
        None => words.to_owned(),
    }
}

pub(crate) fn via(via: NetVia) -> &'static str {
    match via {
        NetVia::Dns => "name",
        NetVia::Tls => "tls",
        NetVia::Connect => "connect",
    }
}

/// The host of the agent's self-updates. An agent cannot update itself inside, so a refusal is no news.
const UPDATES: &str = "downloads.cursor.com";

/// Returns true if a refusal is of no interest to the user. `net-log` lists it anyway.
pub(crate) fn is_quiet(host: Option<&str>, reason: NetRefusal) -> bool {
    host == Some(UPDATES) && reason == NetRefusal::NotListed
}

/// ` ×3`; empty for one attempt.
pub(crate) fn times(count: u64) -> String {
    if count > 1 { format!(" ×{}", units::grouped(count)) } else { String::new() }
}

/// The flag that would have allowed the attempt.
pub(crate) fn flag(host: Option<&str>, port: Option<u16>, reason: NetRefusal) -> Option<String> {
    if reason == NetRefusal::RegistryNotListed {
        return Some("--registries".to_owned());
    }
    let (NetRefusal::NotListed | NetRefusal::PortNotListed, Some(host)) = (reason, host) else {
        return None;
    };
    let port = port.map_or(String::new(), |port| format!(":{port}"));
    // The agent chose the name, so suggest it only if the flag accepts it.
    let entry: AllowedHost = format!("{host}{port}").parse().ok()?;
    Some(format!("--allow-host {entry}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_is_proposed_only_where_it_would_help() {
        let not_listed = NetRefusal::NotListed;
        let of = |host, port, reason| flag(Some(host), port, reason);
        let expected = Some("--allow-host registry.example.org".to_owned());
        assert_eq!(of("registry.example.org", None, not_listed), expected);
        assert_eq!(of("registry.example.org", Some(443), not_listed), expected);
        assert_eq!(
            of("git.example.org", Some(22), NetRefusal::PortNotListed),
            Some("--allow-host git.example.org:22".to_owned())
        );
        let registry = of("registry.example.org", None, NetRefusal::RegistryNotListed);
        assert_eq!(registry, Some("--registries".to_owned()));
        assert_eq!(of("a b", None, not_listed), None);
        assert_eq!(of("*.example.org", None, NetRefusal::BadName), None);
        assert_eq!(of("registry.example.org", None, NetRefusal::ForbiddenAddress), None);
        assert_eq!(flag(None, None, not_listed), None);
    }

    #[test]
    fn only_the_refused_self_update_is_quiet() {
        let not_listed = NetRefusal::NotListed;
        assert!(is_quiet(Some("downloads.cursor.com"), not_listed));
        for (host, reason) in [
            (Some("downloads.cursor.com"), NetRefusal::Unreachable),
            (Some("evil.downloads.cursor.com"), not_listed),
            (Some("api2.cursor.sh"), not_listed),
            (None, not_listed),
        ] {
            assert!(!is_quiet(host, reason), "{host:?} {reason:?}");
        }
    }

    #[test]
    fn a_place_is_shown_without_the_https_port_and_without_control_characters() {
        assert_eq!(place(Some("a.example"), Some(443)), "a.example");
        assert_eq!(place(Some("a.example"), Some(22)), "a.example:22");
        assert_eq!(place(None, None), "(no host)");
        assert!(!place(Some("evil\u{1b}[2J"), None).contains('\u{1b}'));
    }
}
