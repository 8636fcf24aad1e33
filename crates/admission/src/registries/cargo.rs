//! cargo's settings: `[source.*]`, `[registries.*]` and the `config.json` of an index.

use serde::Deserialize;
use toml::{Table, Value};

use super::address::{Address, is_name};

/// The sections that name registries, and their addresses.
#[derive(Debug, Default)]
pub(super) struct Settings {
    pub(super) table: Table,
    pub(super) addresses: Vec<Address>,
}

/// Reads the text of a `config.toml`.
pub(super) fn parse(text: &str) -> Settings {
    let Ok(config) = text.parse::<Table>() else { return Settings::default() };
    let mut addresses = Vec::new();
    let mut kept = |section: &str, key: &str| -> Table {
        let entries = config.get(section).and_then(Value::as_table).into_iter().flatten();
        let entries =
            entries.filter(|(name, _)| is_name(name, "-_")).filter_map(|(name, entry)| {
                let mut one = Table::new();
                if let Some(address) =
                    entry.get(key).and_then(Value::as_str).and_then(Address::parse)
                {
                    one.insert(key.to_owned(), address.to_string().into());
                    addresses.push(address);
                }
                if let Some(other) = entry.get("replace-with").and_then(Value::as_str) {
                    one.insert("replace-with".to_owned(), other.into());
                }
                (!one.is_empty()).then(|| (name.clone(), one.into()))
            });
        entries.collect()
    };
    let (mut sources, registries) = (kept("source", "registry"), kept("registries", "index"));
    // cargo refuses to work if `replace-with` names a missing source. Sources of other kinds, such as a directory, are
    // not copied here.
    let known: Vec<String> = sources.keys().chain(registries.keys()).cloned().collect();
    for (_, source) in sources.iter_mut() {
        let Some(source) = source.as_table_mut() else { continue };
        let other = source.get("replace-with").and_then(Value::as_str).map(ToOwned::to_owned);
        if other.is_some_and(|other| !known.contains(&other)) {
            source.remove("replace-with");
        }
    }
    sources.retain(|_, source| source.as_table().is_some_and(|source| !source.is_empty()));
    let mut table = Table::new();
    for (name, section) in [("source", sources), ("registries", registries)] {
        if !section.is_empty() {
            table.insert(name.to_owned(), section.into());
        }
    }
    Settings { table, addresses }
}

/// The addresses of an index that cargo has used: the host in the name of its directory, and those in its `config.json`.
pub(super) fn of_index(directory: &str, config: &str) -> Vec<Address> {
    #[derive(Deserialize)]
    struct Config {
        dl: Option<String>,
        api: Option<String>,
    }
    let Ok(Config { dl, api }) = serde_json::from_str(config) else { return Vec::new() };
    let host = directory.rsplit_once('-').map(|(host, _)| format!("https://{host}/"));
    // `dl` may have markers: `https://host/{crate}/{version}`.
    let plain = |text: String| text.split('{').next().map(ToOwned::to_owned);
    let texts = [host, dl.and_then(plain), api];
    texts.into_iter().flatten().filter_map(|text| Address::parse(&text)).collect()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn only_sources_and_registries_are_read_and_without_credentials() {
        let text = "[source.crates-io]\nreplace-with = \"mirror\"\n\
            [source.mirror]\nregistry = \"sparse+https://ada:s3cret@cargo.example.org/index/\"\n\
            [source.vendored]\ndirectory = \"/srv/vendor\"\n\
            [source.other]\nreplace-with = \"vendored\"\n\
            [registries.team]\nindex = \"https://git.example.org/index\"\ntoken = \"s3cret\"\n\
            credential-provider = [\"/opt/helper\"]\n[registry]\ntoken = \"s3cret\"\n\
            [build]\nrustc-wrapper = \"/opt/wrapper\"\n";
        let expected = "[source.crates-io]\nreplace-with = \"mirror\"\n\n\
            [source.mirror]\nregistry = \"sparse+https://cargo.example.org/index/\"\n\n\
            [registries.team]\nindex = \"https://git.example.org/index\"\n";
        assert_eq!(parse(text).table, expected.parse::<Table>().unwrap());
        assert_eq!(parse(text).addresses.len(), 2);
        assert!(parse("not toml [").table.is_empty());
    }

    #[test]
    fn the_configuration_of_an_index_names_the_hosts_of_its_crates_and_its_api() {
        let config = r#"{"dl":"https://crates.example.org/{crate}/{version}","api":"https://cargo.example.org"}"#;
        let found: Vec<String> = of_index("index.example.org-0123456789abcdef", config)
            .iter()
            .filter_map(|address| Some(address.host()?.to_string()))
            .collect();
        assert_eq!(found, ["index.example.org", "crates.example.org", "cargo.example.org"]);
        assert!(of_index("index.example.org-0123456789abcdef", "[]").is_empty());
    }
}
