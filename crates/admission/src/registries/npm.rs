//! npm's settings: `registry` and `@scope:registry` in `.npmrc`.

use std::collections::BTreeMap;

use super::address::{Address, is_name};
use super::quoted;

/// The registries by key: `registry`, `@scope:registry`.
pub(super) type Settings = BTreeMap<String, Address>;

/// Reads the text of an `.npmrc`.
pub(super) fn parse(text: &str) -> Settings {
    let lines = text.lines().map(str::trim).take_while(|line| !line.starts_with('['));
    let pairs = lines.filter(|line| !line.starts_with([';', '#'])).filter_map(|line| {
        let (key, value) = line.split_once('=')?;
        let key = key.trim().trim_matches('"');
        let scope = key.strip_prefix('@').and_then(|key| key.strip_suffix(":registry"));
        let is_ours = key == "registry" || scope.is_some_and(|scope| is_name(scope, "-._~"));
        let address = Address::parse(value.trim().trim_matches(['"', '\'']))?;
        is_ours.then(|| (key.to_owned(), address))
    });
    pairs.collect()
}

/// The text of an `.npmrc` with only these settings.
pub(super) fn file(settings: &Settings) -> String {
    settings.iter().map(|(key, address)| format!("{key}={address}\n")).collect()
}

/// The registry that npm uses without any setting, from the list of settings in npm's own program.
pub(super) fn built_in(definitions: &str) -> Option<Address> {
    let (_, definition) = definitions.split_once("('registry',")?;
    quoted(definition).take(2).find_map(Address::parse)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn only_registries_are_read() {
        let text = "; mine\nregistry = \"https://ada:s3cret@npm.example.org/a/\"\n\
            @team:registry=https://team.example.org/\n//npm.example.org/a/:_authToken=s3cret\n\
            _auth=s3cret\n#registry=https://old.example.org/\nemail=ada@example.org\n";
        let expected =
            "@team:registry=https://team.example.org/\nregistry=https://npm.example.org/a/\n";
        assert_eq!(file(&parse(text)), expected);
    }

    #[test]
    fn npms_default_registry_is_read_from_its_program() {
        let text = "  registry: new Definition('registry', {\n    default: 'https://npm.example.org/',\n    type: url,";
        assert_eq!(built_in(text).unwrap().to_string(), "https://npm.example.org/");
        assert_eq!(built_in("define('proxy', { default: 'https://x.example.org' })"), None);
    }
}
