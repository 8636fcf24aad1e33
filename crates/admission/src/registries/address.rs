//! A registry's address without credentials.

use std::fmt;

use run_protocol::AllowedHost;

/// An `http` or `https` address, perhaps with cargo's `sparse+`. It never has a user, a password, a query or a fragment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    text: String,
    host: Option<AllowedHost>,
}

impl Address {
    /// Reads an address. Refuses text in which a credential could hide: a variable, or an `@` after the host.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let (kind, plain) = match text.strip_prefix("sparse+") {
            Some(plain) => ("sparse+", plain),
            None => ("", text),
        };
        let (scheme, rest) = plain.split_once("://")?;
        let scheme = scheme.to_ascii_lowercase();
        let (authority, rest) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let path = rest.split(['?', '#']).next()?;
        let place = authority.rsplit('@').next()?;
        let (name, port) = place.split_once(':').unwrap_or((place, ""));
        let is_plain = |text: &str, more: &str| {
            text.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(c))
        };
        // A password with such a character would end the host too early: `https://ada:s3@c?ret@host/`.
        let is_sound = !name.is_empty()
            && !rest.contains('@')
            && is_plain(name, "-._")
            && port.chars().all(|c| c.is_ascii_digit())
            && is_plain(path, "-._~/%+");
        if !is_sound || !matches!(scheme.as_str(), "http" | "https") {
            return None;
        }
        // The shim blocks plain HTTP.
        let host = match scheme.as_str() {
            "https" => place.trim_end_matches(':').parse().ok(),
            _ => None,
        };
        Some(Self { text: format!("{kind}{scheme}://{place}{path}"), host })
    }

    pub(super) fn host(&self) -> Option<&AllowedHost> {
        self.host.as_ref()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

/// True if the text is a name made up of letters, digits and `more`.
pub(super) fn is_name(text: &str, more: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<(String, Option<String>)> {
        let address = Address::parse(text)?;
        Some((address.to_string(), address.host().map(ToString::to_string)))
    }

    #[test]
    fn an_address_loses_its_credentials_and_keeps_the_rest() {
        let of = |text: &str, host: &str| Some((text.to_owned(), Some(host.to_owned())));
        let plain = "https://npm.example.org/a/b/";
        assert_eq!(read(plain), of(plain, "npm.example.org"));
        assert_eq!(
            read("https://ada:s3c@npm.example.org/a/b/?t=x#y"),
            of(plain, "npm.example.org")
        );
        assert_eq!(read("https://a:b@c:d@npm.example.org/a/b/"), of(plain, "npm.example.org"));
        assert_eq!(
            read(" sparse+HTTPS://token@cargo.example.org:8443/index/ "),
            of("sparse+https://cargo.example.org:8443/index/", "cargo.example.org:8443")
        );
    }

    #[test]
    fn text_that_may_hide_a_credential_is_not_an_address() {
        for text in [
            "https://ada:s3/cret@npm.example.org/",
            "https://ada:s3@cret?x@npm.example.org/",
            "https://${TOKEN}.example.org/",
            "https://npm.example.org/${TOKEN}/",
            "https://ada:s3cret",
            "ssh://git@git.example.org/index",
            "file:///srv/index",
            "https:///x",
            "npm.example.org",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn a_plain_http_address_is_kept_but_its_host_is_not_allowed() {
        let expected = Some(("http://npm.example.org/".to_owned(), None));
        assert_eq!(read("http://npm.example.org/"), expected);
    }
}
