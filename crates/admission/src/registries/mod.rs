//! The registries that the user's own tools are set up to use, from the tools' files on the host.
//!
//! ```text
//!   npm, cargo, pip, uv, Go, Maven: settings ─► one pure parser each ─► Registries
//!                                                                         ├── hosts      --registries allows them
//!                                                                         └── files and variables for the private home
//! ```
//!
//! Caches are keyed by the address of their registry, so the tools inside need the same addresses.
//!
//! **Invariant:** no credential leaves a parser. An [`address::Address`] has no user, password or query, and a parser
//! takes only keys that it knows. A secret in an address's path is the exception: it looks like any other path.
//!
//! **Invariant:** no program runs, and no file inside the workspace counts, not even through a link: the agent can
//! write those files.

mod address;
mod cargo;
mod go;
mod lock_files;
mod maven;
mod npm;
mod python;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use run_protocol::AllowedHost;

use self::address::Address;
use crate::host::environment::Environment;

pub(crate) use lock_files::hosts as hosts_in_lock_files;

/// No settings file is larger. npm's own list of settings is a tenth of this size.
const MOST_BYTES: u64 = 1 << 20;
/// The most directory entries to look at.
const MOST_ENTRIES: usize = 64;

/// The user's registries.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Registries {
    /// The hosts that the tools use.
    pub hosts: Vec<AllowedHost>,
    /// Files for the private home: path in the home, text.
    pub home_files: BTreeMap<String, String>,
    /// Variables for the tools that read them.
    pub variables: BTreeMap<String, String>,
}

impl Registries {
    /// Reads the settings of the user's tools on this host.
    pub fn find(environment: &Environment, workspace: &Path) -> Self {
        let host = HostFiles { environment, workspace };
        let mut found = Self::default();
        found.npm(&host);
        found.cargo(&host);
        found.python(&host);
        found.go(&host);
        found.maven(&host);
        found
    }

    /// The variables for a run. If it can reach no registry, Go takes its modules from the cache, which then serves as
    /// its proxy.
    pub(crate) fn variables_if(&self, is_online: bool) -> BTreeMap<String, String> {
        let is_of_cache = |name: &str| matches!(name, "GOPROXY" | "GOSUMDB");
        let variables = self.variables.iter().filter(|(name, _)| is_online || !is_of_cache(name));
        variables.map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    fn npm(&mut self, host: &HostFiles<'_>) {
        let user = host.named("NPM_CONFIG_USERCONFIG").unwrap_or(host.home(".npmrc"));
        let mut settings = npm::Settings::new();
        for file in ["/usr/etc/npmrc".into(), "/etc/npmrc".into(), user] {
            settings.extend(host.read(&file).map(|text| npm::parse(&text)).unwrap_or_default());
        }
        let variable = host.variable("npm_config_registry").and_then(Address::parse);
        settings.extend(variable.map(|address| ("registry".to_owned(), address)));
        if !settings.contains_key("registry") {
            // `npm` is a link to `npm/bin/npm-cli.js`.
            let list = "node_modules/@npmcli/config/lib/definitions/definitions.js";
            let mut texts = host.prefixes("npm").filter_map(|npm| host.read(&npm.join(list)));
            self.add(texts.find_map(|text| npm::built_in(&text)).as_ref());
        }
        self.add(settings.values());
        if !settings.is_empty() {
            self.home_files.insert(".npmrc".to_owned(), npm::file(&settings));
        }
    }

    fn cargo(&mut self, host: &HostFiles<'_>) {
        let home = host.named("CARGO_HOME").unwrap_or(host.home(".cargo"));
        // cargo prefers the older name.
        let text = host.read(&home.join("config")).or_else(|| host.read(&home.join("config.toml")));
        let settings = cargo::parse(&text.unwrap_or_default());
        self.add(&settings.addresses);
        if let (false, Ok(text)) = (settings.table.is_empty(), toml::to_string(&settings.table)) {
            self.home_files.insert(".cargo/config.toml".to_owned(), text);
        }
        for index in entries(&home.join("registry/index")) {
            let name = index.file_name().unwrap_or_default().to_string_lossy();
            let config = host.read(&index.join("config.json")).unwrap_or_default();
            self.add(&cargo::of_index(&name, &config));
        }
    }

    fn python(&mut self, host: &HostFiles<'_>) {
        let layered = |files: Vec<PathBuf>, parse: fn(&str) -> python::Settings| {
            let texts = files.iter().filter_map(|file| host.read(file));
            texts.fold(python::Settings::default(), |below, text| parse(&text).over(below))
        };
        let of_variables = |index: &[&str], more: &[&str]| python::Settings {
            index: index.iter().find_map(|name| host.variable(name).and_then(Address::parse)),
            more: more
                .iter()
                .flat_map(|name| host.variable(name))
                .flat_map(python::words)
                .collect(),
        };
        let mut files =
            vec!["/etc/pip.conf".into(), host.home(".pip/pip.conf"), host.config("pip/pip.conf")];
        files.extend(host.named("PIP_CONFIG_FILE"));
        let pip = of_variables(&["PIP_INDEX_URL"], &["PIP_EXTRA_INDEX_URL"])
            .over(layered(files, python::pip));
        let uv = of_variables(
            &["UV_DEFAULT_INDEX", "UV_INDEX_URL"],
            &["UV_INDEX", "UV_EXTRA_INDEX_URL"],
        )
        .over(layered(vec!["/etc/uv/uv.toml".into(), host.config("uv/uv.toml")], python::uv));
        if pip.index.is_none() {
            self.add(
                &host
                    .packages_of_python()
                    .flat_map(|text| python::built_in(&text))
                    .collect::<Vec<_>>(),
            );
        }
        for (settings, names) in [
            (pip, ["PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"]),
            (uv, ["UV_DEFAULT_INDEX", "UV_INDEX"]),
        ] {
            self.add(settings.addresses());
            let index = settings.index.as_ref().map(ToString::to_string).unwrap_or_default();
            let values =
                names.into_iter().map(ToOwned::to_owned).zip([index, settings.more_as_words()]);
            self.variables.extend(values.filter(|(_, value)| !value.is_empty()));
        }
    }

    fn go(&mut self, host: &HostFiles<'_>) {
        let file = host.named("GOENV").unwrap_or(host.config("go/env"));
        let of_file = go::parse(&host.read(&file).unwrap_or_default());
        let set = go::of_pairs(host.environment.utf8_variables());
        let mut defaults = host.prefixes("go").filter_map(|go| host.read(&go.join("go.env")));
        let own = defaults.next().map(|text| go::parse(&text)).unwrap_or_default();
        let hosts = own.hosts.into_iter().chain(of_file.hosts).chain(set.hosts);
        hosts.for_each(|host| self.add_host(&host));
        self.variables.extend(of_file.variables.into_iter().chain(set.variables));
    }

    fn maven(&mut self, host: &HostFiles<'_>) {
        let text = host.read(&host.home(".m2/settings.xml")).unwrap_or_default();
        let mirrors = maven::parse(&text);
        self.add(mirrors.iter().map(|mirror| &mirror.url));
        if !mirrors.is_empty() {
            self.home_files.insert(".m2/settings.xml".to_owned(), maven::file(&mirrors));
        }
    }

    fn add<'a>(&mut self, addresses: impl IntoIterator<Item = &'a Address>) {
        addresses.into_iter().filter_map(Address::host).for_each(|host| self.add_host(host));
    }

