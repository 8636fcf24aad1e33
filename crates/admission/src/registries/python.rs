//! The settings of pip and uv: the index, and extra indexes.

use toml::{Table, Value};

use super::address::{Address, is_name};
use super::quoted;

/// The index, if one is set, and the extra indexes, each with its name if it has one.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) index: Option<Address>,
    pub(super) more: Vec<(Option<String>, Address)>,
}

impl Settings {
    /// These settings on top of others.
    pub(super) fn over(self, below: Self) -> Self {
        let more = if self.more.is_empty() { below.more } else { self.more };
        Self { index: self.index.or(below.index), more }
    }

    pub(super) fn addresses(&self) -> impl Iterator<Item = &Address> {
        self.index.iter().chain(self.more.iter().map(|(_, address)| address))
    }

    /// The extra indexes, as written in a variable.
    pub(super) fn more_as_words(&self) -> String {
        let word = |(name, address): &(Option<String>, Address)| match name {
            Some(name) => format!("{name}={address}"),
            None => address.to_string(),
        };
        self.more.iter().map(word).collect::<Vec<_>>().join(" ")
    }
}

/// Reads a list of addresses, as written in variables and settings. With uv, an address may have a name:
/// `name=https://…`.
pub(super) fn words(text: &str) -> Vec<(Option<String>, Address)> {
    let read = |word: &str| match word.split_once('=') {
        Some((name, address)) if is_name(name, "-_.") => {
            Some((Some(name.to_owned()), Address::parse(address)?))
        }
        _ => Some((None, Address::parse(word)?)),
    };
    text.split_whitespace().filter_map(read).collect()
}

/// Reads the text of a `pip.conf`.
pub(super) fn pip(text: &str) -> Settings {
    let mut settings = Settings::default();
    let mut key = String::new();
    for line in text.lines() {
        let is_continued = line.starts_with([' ', '\t']);
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';', '[']) {
            continue;
        }
        let value = match line.split_once(['=', ':']) {
            Some((name, value)) if !is_continued => {
                key = name.trim().to_ascii_lowercase().replace('_', "-");
                value
            }
            _ => line,
        };
        match key.as_str() {
            "index-url" => settings.index = Address::parse(value).or(settings.index),
            "extra-index-url" => settings.more.extend(words(value)),
            _ => {}
        }
    }
    settings
}

/// Reads the text of a `uv.toml`.
pub(super) fn uv(text: &str) -> Settings {
    let Ok(config) = text.parse::<Table>() else { return Settings::default() };
    let address = |value: Option<&Value>| value.and_then(Value::as_str).and_then(Address::parse);
    let pip = config.get("pip").and_then(Value::as_table);
    let old = |key: &str| config.get(key).or_else(|| pip.and_then(|pip| pip.get(key)));
    let mut settings = Settings { index: address(old("index-url")), more: Vec::new() };
    let list = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    for index in list(config.get("index")) {
        let Some(found) = address(index.get("url")) else { continue };
        let name = index.get("name").and_then(Value::as_str).filter(|name| is_name(name, "-_."));
        match index.get("default").and_then(Value::as_bool) {
            Some(true) => settings.index = Some(found),
            _ => settings.more.push((name.map(ToOwned::to_owned), found)),
        }
    }
    let extra = list(old("extra-index-url"));
    settings.more.extend(extra.iter().filter_map(|url| Some((None, address(Some(url))?))));
    settings
}

/// The hosts that pip uses without any setting, from pip's own program: the index, and the files.
pub(super) fn built_in(index_py: &str) -> Vec<Address> {
    let call = index_py.split_once("= PackageIndex(").and_then(|(_, rest)| rest.split_once(')'));
    let Some((arguments, _)) = call else { return Vec::new() };
    quoted(arguments)
        .filter_map(|text| {
            Address::parse(text).or_else(|| Address::parse(&format!("https://{text}/")))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn shown(settings: &Settings) -> (String, String) {
        let index = settings.index.as_ref().map(ToString::to_string).unwrap_or_default();
        (index, settings.more_as_words())
    }

    #[test]
    fn pips_file_can_name_extra_indexes_on_continued_lines() {
        let text = "[global]\nindex_url = https://ada:s3cret@pip.example.org/simple\nproxy = http://x:s3cret@y\n\
            extra-index-url =\n    https://one.example.org/simple\n    https://two.example.org/simple\n\
            trusted-host = pip.example.org\n";
        let more = "https://one.example.org/simple https://two.example.org/simple";
        assert_eq!(
            shown(&pip(text)),
            ("https://pip.example.org/simple".to_owned(), more.to_owned())
        );
    }

    #[test]
    fn uvs_file_can_name_its_indexes() {
        let text = "extra-index-url = [\"https://old.example.org/simple\"]\n\
            [[index]]\nname = \"team\"\nurl = \"https://ada:s3cret@team.example.org/simple\"\n\
            [[index]]\nurl = \"https://uv.example.org/simple\"\ndefault = true\n";
        let more = "team=https://team.example.org/simple https://old.example.org/simple";
        assert_eq!(shown(&uv(text)), ("https://uv.example.org/simple".to_owned(), more.to_owned()));
        assert_eq!(words(more), uv(text).more);
    }

    #[test]
    fn pips_default_hosts_are_read_from_its_program() {
        let text = "class PackageIndex:\n    pass\n\n\
            Usual = PackageIndex(\"https://pip.example.org/\", file_storage_domain=\"files.example.org\")\n\
            Test = PackageIndex(\"https://test.example.org/\", file_storage_domain=\"x.example.org\")\n";
        let hosts: Vec<String> =
            built_in(text).iter().map(|address| address.host().unwrap().to_string()).collect();
        assert_eq!(hosts, ["pip.example.org", "files.example.org"]);
    }
}
