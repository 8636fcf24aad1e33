//! The login file (`auth.json`): its tokens, and how a refresh changes them.

use serde_json::{Map, Value};

use crate::json_file;

/// The secret fields. A refresh replaces them.
pub const LOGIN_TOKENS: [&str; 2] = ["accessToken", "refreshToken"];
/// The longest token. Real ones have a few hundred characters.
pub const LONGEST_TOKEN: usize = 16 * 1024;

/// A login file that has a token.
#[derive(Debug, Clone, PartialEq)]
pub struct Login(Map<String, Value>);

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoginError {
    #[error("it is not a JSON object")]
    NotAnObject,
    #[error("it has no access token")]
    NoToken,
}

impl Login {
    pub fn parse(bytes: &[u8]) -> Result<Self, LoginError> {
        let object: Map<String, Value> =
            serde_json::from_slice(bytes).map_err(|_| LoginError::NotAnObject)?;
        let login = Self(object);
        login.token("accessToken").map(|_| ()).ok_or(LoginError::NoToken)?;
        Ok(login)
    }

    /// Returns the secret values.
    pub fn tokens(&self) -> impl Iterator<Item = &str> {
        LOGIN_TOKENS.into_iter().filter_map(|name| self.token(name))
    }

    /// Returns this file with the tokens of another one, or `None` if that changes nothing.
    ///
    /// The other file comes from a sandbox, so only its tokens may leave it.
    pub fn refreshed_by(&self, other: &Self) -> Option<Vec<u8>> {
        let mut refreshed = self.0.clone();
        for name in LOGIN_TOKENS {
            if let Some(token) = other.token(name) {
                refreshed.insert(name.to_owned(), token.into());
            }
        }
        if refreshed == self.0 {
            return None;
        }
        Some(json_file::to_bytes(&Value::Object(refreshed)))
    }

    /// Returns the whole file, with its tokens.
    pub fn fields(&self) -> &Map<String, Value> {
        &self.0
    }

    /// Returns one of [`LOGIN_TOKENS`], if the file has it and it looks like a token.
    pub fn token(&self, name: &str) -> Option<&str> {
        let token = self.0.get(name)?.as_str()?;
        let is_plausible = !token.is_empty()
            && token.len() <= LONGEST_TOKEN
            && token.bytes().all(|byte| byte.is_ascii_graphic());
        is_plausible.then_some(token)
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    fn login(value: &Value) -> Login {
        Login::parse(value.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn a_file_without_an_access_token_is_not_a_login() {
        for bytes in [&b""[..], b"[]", b"{", b"null"] {
            assert!(matches!(Login::parse(bytes), Err(LoginError::NotAnObject)));
        }
        for bytes in [&br#"{}"#[..], br#"{"accessToken":""}"#, br#"{"accessToken":7}"#] {
            assert!(matches!(Login::parse(bytes), Err(LoginError::NoToken)));
        }
    }

    #[test]
    fn both_tokens_are_secret() {
        let login = login(&json!({"accessToken": "a", "refreshToken": "r", "userId": "u"}));
        assert_eq!(login.tokens().collect::<Vec<_>>(), ["a", "r"]);
    }

    #[test]
    fn only_the_tokens_are_taken_from_a_refreshed_file() {
        let host = login(&json!({"accessToken": "a1", "refreshToken": "r1", "userId": "me"}));
        let refreshed = login(&json!({"accessToken": "a2", "userId": "evil", "extra": [1]}));
        let written: Value =
            serde_json::from_slice(&host.refreshed_by(&refreshed).unwrap()).unwrap();
        assert_eq!(written, json!({"accessToken": "a2", "refreshToken": "r1", "userId": "me"}));
    }

    #[test]
    fn a_file_with_the_same_tokens_or_with_nonsense_for_tokens_changes_nothing() {
        let host = login(&json!({"accessToken": "a1", "refreshToken": "r1"}));
        for other in [
            json!({"accessToken": "a1", "userId": "evil"}),
            json!({"accessToken": "a1", "refreshToken": "with a line\nfeed"}),
            json!({"accessToken": "a1", "refreshToken": {"a": 1}}),
            json!({"accessToken": "a1", "refreshToken": "x".repeat(LONGEST_TOKEN + 1)}),
        ] {
            assert_eq!(host.refreshed_by(&login(&other)), None, "{other}");
        }
    }
}