    fn add_host(&mut self, host: &AllowedHost) {
        if !self.hosts.contains(host) {
            self.hosts.push(host.clone());
        }
    }
}

/// The host's files and variables, without those that the agent can write.
struct HostFiles<'a> {
    environment: &'a Environment,
    workspace: &'a Path,
}

impl HostFiles<'_> {
    fn home(&self, path: &str) -> PathBuf {
        self.environment.home.join(path)
    }

    fn config(&self, path: &str) -> PathBuf {
        let set = self.environment.absolute_path("XDG_CONFIG_HOME");
        set.map_or(self.home(".config"), ToOwned::to_owned).join(path)
    }

    /// A path from a variable.
    fn named(&self, variable: &str) -> Option<PathBuf> {
        self.environment.absolute_path(variable).map(ToOwned::to_owned)
    }

    /// A variable. npm ignores case in the names of its own variables.
    fn variable(&self, name: &str) -> Option<&str> {
        let is_it = |found: &str| match name.starts_with("npm_") {
            true => found.eq_ignore_ascii_case(name),
            false => found == name,
        };
        self.environment.utf8_variables().find(|(found, _)| is_it(found)).map(|(_, value)| value)
    }

    /// Reads a plain file. Settings files are often links, so this follows links, but not into the workspace.
    fn read(&self, path: &Path) -> Option<String> {
        let path = fs::canonicalize(path).ok().filter(|path| !path.starts_with(self.workspace))?;
        String::from_utf8(ground::plain_file::read_at_most(&path, MOST_BYTES).ok()?).ok()
    }

    /// The directory above the `bin` of each program with this name on PATH, after following all links.
    fn prefixes(&self, name: &str) -> impl Iterator<Item = PathBuf> {
        let path = self.environment.variable("PATH").unwrap_or_default();
        let directories = std::env::split_paths(path).filter(|directory| directory.is_absolute());
        let files: Vec<_> = directories.map(|directory| directory.join(name)).collect();
        let prefix =
            |file: PathBuf| Some(fs::canonicalize(file).ok()?.parent()?.parent()?.to_owned());
        files.into_iter().filter_map(prefix)
    }

    /// The text of the file with pip's defaults, from the first Python that has pip.
    fn packages_of_python(&self) -> impl Iterator<Item = String> {
        let libraries = self.prefixes("python3").map(|python| python.join("lib"));
        let packages = libraries.flat_map(|library| entries(&library)).filter(|entry| {
            entry.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python3"))
        });
        let files = packages.flat_map(|python| {
            ["dist-packages", "site-packages"].map(|packages| python.join(packages))
        });
        files
            .filter_map(|packages| self.read(&packages.join("pip/_internal/models/index.py")))
            .take(1)
    }
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().take(MOST_ENTRIES);
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    paths
}

/// The quoted parts of the text.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split(['"', '\'', '`']).skip(1).step_by(2)
}

#[cfg(test)]
#[path = "registries_tests.rs"]
mod tests;
