//! The hosts that the workspace's lock files name. An agent can write these files, so they allow nothing.

use std::path::Path;

use run_protocol::AllowedHost;

use super::address::Address;

/// The files, and the words that come before an address in them.
const FILES: [(&str, &[&str]); 7] = [
    ("package-lock.json", &["\"resolved\""]),
    ("npm-shrinkwrap.json", &["\"resolved\""]),
    ("yarn.lock", &["resolved "]),
    // cargo names crates.io by an address that it does not connect to, so only `sparse+` sources count.
    ("Cargo.lock", &["source = \"sparse+"]),
    ("uv.lock", &["registry = ", "url = "]),
    ("pylock.toml", &["url = "]),
    ("requirements.txt", &["--index-url", "--extra-index-url", "-i "]),
];
/// No real project's lock file is larger.
const MOST_BYTES: u64 = 32 << 20;
/// The most bytes between such a word and its address.
const NEAR: usize = 8;
/// A limit, because an agent could name any number of hosts.
const MOST_HOSTS: usize = 16;

/// The hosts that the lock files in this directory name.
pub(crate) fn hosts(workspace: &Path) -> Vec<AllowedHost> {
    let mut found = Vec::new();
    for (name, words) in FILES {
        let Ok(bytes) = ground::plain_file::read_at_most(&workspace.join(name), MOST_BYTES) else {
            continue;
        };
        for host in named(&String::from_utf8_lossy(&bytes), words) {
            if found.len() < MOST_HOSTS && !found.contains(&host) {
                found.push(host);
            }
        }
    }
    found
}

fn named(text: &str, words: &[&str]) -> impl Iterator<Item = AllowedHost> {
    let behind = words.iter().flat_map(|word| text.split(word).skip(1));
    behind.filter_map(|rest| {
        let begin = rest.find("https://").filter(|at| *at <= NEAR)?;
        let address = rest[begin..].split(['"', '\'', '#', ' ', '\n', '\r']).next()?;
        // The path does not matter here, and may have characters that `Address` refuses.
        let end = address[8..].find('/').map_or(address.len(), |at| at + 8);
        Address::parse(&address[..end])?.host().cloned()
    })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn each_lock_file_names_its_hosts_and_other_addresses_do_not_count() {
        let place = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(place.path().join(name), text).unwrap();
        write(
            "package-lock.json",
            r#"{"a":{"resolved":"https://npm.example.org/@a/b/-/b-1.tgz","funding":{"url":"https://money.example.org"}}}"#,
        );
        write("yarn.lock", "a@1:\n  resolved \"https://yarn.example.org/a.tgz#0123\"\n");
        write(
            "Cargo.lock",
            "source = \"sparse+https://cargo.example.org/index/\"\nsource = \"registry+https://git.example.org/index\"\n",
        );
        write(
            "uv.lock",
            "source = { registry = \"https://uv.example.org/simple\" }\nwheels = [{ url = \"https://files.example.org/x.whl\" }]\n",
        );
        write(
            "requirements.txt",
            "--index-url=https://pip.example.org/simple\n# see https://docs.example.org\nx==1\n",
        );
        let hosts: Vec<String> = hosts(place.path()).iter().map(ToString::to_string).collect();
        let expected = ["npm", "yarn", "cargo", "uv", "files", "pip"];
        assert_eq!(hosts, expected.map(|name| format!("{name}.example.org")));
    }

    #[test]
    fn a_symlinked_lock_file_is_not_read_and_the_number_of_hosts_is_bounded() {
        let place = tempfile::tempdir().unwrap();
        let many: String =
            (0..99).map(|n| format!("resolved \"https://h{n}.example.org/\"\n")).collect();
        std::fs::write(place.path().join("elsewhere"), &many).unwrap();
        std::os::unix::fs::symlink("elsewhere", place.path().join("yarn.lock")).unwrap();
        assert_eq!(hosts(place.path()), []);
        std::fs::remove_file(place.path().join("yarn.lock")).unwrap();
        std::fs::write(place.path().join("yarn.lock"), &many).unwrap();
        assert_eq!(hosts(place.path()).len(), MOST_HOSTS);
    }
}
