//! Go's settings: the module proxies, the checksum database, and the names of private modules.

use std::collections::BTreeMap;

use run_protocol::AllowedHost;

use super::address::{Address, is_name};

/// The settings that name modules, not hosts.
const NAMES: [&str; 3] = ["GOPRIVATE", "GONOPROXY", "GONOSUMDB"];

/// Go's settings by name, without credentials.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) variables: BTreeMap<String, String>,
    pub(super) hosts: Vec<AllowedHost>,
}

/// Reads the text of Go's `env` file.
pub(super) fn parse(text: &str) -> Settings {
    of_pairs(text.lines().filter_map(|line| line.trim().split_once('=')))
}

/// Takes the settings among these variables.
pub(super) fn of_pairs<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Settings {
    let mut settings = Settings::default();
    for (name, value) in pairs {
        match name {
            "GOPROXY" => {
                let (list, hosts) = proxies(value);
                settings.hosts.extend(hosts);
                if !list.is_empty() {
                    settings.variables.insert(name.to_owned(), list);
                }
            }
            "GOSUMDB" if is_name(value, "-._") => {
                settings.hosts.extend(value.parse().ok().filter(|_| value != "off"));
                settings.variables.insert(name.to_owned(), value.to_owned());
            }
            _ if NAMES.contains(&name) && is_name(value, "-._/*,") => {
                settings.variables.insert(name.to_owned(), value.to_owned());
            }
            _ => {}
        }
    }
    settings
}

/// `https://a,https://b|direct`, without the entries that cannot be used inside.
fn proxies(list: &str) -> (String, Vec<AllowedHost>) {
    let (mut kept, mut hosts) = (String::new(), Vec::new());
    for entry in list.split_inclusive([',', '|']) {
        let word = entry.trim_end_matches([',', '|']).trim();
        let address = Address::parse(word);
        let text = match (&address, word) {
            (Some(address), _) => address.to_string(),
            (None, "direct" | "off") => word.to_owned(),
            (None, _) => continue,
        };
        hosts.extend(address.iter().filter_map(Address::host).cloned());
        kept.push_str(&text);
        kept.push_str(if entry.ends_with('|') { "|" } else { "," });
    }
    (kept.trim_end_matches([',', '|']).to_owned(), hosts)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn proxies_lose_their_credentials_and_keep_their_order() {
        let text = "GOPROXY=https://ada:s3cret@go.example.org|file:///srv/mod,direct\nGOPRIVATE=*.corp.example.org,git.example.org/team\n\
            GOSUMDB=sum.example.org\nGOFLAGS=-mod=mod\nGOAUTH=s3cret\n";
        let found = parse(text);
        let of = |name: &str| found.variables.get(name).map(String::as_str);
        assert_eq!(of("GOPROXY"), Some("https://go.example.org|direct"));
        assert_eq!(of("GOPRIVATE"), Some("*.corp.example.org,git.example.org/team"));
        assert_eq!(found.variables.len(), 3);
        let hosts: Vec<String> = found.hosts.iter().map(ToString::to_string).collect();
        assert_eq!(hosts, ["go.example.org", "sum.example.org"]);
        assert_eq!(parse("GOPROXY=off\nGOSUMDB=off").hosts, []);
    }
}
